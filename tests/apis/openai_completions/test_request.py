"""Requests of Chat Completions: each rule, then properties of every request."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.apis.openai_completions.request import build_request
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import (
    AssistantMessage,
    ImageContent,
    Message,
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

OPENAI = Model(
    id="gpt-x",
    provider="openai",
    base_url="https://api.openai.com/v1",
    reasoning=True,
    input=("text", "image"),
    max_tokens=32_000,
)
LOCAL = evolve(OPENAI, id="local", provider="llama.cpp", base_url="http://localhost:8080/v1")
DEEPSEEK = evolve(OPENAI, id="deepseek-x", provider="deepseek", base_url="https://api.deepseek.com")
OPENROUTER = evolve(
    OPENAI, id="anthropic/claude-x", provider="openrouter", base_url="https://openrouter.ai/api/v1"
)
TARGETS = (OPENAI, LOCAL, DEEPSEEK, OPENROUTER)

PATH_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
READ = Tool("read", "Read a file", PATH_SCHEMA)
HI = UserMessage("hi")
PNG = ImageContent("iVBORw0KGgo=", "image/png")


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
    messages: list[dict[str, Any]] = body(*arguments, **options)["messages"]
    return messages


def answer(*content: Any, model: Model = OPENAI, **fields: Any) -> AssistantMessage:
    return AssistantMessage(
        list(content), api="openai-completions", provider=model.provider, model=model.id, **fields
    )


def quirky(model: Model = LOCAL, **compat: Any) -> Model:
    return evolve(model, compat=compat)


def result(call_id: str, *content: Any, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(call_id, "read", list(content), is_error=is_error)


# --- the frame --------------------------------------------------------------------------------------------------------


def test_smallest_request_holds_nothing_that_was_not_asked_for() -> None:
    request = build(OPENAI)
    assert request.method == "POST"
    assert request.url == "https://api.openai.com/v1/chat/completions"
    assert request.headers == {"accept": "application/json", "content-type": "application/json"}
    assert request.body == {
        "model": "gpt-x",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
    }


def test_the_caller_s_options_are_sent_under_their_wire_names() -> None:
    options = {
        "temperature": 0,
        "top_p": 0.9,
        "max_tokens": 5,
        "stop": "END",
        "seed": 7,
        "response_format": {"type": "json_object"},
        "service_tier": "flex",
        "metadata": {"user": "u-1"},
    }
    wire = body(OPENAI, HI, **options)
    assert {name: wire[name] for name in options if name not in ("max_tokens", "stop")} == {
        name: value for name, value in options.items() if name not in ("max_tokens", "stop")
    }
    assert wire["max_completion_tokens"] == 5
    assert wire["stop"] == ["END"]


def test_max_tokens_has_the_name_the_server_knows() -> None:
    assert body(DEEPSEEK, HI, max_tokens=5)["max_tokens"] == 5


@pytest.mark.parametrize(
    "given_format",
    [
        {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
        {"type": "json_schema", "schema": {"type": "object"}, "strict": True},
    ],
    ids=["nested", "flat"],
)
def test_response_format_with_a_schema_is_sent_nested(given_format: dict[str, Any]) -> None:
    """The flat shape of other apis works as well, so that one option serves all."""
    assert body(OPENAI, HI, response_format=given_format)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
    }


def test_extra_body_is_merged_last_and_deep() -> None:
    extra = {"temperature": 1, "stream_options": {"include_obfuscation": False}, "store": True, "x": None}
    wire = body(OPENAI, HI, temperature=0, extra_body=extra)
    assert wire["temperature"] == 1
    assert wire["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert wire["store"] is True
    assert wire["x"] is None


def test_an_option_that_is_not_json_names_its_place() -> None:
    with pytest.raises(ConfigError, match=r"\$\.a\[1\].*bytes"):
        build(OPENAI, HI, extra_body={"a": [1, b"x"]})


def test_a_body_nested_without_end_is_an_error_of_ours() -> None:
    deep: dict[str, Any] = {}
    for _ in range(20_000):
        deep = {"a": deep}
    with pytest.raises(ConfigError, match="nested too deeply"):
        build(OPENAI, HI, extra_body=deep)


def test_model_sampling_defaults_yield_to_the_level_s_and_both_to_the_caller() -> None:
    model = evolve(
        OPENAI,
        sampling_params={"temperature": 0.1, "top_p": 0.1, "top_k": 1},
        sampling_params_by_thinking_level={"high": {"top_p": 0.2, "temperature": 0.2}},
    )
    wire = body(model, HI, reasoning="high", temperature=0.3)
    assert (wire["temperature"], wire["top_p"], wire["top_k"]) == (0.3, 0.2, 1)


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://h.example/v1/", "https://h.example/v1/chat/completions"),
        ("https://h.example", "https://h.example/chat/completions"),
        ("http://[::1]:80/v1?key=a%20b#x", "http://[::1]:80/v1/chat/completions?key=a%20b"),
        ("https://h.example/v1/chat/completions", "https://h.example/v1/chat/completions"),
    ],
)
def test_url_is_below_the_base_url(base_url: str, url: str) -> None:
    assert build(evolve(LOCAL, base_url=base_url)).url == url


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "ftp://h.example",
        "h.example/v1",
        "https://",
        "https://h.example/v1\n",
        "https://h.ex\tample",
        "https://h.example:port",
        "https://[::1",
        "https://h.example/\ud800",
    ],
)
def test_bad_base_url_is_a_config_error(base_url: str) -> None:
    with pytest.raises(ConfigError, match="base URL"):
        build(evolve(LOCAL, base_url=base_url))


# --- headers ----------------------------------------------------------------------------------------------------------


def test_key_becomes_a_bearer_token_that_no_repr_shows() -> None:
    request = build(OPENAI, HI, api_key="sk-secret")
    assert request.headers["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in repr(request)


def test_headers_are_merged_case_insensitively_and_none_removes_one() -> None:
    model = evolve(OPENAI, headers={"X-A": "model", "X-B": "model", "X-C": "model"})
    options = {"x-a": "caller", "x-b": None, "AUTHORIZATION": None, "cf-aig-authorization": "Bearer g"}
    headers = build(model, HI, api_key="k", headers=options).headers
    assert headers["x-a"] == "caller"
    assert headers["x-c"] == "model"
    assert headers["cf-aig-authorization"] == "Bearer g"
    assert "x-b" not in headers
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"x-key": "secret\r\nevil: 1"}, "x-key"),
        ({"x y": "v"}, "x y"),
        ({"x-n": 5}, "x-n"),
        ({"": "v"}, "''"),
    ],
)
def test_a_header_nobody_can_send_is_a_config_error_without_its_value(headers: Any, name: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        build(OPENAI, HI, headers=headers)
    assert "secret" not in str(caught.value)


def test_a_key_with_a_line_end_is_found_before_it_is_sent() -> None:
    with pytest.raises(ConfigError, match="authorization") as caught:
        build(OPENAI, HI, api_key="sk-secret\n")
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("affinity", "names"),
    [
        ("openai", {"session_id", "x-client-request-id", "x-session-affinity"}),
        ("openai-nosession", {"x-client-request-id", "x-session-affinity"}),
        ("openrouter", {"x-session-id"}),
        ("opencode", {"x-opencode-session"}),
    ],
)
def test_session_headers_have_the_server_s_names(affinity: str, names: set[str]) -> None:
    model = quirky(sendSessionAffinityHeaders=True, sessionAffinityFormat=affinity)
    headers = build(model, HI, session_id="s-1").headers
    assert {name for name, value in headers.items() if value == "s-1"} == names


@pytest.mark.parametrize(
    "options", [{}, {"session_id": "s-1", "cache_retention": "none"}], ids=["no session", "no caching"]
)
def test_session_headers_need_a_session_and_caching(options: dict[str, Any]) -> None:
    assert build(OPENROUTER, HI, **options).headers.keys() == {"accept", "content-type"}


def test_copilot_is_told_who_asks_and_whether_there_are_images() -> None:
    model = evolve(LOCAL, provider="github-copilot")
    by_user = build(model, HI).headers
    assert (by_user["x-initiator"], by_user["openai-intent"]) == ("user", "conversation-edits")
    assert "copilot-vision-request" not in by_user
    by_agent = build(model, HI, answer(ToolCall("c", "read")), result("c", PNG)).headers
    assert (by_agent["x-initiator"], by_agent["copilot-vision-request"]) == ("agent", "true")


# --- messages ---------------------------------------------------------------------------------------------------------


def test_system_prompt_of_a_reasoning_model_is_a_developer_message_at_openai_only() -> None:
    def roles(model: Model) -> list[str]:
        return [message["role"] for message in sent(model, SystemMessage("sys"), HI)]

    assert roles(OPENAI) == ["developer", "user"]
    assert roles(evolve(OPENAI, reasoning=False)) == ["system", "user"]
    assert roles(LOCAL) == ["system", "user"]


def test_later_system_messages_are_collapsed_into_the_first() -> None:
    later = SystemMessage("be loud", sections={"style": "short"})
    assert sent(LOCAL, SystemMessage("base"), HI, later, UserMessage("two")) == [
        {"role": "system", "content": "base\n\nbe loud\n\nshort"},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "two"},
    ]


def test_later_system_messages_stay_in_place_where_the_server_takes_them() -> None:
    model = quirky(supportsMidConvoSystemMessages=True)
    later = SystemMessage("be loud", sections={"style": "short", "old": None}, tools_added=[READ])
    wire = body(model, SystemMessage("base"), HI, later)
    assert [message["role"] for message in wire["messages"]] == ["system", "user", "system"]
    text = wire["messages"][2]["content"]
    assert text.startswith("be loud\n\n")
    assert "'style'" in text
    assert "short" in text
    assert "'old'" in text
    assert "removed" in text
    assert [tool["function"]["name"] for tool in wire["tools"]] == ["read"]


def test_tools_are_added_in_place_where_the_server_takes_that() -> None:
    model = quirky(supportsMidConvoSystemMessages=True, supportsMidConvoToolAdditions=True)
    head = SystemMessage("base", tools_added=[READ])
    later = SystemMessage("", tools_added=[Tool("bash")])
    wire = body(model, head, HI, later, UserMessage("two"), tool_choice={"name": "bash"})
    assert [tool["function"]["name"] for tool in wire["tools"]] == ["read"]
    assert [message["role"] for message in wire["messages"]] == ["system", "user", "system", "user"]
    assert [tool["function"]["name"] for tool in wire["messages"][2]["tools"]] == ["bash"]
    assert wire["tool_choice"]["function"] == {"name": "bash"}


def test_user_parts_are_texts_and_data_urls_and_empty_texts_vanish() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    blocks = UserMessage([TextContent("a"), TextContent(""), PNG, TextContent("b")])
    assert sent(OPENAI, blocks, UserMessage([TextContent("")]), UserMessage([])) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]}
    ]


def test_images_become_a_line_of_text_for_a_model_that_cannot_see() -> None:
    blind = evolve(LOCAL, input=("text",))
    messages = sent(blind, UserMessage([TextContent("what"), PNG, PNG]), result("c", PNG))
    assert [part["text"] for part in messages[0]["content"]] == [
        "what",
        "(image omitted: model does not support images)",
    ]
    assert messages[1:] == [
        {
            "role": "tool",
            "tool_call_id": "c",
            "content": "(tool image omitted: model does not support images)",
        }
    ]


def test_assistant_texts_are_one_plain_string_and_calls_carry_compact_json() -> None:
    message = answer(
        TextContent("one "),
        TextContent("  "),
        TextContent("two"),
        ToolCall("c1", "read", {"path": "/ä", "n": [1]}),
    )
    assert sent(OPENAI, message) == [
        {
            "role": "assistant",
            "content": "one two",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path":"/ä","n":[1]}'},
                }
            ],
        }
    ]


def test_arguments_are_strict_json_whatever_is_in_them() -> None:
    call = ToolCall("c", "read", {"a": float("nan"), "b": [float("inf"), "\ud800"], "c": 1.5})
    text = sent(OPENAI, answer(call))[0]["tool_calls"][0]["function"]["arguments"]
    assert text == '{"a":null,"b":[null,"\ufffd"],"c":1.5}'


def test_an_answer_without_text_and_calls_is_left_out() -> None:
    assert sent(OPENAI, HI, answer(), answer(ThinkingContent("hm", thinking_signature="reasoning"))) == [
        {"role": "user", "content": "hi"}
    ]


@pytest.mark.parametrize("flag", ["requiresNonNullAssistantContent", "requiresAssistantAfterToolResult"])
def test_content_of_an_answer_without_text_is_null_or_empty(flag: str) -> None:
    call = answer(ToolCall("c", "read"))
    assert sent(LOCAL, call)[0]["content"] is None
    assert sent(evolve(LOCAL, compat={flag: True}), call)[0]["content"] == ""


def test_results_join_their_texts_and_say_when_there_are_none() -> None:
    texts = result("a", TextContent("one"), TextContent("two"))
    assert sent(OPENAI, texts, result("b"), result("c", TextContent(""))) == [
        {"role": "tool", "tool_call_id": "a", "content": "one\ntwo"},
        {"role": "tool", "tool_call_id": "b", "content": "(no tool output)"},
        {"role": "tool", "tool_call_id": "c", "content": "(no tool output)"},
    ]


def test_images_of_a_run_of_results_follow_in_one_user_message() -> None:
    messages = sent(OPENAI, result("a", TextContent("see"), PNG), result("b", PNG), UserMessage("go on"))
    assert [message["role"] for message in messages] == ["tool", "tool", "user", "user"]
    assert [message["content"] for message in messages[:2]] == ["see", "(see attached image)"]
    assert [part["type"] for part in messages[2]["content"]] == ["text", "image_url", "image_url"]
    assert messages[3]["content"] == "go on"


def test_failed_results_look_like_others_unless_the_server_has_a_prefix() -> None:
    failed = result("a", TextContent("no such file"), is_error=True)
    assert sent(LOCAL, failed)[0]["content"] == "no such file"
    assert sent(quirky(tool_error_prefix="[error] "), failed)[0]["content"] == "[error] no such file"


def test_result_has_the_tool_s_name_where_the_server_wants_it() -> None:
    assert sent(quirky(requiresToolResultName=True), result("a"))[0]["name"] == "read"


def test_an_assistant_message_bridges_results_and_user_where_the_server_wants_it() -> None:
    model = quirky(requiresAssistantAfterToolResult=True)
    roles = [message["role"] for message in sent(model, result("a", PNG), HI, result("b"), HI)]
    assert roles == ["tool", "assistant", "user", "user", "tool", "assistant", "user"]


# --- ids --------------------------------------------------------------------------------------------------------------


def wire_ids(model: Model, *ids: str, foreign: bool = True) -> list[str]:
    """The ids of calls as sent; their results must carry the same."""
    message = answer(*(ToolCall(call_id, "read") for call_id in ids), model=LOCAL if foreign else model)
    if foreign:
        message = evolve(message, model="another")
    messages = sent(model, message, *map(result, ids))
    calls = [call["id"] for call in messages[0]["tool_calls"]]
    assert [message["tool_call_id"] for message in messages[1:]] == calls
    return calls


def test_ids_of_two_parts_from_other_models_become_one_word() -> None:
    assert wire_ids(LOCAL, "call_1|fc_1", "call_2") == ["call_1_fc_1", "call_2"]


def test_ids_of_the_same_model_are_left_alone() -> None:
    assert wire_ids(OPENAI, "call_1|fc_1", "x" * 50, foreign=False) == ["call_1|fc_1", "x" * 50]


def test_shortened_ids_stay_different_and_the_same_in_every_request() -> None:
    head = "call_" + "x" * 40
    ids = [f"{head}|fc_a+/", f"{head}|fc_b+/", "a|b+", "a|b/", "a|b", "a_b", "p|q_r", "p_q|r"]
    short = wire_ids(OPENAI, *ids)
    assert len(set(short)) == len(ids)
    assert max(map(len, short)) <= 40
    assert short == wire_ids(OPENAI, *ids)


def test_long_ids_are_cut_for_openai_only() -> None:
    ids = ["x" * 41 + "a", "x" * 41 + "b"]
    assert wire_ids(LOCAL, *ids) == ids
    cut = wire_ids(OPENAI, *ids)
    assert len(set(cut)) == 2
    assert max(map(len, cut)) <= 40


# --- thinking given back ----------------------------------------------------------------------------------------------


def thought(text: str, signature: str | None = None, **fields: Any) -> ThinkingContent:
    return ThinkingContent(text, thinking_signature=signature, **fields)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thinking_goes_back_in_the_field_it_came_in(field: str) -> None:
    message = answer(thought("a", field), thought("  "), thought("b"), TextContent("x"))
    assert sent(OPENAI, message) == [{"role": "assistant", "content": "x", field: "a\nb"}]


@pytest.mark.parametrize(
    "block",
    [
        thought("a", None),
        thought("a", "SIGNATURE"),
        thought("a", "[no json"),
        thought("a", "[1]"),
        thought("[redacted]", "reasoning", redacted=True),
    ],
)
def test_thinking_without_a_known_way_back_is_left_out(block: ThinkingContent) -> None:
    assert sent(OPENAI, answer(block, TextContent("x"))) == [{"role": "assistant", "content": "x"}]


def test_thinking_of_another_model_is_left_out() -> None:
    message = evolve(answer(thought("a", "reasoning"), TextContent("x")), model="another")
    assert sent(OPENAI, message) == [{"role": "assistant", "content": "x"}]


def test_reasoning_details_go_back_whole() -> None:
    details = [
        {"type": "reasoning.text", "text": "hm", "signature": "S"},
        {"type": "reasoning.encrypted", "data": "E"},
    ]
    message = answer(thought("hm", json.dumps(details)), TextContent("x"))
    assert sent(OPENAI, message)[0]["reasoning_details"] == details


def test_thinking_goes_back_as_text_where_the_server_wants_it() -> None:
    model = quirky(requiresThinkingAsText=True)
    message = answer(thought("hm", "reasoning"), TextContent("a"), TextContent("b"), model=model)
    assert sent(model, message) == [
        {"role": "assistant", "content": [{"type": "text", "text": text} for text in ("hm", "a", "b")]}
    ]


def test_deepseek_gets_reasoning_content_on_every_answer_when_it_thinks() -> None:
    assert sent(DEEPSEEK, answer(TextContent("x")))[0]["reasoning_content"] == ""
    assert "reasoning_content" not in sent(evolve(DEEPSEEK, reasoning=False), answer(TextContent("x")))[0]
    kept = answer(thought("a", "reasoning_content"), TextContent("x"), model=DEEPSEEK)
    assert sent(DEEPSEEK, kept)[0]["reasoning_content"] == "a"


# --- tools ------------------------------------------------------------------------------------------------------------


def test_tools_are_functions_with_their_schema() -> None:
    assert body(LOCAL, HI, tools=[READ])["tools"] == [
        {
            "type": "function",
            "function": {"name": "read", "description": "Read a file", "parameters": PATH_SCHEMA},
        }
    ]


def test_an_empty_tool_list_is_sent_only_where_a_history_of_tools_needs_it() -> None:
    model = quirky(requiresToolsWithToolHistory=True)
    assert "tools" not in body(model, HI)
    assert body(model, HI, answer(ToolCall("c", "read")), result("c"))["tools"] == []
    assert "tools" not in body(LOCAL, HI, answer(ToolCall("c", "read")), result("c"))


def test_zai_is_asked_to_stream_tool_calls() -> None:
    model = quirky(zaiToolStream=True)
    assert body(model, HI, tools=[READ])["tool_stream"] is True
    assert "tool_stream" not in body(model)


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"name": "read"}, {"type": "function", "function": {"name": "read"}}),
        ({"type": "allowed_tools", "x": 1}, {"type": "allowed_tools", "x": 1}),
    ],
)
def test_tool_choice(choice: Any, wire: Any) -> None:
    assert body(OPENAI, HI, tools=[READ], tool_choice=choice)["tool_choice"] == wire


def test_a_choice_of_a_tool_that_is_not_there_names_near_ones() -> None:
    with pytest.raises(ConfigError, match=r"'red'.*read"):
        build(OPENAI, HI, tools=[READ], tool_choice={"name": "red"})


def test_a_required_call_without_tools_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="no tools"):
        build(OPENAI, HI, tool_choice="required")


def test_switches_about_tools_are_not_sent_without_tools() -> None:
    """OpenAI refuses them, and they would change nothing."""
    wire = body(OPENAI, HI, tool_choice="auto", parallel_tool_calls=False)
    assert not {"tool_choice", "parallel_tool_calls"} & wire.keys()
    assert body(OPENAI, HI, tools=[READ], parallel_tool_calls=False)["parallel_tool_calls"] is False


def strict_tool(strict: str, schema: dict[str, Any] = PATH_SCHEMA) -> Tool:
    return Tool("read", "", schema, constrained_sampling={"type": "json_schema", "strict": strict})


def test_strict_tools_get_a_strict_schema_where_the_server_knows_them() -> None:
    wire = body(
        quirky(supportsStrictMode=True), HI, tools=[strict_tool("prefer"), Tool("other", "", PATH_SCHEMA)]
    )
    strict, other = (tool["function"] for tool in wire["tools"])
    assert strict["strict"] is True
    assert strict["parameters"]["required"] == ["path", "limit"]
    assert (other["strict"], other["parameters"]) == (False, PATH_SCHEMA)


def test_a_preferred_strict_schema_gives_way_and_a_required_one_does_not() -> None:
    impossible = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}
    model = quirky(supportsStrictMode=True)
    tool = body(model, HI, tools=[strict_tool("prefer", impossible)])["tools"][0]["function"]
    assert (tool["strict"], tool["parameters"]) == (False, impossible)
    with pytest.raises(ConfigError, match=r"'read'.*\$ref"):
        build(model, HI, tools=[strict_tool("require", impossible)])


def test_a_required_strict_schema_needs_a_server_that_knows_it() -> None:
    assert "strict" not in body(LOCAL, HI, tools=[strict_tool("prefer")])["tools"][0]["function"]
    with pytest.raises(ConfigError, match="supports_strict_mode"):
        build(LOCAL, HI, tools=[strict_tool("require")])


GRAMMAR = Tool(
    "patch",
    "Apply a patch",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    constrained_sampling={
        "type": "grammar",
        "variants": {"openai_regex": "a+", "openai_lark": 'start: "a"+'},
    },
)


def test_grammar_tools_are_custom_tools_in_list_choice_and_history() -> None:
    model = quirky(supportsOpenAIGrammarTools=True)
    message = answer(ToolCall("c", "patch", {"text": "aaa"}))
    wire = body(model, HI, message, tools=[GRAMMAR], tool_choice={"name": "patch"})
    grammar = {"syntax": "lark", "definition": 'start: "a"+'}
    assert wire["tools"] == [
        {
            "type": "custom",
            "custom": {
                "name": "patch",
                "description": "Apply a patch",
                "format": {"type": "grammar", "grammar": grammar},
            },
        }
    ]
    assert wire["tool_choice"] == {"type": "custom", "custom": {"name": "patch"}}
    call = wire["messages"][1]["tool_calls"][0]
    assert call == {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "aaa"}}


def test_grammar_tools_are_ordinary_functions_elsewhere() -> None:
    wire = body(LOCAL, HI, answer(ToolCall("c", "patch", {"text": "aaa"})), tools=[GRAMMAR])
    assert wire["tools"][0]["type"] == "function"
    assert wire["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"text":"aaa"}'


# --- caching ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", TARGETS, ids=lambda model: model.provider)
def test_nothing_is_cached_unasked(model: Model) -> None:
    assert "cache" not in json.dumps(body(model, SystemMessage("sys"), HI, tools=[READ]))


def test_a_session_alone_switches_caching_on_and_none_switches_it_off() -> None:
    assert body(OPENAI, HI, session_id="s" * 100)["prompt_cache_key"] == "s" * 64
    assert "prompt_cache_key" not in body(OPENAI, HI, session_id="s", cache_retention="none")


@pytest.mark.parametrize(
    ("model", "retention", "fields"),
    [
        (OPENAI, "short", {"prompt_cache_key"}),
        (OPENAI, "long", {"prompt_cache_key", "prompt_cache_retention"}),
        (evolve(LOCAL, base_url="https://evil.example/api.openai.com"), "short", set()),
        (LOCAL, "long", {"prompt_cache_key", "prompt_cache_retention"}),
        (quirky(supportsLongCacheRetention=False), "long", set()),
        (quirky(promptCacheKeyMode="enabled"), "short", {"prompt_cache_key"}),
        (quirky(OPENAI, promptCacheKeyMode="disabled"), "short", set()),
    ],
)
def test_when_the_cache_key_is_sent(model: Model, retention: str, fields: set[str]) -> None:
    wire = body(model, HI, session_id="s", cache_retention=retention)
    assert {name for name in wire if name.startswith("prompt_cache")} == fields


def test_anthropic_markers_stand_on_the_prompt_the_last_tool_and_the_last_text() -> None:
    messages = (SystemMessage("sys"), HI, UserMessage([TextContent("a"), PNG]), UserMessage([PNG]))
    wire = body(OPENROUTER, *messages, tools=[READ, Tool("bash")], cache_retention="long")
    marker = {"type": "ephemeral", "ttl": "1h"}
    assert wire["messages"][0]["content"] == [{"type": "text", "text": "sys", "cache_control": marker}]
    assert ["cache_control" in tool for tool in wire["tools"]] == [False, True]
    assert wire["messages"][2]["content"][0] == {"type": "text", "text": "a", "cache_control": marker}
    assert json.dumps(wire).count("cache_control") == 3
    short = body(OPENROUTER, HI, cache_retention="short")["messages"][0]["content"][0]
    assert short["cache_control"] == {"type": "ephemeral"}


# --- routing ----------------------------------------------------------------------------------------------------------


def test_routing_of_gateways() -> None:
    wire = body(
        quirky(
            openRouterRouting={"order": ["a"]},
            vercelGatewayRouting={"only": ["b"], "else": 1},
            vllmPriority=-1,
            supportsStore=False,
            supportsUsageInStreaming=False,
        )
    )
    assert wire["provider"] == {"order": ["a"]}
    assert wire["providerOptions"] == {"gateway": {"only": ["b"]}}
    assert wire["priority"] == -1
    assert not {"store", "stream_options"} & wire.keys()


# --- every request ----------------------------------------------------------------------------------------------------

# Texts with lone surrogates among the rest: a provider may cut a pair in two.
texts = st.text(st.sampled_from("a |_-ü\x00\u2028\ud83d\ude00\ud800\U0001f600"), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
text_blocks = st.builds(TextContent, texts)
images = st.builds(ImageContent, texts, texts)
signatures = st.sampled_from(
    [None, "reasoning", "reasoning_content", '[{"type":"reasoning.text"}]', "[", "\ud800"]
)
thinking_blocks = st.builds(ThinkingContent, texts, thinking_signature=signatures)
calls = st.builds(ToolCall, texts, texts, st.dictionaries(texts, json_values, max_size=2))
made_tools = st.builds(Tool, texts, texts, st.dictionaries(texts, json_values, max_size=2))
transcripts = st.lists(
    st.builds(
        SystemMessage,
        texts | st.lists(text_blocks, max_size=2),
        sections=st.none() | st.dictionaries(texts, st.none() | texts, max_size=2),
        tools_added=st.none() | st.lists(made_tools, max_size=2),
        tools_removed=st.none() | st.lists(st.fixed_dictionaries({"name": texts}), max_size=1),
    )
    | st.builds(UserMessage, texts | st.lists(text_blocks | images, max_size=3))
    | st.builds(
        AssistantMessage,
        st.lists(text_blocks | thinking_blocks | calls, max_size=4),
        api=st.just("openai-completions"),
        provider=st.sampled_from(["openai", "deepseek"]),
        model=st.sampled_from(["gpt-x", "deepseek-x"]),
    )
    | st.builds(ToolResultMessage, texts, texts, st.lists(text_blocks | images, max_size=2)),
    max_size=6,
)
flags = st.fixed_dictionaries(
    {},
    optional={
        name: st.booleans()
        for name in (
            "requires_assistant_after_tool_result",
            "requires_thinking_as_text",
            "requires_tools_with_tool_history",
            "supports_mid_convo_system_messages",
            "supports_mid_convo_tool_additions",
            "supports_strict_mode",
        )
    },
)


@given(
    transcript=transcripts,
    model=st.sampled_from(TARGETS),
    compat=flags,
    cache=st.sampled_from([None, "short"]),
)
def test_every_transcript_gives_a_clean_json_body_and_is_left_as_it_was(
    transcript: list[Message], model: Model, compat: dict[str, bool], cache: Any
) -> None:
    """Whatever is in the messages, the body can be encoded as strict JSON in UTF-8, and the same each time."""
    options = StreamOptions(reasoning="high", cache_retention=cache)
    model = evolve(model, compat=compat)
    # Compared as text: NaN in the arguments is not equal to itself.
    before = repr(copy.deepcopy(transcript))
    request = build_request(model, transcript, options)
    json.dumps(request.body, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert repr(transcript) == before
    assert build_request(model, transcript, options) == request
