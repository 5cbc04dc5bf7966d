"""Requests to Cohere: messages, tools, thinking, and what there is no field for."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from pi_stream import build_request as build_from_name
from pi_stream.apis.cohere.request import build_request
from pi_stream.exceptions import ConfigError
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

MODEL = Model(
    id="command-x",
    api="cohere-chat",
    provider="cohere",
    base_url="https://api.cohere.com",
    input=("text", "image"),
)
THINKER = evolve(MODEL, reasoning=True, max_tokens=32_000)
OWN: dict[str, Any] = {"api": "cohere-chat", "provider": "cohere", "model": "command-x"}
HI: list[Message] = [UserMessage("hi")]
FIND = Tool("find", "Find it", {"type": "object", "properties": {"q": {"type": "string"}}})
NOW = Tool("now", "The time")
PNG = ImageContent("aGk=", "image/png")


def body(messages: list[Message] | None = None, model: Model = MODEL, **options: Any) -> dict[str, Any]:
    made = build_request(model, messages or HI, StreamOptions(**options)).body
    assert made is not None
    return made


def with_tools(*tools: Tool) -> list[Message]:
    return [SystemMessage(tools_added=list(tools)), *HI]


def test_a_plain_request_says_nothing_more() -> None:
    request = build_request(MODEL, HI, StreamOptions())
    assert (request.method, request.url) == ("POST", "https://api.cohere.com/v2/chat")
    assert request.headers == {"accept": "text/event-stream", "content-type": "application/json"}
    assert request.body == {
        "model": "command-x",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    }


@pytest.mark.parametrize("base", ["https://h", "https://h/", "https://h/v2", "https://h/v2/chat"])
def test_the_base_url_may_hold_the_version(base: str) -> None:
    assert build_request(evolve(MODEL, base_url=base), HI, StreamOptions()).url == "https://h/v2/chat"


def test_key_and_headers() -> None:
    model = evolve(MODEL, headers={"X-Client-Name": "app"})
    headers = build_request(model, HI, StreamOptions(api_key="k", headers={"accept": None})).headers
    assert headers == {
        "authorization": "Bearer k",
        "content-type": "application/json",
        "x-client-name": "app",
    }


def test_options_have_cohere_s_names() -> None:
    made = body(temperature=0.5, top_p=0.9, max_tokens=9, stop=["a"], seed=3, extra_body={"k": 5, "seed": 4})
    assert {name: value for name, value in made.items() if name not in ("model", "messages", "stream")} == {
        "temperature": 0.5,
        "p": 0.9,
        "max_tokens": 9,
        "stop_sequences": ["a"],
        "seed": 4,
        "k": 5,
    }


def test_what_has_no_field_is_not_sent() -> None:
    options: dict[str, Any] = {"metadata": {"user": "u"}, "session_id": "s", "service_tier": "x"}
    assert body(**options) == body()


def test_answers_of_this_model_go_back_whole() -> None:
    """Thinking among the content, the plan and the citations in their own fields."""
    citation = {"start": 0, "end": 5, "text": "Found"}
    answer = AssistantMessage(
        [
            ThinkingContent("Hm."),
            ThinkingContent("I will look.", thinking_signature="tool_plan"),
            TextContent("Found"),
            ToolCall("a", "find", {"q": "tea"}),
        ],
        provider_data=[
            ProviderData(after=3, data={"citations": [citation]}, **OWN),
            ProviderData(after=3, data={"type": "else"}, **OWN),
            ProviderData(after=3, data={"citations": [{"start": 9}]}, **{**OWN, "model": "other"}),
        ],
        **OWN,
    )
    assert body([*HI, answer])["messages"][1] == {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Found"}],
        "tool_plan": "I will look.",
        "citations": [citation],
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "find", "arguments": '{"q":"tea"}'}}
        ],
    }


def test_answers_of_other_models_lose_their_thinking() -> None:
    answer = AssistantMessage(
        [ThinkingContent("Hm."), ToolCall("a|b", "find", {})], api="openai-responses", provider="p", model="m"
    )
    messages = body([*HI, answer, ToolResultMessage("a|b", "find", [TextContent("x")])])["messages"]
    assert messages[1] == {
        "role": "assistant",
        "tool_calls": [{"id": "a_b", "type": "function", "function": {"name": "find", "arguments": "{}"}}],
    }
    assert messages[2] == {"role": "tool", "tool_call_id": "a_b", "content": "x"}


def test_images_of_users_and_of_tool_results() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    call = AssistantMessage([ToolCall("a", "find", {})], **OWN)
    messages = body([UserMessage([TextContent("see"), PNG]), call, ToolResultMessage("a", "find", [PNG])])[
        "messages"
    ]
    assert messages[0]["content"] == [{"type": "text", "text": "see"}, url]
    assert messages[2]["content"] == "(see attached image)"
    assert messages[3]["role"] == "user" and messages[3]["content"][1] == url
    blind = body([UserMessage([PNG])], evolve(MODEL, input=("text",)))["messages"]
    assert blind[0]["content"][0]["text"].startswith("(image omitted")


def test_later_system_messages_are_collapsed_unless_the_server_takes_them() -> None:
    messages: list[Message] = [SystemMessage("a"), *HI, SystemMessage("b")]
    assert [each["role"] for each in body(messages)["messages"]] == ["system", "user"]
    model = evolve(MODEL, compat={"supportsMidConvoSystemMessages": True})
    assert [each["role"] for each in body(messages, model)["messages"]] == ["system", "user", "system"]


# --- tools -------------------------------------------------------------------------------------------------------------


def test_tools() -> None:
    made = body(with_tools(FIND))
    function = {"name": "find", "description": "Find it", "parameters": FIND.parameters}
    assert made["tools"] == [{"type": "function", "function": function}]
    assert "tool_choice" not in made and "strict_tools" not in made


@pytest.mark.parametrize(
    ("choice", "names", "word"),
    [
        ("auto", ["find", "now"], None),
        ("none", ["find", "now"], "NONE"),
        ("required", ["find", "now"], "REQUIRED"),
        ({"name": "now"}, ["now"], "REQUIRED"),
    ],
)
def test_tool_choices(choice: Any, names: list[str], word: str | None) -> None:
    """One tool is forced by showing only that one."""
    made = body(with_tools(FIND, NOW), tool_choice=choice)
    assert [tool["function"]["name"] for tool in made["tools"]] == names
    assert made.get("tool_choice") == word


@pytest.mark.parametrize("choice", ["required", {"name": "other"}, {"type": "tool"}])
def test_a_choice_that_cannot_be_made_is_an_error(choice: Any) -> None:
    with pytest.raises(ConfigError, match="tool"):
        body(HI, tool_choice=choice)
    assert "tool_choice" not in body(HI, tool_choice="none")


def test_strictness_is_one_switch_for_all_tools() -> None:
    prefer = evolve(FIND, constrained_sampling={"type": "json_schema", "strict": "prefer"})
    require = evolve(FIND, constrained_sampling={"type": "json_schema", "strict": "require"})
    assert body(with_tools(prefer))["strict_tools"] is True
    assert "strict_tools" not in body(with_tools(prefer, NOW))
    assert body(with_tools(require, NOW))["strict_tools"] is True
    without = evolve(MODEL, compat={"supports_strict_mode": False})
    assert "strict_tools" not in body(with_tools(prefer), without)
    with pytest.raises(ConfigError, match="find"):
        body(with_tools(require), without)


# --- thinking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "options", "expected"),
    [
        ("off", {}, {"type": "disabled"}),
        ("minimal", {}, {"type": "enabled", "token_budget": 1024}),
        ("high", {}, {"type": "enabled", "token_budget": 16384}),
        ("max", {}, {"type": "enabled", "token_budget": 16384}),
        ("low", {"thinking_budgets": {"low": 77}}, {"type": "enabled", "token_budget": 77}),
        ("high", {"max_tokens": 3000}, {"type": "enabled", "token_budget": 1976}),
        ("high", {"max_tokens": 500}, {"type": "disabled"}),
    ],
)
def test_levels_are_budgets_inside_the_limit(level: Any, options: dict[str, Any], expected: Any) -> None:
    assert body(model=THINKER, reasoning=level, **options)["thinking"] == expected


def test_thinking_is_not_mentioned_unasked() -> None:
    assert "thinking" not in body(model=THINKER)
    assert "thinking" not in body(model=MODEL, reasoning="high")


def test_sampling_of_the_model_yields_to_the_caller() -> None:
    model = evolve(MODEL, sampling_params={"temperature": 0.1, "k": 3})
    made = body(model=model, temperature=0.7)
    assert (made["temperature"], made["k"]) == (0.7, 3)


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "json_schema", "schema": {"type": "object"}},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    ],
)
def test_a_json_schema_goes_where_cohere_wants_it(wanted: dict[str, Any]) -> None:
    made = body(response_format=wanted)["response_format"]
    assert made == {"type": "json_object", "json_schema": {"type": "object"}}


def test_odd_text_is_cleaned_and_nothing_is_shared() -> None:
    messages: list[Message] = [UserMessage("a\ud800b"), *with_tools(FIND)]
    made = body(messages)
    assert "a\ufffdb" in [message["content"] for message in made["messages"]]
    made["tools"][0]["function"]["parameters"]["properties"]["q"]["type"] = "changed"
    assert FIND.parameters["properties"]["q"]["type"] == "string"


def test_the_provider_is_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CO_API_KEY", "secret")
    monkeypatch.setenv("CO_API_URL", "https://proxy.example")
    request = build_from_name("cohere/command-a-03-2025", "hi")
    assert request.url == "https://proxy.example/v2/chat"
    assert request.headers["authorization"] == "Bearer secret"


def test_unknown_quirks_are_errors() -> None:
    with pytest.raises(ConfigError, match="supports_strict"):
        body(model=evolve(MODEL, compat={"supports_strict": True}))
