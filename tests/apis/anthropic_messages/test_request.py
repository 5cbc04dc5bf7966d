"""Requests of the Messages api: each rule, then properties of every request."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.apis.anthropic_messages.request import build_request
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
    UnknownContent,
    UserMessage,
)
from pi_stream.models import Model
from pi_stream.options import StreamOptions

CLAUDE = Model(
    id="claude-x",
    api="anthropic-messages",
    provider="anthropic",
    base_url="https://api.anthropic.com",
    reasoning=True,
    input=("text", "image"),
    max_tokens=32_000,
)
ADAPTIVE = evolve(CLAUDE, compat={"forceAdaptiveThinking": True})
VERTEX = evolve(
    CLAUDE,
    id="claude-x@20300101",
    provider="google-vertex",
    base_url="https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu",
    compat={"platform": "vertex"},
)
BEDROCK = evolve(
    CLAUDE,
    id="us.anthropic.claude-x-v1:0",
    api="bedrock-invoke",
    provider="amazon-bedrock",
    base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
    compat={"platform": "bedrock"},
)

PATH_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
READ = Tool("read", "Read a file", PATH_SCHEMA)
BASH = Tool("bash", "Run a command")
HI = UserMessage("hi")
PNG = ImageContent("iVBORw0KGgo=", "image/png")
WIRE_PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def build(
    model: Model = CLAUDE, *messages: Message, tools: list[Tool] | None = None, **options: Any
) -> HttpRequest:
    head = [SystemMessage("", tools_added=tools)] if tools else []
    return build_request(model, [*head, *(messages or (HI,))], StreamOptions(**options))


def body(*arguments: Any, **options: Any) -> dict[str, Any]:
    request = build(*arguments, **options)
    assert request.body is not None
    return request.body


def sent(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = body(*arguments, **options)["messages"]
    return messages


def answer(*content: Any, model: Model = CLAUDE, **fields: Any) -> AssistantMessage:
    return AssistantMessage(list(content), api=model.api, provider=model.provider, model=model.id, **fields)


def kept(after: int, data: Any, model: Model = CLAUDE) -> ProviderData:
    return ProviderData(after=after, api=model.api, provider=model.provider, model=model.id, data=data)


def quirky(**compat: Any) -> Model:
    return evolve(CLAUDE, compat=compat)


def result(call_id: str, *content: Any, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(call_id, "read", list(content), is_error=is_error)


# --- the frame --------------------------------------------------------------------------------------------------------


def test_smallest_request_holds_nothing_that_was_not_asked_for() -> None:
    request = build()
    assert (request.method, request.url) == ("POST", "https://api.anthropic.com/v1/messages")
    assert request.headers == {
        "accept": "application/json",
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
    }
    assert request.body == {
        "model": "claude-x",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 32_000,
        "stream": True,
    }


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("http://localhost:8080/v1", "http://localhost:8080/v1/messages"),
        ("http://localhost:8080/v1/?a=b", "http://localhost:8080/v1/messages?a=b"),
        ("https://api.minimax.io/anthropic", "https://api.minimax.io/anthropic/v1/messages"),
        ("https://host/v1/messages", "https://host/v1/messages"),
    ],
)
def test_base_url_with_and_without_the_version(base_url: str, url: str) -> None:
    assert build(evolve(CLAUDE, base_url=base_url)).url == url


def test_key_in_its_header() -> None:
    assert build(api_key="sk-1").headers["x-api-key"] == "sk-1"
    assert build(quirky(auth="bearer"), api_key="sk-1").headers["authorization"] == "Bearer sk-1"


def test_oauth_token_goes_as_bearer_with_its_beta() -> None:
    headers = build(api_key="sk-ant-oat01-x").headers
    assert headers["authorization"] == "Bearer sk-ant-oat01-x" and "x-api-key" not in headers
    assert headers["anthropic-beta"] == "oauth-2025-04-20"


def test_headers_of_the_caller_win() -> None:
    headers = build(
        evolve(CLAUDE, headers={"X-Model": "1", "x-both": "model"}),
        api_key="sk-1",
        reasoning="high",
        headers={"X-API-Key": None, "authorization": "Basic x", "x-both": "caller", "Anthropic-Beta": "mine"},
    ).headers
    assert "x-api-key" not in headers
    assert (headers["authorization"], headers["x-model"], headers["x-both"]) == ("Basic x", "1", "caller")
    assert headers["anthropic-beta"] == "mine", "betas of the caller replace ours"


def test_options_under_their_wire_names() -> None:
    wire = body(
        temperature=0,
        top_p=0.9,
        max_tokens=5,
        stop="END",
        service_tier="auto",
        metadata={"user_id": "u-1", "other": 1},
        seed=7,
        extra_body={"top_k": 3, "metadata": {"user_id": "u-2"}},
    )
    assert {name: wire[name] for name in ("temperature", "top_p", "max_tokens", "service_tier", "top_k")} == {
        "temperature": 0,
        "top_p": 0.9,
        "max_tokens": 5,
        "service_tier": "auto",
        "top_k": 3,
    }
    assert wire["stop_sequences"] == ["END"]
    assert wire["metadata"] == {"user_id": "u-2"}
    assert "seed" not in wire


def test_limit_for_a_model_nobody_knows() -> None:
    assert body(Model(id="new", base_url="https://host"))["max_tokens"] == 8192


def test_temperature_only_where_it_is_taken() -> None:
    assert "temperature" not in body(quirky(supportsTemperature=False), temperature=0.5)
    assert "temperature" not in body(temperature=0.5, reasoning="low")
    assert body(temperature=0.5, reasoning="off")["temperature"] == 0.5


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "json_schema", "schema": PATH_SCHEMA},
        {"type": "json_schema", "name": "answer", "strict": True, "schema": PATH_SCHEMA},
        {"type": "json_schema", "json_schema": {"name": "answer", "schema": PATH_SCHEMA}},
    ],
)
def test_structured_output(wanted: dict[str, Any]) -> None:
    assert body(response_format=wanted)["output_config"] == {
        "format": {"type": "json_schema", "schema": PATH_SCHEMA}
    }
    assert body(ADAPTIVE, response_format=wanted, reasoning="low")["output_config"]["effort"] == "low"


@pytest.mark.parametrize("wanted", [{"type": "json_object"}, {"type": "json_schema"}, {}])
def test_formats_the_api_does_not_have(wanted: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="json_schema"):
        build(response_format=wanted)


@pytest.mark.parametrize(
    ("compat", "message"),
    [
        ({"supportsTemprature": True}, "did you mean supportsTemperature"),
        ({"platform": "azure"}, "platform"),
        ({"force_adaptive_thinking": "yes"}, "force_adaptive_thinking"),
    ],
)
def test_wrong_quirks_are_errors(compat: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(quirky(**compat))


# --- platforms --------------------------------------------------------------------------------------------------------


def test_vertex() -> None:
    request = build(VERTEX, api_key="token", tools=[READ])
    location = "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu"
    assert request.url == f"{location}/publishers/anthropic/models/claude-x@20300101:streamRawPredict"
    assert request.headers["authorization"] == "Bearer token"
    assert "anthropic-version" not in request.headers and "x-api-key" not in request.headers
    assert request.body is not None
    assert request.body["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in request.body and request.body["stream"] is True
    assert "eager_input_streaming" not in request.body["tools"][0]


def test_bedrock() -> None:
    request = build(BEDROCK, headers={"anthropic-beta": "a,b"})
    assert request.url == (
        "https://bedrock-runtime.us-east-1.amazonaws.com"
        "/model/us.anthropic.claude-x-v1:0/invoke-with-response-stream"
    )
    assert request.headers["accept"] == "application/vnd.amazon.eventstream"
    assert not {"authorization", "anthropic-beta"} & request.headers.keys(), "to be signed"
    assert request.body is not None
    assert request.body["anthropic_version"] == "bedrock-2023-05-31"
    assert request.body["anthropic_beta"] == ["a", "b"]
    assert not {"model", "stream"} & request.body.keys()


def test_arn_is_one_part_of_the_path() -> None:
    arn = "arn:aws:bedrock:us-east-1:1:inference-profile/x"
    assert "/model/arn:aws:bedrock:us-east-1:1:inference-profile%2Fx/" in build(evolve(BEDROCK, id=arn)).url


def test_interleaved_thinking_on_clouds_only_where_said() -> None:
    assert "anthropic-beta" not in build(VERTEX, reasoning="high").headers
    told = evolve(VERTEX, compat={"platform": "vertex", "interleavedThinking": True})
    assert build(told, reasoning="high").headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"


# --- system prompt and users ------------------------------------------------------------------------------------------


def test_system_prompt() -> None:
    wire = body(CLAUDE, SystemMessage("Be brief."), HI)
    assert wire["system"] == [{"type": "text", "text": "Be brief."}]
    assert wire["messages"] == [{"role": "user", "content": "hi"}]


def test_later_system_messages_are_collapsed_unless_the_model_takes_them() -> None:
    transcript = (
        SystemMessage("base"),
        HI,
        answer(TextContent("x")),
        SystemMessage("loud"),
        UserMessage("two"),
    )
    assert body(CLAUDE, *transcript)["system"] == [{"type": "text", "text": "base\n\nloud"}]
    wire = body(quirky(supportsMidConvoSystemMessages=True), *transcript)
    assert wire["system"] == [{"type": "text", "text": "base"}]
    assert [message["role"] for message in wire["messages"]] == ["user", "assistant", "user", "system"]
    assert wire["messages"][-1] == {"role": "system", "content": "loud"}


def test_later_system_messages_stand_right_before_the_next_answer() -> None:
    transcript = (
        UserMessage("one"),
        SystemMessage("a"),
        SystemMessage("b", sections={"mode": "fast"}),
        UserMessage("two"),
        answer(TextContent("x")),
        UserMessage("three"),
    )
    wire = sent(quirky(supportsMidConvoSystemMessages=True), *transcript)
    assert [message["role"] for message in wire] == ["user", "user", "system", "assistant", "user"]
    assert wire[2]["content"].startswith("a\n\nb") and "fast" in wire[2]["content"]


def test_system_message_between_a_call_and_its_result_waits() -> None:
    transcript = (HI, answer(ToolCall("t", "read")), SystemMessage("a"), result("t", TextContent("1")))
    wire = sent(quirky(supportsMidConvoSystemMessages=True), *transcript)
    assert [message["role"] for message in wire] == ["user", "assistant", "user", "system"]


def test_system_messages_before_all_others_are_the_prompt() -> None:
    """The api takes none as its first message."""
    wire = body(quirky(supportsMidConvoSystemMessages=True), SystemMessage("a"), SystemMessage("b"), HI)
    assert wire["system"][0]["text"] == "a\n\nb"
    assert [message["role"] for message in wire["messages"]] == ["user"]


def test_user_content() -> None:
    message = UserMessage([TextContent("look"), PNG, TextContent("  ")])
    assert sent(CLAUDE, message) == [
        {"role": "user", "content": [{"type": "text", "text": "look"}, WIRE_PNG]}
    ]


def test_documents_are_sent_as_they_stand() -> None:
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    odd = UnknownContent("hologram", {"type": "hologram"})
    message = UserMessage([UnknownContent("document", document), odd, TextContent("sum up")])
    assert sent(CLAUDE, message)[0]["content"] == [document, {"type": "text", "text": "sum up"}]


def test_messages_that_say_nothing_are_left_out() -> None:
    blank = (UserMessage(" "), UserMessage([]), answer(TextContent(" ")), answer(), HI)
    assert sent(CLAUDE, *blank) == [{"role": "user", "content": "hi"}]


def test_images_become_a_line_for_a_model_that_sees_none() -> None:
    assert sent(evolve(CLAUDE, input=("text",)), UserMessage([PNG, PNG]))[0]["content"] == [
        {"type": "text", "text": "(image omitted: model does not support images)"}
    ]


# --- tools ------------------------------------------------------------------------------------------------------------


def test_tools() -> None:
    schema = {**PATH_SCHEMA, "$schema": "x", "anyOf": [], "additionalProperties": False, "$defs": {}}
    assert body(tools=[Tool("read", "Read", schema), Tool("ping", "", {"type": "object"})])["tools"] == [
        {
            "name": "read",
            "description": "Read",
            "eager_input_streaming": True,
            "input_schema": {**PATH_SCHEMA, "additionalProperties": False, "$defs": {}},
        },
        {
            "name": "ping",
            "description": "",
            "eager_input_streaming": True,
            "input_schema": {"type": "object", "properties": {}, "required": []},
        },
    ]


def test_servers_that_stream_tool_input_by_beta() -> None:
    request = build(quirky(supportsEagerToolInputStreaming=False), tools=[READ])
    assert request.headers["anthropic-beta"] == "fine-grained-tool-streaming-2025-05-14"
    assert request.body is not None and "eager_input_streaming" not in request.body["tools"][0]


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"name": "read"}, {"type": "tool", "name": "read"}),
        ({"type": "any"}, {"type": "any"}),
    ],
)
def test_tool_choice(choice: Any, wire: dict[str, Any]) -> None:
    assert body(tools=[READ], tool_choice=choice)["tool_choice"] == wire


def test_tool_choice_without_tools() -> None:
    assert "tool_choice" not in body(tool_choice="auto", parallel_tool_calls=False)
    with pytest.raises(ConfigError, match="read"):
        build(tool_choice={"name": "read"})


def test_one_tool_at_a_time() -> None:
    assert body(tools=[READ], parallel_tool_calls=False)["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }
    assert body(tools=[READ], parallel_tool_calls=False, tool_choice="none")["tool_choice"] == {
        "type": "none"
    }
    assert "tool_choice" not in body(tools=[READ], parallel_tool_calls=True)


def strict(mode: str, schema: dict[str, Any] = PATH_SCHEMA) -> Tool:
    return Tool("read", "", schema, constrained_sampling={"type": "json_schema", "strict": mode})


STRICT = quirky(supportsStrictTools=True)


def test_strict_tools() -> None:
    (tool,) = body(STRICT, tools=[strict("prefer")])["tools"]
    assert tool["strict"] is True
    assert tool["input_schema"]["additionalProperties"] is False
    assert tool["input_schema"]["required"] == ["path", "limit"]
    assert "strict" not in body(tools=[strict("prefer")])["tools"][0]


@pytest.mark.parametrize(
    "limits",
    [
        {"minimum": 1},
        {"type": "array", "items": {"type": "string"}, "minItems": 2},
        {"type": "string", "format": "x"},
    ],
)
def test_strict_schemas_the_api_cannot_say(limits: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", **limits}}, "required": ["a"]}
    assert "strict" not in body(STRICT, tools=[strict("prefer", schema)])["tools"][0]
    with pytest.raises(ConfigError, match=r"properties\.a"):
        build(STRICT, tools=[strict("require", schema)])


def test_required_strictness_needs_a_model_that_has_it() -> None:
    with pytest.raises(ConfigError, match="supports_strict_tools"):
        build(tools=[strict("require")])


def test_results_of_one_turn_share_a_message() -> None:
    calls = answer(ToolCall("a", "read", {"path": "x"}), ToolCall("b", "read"))
    wire = sent(
        CLAUDE, HI, calls, result("a", TextContent("1"), TextContent("2")), result("b", is_error=True), HI
    )
    assert wire[1]["content"] == [
        {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
        {"type": "tool_use", "id": "b", "name": "read", "input": {}},
    ]
    assert wire[2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "1\n2", "is_error": False},
            {"type": "tool_result", "tool_use_id": "b", "content": "", "is_error": True},
        ],
    }
    assert wire[3] == {"role": "user", "content": "hi"}


def test_images_in_results() -> None:
    wire = sent(CLAUDE, HI, answer(ToolCall("a", "read")), result("a", PNG))
    assert wire[2]["content"][0]["content"] == [{"type": "text", "text": "(see attached image)"}, WIRE_PNG]


def test_images_in_failed_results_stand_behind_them() -> None:
    """The api takes nothing but text in the result of a failed call."""
    calls = answer(ToolCall("a", "read"), ToolCall("b", "read"))
    wire = sent(
        CLAUDE, HI, calls, result("a", TextContent("no"), PNG, is_error=True), result("b", TextContent("1"))
    )
    first, second, caption, image = wire[2]["content"]
    assert first["content"].startswith("no\n") and first["is_error"]
    assert (second["tool_use_id"], caption["type"], image) == ("b", "text", WIRE_PNG)


def test_ids_are_legal_and_results_follow_them() -> None:
    """Also those of the same model: an illegal id in a stored session would be refused for ever."""
    other = AssistantMessage(
        [ToolCall("call_1|fc_1", "read"), ToolCall("call_1:fc_1", "read"), ToolCall("x" * 100, "read")],
        api="openai-responses",
    )
    results = [result(call.id, TextContent("1")) for call in other.tool_calls]
    wire = sent(CLAUDE, HI, other, *results, answer(ToolCall("a.b", "read")), result("a.b"))
    ids = [part["id"] for part in (*wire[1]["content"], *wire[3]["content"])]
    assert ids == [part["tool_use_id"] for part in (*wire[2]["content"], *wire[4]["content"])]
    assert ids[0] == "call_1_fc_1" and ids[3] == "a_b"
    assert len(set(ids)) == 4 and all(len(call_id) <= 64 for call_id in ids)


# --- thinking ---------------------------------------------------------------------------------------------------------


def test_thinking_of_the_same_model_goes_back() -> None:
    same = answer(
        ThinkingContent("hm", thinking_signature="SIG"),
        ThinkingContent("", thinking_signature="SIG2"),
        ThinkingContent("[Reasoning redacted]", thinking_signature="OPAQUE", redacted=True),
        TextContent("so"),
    )
    assert sent(CLAUDE, HI, same)[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "SIG"},
        {"type": "thinking", "thinking": "", "signature": "SIG2"},
        {"type": "redacted_thinking", "data": "OPAQUE"},
        {"type": "text", "text": "so"},
    ]


def test_thinking_of_another_model_does_not() -> None:
    other = answer(ThinkingContent("hm", thinking_signature="SIG"), TextContent("so"), model=ADAPTIVE)
    assert sent(evolve(CLAUDE, id="claude-z"), HI, other)[1]["content"] == [{"type": "text", "text": "so"}]


def test_thinking_without_a_signature() -> None:
    same = answer(ThinkingContent("hm"), ThinkingContent(" "))
    assert sent(CLAUDE, HI, same)[1]["content"] == [{"type": "text", "text": "hm"}]
    assert sent(quirky(allowEmptySignature=True), HI, same)[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""}
    ]


@pytest.mark.parametrize(
    ("level", "budget"),
    [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16384), ("xhigh", 16384)],
)
def test_budgets(level: Any, budget: int) -> None:
    request = build(reasoning=level)
    assert request.body is not None
    assert request.body["thinking"] == {"type": "enabled", "budget_tokens": budget, "display": "summarized"}
    assert request.body["max_tokens"] == 32_000
    assert request.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"


def test_budget_stays_inside_the_caller_s_limit() -> None:
    assert body(reasoning="high", max_tokens=8000)["thinking"]["budget_tokens"] == 8000 - 1024
    assert body(reasoning="high", max_tokens=2048)["thinking"]["budget_tokens"] == 1024
    assert body(reasoning="high", thinking_budgets={"high": 5000})["thinking"]["budget_tokens"] == 5000
    assert body(reasoning="low", thinking_budgets={"low": 10})["thinking"]["budget_tokens"] == 1024
    unknown = evolve(CLAUDE, max_tokens=0)
    assert body(unknown, reasoning="high")["thinking"]["budget_tokens"] == 8192 - 1024


def test_no_room_to_think() -> None:
    request = build(reasoning="high", max_tokens=2000)
    assert request.body is not None and "thinking" not in request.body
    assert "anthropic-beta" not in request.headers


@pytest.mark.parametrize(
    ("level", "effort"), [("minimal", "low"), ("low", "low"), ("high", "high"), ("max", "high")]
)
def test_effort_of_models_that_decide_themselves(level: Any, effort: str) -> None:
    request = build(ADAPTIVE, reasoning=level)
    assert request.body is not None
    assert request.body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert request.body["output_config"] == {"effort": effort}
    assert "anthropic-beta" not in request.headers


def test_effort_by_the_model_s_own_words() -> None:
    mapped = evolve(ADAPTIVE, thinking_level_map={"max": "max", "low": None})
    assert body(mapped, reasoning="max")["output_config"] == {"effort": "max"}
    assert body(mapped, reasoning="low")["output_config"] == {"effort": "medium"}, "clamped to what it knows"


def test_thinking_switched_off() -> None:
    assert body(reasoning="off")["thinking"] == {"type": "disabled"}
    assert "thinking" not in body()
    assert "thinking" not in body(evolve(CLAUDE, reasoning=False), reasoning="high")


# --- replay of what has no block of ours ------------------------------------------------------------------------------

USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CITATIONS = {"type": "text", "citations": [{"type": "char_location", "file_id": None}]}


def test_provider_data_goes_back_in_its_place() -> None:
    message = answer(
        TextContent("I search"),
        TextContent("found"),
        ToolCall("t", "read"),
        provider_data=[
            kept(1, USE),
            kept(1, {**RESULT, "caller": None}),
            kept(2, CITATIONS),
            kept(3, {"type": "tool_use", "caller": {"type": "code_execution_20250825", "tool_id": "s"}}),
            kept(3, {"type": "mcp_tool_use", "id": "m"}),
        ],
    )
    assert sent(CLAUDE, HI, message)[1]["content"] == [
        {"type": "text", "text": "I search"},
        USE,
        RESULT,
        {"type": "text", "text": "found", "citations": [{"type": "char_location"}]},
        {
            "type": "tool_use",
            "id": "t",
            "name": "read",
            "input": {},
            "caller": {"type": "code_execution_20250825", "tool_id": "s"},
        },
        {"type": "mcp_tool_use", "id": "m"},
    ]


def test_paused_turn_goes_on_where_it_stopped() -> None:
    """The answer is the last message, with the provider's blocks: the api continues it."""
    paused = answer(
        stop_reason="stop", raw_stop_reason="pause_turn", provider_data=[kept(0, USE), kept(0, RESULT)]
    )
    assert sent(CLAUDE, HI, paused)[-1] == {"role": "assistant", "content": [USE, RESULT]}


