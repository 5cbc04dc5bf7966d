"""Answers of Ollama, usual and odd ones. Every case runs whole and cut, and through the check of all guarantees."""

from __future__ import annotations

import json
from typing import Any

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

MODEL = Model(id="qwen3", api="ollama", provider="ollama")


def body(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def line(content: Any = "", done: bool = False, **message: Any) -> dict[str, Any]:
    """A line with a message."""
    return {
        "model": "qwen3",
        "created_at": "2026-01-02T03:04:05.6Z",
        "message": {"role": "assistant", "content": content, **message},
        "done": done,
    }


def last(reason: str | None = "stop", content: str = "", **rest: Any) -> dict[str, Any]:
    """The line that ends an answer; what is no part of the message stands beside it."""
    message = {name: rest.pop(name) for name in ("tool_calls", "thinking", "images") if name in rest}
    given = {} if reason is None else {"done_reason": reason}
    return {**line(content, True, **message), **given, "prompt_eval_count": 9, "eval_count": 4, **rest}


def call(name: Any, arguments: Any = None, id: Any = None, **function: Any) -> dict[str, Any]:
    made = {"function": {"name": name, "arguments": {} if arguments is None else arguments, **function}}
    return made if id is None else {"id": id, **made}


# --- text and thinking ------------------------------------------------------------------------------------------------


def test_text_in_pieces_is_one_block() -> None:
    whole = body(line("Hel"), line("lo"), last())
    events = checked(whole, MODEL)
    assert types(events) == [
        *("start", "text_start", "text_delta", "text_delta", "metadata", "metadata", "text_end", "done")
    ]
    message = check_events(events)
    assert message.content == [TextContent("Hello")]
    assert (message.stop_reason, message.raw_stop_reason, message.response_model) == ("stop", "stop", None)
    assert (message.usage.input, message.usage.output, message.usage.total_tokens) == (9, 4, 13)
    check_every_prefix(whole, len(whole) - 1, MODEL, begin=2)


def test_thinking_then_text() -> None:
    """Also in one line, also under the names of servers that imitate Ollama."""
    expected = [ThinkingContent("Hmm."), TextContent("So.")]
    for field in ("thinking", "reasoning_content", "reasoning"):
        pieces = [line(**{field: "Hm"}), line(**{field: "m."})]
        assert message_of(body(*pieces, line("So."), last()), MODEL).content == expected
    together = body(line(thinking="Hm"), line("So", thinking="m."), last(content="."))
    assert message_of(together, MODEL).content == expected


def test_equal_pieces_are_all_kept() -> None:
    assert message_of(body(line("ha"), line("ha"), last()), MODEL).text == "haha"
    assert message_of(body(line(thinking="\n"), line(thinking="\n"), last()), MODEL).thinking == "\n\n"


def test_lines_may_end_with_crlf_and_the_last_one_not_at_all() -> None:
    whole = body(line("Hi"), last()).replace(b"\n", b"\r\n")
    assert message_of(whole, MODEL) == message_of(whole.rstrip(), MODEL)
    assert message_of(whole, MODEL).text == "Hi"


def test_images_are_kept() -> None:
    message = message_of(body(line("See"), last(images=["aGk="])), MODEL)
    assert kept(message) == [(1, {"images": ["aGk="]})]


def test_another_model_is_named() -> None:
    assert message_of(body({**line("x"), "model": "qwen3:4b"}, last()), MODEL).response_model == "qwen3:4b"


# --- tool calls ----------------------------------------------------------------------------------------------------------


def test_calls_in_the_last_line() -> None:
    """They have no ids there; those that are made up are the same each time."""
    whole = body(line("Look."), last(tool_calls=[call("f", {"a": 1}), call("f", {"a": 2})]))
    message = message_of(whole, MODEL)
    assert made_calls(message) == [
        ("call_20260102T0304056Z_0", "f", {"a": 1}),
        ("call_20260102T0304056Z_1", "f", {"a": 2}),
    ]
    assert (message.stop_reason, message.raw_stop_reason) == ("toolUse", "stop")


def test_calls_are_whole_and_end_at_once() -> None:
    whole = body(line(tool_calls=[call("f", {"a": 1}, "x", index=0)]), line("Then."), last())
    events = [event for event in types(checked(whole, MODEL)) if event.startswith(("tool", "text"))]
    assert events == [
        *("toolcall_start", "toolcall_delta", "toolcall_end", "text_start", "text_delta", "text_end")
    ]


def test_equal_indexes_are_different_calls() -> None:
    whole = body(
        line(tool_calls=[call("f", {"a": 1}, "x", index=0)]),
        line(tool_calls=[call("f", {"a": 1}, "y", index=0)]),
        last(),
    )
    assert made_calls(message_of(whole, MODEL)) == [("x", "f", {"a": 1}), ("y", "f", {"a": 1})]


def test_a_call_sent_again_with_the_last_line_is_one_call() -> None:
    whole = body(
        line(tool_calls=[call("f", {"a": 1}, "x")]),
        last(tool_calls=[call("f", {"a": 1}, "x"), call("g", {}, "x")]),
    )
    (first, second) = made_calls(message_of(whole, MODEL))
    assert first == ("x", "f", {"a": 1})
    assert second[0] != "x" and second[1:] == ("g", {})


def test_arguments_of_every_shape() -> None:
    for arguments, expected in (
        ({"a": {"b": [1, "ü"]}}, {"a": {"b": [1, "ü"]}}),
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ([], {}),
    ):
        whole = body(line(tool_calls=[{"function": {"name": "f", "arguments": arguments}}]), last())
        assert made_calls(message_of(whole, MODEL))[0][2] == expected


def test_unusable_calls_say_why() -> None:
    whole = body(line(tool_calls=[call(None, {"a": 1}), call("f", "{oops"), "odd"]), last())
    message = message_of(whole, MODEL)
    assert all(made.arguments_error is not None for made in message.tool_calls)
    assert (len(message.tool_calls), message.stop_reason) == (3, "stop")


# --- how it ends -------------------------------------------------------------------------------------------------------


def test_stop_words() -> None:
    for reason, expected in {"stop": "stop", "length": "length", "load": "stop", None: "stop"}.items():
        message = message_of(body(line("x"), last(reason)), MODEL)
        assert (message.stop_reason, message.raw_stop_reason, diagnostics(message)) == (expected, reason, [])


def test_an_unknown_reason_is_a_stop_unless_it_is_to_be_an_error() -> None:
    whole = body(line("x"), last("tired"))
    message = message_of(whole, MODEL)
    assert (message.stop_reason, diagnostics(message)) == ("stop", ["unknown_stop_reason"])
    assert failure(message_of(whole, MODEL, unknown_stop="error")) == ("provider_error", "tired", False)


def test_a_model_that_was_only_loaded() -> None:
    message = message_of(body({"model": "qwen3", "done": True, "done_reason": "load"}), MODEL)
    assert (message.stop_reason, message.content, message.usage.total_tokens) == ("stop", [], 0)


def test_nothing_after_the_last_line_counts() -> None:
    assert message_of(body(line("x"), last(), line("late")) + b"{nonsense\n", MODEL).text == "x"


def test_an_error_line_ends_the_answer() -> None:
    for error in ("model runner has stopped", {"message": "model runner has stopped", "code": "x"}):
        events = checked(body(line("One mo"), {"error": error}, line("late")), MODEL)
        message = check_events(events)
        assert (message.error_message, message.text) == ("model runner has stopped", "One mo")
        assert message.error_cause is not None and message.error_cause.kind == "provider_error"


def test_an_error_alone_is_a_lone_error() -> None:
    for ending in (b"", b"\n"):
        events = checked(b'{"error":"model not found"}' + ending, MODEL)
        assert types(events) == ["error"]
        assert check_events(events).error_message == "model not found"


def test_a_context_that_is_too_long_is_an_overflow() -> None:
    message = message_of(
        b'{"error":"prompt too long; exceeded max context length by 9 tokens"}\n', MODEL, status=400
    )
    assert failure(message)[0] == "overflow"


# --- other bodies --------------------------------------------------------------------------------------------------------


def test_a_whole_answer_is_what_its_stream_would_be() -> None:
    """On one line, as Ollama sends it, or spread over many, as others do."""
    answer = last(content="So.", thinking="Hm.", tool_calls=[call("f", {"a": 1}, "x")])
    compact = checked(json.dumps(answer).encode(), MODEL)
    assert types(checked(json.dumps(answer, indent=1).encode(), MODEL)) == types(compact)
    message = check_events(compact)
    assert message.content[:2] == [ThinkingContent("Hm."), TextContent("So.")]
    assert made_calls(message) == [("x", "f", {"a": 1})]
    assert message == message_of(json.dumps(answer, indent=1).replace("\n", "\r\n").encode(), MODEL)


def test_a_web_page_is_no_answer() -> None:
    assert failure(message_of(b"<html><title>Bad gateway</title></html>", MODEL))[0] == "malformed"


def test_a_broken_line_ends_the_answer_unless_it_may_be_skipped() -> None:
    whole = body(line("a")) + b'{"message": {"con\n' + body(line("b"), last())
    strict = message_of(whole, MODEL)
    assert (failure(strict)[0], strict.text) == ("malformed", "a")
    lenient = message_of(whole, MODEL, malformed="lenient")
    assert (lenient.text, diagnostics(lenient)) == ("ab", ["malformed_chunk"])
