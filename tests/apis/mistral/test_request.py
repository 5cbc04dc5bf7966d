"""What is Mistral's own in its requests; the rest is Chat Completions."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import build_request as build_from_name
from pi_stream.apis.mistral.ids import nine_character_ids
from pi_stream.apis.mistral.request import build_request
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
    id="m",
    api="mistral-conversations",
    provider="mistral",
    base_url="https://api.mistral.ai",
    input=("text", "image"),
)
THINKER = evolve(MODEL, reasoning=True)
OWN: dict[str, Any] = {"api": "mistral-conversations", "provider": "mistral", "model": "m"}
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
    assert (request.method, request.url) == ("POST", "https://api.mistral.ai/v1/chat/completions")
    assert request.headers == {"accept": "text/event-stream", "content-type": "application/json"}
    assert request.body == {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}


@pytest.mark.parametrize(
    "base", ["https://h", "https://h/", "https://h/v1/", "https://h/v1/chat/completions"]
)
def test_the_base_url_may_hold_the_version(base: str) -> None:
    assert (
        build_request(evolve(MODEL, base_url=base), HI, StreamOptions()).url
        == "https://h/v1/chat/completions"
    )


def test_options_have_mistral_s_names() -> None:
    made = body(
        temperature=0.5,
        top_p=0.9,
        max_tokens=9,
        stop=["a"],
        seed=3,
        metadata={"a": 1},
        extra_body={"random_seed": 4},
    )
    assert {name: value for name, value in made.items() if name not in ("model", "messages", "stream")} == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 9,
        "stop": ["a"],
        "random_seed": 4,
        "metadata": {"a": 1},
    }


def test_answers_of_this_model_keep_the_order_of_thinking_and_text() -> None:
    answer = AssistantMessage(
        [
            ThinkingContent("Hm.", thinking_signature="sig"),
            TextContent("So."),
            ThinkingContent(" "),
            ThinkingContent("hidden", thinking_signature="x", redacted=True),
            ToolCall("abcdefghi", "find", {"q": "tea"}),
        ],
        **OWN,
    )
    assert body([*HI, answer])["messages"][1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "signature": "sig"},
            {"type": "text", "text": "So."},
        ],
        "tool_calls": [
            {
                "id": "abcdefghi",
                "type": "function",
                "function": {"name": "find", "arguments": '{"q":"tea"}'},
            }
        ],
    }


def test_answers_of_other_models_lose_their_thinking_and_empty_ones_are_left_out() -> None:
    other = AssistantMessage([ThinkingContent("Hm."), TextContent("So.")], api="x", provider="p", model="m")
    silent = AssistantMessage([ThinkingContent("Hm.")], api="x", provider="p", model="m")
    assert body([*HI, other, silent])["messages"][1:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "So."}]}
    ]


def test_results_hold_text_images_and_errors() -> None:
    call = AssistantMessage([ToolCall("abcdefghi", "find", {})], **OWN)
    result = ToolResultMessage("abcdefghi", "find", [TextContent("no"), PNG], is_error=True)
    messages = body([*HI, call, result, UserMessage([PNG])])["messages"]
    image = {"type": "image_url", "image_url": "data:image/png;base64,aGk="}
    assert messages[2] == {
        "role": "tool",
        "tool_call_id": "abcdefghi",
        "name": "find",
        "content": [{"type": "text", "text": "[tool error] no"}, image],
    }
    assert messages[3] == {"role": "user", "content": [image]}
    unmarked = evolve(MODEL, compat={"toolErrorPrefix": ""})
    assert body([*HI, call, result], unmarked)["messages"][2]["content"][0]["text"] == "no"


# --- ids ---------------------------------------------------------------------------------------------------------------


def called(*ids: str) -> list[Message]:
    results = [ToolResultMessage(id, "f", [TextContent("x")]) for id in ids]
    return [AssistantMessage([ToolCall(id, "f", {}) for id in ids], **OWN), *results]


def test_call_and_result_get_the_same_new_id() -> None:
    messages = body([*HI, *called("call_1", "call:bad id!", "abcdefghi")])["messages"]
    calls = [call["id"] for call in messages[1]["tool_calls"]]
    assert calls == [message["tool_call_id"] for message in messages[2:]]
    assert calls[1:] == ["callbadid", "abcdefghi"]


@given(st.lists(st.one_of(st.text(max_size=12), st.from_regex(r"\A[a-c]{8,9}-?\Z")), max_size=8))
def test_ids_are_legal_different_and_stable(ids: list[str]) -> None:
    """A longer conversation finds the same ids for its beginning, unless a later call owns one of them."""
    made = nine_character_ids(called(*ids))
    assert set(made) == set(ids)
    assert len(set(made.values())) == len(made)
    assert all(len(id) == 9 and id.isascii() and id.isalnum() for id in made.values())
    assert nine_character_ids(called(*ids)) == made
    assert all(made[id] == id for id in ids if len(id) == 9 and id.isascii() and id.isalnum())


# --- thinking, caching, tools ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["minimal", "low", "high", "max"])
def test_models_without_a_map_get_a_prompt_mode(level: Any) -> None:
    assert body(model=THINKER, reasoning=level)["prompt_mode"] == "reasoning"


@pytest.mark.parametrize(
    ("level", "effort"),
    [("off", "none"), ("minimal", "low"), ("low", "low"), ("high", "HIGH"), ("max", "HIGH")],
)
def test_models_with_a_map_get_a_word_they_know(level: Any, effort: str) -> None:
    """A level without a word of its own is said as it is, and never turned into the highest."""
    model = evolve(THINKER, thinking_level_map={"off": "none", "minimal": None, "high": "HIGH"})
    made = body(model=model, reasoning=level)
    assert made["reasoning_effort"] == effort and "prompt_mode" not in made


def test_thinking_is_not_mentioned_unasked() -> None:
    mapped = evolve(THINKER, thinking_level_map={})
    for made in (
        body(model=THINKER),
        body(model=THINKER, reasoning="off"),
        body(model=mapped),
        body(model=mapped, reasoning="off"),
        body(reasoning="high"),
    ):
        assert "prompt_mode" not in made and "reasoning_effort" not in made


def test_a_session_is_cached_and_kept_together_unless_caching_is_off() -> None:
    session = "s" * 100
    request = build_request(MODEL, HI, StreamOptions(session_id=session))
    assert request.body is not None and request.body["prompt_cache_key"] == session
    assert request.headers["x-affinity"] == session
    own = build_request(MODEL, HI, StreamOptions(session_id=session, headers={"X-Affinity": "mine"}))
    assert own.headers["x-affinity"] == "mine"
    off = build_request(MODEL, HI, StreamOptions(session_id=session, cache_retention="none"))
    assert off.body == body() and "x-affinity" not in off.headers
    assert body(cache_retention="long") == body()


def test_strict_tools_where_the_model_is_known_to_take_them() -> None:
    strict = evolve(FIND, constrained_sampling={"type": "json_schema", "strict": "require"})
    model = evolve(MODEL, compat={"supportsStrictMode": True})
    function = body(with_tools(strict), model)["tools"][0]["function"]
    assert function["strict"] is True and function["parameters"]["additionalProperties"] is False
    with pytest.raises(ConfigError, match="find"):
        body(with_tools(strict))


def test_a_named_tool() -> None:
    made = body(with_tools(FIND), tool_choice={"name": "find"}, parallel_tool_calls=False)
    assert made["tool_choice"] == {"type": "function", "function": {"name": "find"}}
    assert made["parallel_tool_calls"] is False


def test_a_schema_is_nested_as_in_chat_completions() -> None:
    made = body(response_format={"type": "json_schema", "schema": {"type": "object"}})
    assert made["response_format"]["json_schema"] == {"name": "answer", "schema": {"type": "object"}}


def test_the_provider_is_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "secret")
    request = build_from_name("mistral/mistral-small-latest", "hi")
    assert request.url == "https://api.mistral.ai/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer secret"