@pytest.mark.parametrize(
    "message",
    [
        answer(TextContent("a"), stop_reason="error", provider_data=[kept(1, USE)]),
        answer(TextContent("a"), provider_data=[kept(1, USE, evolve(CLAUDE, id="claude-z"))]),
        answer(TextContent("a"), provider_data=[kept(1, {"type": "fallback", "to": {}}), kept(1, "text")]),
        answer(
            TextContent("a"),
            provider_data=[kept(1, {"type": "message_delta", "delta": {"stop_sequence": "x"}})],
        ),
        answer(TextContent("a"), provider_data=[kept(1, {"type": "text", "text": "", "citations": [1]})]),
    ],
)
def test_provider_data_that_does_not_go_back(message: AssistantMessage) -> None:
    """Of broken answers, of other models, and what only tells what happened."""
    assert sent(CLAUDE, HI, message, HI)[1]["content"] == [{"type": "text", "text": "a"}]


def test_container_goes_back_while_its_turn_goes_on() -> None:
    end = kept(1, {"type": "message_delta", "delta": {"container": {"id": "c_1", "expires_at": "later"}}})
    calling = answer(ToolCall("t", "read"), provider_data=[end])
    assert body(CLAUDE, HI, calling, result("t"))["container"] == "c_1"
    assert body(CLAUDE, HI, calling)["container"] == "c_1"
    assert "container" not in body(CLAUDE, HI, calling, result("t"), HI)


