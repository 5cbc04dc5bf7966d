"""Answers of Cohere, usual and odd ones. Every case runs whole and cut, and through the check of all guarantees."""

from __future__ import annotations

import json
from typing import Any

from answer_checks import (
    check_every_prefix,
    checked,
    diagnostics,
    events_of,
    failure,
    kept,
    made_calls,
    message_of,
    types,
)

from pi_stream.messages import TextContent, ThinkingContent
from pi_stream.models import Model
from pi_stream.testing import check_events
from pi_stream.usage import ModelCost

MODEL = Model(id="command-x", api="cohere-chat", provider="cohere")
START = {"id": "r-1", "type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}}


def body(*chunks: Any, start: bool = True, done: bool = False) -> bytes:
    """Chunks as a body, begun and perhaps followed by the sentinel that some servers send."""
    chunks = (START, *chunks) if start else chunks
    framed = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return framed + (b"data: [DONE]\n\n" if done else b"")


def said(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    """A chunk with a part of the message."""
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, "delta": {"message": message}}


def text(words: str, index: int = 0) -> dict[str, Any]:
    return said("content-delta", index, content={"text": words})


def thinking(words: str, index: int = 0) -> dict[str, Any]:
    return said("content-delta", index, content={"thinking": words})


def plan(words: str) -> dict[str, Any]:
    return said("tool-plan-delta", tool_plan=words)


def call(index: int | None, id: Any, name: Any, arguments: Any = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return said("tool-call-start", index, tool_calls={"id": id, "type": "function", "function": function})


def more(index: int | None, arguments: Any) -> dict[str, Any]:
    return said("tool-call-delta", index, tool_calls={"function": {"arguments": arguments}})


def over(index: int | None) -> dict[str, Any]:
    return {"type": "tool-call-end", "index": index}


def end(reason: Any = "COMPLETE", **delta: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": reason, **delta}}


# --- text and thinking ------------------------------------------------------------------------------------------------


def test_text_in_pieces_is_one_block() -> None:
    whole = body(
        said("content-start", 0, content={"type": "text", "text": ""}), text("Hel"), text("lo"), end()
    )
    events = checked(whole, MODEL)
    assert types(events) == [
        *("start", "metadata", "text_start", "text_delta", "text_delta", "metadata", "text_end", "done")
    ]
    message = check_events(events)
    assert message.content == [TextContent("Hello")]
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "COMPLETE")
    assert message.response_id == "r-1"
    check_every_prefix(whole, whole.index(b'{"type": "message-end"') + len(json.dumps(end())), MODEL)


def test_blocks_of_the_content_are_blocks_of_the_message() -> None:
    """Thinking and text are told apart, and two texts stay two, with or without their starts and ends."""
    full = body(
        said("content-start", 0, content={"type": "thinking", "thinking": "Hm"}),
        thinking("m.", 0),
        {"type": "content-end", "index": 0},
        said("content-start", 1, content={"type": "text", "text": "A"}),
        {"type": "content-end", "index": 1},
        said("content-start", 2, content={"type": "text", "text": ""}),
        text("B", 2),
        end(),
    )
    bare = body(thinking("Hm"), thinking("m."), text("A", 1), text("B", 2), end())
    expected = [ThinkingContent("Hmm."), TextContent("A"), TextContent("B")]
    assert message_of(full, MODEL).content == message_of(bare, MODEL).content == expected


def test_a_block_without_text_is_none() -> None:
    whole = body(
        said("content-start", 0, content={"type": "text", "text": ""}),
        {"type": "content-end", "index": 0},
        end(),
    )
    assert types(checked(whole, MODEL))[-1] == "done"
    assert message_of(whole, MODEL).content == []


def test_equal_pieces_are_all_kept() -> None:
    assert message_of(body(text("ha"), text("ha"), end()), MODEL).text == "haha"


def test_content_of_an_unknown_kind_is_kept() -> None:
    image = {"type": "image", "image": "aGk="}
    message = message_of(body(text("See"), said("content-start", 1, content=image), end()), MODEL)
    assert kept(message) == [(1, {"content": [image]})]


def test_citations_are_kept_where_they_stand() -> None:
    citation = {"start": 0, "end": 3, "text": "one", "sources": [{"type": "document", "id": "d"}]}
    whole = body(
        text("one"),
        said("citation-start", 0, citations=citation),
        {"type": "citation-end", "index": 0},
        text(" two"),
        end(),
    )
    message = message_of(whole, MODEL)
    assert message.content == [TextContent("one two")]
    assert kept(message) == [(1, {"citations": [citation]})]


def test_a_new_kind_of_event_is_kept() -> None:
    event = {"type": "search-result", "delta": {"hits": 2}}
    message = message_of(body(text("x"), event, {"type": "debug", "prompt": "..."}, end()), MODEL)
    assert kept(message) == [(1, event)]


# --- plans and calls ---------------------------------------------------------------------------------------------------


def test_a_plan_is_thinking_and_calls_end_one_by_one() -> None:
    whole = body(
        plan("I will "),
        plan("look."),
        call(0, "a", "find"),
        more(0, '{"q":'),
        more(0, '"tea"}'),
        over(0),
        call(1, "b", "now"),
        over(1),
        end("TOOL_CALL"),
    )
    events = checked(whole, MODEL)
    order = [event for event in types(events) if event.startswith(("thinking", "toolcall"))]
    assert order == [
        *("thinking_start", "thinking_delta", "thinking_delta", "thinking_end"),
        *("toolcall_start", "toolcall_delta", "toolcall_delta", "toolcall_end"),
        *("toolcall_start", "toolcall_end"),
    ]
    message = check_events(events)
    assert message.content[0] == ThinkingContent("I will look.", thinking_signature="tool_plan")
    assert made_calls(message) == [("a", "find", {"q": "tea"}), ("b", "now", {})]
    assert message.stop_reason == "toolUse"


def test_thinking_of_the_content_and_a_plan_are_two_blocks() -> None:
    message = message_of(body(thinking("Hm."), plan("I will."), thinking("So.", 1), end()), MODEL)
    assert message.content == [
        ThinkingContent("Hm."),
        ThinkingContent("I will.", thinking_signature="tool_plan"),
        ThinkingContent("So."),
    ]


def test_calls_may_interleave() -> None:
    whole = body(
        call(0, "a", "f"),
        call(1, "b", "g"),
        more(0, '{"x":1'),
        more(1, "{}"),
        more(0, "}"),
        over(1),
        over(0),
        end(),
    )
    assert made_calls(message_of(whole, MODEL)) == [("a", "f", {"x": 1}), ("b", "g", {})]


def test_calls_without_an_index_go_on_with_the_last() -> None:
    whole = body(
        call(None, "a", "f", '{"x":'),
        more(None, "1}"),
        over(None),
        call(None, "b", "g"),
        more(None, "{}"),
        end(),
    )
    assert made_calls(message_of(whole, MODEL)) == [("a", "f", {"x": 1}), ("b", "g", {})]


def test_a_call_announced_twice_is_one_call() -> None:
    whole = body(call(0, "a", "f"), call(0, "a", "f", '{"x":'), more(0, "1}"), over(0), end("TOOL_CALL"))
    assert made_calls(message_of(whole, MODEL)) == [("a", "f", {"x": 1})]


def test_parallel_calls_under_one_index_are_two_calls() -> None:
    whole = body(call(0, "a", "f", "{}"), call(0, "b", "f", '{"x":1}'), end("TOOL_CALL"))
    assert made_calls(message_of(whole, MODEL)) == [("a", "f", {}), ("b", "f", {"x": 1})]


def test_missing_and_repeated_ids_are_made_up_the_same_each_time() -> None:
    whole = body(call(0, None, "f"), over(0), call(1, "x", "g"), over(1), call(2, "x", "h"), over(2), end())
    assert made_calls(message_of(whole, MODEL)) == [
        ("call_r1_0", "f", {}),
        ("x", "g", {}),
        ("call_r1_2", "h", {}),
    ]


def test_arguments_as_an_object_are_taken() -> None:
    assert made_calls(message_of(body(call(0, "a", "f", {"x": 1}), end()), MODEL)) == [("a", "f", {"x": 1})]


def test_a_call_without_a_name_is_unusable_but_not_lost() -> None:
    message = message_of(body(more(0, '{"x":1}'), over(0), end("TOOL_CALL")), MODEL)
    ((_, name, error),) = made_calls(message)
    assert name == "" and error.startswith("the provider sent a tool call without a name")
    assert '{"x":1}' in error


def test_complete_with_calls_is_a_tool_use() -> None:
    assert message_of(body(call(0, "a", "f", "{}"), over(0), end("COMPLETE")), MODEL).stop_reason == "toolUse"


def test_calls_cut_by_the_limit_are_no_valid_calls() -> None:
    half = message_of(body(call(0, "a", "f", '{"x":'), end("MAX_TOKENS")), MODEL)
    none = message_of(body(call(0, "a", "f"), end("MAX_TOKENS")), MODEL)
    assert half.stop_reason == none.stop_reason == "length"
    assert half.tool_calls[0].arguments_error is not None
    assert none.tool_calls[0].arguments_error is not None


def test_a_tool_call_reason_without_a_call() -> None:
    spoken = message_of(body(text("Hi"), end("TOOL_CALL")), MODEL)
    assert (spoken.stop_reason, diagnostics(spoken)) == ("stop", ["tool_use_without_call"])
    assert failure(message_of(body(end("TOOL_CALL")), MODEL)) == ("provider_error", "TOOL_CALL", True)


# --- how it ends -------------------------------------------------------------------------------------------------------


def test_stop_words() -> None:
    for reason, expected in {
        "COMPLETE": "stop",
        "STOP_SEQUENCE": "stop",
        "MAX_TOKENS": "length",
        "complete": "stop",
    }.items():
        message = message_of(body(text("x"), end(reason)), MODEL)
        assert (message.stop_reason, message.raw_stop_reason) == (expected, reason)


def test_bad_ends_are_errors_with_a_kind() -> None:
    for reason, kind, retryable in (
        ("ERROR", "provider_error", True),
        ("TIMEOUT", "provider_error", True),
        ("ERROR_TOXIC", "filtered", False),
        ("ERROR_LIMIT", "overflow", False),
    ):
        message = message_of(body(text("x"), end(reason)), MODEL)
        assert failure(message) == (kind, reason, retryable)
        assert (message.text, message.raw_stop_reason) == ("x", reason)


def test_the_words_of_an_error_tell_more_than_its_reason() -> None:
    message = message_of(body(end("ERROR", error="too many tokens: size limit exceeded")), MODEL)
    assert message.error_message == "too many tokens: size limit exceeded"
    assert failure(message)[0] == "overflow"
    toxic = message_of(body(end("ERROR_TOXIC", error="blocked", error_type="TOXIC")), MODEL)
    assert failure(toxic) == ("filtered", "TOXIC", False)


def test_an_unknown_reason_is_a_stop_unless_it_is_to_be_an_error() -> None:
    whole = body(text("x"), end("NEW_REASON"))
    message = message_of(whole, MODEL)
    assert (message.stop_reason, diagnostics(message)) == ("stop", ["unknown_stop_reason"])
    assert failure(message_of(whole, MODEL, unknown_stop="error")) == ("provider_error", "NEW_REASON", False)


def test_the_end_without_a_reason() -> None:
    message = message_of(body(text("x"), end(None)), MODEL)
    assert (message.stop_reason, diagnostics(message)) == ("stop", ["stop_reason_inferred"])


def test_the_sentinel_without_an_end_is_a_truncated_answer() -> None:
    message = message_of(body(text("x"), done=True), MODEL)
    assert failure(message)[0] == "truncated" and message.text == "x"


def test_an_error_in_the_stream_ends_it() -> None:
    for error in (
        {"message": "internal server error", "id": "e"},
        {"error": {"message": "internal server error"}},
        {"type": "error", "message": "internal server error"},
    ):
        events = checked(body(plan("Hm"), error, text("late")), MODEL)
        message = check_events(events)
        assert message.error_message == "internal server error"
        assert message.content == [ThinkingContent("Hm", thinking_signature="tool_plan")]


# --- usage -------------------------------------------------------------------------------------------------------------

USAGE = {
    "billed_units": {"input_tokens": 10, "output_tokens": 20},
    "tokens": {"input_tokens": 100, "output_tokens": 30, "reasoning_tokens": 5},
    "cached_tokens": 60,
}


def test_tokens_are_counted_and_billed_units_are_paid() -> None:
    rates = ModelCost(input=1_000_000, output=2_000_000, cache_read=500_000)
    usage = message_of(body(end(usage=USAGE)), Model(id="m", api="cohere-chat", cost=rates)).usage
    assert (usage.input, usage.output, usage.cache_read, usage.reasoning, usage.total_tokens) == (
        40,
        30,
        60,
        5,
        130,
    )
    assert (usage.cost.input, usage.cost.output, usage.cost.cache_read, usage.cost.total) == (10, 40, 0, 50)


def test_billed_units_alone_are_counted() -> None:
    usage = message_of(body(end(usage={"billed_units": USAGE["billed_units"]})), MODEL).usage
    assert (usage.input, usage.output, usage.reasoning) == (10, 20, None)


def test_more_cached_than_sent_stays_disjoint() -> None:
    usage = message_of(body(end(usage={"tokens": {"input_tokens": 5}, "cached_tokens": 9})), MODEL).usage
    assert (usage.input, usage.cache_read, usage.total_tokens) == (0, 5, 5)


# --- whole answers and version 1 -----------------------------------------------------------------------------------------


def test_a_whole_answer_is_what_its_stream_would_be() -> None:
    answer = {
        "id": "r-1",
        "finish_reason": "TOOL_CALL",
        "message": {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "One."}],
            "tool_plan": "I will look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
            ],
            "citations": [{"start": 0, "end": 3, "text": "One"}],
        },
        "usage": USAGE,
    }
    message = message_of(json.dumps(answer, indent=2).encode(), MODEL)
    assert message == message_of(json.dumps(answer).encode() + b"\r\n\n", MODEL)
    assert message.content[:3] == [
        ThinkingContent("Hm."),
        TextContent("One."),
        ThinkingContent("I will look.", thinking_signature="tool_plan"),
    ]
    assert made_calls(message) == [("a", "f", {"x": 1})]
    assert kept(message) == [(4, {"citations": [{"start": 0, "end": 3, "text": "One"}]})]
    assert (message.stop_reason, message.response_id, message.usage.output) == ("toolUse", "r-1", 30)


