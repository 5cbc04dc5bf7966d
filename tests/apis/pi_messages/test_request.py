"""Requests to a proxy: the transcript as it is stored, the options it has, nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from pi_stream.apis.pi_messages import api
from pi_stream.exceptions import ConfigError
from pi_stream.messages import AssistantMessage, Context, TextContent, Tool, ToolCall, UserMessage
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.serialization import from_json, to_json

MODEL = Model(id="m1", api=api.id, provider="proxy", base_url="https://proxy.example/api")


def build(context: Context, model: Model = MODEL, **options: Any) -> Any:
    return api.build_request(model, context.transcript(), StreamOptions(**options))


def test_a_request_is_the_transcript_and_the_options() -> None:
    tool = Tool("look", "Looks.", {"type": "object"})
    answer = AssistantMessage([ToolCall("c", "look", {"q": 1}), TextContent("x")], timestamp=2)
    context = Context([UserMessage("hi", timestamp=1), answer], system_prompt="sys", tools=[tool])
    request = build(context, api_key="k", max_tokens=100, reasoning="high", session_id="S")
    assert (request.method, request.url) == ("POST", "https://proxy.example/api/messages")
    assert request.headers == {
        "accept": "text/event-stream",
        "content-type": "application/json",
        "authorization": "Bearer k",
    }
    assert request.body["model"] == "m1"
    assert request.body["options"] == {"maxTokens": 100, "reasoning": "high", "sessionId": "S"}
    sent = request.body["context"]["messages"]
    assert sent == [to_json(message) for message in context.transcript()]
    assert [message["role"] for message in sent] == ["system", "user", "assistant"]
    assert from_json(sent[2], AssistantMessage) == answer


def test_only_what_was_asked_for_is_an_option() -> None:
    assert build(Context([UserMessage("hi")])).body["options"] == {}
    assert build(Context([]), reasoning="off", temperature=0, tool_choice="none").body["options"] == {
        "temperature": 0,
        "toolChoice": "none",
    }


def test_extra_body_comes_last() -> None:
    made = build(Context([]), max_tokens=3, extra_body={"options": {"topP": 0.5}, "trace": True}).body
    assert (made["options"], made["trace"]) == ({"maxTokens": 3, "topP": 0.5}, True)


def test_debug_is_a_flag() -> None:
    asked = Model(id="m", api=api.id, base_url="https://p.example?x=1", compat={"debug": True})
    assert build(Context([]), asked).url == "https://p.example/messages?x=1&debug=1"
    with pytest.raises(ConfigError, match="unknown compat flag 'debugs'"):
        build(Context([]), Model(id="m", base_url="https://p.example", compat={"debugs": True}))


def test_lone_surrogates_cannot_break_the_body() -> None:
    made = build(Context([UserMessage("a\ud800")])).body
    assert made["context"]["messages"][0]["content"] == "a\ufffd"
