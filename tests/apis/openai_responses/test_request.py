"""Requests of Responses: each rule, then properties of every request."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.apis.openai_responses.request import build_request
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

API = "openai-responses"
OPENAI = Model(
    id="gpt-x",
    api=API,
    provider="openai",
    base_url="https://api.openai.com/v1",
    reasoning=True,
    input=("text", "image"),
    max_tokens=32_000,
)
PLAIN = evolve(OPENAI, id="gpt-plain", reasoning=False)
LOCAL = evolve(OPENAI, id="local", provider="llama.cpp", base_url="http://localhost:8080/v1")
OPENROUTER = evolve(OPENAI, provider="openrouter", base_url="https://openrouter.ai/api/v1")
COPILOT = evolve(OPENAI, provider="github-copilot", base_url="https://api.githubcopilot.com")
XAI = evolve(OPENAI, id="grok", provider="xai", base_url="https://api.x.ai/v1", reasoning=False)

PATH_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = Tool("read", "Read a file", PATH_SCHEMA)
SQL = Tool(
    "sql",
    "Ask",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    constrained_sampling={"type": "grammar", "variants": {"openai_lark": 'start: "a"'}},
)
HI = UserMessage("hi")
PNG = ImageContent("iVBORw0KGgo=", "image/png")
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC"}
BARE_ITEM = {"type": "reasoning", "id": "rs_1", "summary": []}


def build(
    model: Model = OPENAI, *messages: Message, tools: list[Tool] | None = None, **options: Any
) -> HttpRequest:
    head = [SystemMessage("", tools_added=tools)] if tools else []
    return build_request(model, [*head, *(messages or (HI,))], StreamOptions(**options))


def body(*arguments: Any, **options: Any) -> dict[str, Any]:
    request = build(*arguments, **options)
    assert request.body is not None
    return request.body


def sent(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = body(*arguments, **options)["input"]
    return items


def answer(*content: Any, by: Model = OPENAI, **fields: Any) -> AssistantMessage:
    source = {"api": API, "provider": by.provider, "model": by.id}
    return AssistantMessage(list(content), **{**source, **fields})


def thinking(item: dict[str, Any] = ITEM, text: str = "plan") -> ThinkingContent:
    return ThinkingContent(text, thinking_signature=json.dumps(item))


def result(call_id: str, *content: Any, name: str = "read", is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(call_id, name, list(content), is_error=is_error)


def kept(after: int, data: Any, **fields: Any) -> ProviderData:
    source = {"api": API, "provider": OPENAI.provider, "model": OPENAI.id}
    return ProviderData(after=after, data=data, **{**source, **fields})


# --- the frame --------------------------------------------------------------------------------------------------------


def test_smallest_request_holds_nothing_that_was_not_asked_for() -> None:
    request = build(PLAIN)
    assert (request.method, request.url) == ("POST", "https://api.openai.com/v1/responses")
    assert request.headers == {"accept": "application/json", "content-type": "application/json"}
    assert request.body == {
        "model": "gpt-plain",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "stream": True,
        "store": False,
    }


def test_the_key_is_a_bearer_token() -> None:
    assert build(PLAIN, api_key="k").headers["authorization"] == "Bearer k"


def test_a_key_can_be_replaced_by_the_caller_s_own_header() -> None:
    headers = build(PLAIN, api_key="k", headers={"Authorization": None, "cf-aig-authorization": "x"}).headers
    assert "authorization" not in headers
    assert headers["cf-aig-authorization"] == "x"


def test_the_caller_s_options_are_sent_under_their_wire_names() -> None:
    wire = body(
        PLAIN,
        HI,
        temperature=0,
        top_p=0.9,
        max_tokens=5,
        service_tier="flex",
        metadata={"user": "u-1"},
        seed=7,
    )
    assert (wire["temperature"], wire["top_p"], wire["max_output_tokens"]) == (0, 0.9, 5)
    assert (wire["service_tier"], wire["metadata"]) == ("flex", {"user": "u-1"})
    assert "seed" not in wire


def test_stop_sequences_are_an_error_as_the_protocol_has_none() -> None:
    with pytest.raises(ConfigError, match="stop"):
        build(PLAIN, HI, stop="END")


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}},
        {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True},
    ],
    ids=["nested", "flat"],
)
def test_structured_output_is_a_text_format(wanted: dict[str, Any]) -> None:
    assert body(PLAIN, HI, response_format=wanted)["text"] == {
        "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    }


def test_a_schema_without_name_gets_one_and_json_mode_needs_none() -> None:
    nameless = {"type": "json_schema", "schema": {"type": "object"}}
    assert body(PLAIN, HI, response_format=nameless)["text"]["format"]["name"] == "answer"
    assert body(PLAIN, HI, response_format={"type": "json_object"})["text"] == {
        "format": {"type": "json_object"}
    }


def test_extra_body_is_merged_last_and_deep() -> None:
    wire = body(
        OPENAI, HI, reasoning="high", extra_body={"reasoning": {"summary": "detailed"}, "store": True}
    )
    assert wire["reasoning"] == {"effort": "high", "summary": "detailed"}
    assert wire["store"] is True


def test_sampling_of_the_model_s_record_yields_to_the_caller() -> None:
    model = evolve(PLAIN, sampling_params={"temperature": 0.7, "top_p": 0.95})
    wire = body(model, HI, temperature=0)
    assert (wire["temperature"], wire["top_p"]) == (0, 0.95)


# --- reasoning --------------------------------------------------------------------------------------------------------


def test_reasoning_always_comes_in_the_form_that_can_be_sent_back() -> None:
    assert body(OPENAI)["include"] == ["reasoning.encrypted_content"]
    assert "reasoning" not in body(OPENAI)
    assert "include" not in body(PLAIN)
    assert body(XAI)["include"] == ["reasoning.encrypted_content"]
    assert "include" not in body(evolve(OPENAI, compat={"encryptedReasoning": "never"}))


@pytest.mark.parametrize(
    ("level", "map", "sent_effort"),
    [
        ("low", None, {"effort": "low", "summary": "auto"}),
        ("max", None, {"effort": "high", "summary": "auto"}),
        ("max", {"max": "xhigh"}, {"effort": "xhigh", "summary": "auto"}),
        ("off", None, {"effort": "none"}),
        ("off", {"off": "minimal"}, {"effort": "minimal"}),
        ("off", {"off": None}, {"effort": "minimal", "summary": "auto"}),
    ],
)
def test_levels_are_clamped_and_mapped(level: Any, map: Any, sent_effort: dict[str, str]) -> None:
    assert body(evolve(OPENAI, thinking_level_map=map), HI, reasoning=level)["reasoning"] == sent_effort


def test_copilot_is_not_told_to_stop_thinking() -> None:
    assert "reasoning" not in body(COPILOT, HI, reasoning="off")


def test_models_that_cannot_think_are_not_asked_to() -> None:
    assert "reasoning" not in body(PLAIN, HI, reasoning="high")


# --- caching and sessions ---------------------------------------------------------------------------------------------


def test_nothing_is_cached_unasked() -> None:
    assert not any(name.startswith("prompt_cache") for name in body(OPENAI))


def test_a_session_is_a_cache_key_and_headers() -> None:
    request = build(OPENAI, HI, session_id="s" * 80)
    assert request.body is not None
    assert request.body["prompt_cache_key"] == "s" * 64
    assert request.headers["session-id"] == request.headers["x-client-request-id"] == "s" * 80
    none = build(OPENAI, HI, session_id="s", cache_retention="none")
    assert "prompt_cache_key" not in (none.body or {})
    assert "session-id" not in none.headers


def test_openrouter_has_a_session_header_of_its_own() -> None:
    headers = build(OPENROUTER, HI, session_id="s").headers
    assert headers["x-session-id"] == "s"
    assert "session-id" not in headers


def test_long_caching() -> None:
    assert body(OPENAI, HI, cache_retention="long")["prompt_cache_retention"] == "24h"
    without = evolve(OPENAI, compat={"supportsLongCacheRetention": False})
    assert "prompt_cache_retention" not in body(without, HI, cache_retention="long")


@pytest.mark.parametrize(
    ("retention", "options"), [(None, {"mode": "explicit"}), ("short", None), ("long", {"ttl": "30m"})]
)
def test_models_that_bill_cache_writes_are_told(retention: Any, options: Any) -> None:
    model = evolve(OPENAI, compat={"supportsExplicitPromptCacheMode": True})
    wire = body(model, HI, cache_retention=retention)
    assert wire.get("prompt_cache_options") == options
    assert "prompt_cache_retention" not in wire


def test_copilot_headers_tell_who_speaks() -> None:
    assert build(COPILOT).headers["x-initiator"] == "user"
    tool_round = (HI, answer(ToolCall("c1", "read", {}), by=COPILOT), result("c1", PNG))
    headers = build(COPILOT, *tool_round).headers
    assert (headers["x-initiator"], headers["copilot-vision-request"]) == ("agent", "true")


# --- tools ------------------------------------------------------------------------------------------------------------


def test_strict_is_said_to_openai_and_only_there() -> None:
    assert body(OPENAI, tools=[READ])["tools"] == [
        {
            "type": "function",
            "name": "read",
            "description": "Read a file",
            "parameters": PATH_SCHEMA,
            "strict": False,
        }
    ]
    assert "strict" not in body(LOCAL, tools=[READ])["tools"][0]


def test_strict_tools_get_a_strict_schema() -> None:
    tool = evolve(READ, constrained_sampling={"type": "json_schema", "strict": "require"})
    (wire,) = body(OPENAI, tools=[tool])["tools"]
    assert (wire["strict"], wire["parameters"]["additionalProperties"]) == (True, False)
    with pytest.raises(ConfigError, match="supports_strict_mode"):
        build(LOCAL, tools=[tool])


def test_grammar_tools_are_custom_tools_where_they_are_known() -> None:
    assert body(OPENAI, tools=[SQL])["tools"] == [
        {
            "type": "custom",
            "name": "sql",
            "description": "Ask",
            "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'},
        }
    ]
    assert body(LOCAL, tools=[SQL])["tools"][0]["type"] == "function"


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ({"name": "read"}, {"type": "function", "name": "read"}),
        ({"name": "sql"}, {"type": "custom", "name": "sql"}),
        ({"type": "web_search"}, {"type": "web_search"}),
    ],
)
def test_tool_choice(choice: Any, wire: Any) -> None:
    assert body(OPENAI, tools=[READ, SQL], tool_choice=choice)["tool_choice"] == wire


def test_choices_without_tools_are_left_out_or_errors() -> None:
    wire = body(OPENAI, tool_choice="auto", parallel_tool_calls=False)
    assert not {"tool_choice", "parallel_tool_calls", "tools"} & wire.keys()
    with pytest.raises(ConfigError, match="read"):
        build(OPENAI, tools=[READ], tool_choice={"name": "reed"})


def test_parallel_calls_can_be_switched_off() -> None:
    assert body(OPENAI, tools=[READ], parallel_tool_calls=False)["parallel_tool_calls"] is False


# --- the transcript ---------------------------------------------------------------------------------------------------


def test_the_prompt_s_role_follows_the_model() -> None:
    prompt = SystemMessage("be terse")
    assert sent(OPENAI, prompt, HI)[0] == {"role": "developer", "content": "be terse"}
    assert sent(PLAIN, prompt, HI)[0]["role"] == "system"
    assert sent(evolve(OPENAI, compat={"supportsDeveloperRole": False}), prompt, HI)[0]["role"] == "system"


def test_later_system_messages_stay_where_the_model_takes_them() -> None:
    transcript = (SystemMessage("base"), HI, SystemMessage("louder"))
    assert [item["role"] for item in sent(OPENAI, *transcript)] == ["developer", "user"]
    in_place = evolve(OPENAI, compat={"supportsMidConvoSystemMessages": True})
    assert [item["content"] for item in sent(in_place, *transcript)][::2] == ["base", "louder"]


def test_the_same_model_gets_its_own_items_back() -> None:
    text = TextContent("I look", text_signature='{"v":1,"id":"msg_1","phase":"commentary"}')
    call = ToolCall("call_1|fc_1", "read", {"path": "/a"}, namespace="fs")
    items = sent(OPENAI, HI, answer(thinking(), text, call), result("call_1|fc_1", TextContent("x")))
    assert items[1:] == [
        ITEM,
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "id": "msg_1",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "I look", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "read",
            "namespace": "fs",
            "arguments": '{"path":"/a"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "x"},
    ]


@pytest.mark.parametrize(
    "source", [{"model": "gpt-other"}, {"provider": "azure"}, {"api": "azure-openai-responses"}]
)
def test_another_model_gets_neither_thinking_nor_ids_nor_kept_items(source: dict[str, str]) -> None:
    text = TextContent("I look", text_signature='{"v":1,"id":"msg_1","phase":"commentary"}')
    call = ToolCall("call_1|fc_1", "read", {}, namespace="fs")
    data = [kept(0, {"type": "web_search_call", "id": "ws_1"}, **source)]
    turn = answer(thinking(), text, call, provider_data=data, **source)
    message, function_call = sent(OPENAI, HI, turn, result("call_1|fc_1"))[1:3]
    assert (message["id"], "phase" in message) == ("msg_pi_1", False)
    assert function_call == {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}


def test_a_bare_id_of_an_old_session_is_a_signature() -> None:
    text = TextContent("x", text_signature="msg_old")
    assert sent(OPENAI, HI, answer(text))[1]["id"] == "msg_old"
    long = TextContent("x", text_signature="m" * 100)
    assert len(sent(OPENAI, HI, answer(long))[1]["id"]) <= 64


def test_reasoning_that_is_only_an_id_is_left_out_with_the_ids_that_point_at_it() -> None:
    """Nothing is stored: the server would not find it, and miss it for the others."""
    text = TextContent("x", text_signature='{"v":1,"id":"msg_1"}')
    turn = answer(thinking(BARE_ITEM), text, ToolCall("call_1|fc_1", "read", {}))
    items = sent(OPENAI, HI, turn, result("call_1|fc_1"))
    assert [item.get("type") for item in items[1:3]] == ["message", "function_call"]
    assert (items[1]["id"], "id" in items[2]) == ("msg_pi_1", False)
    stored = sent(OPENAI, HI, turn, result("call_1|fc_1"), extra_body={"store": True})
    assert [item.get("id") for item in stored[1:4]] == ["rs_1", "msg_1", "fc_1"]


def test_raw_reasoning_of_open_models_is_sent_back() -> None:
    item = BARE_ITEM | {"content": [{"type": "reasoning_text", "text": "count"}], "encrypted_content": None}
    wire = sent(LOCAL, HI, answer(thinking(item), TextContent("5"), by=LOCAL))[1]
    assert wire == BARE_ITEM | {"content": item["content"]}


def test_reasoning_without_summary_gets_an_empty_one() -> None:
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "ENC"}
    assert sent(OPENAI, HI, answer(thinking(item), TextContent("x")))[1]["summary"] == []


def test_reasoning_that_nothing_follows_is_left_out() -> None:
    assert (
        sent(OPENAI, HI, answer(thinking(), stop_reason="length"), UserMessage("go on"))[1]["role"] == "user"
    )


@pytest.mark.parametrize("signature", [None, "", "OPAQUE", "{", '"text"', '{"type":"other"}', "[1]"])
def test_thinking_with_any_other_signature_is_left_out(signature: str | None) -> None:
    block = ThinkingContent("plan", thinking_signature=signature)
    assert len(sent(OPENAI, HI, answer(block, TextContent("x")))) == 2


def test_items_of_built_in_tools_go_back_in_their_place() -> None:
    search, compaction = {"type": "web_search_call", "id": "ws_1"}, {"type": "compaction", "id": "cmp_1"}
    cited = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "annotations": [1]}]}
    data = [kept(1, search), kept(2, cited), kept(2, compaction), kept(2, {"content_filters": []})]
    text = TextContent("found", text_signature='{"v":1,"id":"msg_1"}')
    items = sent(OPENAI, HI, answer(thinking(), text, provider_data=data))
    assert [item.get("type") for item in items[1:]] == [
        *("reasoning", "web_search_call", "message", "compaction")
    ]


def test_what_a_call_had_beyond_our_fields_goes_back_with_it() -> None:
    caller = {"type": "program", "caller_id": "c9"}
    data = [
        kept(
            0, {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "caller": caller}
        )
    ]
    turn = answer(ToolCall("call_1|fc_1", "read", {"a": 1}), provider_data=data)
    assert sent(OPENAI, HI, turn, result("call_1|fc_1"))[1] == {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "read",
        "caller": caller,
        "arguments": '{"a":1}',
    }


def test_calls_of_grammar_tools_are_free_text_and_so_are_their_results() -> None:
    turn = answer(ToolCall("call_1|ctc_1", "sql", {"query": 'a"b'}))
    done = result("call_1|ctc_1", TextContent("x"), name="sql")
    items = sent(OPENAI, HI, turn, done, tools=[SQL])
    assert items[1:] == [
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "sql", "input": 'a"b'},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "x"},
    ]
    as_function = sent(LOCAL, HI, turn, done, tools=[SQL])
    assert [item["type"] for item in as_function[1:]] == ["function_call", "function_call_output"]


def test_results_with_images() -> None:
    turn = answer(ToolCall("c1", "read", {}))
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    output = sent(OPENAI, HI, turn, result("c1", TextContent("see"), PNG))[2]["output"]
    assert output == [{"type": "input_text", "text": "see"}, image]
    blind = evolve(OPENAI, input=("text",))
    assert isinstance(sent(blind, HI, turn, result("c1", PNG))[2]["output"], str)


def test_failed_results_can_be_marked() -> None:
    model = evolve(OPENAI, compat={"toolErrorPrefix": "[error] "})
    turn = answer(ToolCall("c1", "read", {}))
    assert sent(model, HI, turn, result("c1", is_error=True))[2]["output"] == "[error] (no tool output)"


def test_call_ids_are_legal_and_different_calls_stay_different() -> None:
    """B25: also those of the same model are checked."""
    ids = ["a.b|fc_1", "a:b|fc_2", "x" * 70, "x" * 70 + "y", "same|fc_3", "same|fc_4", "|"]
    turn = answer(*(ToolCall(id, "read", {}) for id in ids))
    items = sent(OPENAI, HI, turn, *map(result, ids))[1:]
    calls, results = items[: len(ids)], items[len(ids) :]
    wire = [item["call_id"] for item in calls]
    assert wire == [item["call_id"] for item in results]
    assert len(set(wire)) == len(ids)
    assert all(id and len(id) <= 64 and id.replace("_", "").replace("-", "").isalnum() for id in wire)


def test_an_item_id_of_another_kind_is_not_sent() -> None:
    turn = answer(ToolCall("c1|msg_1", "read", {}), ToolCall("c2|fc_" + "x" * 80, "read", {}))
    assert not any("id" in item for item in sent(OPENAI, HI, turn, result("c1|msg_1"))[1:])


def test_lone_surrogates_are_replaced_everywhere() -> None:
    turn = answer(TextContent("\ud800"), ToolCall("c1", "read", {"path": "\ud800"}))
    wire = build(OPENAI, UserMessage("\ud83d\ude00 \ud800"), turn, result("c1", TextContent("\udfff"))).body
    assert "😀" in json.dumps(wire, ensure_ascii=False).encode().decode()


def test_unknown_flags_are_errors_that_name_near_ones() -> None:
    with pytest.raises(ConfigError, match="supportsDeveloperRole"):
        build(evolve(OPENAI, compat={"supportsDevelopperRole": True}))


# --- properties -------------------------------------------------------------------------------------------------------

texts = st.text(max_size=8)
ids = texts | st.sampled_from(["call_1|fc_1", "call_1", "call_1|ctc_1"])
arguments = st.dictionaries(texts, st.none() | st.booleans() | st.floats() | texts, max_size=2)
signatures = st.none() | texts | st.just(json.dumps(ITEM)) | st.just('{"v":1,"id":"msg_1"}')
blocks = (
    st.builds(TextContent, texts, text_signature=signatures)
    | st.builds(ThinkingContent, texts, thinking_signature=signatures)
    | st.builds(ToolCall, ids, st.sampled_from(["read", "sql"]), arguments)
)
datas = (
    st.none()
    | texts
    | st.fixed_dictionaries({"type": texts, "call_id": texts})
    | st.dictionaries(texts, texts)
)
answers = st.builds(
    lambda content, data: answer(*content, provider_data=[kept(after, item) for after, item in data]),
    st.lists(blocks, max_size=3),
    st.lists(st.tuples(st.integers(0, 4), datas), max_size=2),
)
messages = (
    st.builds(UserMessage, texts)
    | st.builds(SystemMessage, texts)
    | answers
    | st.builds(lambda id, text: result(id, TextContent(text)), ids, texts)
)


@given(st.lists(messages, max_size=6), st.sampled_from([OPENAI, LOCAL, XAI, OPENROUTER]))
def test_every_transcript_is_sent_as_clean_json_and_is_not_changed(
    transcript: list[Message], model: Model
) -> None:
    full = [SystemMessage("", tools_added=[READ, SQL]), *transcript]
    before = copy.deepcopy(full)
    request = build_request(model, full, StreamOptions())
    again = build_request(model, full, StreamOptions())
    assert repr(full) == repr(before)
    text = json.dumps(request.body, allow_nan=False, ensure_ascii=False).encode()
    assert text == json.dumps(again.body, ensure_ascii=False).encode()
    assert all(
        len(item.get("call_id", "x")) <= 64
        for item in json.loads(text)["input"]
        if isinstance(item.get("call_id", "x"), str)
    )
