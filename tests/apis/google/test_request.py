"""Requests of Gemini: each rule, then properties of every request."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import decode
from pi_stream.apis.google.request import build_request, build_vertex_request
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    ProviderData,
    SystemMessage,
    TextContent,
    ThinkingContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_stream.models import Model
from pi_stream.options import StreamOptions

BASE = "https://generativelanguage.googleapis.com/v1beta"
FLASH = Model(
    id="gemini-2.5-flash",
    api="google-generative-ai",
    provider="google",
    base_url=BASE,
    reasoning=True,
    input=("text", "image"),
    max_tokens=65_536,
)
PRO = evolve(FLASH, id="gemini-2.5-pro")
THREE = evolve(FLASH, id="gemini-3-flash-preview")
VERTEX = evolve(
    FLASH,
    api="google-vertex",
    provider="google-vertex",
    base_url="https://aiplatform.googleapis.com/v1/projects/p/locations/global",
)
READ = Tool("read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
STRICT = evolve(READ, constrained_sampling={"type": "json_schema", "strict": "require"})
HI = UserMessage("hi")
PNG = ImageContent("iVBORw0KGgo=", "image/png")
IMAGE_PART = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


def build(
    model: Model = FLASH, *messages: Message, tools: list[Tool] | None = None, **options: Any
) -> HttpRequest:
    head: list[Message] = [SystemMessage("", tools_added=tools)] if tools else []
    builder = build_vertex_request if model.api == "google-vertex" else build_request
    return builder(model, [*head, *(messages or (HI,))], StreamOptions(**options))


def body(*arguments: Any, **options: Any) -> dict[str, Any]:
    request = build(*arguments, **options)
    assert request.body is not None
    return request.body


def contents(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body(*arguments, **options)["contents"]
    return found


def config(*arguments: Any, **options: Any) -> Any:
    return body(*arguments, **options).get("generationConfig")


def thinking(model: Model, **options: Any) -> Any:
    return (config(model, **options) or {}).get("thinkingConfig")


def said(*content: Any, model: Model = FLASH, **fields: Any) -> AssistantMessage:
    return AssistantMessage(list(content), api=model.api, provider=model.provider, model=model.id, **fields)


# --- address and headers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        (BASE, f"{BASE}/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
        (f"{BASE}/", f"{BASE}/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
        ("http://h:1", "http://h:1/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
        ("http://h/g/v1", "http://h/g/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
        (
            "http://h/v1alpha?a=b",
            "http://h/v1alpha/models/gemini-2.5-flash:streamGenerateContent?a=b&alt=sse",
        ),
        ("http://h/?alt=sse", "http://h/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
        (
            "http://h/x/models/gemini-2.5-flash:streamGenerateContent",
            "http://h/x/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        ),
    ],
)
def test_url(base_url: str, url: str) -> None:
    assert build(evolve(FLASH, base_url=base_url)).url == url


@pytest.mark.parametrize(
    ("id", "path"),
    [
        ("models/gemini-x", "models/gemini-x"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("a b?c#d", "models/a%20b%3Fc%23d"),
    ],
)
def test_model_ids_are_one_part_of_the_path(id: str, path: str) -> None:
    url = build(evolve(FLASH, id=id)).url
    assert url == f"{BASE}/{path}:streamGenerateContent?alt=sse"


@pytest.mark.parametrize("id", ["", "..", "../x", "models/.."])
def test_ids_that_leave_the_path_are_refused(id: str) -> None:
    with pytest.raises(ConfigError, match="no model id"):
        build(evolve(FLASH, id=id))


def test_the_key_is_a_header_and_never_in_the_url() -> None:
    request = build(FLASH, api_key="SECRET", headers={"User-Agent": "me"})
    assert request.headers["x-goog-api-key"] == "SECRET" and "SECRET" not in request.url
    assert request.headers["user-agent"] == "me"
    assert "SECRET" not in repr(request)
    assert "x-goog-api-key" not in build(FLASH).headers


@pytest.mark.parametrize(
    ("id", "path"),
    [
        ("gemini-2.5-pro", "projects/p/locations/global/publishers/google/models/gemini-2.5-pro"),
        ("meta/llama", "projects/p/locations/global/publishers/meta/models/llama"),
        ("endpoints/1", "projects/p/locations/global/endpoints/1"),
        ("projects/q/locations/us/endpoints/1", "projects/q/locations/us/endpoints/1"),
    ],
)
def test_vertex_addresses(id: str, path: str) -> None:
    url = build(evolve(VERTEX, id=id)).url
    assert url == f"https://aiplatform.googleapis.com/v1/{path}:streamGenerateContent?alt=sse"


def test_vertex_keys_tokens_and_labels() -> None:
    assert build(VERTEX, api_key="AQ.x").headers["x-goog-api-key"] == "AQ.x"
    token = build(VERTEX, api_key="ya29.x").headers
    assert token["authorization"] == "Bearer ya29.x" and "x-goog-api-key" not in token
    assert body(VERTEX, metadata={"team": "a"})["labels"] == {"team": "a"}
    with pytest.raises(ConfigError, match="labels"):
        build(VERTEX, metadata={"team": 1})


def test_options_of_one_platform_are_not_sent_to_the_other() -> None:
    assert "labels" not in body(FLASH, metadata={"a": "b"})
    assert body(FLASH, service_tier="flex")["serviceTier"] == "flex"
    assert "serviceTier" not in body(VERTEX, service_tier="flex")


# --- options ----------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_that_was_not_asked_for() -> None:
    asked = {
        "session_id": "s",
        "cache_retention": "long",
        "parallel_tool_calls": False,
        "tool_choice": "auto",
    }
    assert body(FLASH, **asked) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_sampling_options() -> None:
    asked = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 9, "stop": ["a"], "seed": 1}
    assert config(FLASH, **asked) == {
        "maxOutputTokens": 9,
        "temperature": 0.5,
        "topP": 0.9,
        "stopSequences": ["a"],
        "seed": 1,
    }


@pytest.mark.parametrize(
    ("wanted", "fields"),
    [
        ({"type": "text"}, {"responseMimeType": "text/plain"}),
        ({"type": "json_object"}, {"responseMimeType": "application/json"}),
        (
            {"type": "json_schema", "schema": {"const": "a"}},
            {"responseMimeType": "application/json", "responseJsonSchema": {"enum": ["a"]}},
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
        ),
        ({"type": "json_schema"}, {"responseMimeType": "application/json"}),
        ({"responseMimeType": "text/x.enum"}, {"responseMimeType": "text/x.enum"}),
    ],
)
def test_response_formats(wanted: dict[str, Any], fields: dict[str, Any]) -> None:
    assert config(FLASH, response_format=wanted) == fields


def test_extra_body_is_merged_last() -> None:
    extra = {"generationConfig": {"topK": 3}, "safetySettings": []}
    made = body(FLASH, temperature=1, extra_body=extra)
    assert made["generationConfig"] == {"temperature": 1, "topK": 3} and made["safetySettings"] == []


# --- thinking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "level", "budget"),
    [
        (FLASH, "minimal", 128),
        (FLASH, "high", 24576),
        (FLASH, "max", 24576),
        (PRO, "high", 32768),
        (evolve(FLASH, id="gemini-2.5-flash-lite"), "minimal", 512),
        (evolve(FLASH, id="something"), "low", -1),
    ],
)
def test_budgets(model: Model, level: Any, budget: int) -> None:
    assert thinking(model, reasoning=level) == {"includeThoughts": True, "thinkingBudget": budget}


def test_budgets_of_the_caller() -> None:
    assert thinking(FLASH, reasoning="low", thinking_budgets={"low": 7})["thinkingBudget"] == 7
    assert thinking(FLASH, reasoning="low", thinking_budgets={"low": -1})["thinkingBudget"] == -1
    assert thinking(FLASH, reasoning="low", thinking_budgets={"low": 0}) == {"thinkingBudget": 0}


def test_thinking_stays_inside_the_limit_which_is_never_raised() -> None:
    made = config(FLASH, reasoning="high", max_tokens=4000)
    assert made["maxOutputTokens"] == 4000 and made["thinkingConfig"]["thinkingBudget"] == 4000 - 1024
    assert thinking(FLASH, reasoning="high", max_tokens=500) == {"thinkingBudget": 0}
    assert thinking(PRO, reasoning="high", max_tokens=500) == {"thinkingBudget": 128}


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (FLASH, {"thinkingBudget": 0}),
        (PRO, {"thinkingBudget": 128}),
        (THREE, {"thinkingLevel": "MINIMAL"}),
        (evolve(FLASH, id="gemini-3-pro-preview"), {"thinkingLevel": "LOW"}),
        (evolve(THREE, thinking_level_map={"off": None, "minimal": None}), {"thinkingLevel": "LOW"}),
        (evolve(THREE, thinking_level_map={"minimal": None}), {"thinkingLevel": "LOW"}),
    ],
)
def test_off_is_as_little_as_the_model_can(model: Model, wanted: dict[str, Any]) -> None:
    made = thinking(model, reasoning="off")
    made.pop("includeThoughts", None)
    assert made == wanted


@pytest.mark.parametrize(
    ("id", "uses_level"),
    [
        ("gemini-3-pro-preview", True),
        ("gemini-3.5-flash", True),
        ("models/gemini-4-pro", True),
        ("gemini-flash-latest", True),
        ("gemini-flash-lite-latest", True),
        ("gemma-4-27b", True),
        ("gemini-2.5-pro", False),
        ("gemma-3-27b", False),
    ],
)
def test_levels_are_for_newer_models(id: str, uses_level: bool) -> None:
    made = thinking(evolve(FLASH, id=id), reasoning="medium")
    assert made["includeThoughts"] and ("thinkingLevel" in made) is uses_level


def test_levels_are_clamped_and_words_are_the_model_s() -> None:
    assert thinking(THREE, reasoning="max")["thinkingLevel"] == "HIGH"
    mapped = evolve(THREE, thinking_level_map={"medium": None, "high": "ultra"})
    assert thinking(mapped, reasoning="medium")["thinkingLevel"] == "ULTRA"


def test_a_model_that_does_not_think_is_told_nothing() -> None:
    assert config(evolve(FLASH, reasoning=False), reasoning="high") is None


def test_flags_tell_what_an_id_does_not() -> None:
    tuned = evolve(FLASH, id="tunedModels/mine", compat={"thinking": "level", "toolSchema": "openapi"})
    made = body(tuned, tools=[READ], reasoning="low")
    assert made["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "LOW"
    assert "parameters" in made["tools"][0]["functionDeclarations"][0]
    with pytest.raises(ConfigError, match="thinking"):
        build(evolve(FLASH, compat={"thinkin": "level"}))


# --- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"name": "read"}, {"mode": "ANY", "allowedFunctionNames": ["read"]}),
        ({"mode": "VALIDATED"}, {"mode": "VALIDATED"}),
    ],
)
def test_tool_choice(choice: Any, wanted: dict[str, Any]) -> None:
    assert body(FLASH, tools=[READ], tool_choice=choice)["toolConfig"] == {"functionCallingConfig": wanted}


def test_a_whole_tool_config_is_taken_as_it_is() -> None:
    whole = {"functionCallingConfig": {"mode": "AUTO"}, "retrievalConfig": {}}
    assert body(FLASH, tools=[READ], tool_choice=whole)["toolConfig"] == whole


def test_a_choice_without_its_tool_is_refused() -> None:
    with pytest.raises(ConfigError, match="reed"):
        build(FLASH, tools=[READ], tool_choice={"name": "reed"})
    with pytest.raises(ConfigError, match="required"):
        build(FLASH, tool_choice="required")


def test_strict_tools_need_a_model_that_validates() -> None:
    made = body(THREE, tools=[STRICT])
    assert made["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    schema = made["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
    assert schema["required"] == ["path"] and schema["additionalProperties"] is False
    assert body(THREE, tools=[STRICT], tool_choice="none")["toolConfig"]["functionCallingConfig"] == {
        "mode": "NONE"
    }
    with pytest.raises(ConfigError, match="read"):
        build(FLASH, tools=[STRICT])
    impossible = evolve(STRICT, parameters={"type": "object", "$ref": "#"})
    with pytest.raises(ConfigError, match="cannot have strict"):
        build(THREE, tools=[impossible])


def test_preferred_strictness_gives_way() -> None:
    prefers = evolve(READ, constrained_sampling={"type": "json_schema", "strict": "prefer"})
    impossible = evolve(prefers, parameters={"type": "object", "$ref": "#"})
    assert "toolConfig" not in body(FLASH, tools=[prefers])
    assert "toolConfig" not in body(THREE, tools=[impossible])


def test_const_becomes_an_enum_where_it_is_a_keyword() -> None:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"const": "a", "description": "d"},
            "const": {"type": "string", "default": {"const": "a"}},
            "flag": {"const": True},
            "any": {"anyOf": [{"const": 1}, {"type": "null"}]},
        },
    }
    before = copy.deepcopy(schema)
    tool = Tool("t", "", schema)
    made = body(FLASH, tools=[tool])["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
    assert made["properties"] == {
        "kind": {"enum": ["a"], "description": "d"},
        "const": {"type": "string", "default": {"const": "a"}},
        "flag": {"const": True},
        "any": {"anyOf": [{"enum": [1]}, {"type": "null"}]},
    }
    assert schema == before


def test_openapi_schemas_keep_what_they_can_say() -> None:
    schema = {
        "$schema": "x",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": {"type": ["string", "null"], "const": "x"},
            "b": {"type": ["string", "integer"]},
            "pattern": {"type": "string"},
        },
    }
    old = evolve(FLASH, compat={"tool_schema": "openapi"})
    made = body(old, tools=[Tool("t", "", schema)])["tools"][0]["functionDeclarations"][0]["parameters"]
    assert made == {
        "type": "object",
        "properties": {
            "a": {"type": "string", "nullable": True, "enum": ["x"]},
            "b": {"nullable": False, "anyOf": [{"type": "string"}, {"type": "integer"}]},
            "pattern": {"type": "string"},
        },
    }


# --- contents ---------------------------------------------------------------------------------------------------------


def test_system_messages_are_one_instruction() -> None:
    later = SystemMessage("loud", sections={"style": "short"})
    made = body(FLASH, SystemMessage("base"), HI, later, UserMessage("go"))
    assert made["systemInstruction"] == {"role": "user", "parts": [{"text": "base\n\nloud\n\nshort"}]}
    assert [content["role"] for content in made["contents"]] == ["user", "user"]


def test_signatures_go_back_to_their_own_model_only() -> None:
    parts = (
        ThinkingContent("plan", thinking_signature="U0lH"),
        TextContent("", text_signature="U0lH"),
        TextContent("a", text_signature="no base64"),
        ToolCall("c", "f", {}, thought_signature="U0lH"),
    )
    own, other = said(*parts), said(*parts, model=evolve(FLASH, id="x"))
    assert contents(FLASH, own)[0]["parts"] == [
        {"text": "plan", "thought": True, "thoughtSignature": "U0lH"},
        {"text": "", "thoughtSignature": "U0lH"},
        {"text": "a"},
        {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "U0lH"},
    ]
    assert contents(FLASH, other)[0]["parts"] == [{"text": "a"}, {"functionCall": {"name": "f", "args": {}}}]


def test_only_the_first_unsigned_call_of_an_answer_is_marked() -> None:
    """Gemini 3 refuses calls without a signature; Google documents this stand-in for those of other models."""
    foreign = said(ToolCall("a", "f", {}), ToolCall("b", "f", {}), model=FLASH)
    signed = said(ToolCall("c", "f", {}, thought_signature="U0lH"), ToolCall("d", "f", {}), model=THREE)
    first, second = (content["parts"] for content in contents(THREE, foreign, signed))
    assert [part.get("thoughtSignature") for part in first] == ["skip_thought_signature_validator", None]
    assert [part.get("thoughtSignature") for part in second] == ["U0lH", None]
    assert all("thoughtSignature" not in part for part in contents(FLASH, foreign)[0]["parts"])


def test_ids_are_sent_where_they_are_known_and_made_legal() -> None:
    long = "call_" + "x" * 70
    turn = said(ToolCall("ok-1", "f", {}), ToolCall("bad id|x", "f", {}), ToolCall(long, "f", {}))
    results = [ToolResultMessage(call.id, "f", [TextContent("r")]) for call in turn.tool_calls]
    asked, given = contents(THREE, turn, *results)
    ids = [part["functionCall"]["id"] for part in asked["parts"]]
    assert ids[:2] == ["ok-1", "bad_id_x"] and len(ids[2]) == 64
    assert [part["functionResponse"]["id"] for part in given["parts"]] == ids
    for model in (FLASH, VERTEX, evolve(VERTEX, id="gemini-3-pro")):
        assert "id" not in contents(model, turn)[0]["parts"][0]["functionCall"]


def test_results_of_one_turn_are_one_content() -> None:
    made = contents(
        FLASH,
        said(ToolCall("a", "f", {}), ToolCall("b", "g", {})),
        ToolResultMessage("a", "f", [TextContent("1"), TextContent("2")]),
        ToolResultMessage("b", "g", [], is_error=True),
        UserMessage("go"),
    )
    assert made[1:] == [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "f", "response": {"output": "1\n2"}}},
                {"functionResponse": {"name": "g", "response": {"error": ""}}},
            ],
        },
        {"role": "user", "parts": [{"text": "go"}]},
    ]


def test_images_of_results_by_generation() -> None:
    turn = (ToolResultMessage("a", "f", [PNG]), ToolResultMessage("b", "f", [TextContent("t"), PNG]))
    (inside,) = contents(THREE, *turn)
    assert [part["functionResponse"]["parts"] for part in inside["parts"]] == [[IMAGE_PART], [IMAGE_PART]]
    responses, images = contents(FLASH, *turn)
    texts = [part["functionResponse"]["response"]["output"] for part in responses["parts"]]
    assert texts == ["(see attached image)", "t"]
    assert images["parts"] == [{"text": "Tool result image:"}, IMAGE_PART] * 2
    assert "inlineData" not in json.dumps(contents(evolve(THREE, input=("text",)), *turn))


def test_what_google_s_tools_made_goes_back_in_its_place_to_the_same_model() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "U0lH"}
    sources: dict[str, Any] = {"groundingMetadata": {"groundingChunks": []}}

    def entry(after: int, data: Any, model: Model = FLASH) -> ProviderData:
        return ProviderData(after=after, api=model.api, provider=model.provider, model=model.id, data=data)

    turn = said(
        TextContent("a"),
        TextContent("b"),
        provider_data=[
            entry(1, code),
            entry(1, sources),
            entry(1, "odd"),
            entry(9, IMAGE_PART),
            entry(0, code, PRO),
        ],
    )
    assert contents(FLASH, turn)[0]["parts"] == [{"text": "a"}, code, {"text": "b"}, IMAGE_PART]
    assert contents(PRO, turn)[0]["parts"] == [{"text": "a"}, {"text": "b"}]


def test_an_answer_is_replayed_as_it_came() -> None:
    """Parts of an answer, decoded and sent back to the model that made them."""
    parts = [
        {"text": "plan", "thought": True, "thoughtSignature": "U0lH"},
        {"executableCode": {"language": "PYTHON", "code": "1", "id": "x"}, "thoughtSignature": "U0lI"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1", "id": "x"}},
        {"text": "one"},
        IMAGE_PART,
        {"text": "two", "thoughtSignature": "U0lJ"},
        {"text": "three"},
        {"functionCall": {"name": "f", "args": {"k": [1]}, "id": "id1"}, "thoughtSignature": "U0lK"},
        {"functionCall": {"name": "f", "args": {}, "id": "id2"}},
        {"text": "", "thoughtSignature": "U0lL"},
    ]
    frames = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    frames.append({"candidates": [{"finishReason": "STOP"}]})  # type: ignore[dict-item]
    wire = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)
    last = decode(wire, api=THREE.api, provider=THREE.provider, model=THREE.id)[-1]
    assert last.type == "done"
    assert contents(THREE, last.message)[0]["parts"] == parts


# --- every request ----------------------------------------------------------------------------------------------------

texts = st.text(st.characters() | st.sampled_from("\ud800\udc00\udfff"), max_size=6)
blocks = st.one_of(
    st.builds(TextContent, texts, text_signature=st.sampled_from([None, "U0lH", ""])),
    st.builds(ThinkingContent, texts, thinking_signature=st.sampled_from([None, "U0lH"])),
    st.builds(ToolCall, texts, texts, st.dictionaries(texts, texts, max_size=2)),
)
messages = st.lists(
    st.one_of(
        st.builds(UserMessage, texts),
        st.builds(UserMessage, st.lists(st.builds(TextContent, texts) | st.just(PNG), max_size=2)),
        st.builds(SystemMessage, texts),
        st.builds(
            lambda content, model: said(*content, model=model),
            st.lists(blocks, max_size=3),
            st.sampled_from([FLASH, THREE]),
        ),
        st.builds(
            ToolResultMessage,
            texts,
            texts,
            st.lists(st.builds(TextContent, texts) | st.just(PNG), max_size=2),
        ),
    ),
    max_size=5,
)


@given(messages, st.sampled_from([FLASH, PRO, THREE, VERTEX]))
def test_every_request_is_clean_json_and_pure(transcript: list[Message], model: Model) -> None:
    before = copy.deepcopy(transcript)
    builder = build_vertex_request if model.api == "google-vertex" else build_request
    first, second = (builder(model, transcript, StreamOptions(reasoning="low")) for _ in range(2))
    assert first == second and transcript == before
    json.dumps(first.body, ensure_ascii=False, allow_nan=False).encode()
    assert first.body is not None
    for content in first.body["contents"]:
        assert content["parts"] and content["role"] in ("user", "model")


def test_a_schema_nested_too_deeply_is_refused() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(5000):
        deep = {"items": deep}
    with pytest.raises(ConfigError, match="too deeply"):
        build(FLASH, tools=[Tool("t", "", deep)])