def test_a_whole_error_with_status_200_is_an_error() -> None:
    message = message_of(b'{"id": "e", "message": "invalid api token"}', MODEL)
    assert message.error_message == "invalid api token"


def test_a_whole_answer_without_its_end_is_no_success() -> None:
    message = message_of(b'{"id": "r", "message": {"content": [{"type": "text", "text": "x"}]}}', MODEL)
    assert (message.stop_reason, message.text) == ("error", "x")


LINES = [
    {"event_type": "stream-start", "generation_id": "g-1"},
    {"event_type": "tool-calls-chunk", "text": "I will "},
    {"event_type": "tool-calls-chunk", "text": "add."},
    {"event_type": "tool-calls-generation", "tool_calls": [{"name": "add", "parameters": {"x": 1}}]},
    {"event_type": "text-generation", "text": "Two"},
    {"event_type": "citation-generation", "citations": [{"start": 0, "end": 3, "text": "Two"}]},
    {
        "event_type": "stream-end",
        "finish_reason": "COMPLETE",
        "response": {"meta": {"tokens": {"input_tokens": 7, "output_tokens": 2}}},
    },
]


def test_lines_of_version_1_say_the_same() -> None:
    """Lines of JSON where events were asked for are told by the body itself, before it ends."""
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in LINES)
    message = message_of(lines, MODEL)
    assert message.content[0] == ThinkingContent("I will add.", thinking_signature="tool_plan")
    assert made_calls(message) == [("call_g1_0", "add", {"x": 1})]
    assert (message.text, message.stop_reason, message.usage.input) == ("Two", "toolUse", 7)
    assert kept(message) == [(3, {"citations": [{"start": 0, "end": 3, "text": "Two"}]})]
    early = events_of(lines[: lines.index(b"stream-end")], MODEL)
    assert "text_delta" in types(early)
    check_every_prefix(lines, lines.rindex(b"}") + 1, MODEL, begin=lines.index(b"\n") + 2)


def test_a_whole_answer_of_version_1() -> None:
    answer = {
        "generation_id": "g-1",
        "text": "I will add.",
        "tool_calls": [{"name": "add", "parameters": {"x": 1}}],
        "finish_reason": "COMPLETE",
        "meta": {"billed_units": {"input_tokens": 7, "output_tokens": 2}},
    }
    message = message_of(json.dumps(answer).encode(), MODEL)
    assert message.content[0] == ThinkingContent("I will add.", thinking_signature="tool_plan")
    assert (message.stop_reason, message.usage.output) == ("toolUse", 2)
    plain = {"text": "Hi", "finish_reason": "COMPLETE"}
    assert message_of(json.dumps(plain).encode(), MODEL).text == "Hi"