# --- caching ----------------------------------------------------------------------------------------------------------

SHORT, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}


def test_nothing_is_cached_unasked() -> None:
    assert "cache_control" not in json.dumps(body(CLAUDE, SystemMessage("s", tools_added=[READ]), HI))


@pytest.mark.parametrize(
    ("options", "marker"), [({"session_id": "s"}, SHORT), ({"cache_retention": "long"}, LONG)]
)
def test_cache_markers(options: dict[str, Any], marker: dict[str, str]) -> None:
    wire = body(CLAUDE, SystemMessage("s", tools_added=[READ, BASH]), UserMessage("one"), HI, **options)
    assert wire["system"] == [{"type": "text", "text": "s", "cache_control": marker}]
    assert [tool.get("cache_control") for tool in wire["tools"]] == [None, marker]
    assert wire["messages"] == [
        {"role": "user", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": marker}]},
    ]


def test_cache_marker_on_results_and_answers() -> None:
    calls = answer(ToolCall("t", "read"))
    last = sent(CLAUDE, HI, calls, result("t", TextContent("1")), cache_retention="short")[-1]["content"][-1]
    assert last["type"] == "tool_result" and last["cache_control"] == SHORT
    thought = answer(TextContent("so"), ThinkingContent("hm", thinking_signature="SIG"))
    text, thinking = sent(CLAUDE, HI, thought, cache_retention="short")[-1]["content"]
    assert text["cache_control"] == SHORT and "cache_control" not in thinking, "thinking takes no marker"


def test_cache_markers_where_the_server_is_limited() -> None:
    model = quirky(supportsLongCacheRetention=False, supportsCacheControlOnTools=False)
    wire = body(model, tools=[READ], cache_retention="long")
    assert "cache_control" not in wire["tools"][0]
    assert wire["messages"][0]["content"][0]["cache_control"] == SHORT


def test_session_headers() -> None:
    openrouter = evolve(CLAUDE, base_url="https://openrouter.ai/api")
    assert build(openrouter, session_id="s").headers["x-session-id"] == "s"
    assert "x-session-id" not in build(openrouter, session_id="s", cache_retention="none").headers
    told = quirky(sendSessionAffinityHeaders=True)
    assert build(told, session_id="s").headers["x-session-affinity"] == "s"
    assert "x-session-affinity" not in build(session_id="s").headers


# --- every request ----------------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec=None, categories=["L", "Cs", "Zs"]), max_size=4)
contents = st.lists(
    st.one_of(
        st.builds(TextContent, texts),
        st.builds(ThinkingContent, texts, thinking_signature=st.one_of(st.none(), texts)),
        st.builds(ToolCall, texts, texts, st.dictionaries(texts, texts, max_size=2)),
    ),
    max_size=3,
)
data = st.builds(
    kept,
    st.integers(-1, 4),
    st.one_of(
        texts,
        st.fixed_dictionaries({"type": st.sampled_from(["text", "x", "tool_use"])}, optional={"y": texts}),
    ),
)
transcripts = st.lists(
    st.one_of(
        st.builds(UserMessage, texts),
        st.builds(SystemMessage, texts),
        st.builds(
            lambda content, entries: answer(*content, provider_data=entries),
            contents,
            st.lists(data, max_size=3),
        ),
        st.builds(
            lambda call, text, error: result(call, TextContent(text), is_error=error),
            texts,
            texts,
            st.booleans(),
        ),
    ),
    max_size=6,
)


@given(transcripts, st.sampled_from([CLAUDE, ADAPTIVE, VERTEX, BEDROCK]), st.sampled_from(["none", "long"]))
def test_any_transcript_makes_clean_json_and_is_left_alone(
    transcript: list[Any], model: Model, retention: Any
) -> None:
    before = copy.deepcopy(transcript)
    request = build_request(model, transcript, StreamOptions(cache_retention=retention, reasoning="low"))
    json.dumps(request.body, ensure_ascii=False, allow_nan=False).encode()
    assert transcript == before
    assert request == build_request(
        model, transcript, StreamOptions(cache_retention=retention, reasoning="low")
    )
