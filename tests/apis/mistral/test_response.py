"""What is Mistral's own in its answers; the rest is Chat Completions. Every case runs whole and cut, checked throughout."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from answer_checks import (
    check_every_prefix,
    checked,
    diagnostics,
    failure,
    kept,
    made_calls,
    message_of,
    types,
)

from pi_stream.messages import TextContent, ThinkingContent
from pi_stream.models import Model
from pi_stream.testing import check_events

MODEL = Model(id="m", api="mistral-conversations", provider="mistral")
DONE = b"data: [DONE]\n\n"


def body(*chunks: dict[str, Any], done: bool = True) -> bytes:
    framed = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return framed + (DONE if done else b"")


def chunk(content: Any = None, finish: str | None = None, usage: Any = None, **delta: Any) -> dict[str, Any]:
    """A chunk with one choice; ``content`` may be a list of parts."""
    given = delta if content is None else {"content": content, **delta}
    choice = {"index": 0, "delta": given, "finish_reason": finish}
    return {"id": "r-1", "model": "m", "choices": [choice], **({} if usage is None else {"usage": usage})}


def thinks(*texts: str, **part: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts], **part}


def call(arguments: Any, name: str | None = "f", **keys: Any) -> dict[str, Any]:
    return {**keys, "function": {"name": name, "arguments": arguments}}


def test_content_as_a_list_holds_thinking_and_text() -> None:
    whole = body(
        chunk("", role="assistant"),
        chunk([thinks("Hm")]),
        chunk([thinks("m", "."), {"type": "text", "text": "So"}]),
        chunk("."),
        chunk("", "stop"),
    )
    events = checked(whole, MODEL)
    assert [event for event in types(events) if event.startswith(("text", "thinking"))] == [
        *("thinking_start", "thinking_delta", "thinking_delta", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_delta", "text_end"),
    ]
    assert check_events(events).content == [ThinkingContent("Hmm."), TextContent("So.")]
    complete = whole.index(b'"finish_reason": "stop"')
    check_every_prefix(whole, whole.index(b"\n", complete), MODEL)


def test_thinking_after_text_is_a_block_of_its_own() -> None:
    message = message_of(
        body(chunk([thinks("a")]), chunk("b"), chunk([thinks("c")]), chunk("", "stop")), MODEL
    )
    assert message.content == [ThinkingContent("a"), TextContent("b"), ThinkingContent("c")]


def test_signed_thinking_keeps_its_signature() -> None:
    """It may come with the text, or in a part of its own."""
    signed = [ThinkingContent("Hm.", thinking_signature="sig"), TextContent("So.")]
    whole = body(chunk([thinks("Hm.", signature="sig", closed=True)]), chunk("So.", "stop"))
    assert message_of(whole, MODEL).content == signed
    whole = body(chunk([thinks("Hm.")]), chunk([thinks(signature="sig")]), chunk("So.", "stop"))
    assert message_of(whole, MODEL).content == signed
    whole = body(chunk([thinks(signature="sig")]), chunk("So.", "stop"))
    assert message_of(whole, MODEL).content == [
        ThinkingContent("", thinking_signature="sig"),
        TextContent("So."),
    ]


def test_references_are_kept_where_they_stand() -> None:
    reference = {"type": "reference", "reference_ids": [1, 2]}
    inner = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}, reference]}
    message = message_of(body(chunk([inner]), chunk(["So", reference, "."]), chunk("", "stop")), MODEL)
    assert message.content == [ThinkingContent("Hm."), TextContent("So.")]
    assert kept(message) == [(1, reference), (2, reference)]


def test_calls_without_an_id_get_one_of_nine_characters() -> None:
    calls = [call("{}", id="null"), call('{"a":1}', "g"), call("{}", "h", id="abcdefghi")]
    message = message_of(body(chunk(tool_calls=calls, finish="tool_calls")), MODEL)
    ids = [made[0] for made in made_calls(message)]
    assert ids[2] == "abcdefghi" and len(set(ids)) == 3
    assert all(re.fullmatch("[A-Za-z0-9]{9}", id) for id in ids)
    assert [made[1:] for made in made_calls(message)] == [("f", {}), ("g", {"a": 1}), ("h", {})]


def test_parallel_calls_under_index_0_are_told_apart() -> None:
    """The default of an index that Mistral leaves out is 0."""
    calls = [call('{"a":1}', id="a12345678", index=0), call('{"a":2}', id="b12345678", index=0)]
    message = message_of(body(chunk(tool_calls=calls, finish="tool_calls")), MODEL)
    assert made_calls(message) == [("a12345678", "f", {"a": 1}), ("b12345678", "f", {"a": 2})]


def test_arguments_as_an_object_are_taken() -> None:
    message = message_of(body(chunk(tool_calls=[call({"a": 1}, id="a12345678")], finish="tool_calls")), MODEL)
    assert made_calls(message) == [("a12345678", "f", {"a": 1})]


@pytest.mark.parametrize(
    ("reason", "expected"), [("stop", "stop"), ("length", "length"), ("model_length", "length")]
)
def test_stop_words(reason: str, expected: str) -> None:
    message = message_of(body(chunk("x", reason)), MODEL)
    assert (message.stop_reason, message.raw_stop_reason) == (expected, reason)


def test_the_reason_error_is_an_error_worth_a_retry() -> None:
    message = message_of(body(chunk("x"), chunk("", "error")), MODEL)
    assert failure(message) == ("provider_error", "error", True)
    assert (message.text, message.raw_stop_reason) == ("x", "error")


def test_calls_turn_a_stop_into_a_tool_use() -> None:
    assert message_of(body(chunk(tool_calls=[call("{}")], finish="stop")), MODEL).stop_reason == "toolUse"


def test_an_error_in_the_stream_keeps_its_words() -> None:
    for error in (
        {"object": "error", "message": "Service overloaded", "type": "server_overloaded", "code": "3505"},
        {"error": {"message": "Service overloaded", "type": "server_overloaded", "code": "3505"}},
    ):
        message = message_of(body(chunk("x"), error, chunk("late")), MODEL)
        assert (message.error_message, message.text) == ("Service overloaded", "x")
        assert failure(message)[1] == "3505"


def test_the_sentinel_stands_for_a_reason_that_was_never_sent() -> None:
    message = message_of(body(chunk("x")), MODEL)
    assert (message.stop_reason, diagnostics(message)) == ("stop", ["stop_reason_inferred"])


# --- usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 4}}, (6, 4)),
        ({"prompt_token_details": {"cached_tokens": 4}}, (6, 4)),
        ({"num_cached_tokens": 4}, (6, 4)),
        ({"num_cached_tokens": 40}, (0, 10)),
        ({"prompt_tokens_details": None}, (10, 0)),
        ({}, (10, 0)),
    ],
)
def test_cached_tokens_stand_in_one_of_several_places(usage: dict[str, Any], expected: Any) -> None:
    counts = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, **usage}
    read = message_of(body(chunk("x", "stop", counts)), MODEL).usage
    assert (read.input, read.cache_read) == expected
    assert (read.output, read.total_tokens, read.provider_total_tokens) == (5, 15, 15)


def test_thinking_is_counted_only_where_it_is_told() -> None:
    counts: dict[str, Any] = {"prompt_tokens": 1, "completion_tokens": 5}
    assert message_of(body(chunk("x", "stop", counts)), MODEL).usage.reasoning is None
    counts["completion_tokens_details"] = {"reasoning_tokens": 3}
    assert message_of(body(chunk("x", "stop", counts)), MODEL).usage.reasoning == 3


def test_a_whole_answer_is_what_its_stream_would_be() -> None:
    message = {"role": "assistant", "content": [thinks("Hm."), {"type": "text", "text": "So."}]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": "r-1", "model": "m", "choices": [choice], "usage": {"prompt_tokens": 2}}
    made = message_of(json.dumps(answer).encode(), MODEL)
    assert made.content == [ThinkingContent("Hm."), TextContent("So.")]
    assert (made.stop_reason, made.usage.input) == ("stop", 2)
