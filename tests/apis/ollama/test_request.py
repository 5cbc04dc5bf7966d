"""Requests to Ollama: messages, options, thinking, and what it cannot be asked for."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from pi_stream import build_request as build_from_name
from pi_stream.apis.ollama.request import build_request
from pi_stream.exceptions import ConfigError
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

MODEL = Model(
    id="qwen3", api="ollama", provider="ollama", base_url="http://127.0.0.1:11434", input=("text", "image")
)
THINKER = evolve(MODEL, reasoning=True)
OWN: dict[str, Any] = {"api": "ollama", "provider": "ollama", "model": "qwen3"}
HI: list[Message] = [UserMessage("hi")]
FIND = Tool("find", "Find it", {"type": "object", "properties": {"q": {"type": "string"}}})
PNG = ImageContent("aGk=", "image/png")


def body(messages: list[Message] | None = None, model: Model = MODEL, **options: Any) -> dict[str, Any]:
    made = build_request(model, messages or HI, StreamOptions(**options)).body
    assert made is not None
    return made


def with_tools(*tools: Tool) -> list[Message]:
    return [SystemMessage(tools_added=list(tools)), *HI]


def test_a_plain_request_says_nothing_more() -> None:
    request = build_request(MODEL, HI, StreamOptions())
    assert (request.method, request.url) == ("POST", "http://127.0.0.1:11434/api/chat")
    assert request.headers == {"accept": "application/x-ndjson", "content-type": "application/json"}
    assert request.body == {
        "model": "qwen3",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    }


@pytest.mark.parametrize("base", ["http://h", "http://h/", "http://h/api", "http://h/api/chat"])
def test_the_base_url_may_hold_the_root(base: str) -> None:
    assert build_request(evolve(MODEL, base_url=base), HI, StreamOptions()).url == "http://h/api/chat"


def test_sampling_goes_into_options() -> None:
    made = body(temperature=0.5, top_p=0.9, max_tokens=9, stop=["a"], seed=3)
    assert made["options"] == {"num_predict": 9, "temperature": 0.5, "top_p": 0.9, "stop": ["a"], "seed": 3}


def test_options_of_the_model_and_further_ones() -> None:
    """The window comes from the model's flags, other options of Ollama from its sampling or from the caller."""
    model = evolve(MODEL, compat={"numCtx": 32768}, sampling_params={"temperature": 0.1, "top_k": 5})
    made = body(model=model, temperature=0.7, extra_body={"keep_alive": "1h", "options": {"mirostat": 1}})
    assert made["options"] == {"num_ctx": 32768, "temperature": 0.7, "top_k": 5, "mirostat": 1}
    assert made["keep_alive"] == "1h"


@pytest.mark.parametrize("flag", [{"num_ctx": 0}, {"num_ctx": "8k"}, {"num_ctxs": 1}])
def test_wrong_flags_are_errors(flag: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="num_ctx"):
        body(model=evolve(MODEL, compat=flag))


def test_what_has_no_field_is_not_sent() -> None:
    options: dict[str, Any] = {"metadata": {"user": "u"}, "session_id": "s", "service_tier": "x"}
    assert body(**options) == body()


def test_a_round_with_a_tool() -> None:
    """Arguments are an object, and results name their tool; the model's own thinking goes back."""
    answer = AssistantMessage(
        [ThinkingContent("Hm."), TextContent("Look."), ToolCall("a", "find", {"q": "tea"})], **OWN
    )
    result = ToolResultMessage("a", "find", [TextContent("x"), TextContent("y")])
    assert body([*HI, answer, result])["messages"][1:] == [
        {
            "role": "assistant",
            "content": "Look.",
            "thinking": "Hm.",
            "tool_calls": [{"id": "a", "function": {"name": "find", "arguments": {"q": "tea"}}}],
        },
        {"role": "tool", "tool_call_id": "a", "tool_name": "find", "content": "x\ny"},
    ]


def test_answers_of_other_models_lose_their_thinking_and_empty_ones_are_left_out() -> None:
    other = AssistantMessage(
        [ThinkingContent("Hm."), TextContent("So.")], api="ollama", provider="p", model="m"
    )
    empty = AssistantMessage([ThinkingContent("Hm."), TextContent(" ")], **OWN)
    assert body([*HI, other, empty])["messages"][1:] == [{"role": "assistant", "content": "So."}]


def test_images_stand_beside_the_text() -> None:
    call = AssistantMessage([ToolCall("a", "find", {})], **OWN)
    result = ToolResultMessage("a", "find", [PNG], is_error=True)
    model = evolve(MODEL, compat={"tool_error_prefix": "[tool error] "})
    messages = body([UserMessage([TextContent("see"), PNG, PNG]), call, result], model)["messages"]
    assert messages[0] == {"role": "user", "content": "see", "images": ["aGk=", "aGk="]}
    assert messages[2]["content"] == "[tool error] (see attached image)"
    assert (messages[3]["role"], messages[3]["images"]) == ("user", ["aGk="])
    blind = body([UserMessage([PNG])], evolve(MODEL, input=("text",)))["messages"]
    assert blind == [{"role": "user", "content": "(image omitted: model does not support images)"}]


def test_later_system_messages_are_collapsed_unless_the_server_takes_them() -> None:
    messages: list[Message] = [SystemMessage("a"), *HI, SystemMessage("b")]
    assert body(messages)["messages"][0] == {"role": "system", "content": "a\n\nb"}
    model = evolve(MODEL, compat={"supportsMidConvoSystemMessages": True})
    assert [each["role"] for each in body(messages, model)["messages"]] == ["system", "user", "system"]


# --- tools -------------------------------------------------------------------------------------------------------------


def test_tools_are_sent_unless_none_may_be_called() -> None:
    function = {"name": "find", "description": "Find it", "parameters": FIND.parameters}
    assert body(with_tools(FIND), tool_choice="auto")["tools"] == [{"type": "function", "function": function}]
    assert "tools" not in body(with_tools(FIND), tool_choice="none")


@pytest.mark.parametrize("choice", ["required", {"name": "find"}, {"name": "other"}])
def test_a_call_cannot_be_required(choice: Any) -> None:
    with pytest.raises(ConfigError, match="tool"):
        body(with_tools(FIND), tool_choice=choice)


def test_strict_arguments_cannot_be_required() -> None:
    prefer = evolve(FIND, constrained_sampling={"type": "json_schema", "strict": "prefer"})
    assert body(with_tools(prefer)) == body(with_tools(FIND))
    with pytest.raises(ConfigError, match="find"):
        body(with_tools(evolve(FIND, constrained_sampling={"type": "json_schema", "strict": "require"})))


# --- thinking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "think"),
    [
        ("off", False),
        ("minimal", "low"),
        ("low", "low"),
        ("medium", "medium"),
        ("high", "high"),
        ("xhigh", "high"),
        ("max", "high"),
    ],
)
def test_levels_are_words_that_ollama_knows(level: Any, think: Any) -> None:
    assert body(model=THINKER, reasoning=level)["think"] == think


def test_levels_follow_the_map_of_the_model() -> None:
    model = evolve(THINKER, thinking_level_map={"off": None, "minimal": None, "max": "max"})
    assert body(model=model, reasoning="off")["think"] == "low"
    assert body(model=model, reasoning="max")["think"] == "max"


def test_servers_without_levels_get_true() -> None:
    model = evolve(THINKER, compat={"supports_think_levels": False})
    assert body(model=model, reasoning="high")["think"] is True
    assert body(model=model, reasoning="off")["think"] is False


def test_thinking_is_not_mentioned_unasked() -> None:
    assert "think" not in body(model=THINKER)
    assert "think" not in body(reasoning="high")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "json_object"}, "json"),
        ({"type": "json_schema", "schema": {"type": "object"}}, {"type": "object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array"}}},
            {"type": "array"},
        ),
        ({"type": "text"}, None),
    ],
)
def test_formats(wanted: dict[str, Any], expected: Any) -> None:
    assert body(response_format=wanted).get("format") == expected


def test_odd_text_is_cleaned() -> None:
    call = AssistantMessage([ToolCall("a", "find", {"q": "a\ud800b"})], **OWN)
    assert body([*HI, call])["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"q": "a\ufffdb"}


def test_the_provider_is_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "gpu:1234")
    request = build_from_name("ollama/qwen3:4b", "hi")
    assert request.url == "http://gpu:1234/api/chat" and "authorization" not in request.headers
    monkeypatch.setenv("OLLAMA_API_KEY", "secret")
    assert build_from_name("ollama/qwen3:4b", "hi").headers["authorization"] == "Bearer secret"
