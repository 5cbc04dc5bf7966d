"""Chat Completions answers as servers really send them: what each odd stream becomes.

Every case runs whole and cut into reads of 1, 2, 3, 7 and 64 bytes, and through the check of all guarantees.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from chat_answers import (
    DONE,
    MODEL,
    answer,
    calls,
    check_every_prefix,
    checked,
    chunk,
    events_of,
    frame,
    message_of,
    piece,
    pipeline_of,
    says,
    stream,
)

from pi_stream.events import Error, Event, Metadata, ToolCallDelta
from pi_stream.messages import AssistantMessage, TextContent, ThinkingContent, Tool
from pi_stream.models import Model
from pi_stream.options import Limits
from pi_stream.reducer import fold
from pi_stream.testing import check_events

USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def diagnostics(message: AssistantMessage) -> list[str]:
    return [diagnostic.type for diagnostic in message.diagnostics or ()]


def failure(message: AssistantMessage) -> tuple[str, bool]:
    """Kind of the error, and whether it is worth a retry."""
    assert message.error_cause is not None
    return message.error_cause.kind, message.error_cause.retryable


def made(message: AssistantMessage) -> list[tuple[str, str, Any]]:
    """Each call: id, name and arguments, or the error where there are none."""
    return [(call.id, call.name, call.arguments_error or call.arguments) for call in message.tool_calls]


# --- text, and how it ends ----------------------------------------------------------------------------------------------


def test_text_in_pieces_is_one_block() -> None:
    body = stream(chunk({"role": "assistant", "content": ""}), says("Hel"), says("lo"), chunk(finish="stop"))
    events = checked(body)
    assert types(events) == [
        "start",
        "metadata",
        "text_start",
        "text_delta",
        "text_delta",
        "metadata",
        "text_end",
        "done",
    ]
    message = check_events(events)
    assert message.content == [TextContent("Hello")]
    assert (message.stop_reason, message.raw_stop_reason, message.response_id) == ("stop", "stop", "r1")
    check_every_prefix(body, body.index(b"[DONE]") - len("\n\ndata: "))


def test_equal_pieces_are_all_kept() -> None:
    """Two equal deltas are text that repeats itself, never a retransmission."""
    assert answer(says("\n"), says("\n"), says("ha"), says("ha"), chunk(finish="stop")).text == "\n\nhaha"


def test_last_text_and_reason_in_one_chunk() -> None:
    """Content first, then the end."""
    message = answer(says("The"), says(" end.", "length"))
    assert (message.text, message.stop_reason) == ("The end.", "length")


@pytest.mark.parametrize("empty", ["", None])
def test_empty_reason_is_none(empty: Any) -> None:
    message = answer(says("He", empty), says("llo", empty), chunk({"content": "!"}, "stop"))
    assert (message.text, message.raw_stop_reason) == ("Hello!", "stop")


def test_reason_before_the_content() -> None:
    """What follows a stop reason is content all the same, and the last reason wins."""
    message = answer(chunk(finish="stop"), says("late"), says("r", "length"), done=False)
    assert (message.text, message.stop_reason, message.raw_stop_reason) == ("later", "length", "length")


def test_done_without_a_reason_is_a_success_with_a_diagnostic() -> None:
    message = answer(says("fine"))
    assert (message.text, message.stop_reason, message.raw_stop_reason) == ("fine", "stop", None)
    assert diagnostics(message) == ["stop_reason_inferred"]
    body = stream(says("fine"))
    check_every_prefix(body, body.index(b"[DONE]") + len("[DONE]"))


def test_done_with_a_complete_call_means_tool_use() -> None:
    message = answer(calls(piece('{"a":1}', index=0, id="x", name="f")))
    assert (message.stop_reason, diagnostics(message)) == ("toolUse", ["stop_reason_inferred"])


def test_done_with_half_a_call_does_not() -> None:
    message = answer(calls(piece('{"a":', index=0, id="x", name="f")))
    assert message.stop_reason == "stop"
    assert message.tool_calls[0].arguments_error is not None


def test_done_alone_is_truncation() -> None:
    events = checked(DONE)
    assert types(events) == ["error"]
    assert failure(check_events(events)) == ("truncated", True)


def test_end_of_the_body_without_a_reason_is_truncation() -> None:
    message = answer(says("The first step is"), done=False)
    assert (message.text, message.stop_reason) == ("The first step is", "error")
    assert failure(message) == ("truncated", True)
    assert message.error_cause is not None
    assert message.error_cause.chunks == 1
    assert message.error_cause.bytes == len(stream(says("The first step is"), done=False))


def test_half_a_call_is_never_shown_as_complete() -> None:
    body = stream(calls(piece('{"path":"/tmp', index=0, id="x", name="rm")), done=False)
    (call,) = message_of(body).tool_calls
    assert call.arguments == {}
    assert call.arguments_error is not None
    assert call.arguments_error.endswith('\n\n{"path":"/tmp')


def test_server_without_reasons_ends_with_its_body() -> None:
    """With the flag for such servers, and only then, the end of the body ends the answer."""
    model = Model(id="m", api=MODEL.api, provider="p", compat={"supportsFinishReason": False})
    message = answer(says("fine"), done=False, model=model)
    assert (message.stop_reason, diagnostics(message)) == ("stop", ["stop_reason_inferred"])
    assert answer(calls(piece("{}", id="x", name="f")), done=False, model=model).stop_reason == "toolUse"
    assert failure(message_of(b"", model=model)) == ("truncated", True)
    pipeline = pipeline_of(model=model)
    lost = pipeline.feed(frame(says("fi"))) + pipeline.fail("transport", "connection reset")
    assert failure(check_events(lost)) == ("transport", True)


def test_stream_ends_with_the_usage_after_the_reason() -> None:
    """The stop reason and, in a later chunk, the usage: nothing is waited for, whatever the connection does."""
    for last in ({"id": "r1", "choices": []}, chunk({"role": "assistant", "content": ""}), chunk({}, "stop")):
        pipeline = pipeline_of()
        events = pipeline.feed(stream(says("ok"), chunk(finish="stop"), {**last, "usage": USAGE}, done=False))
        assert pipeline.finished
        assert check_events(events).usage.total_tokens == 14


def test_running_usage_does_not_end_the_stream() -> None:
    """A server that counts along, and says "stop" too early, is read on."""
    message = answer(chunk(finish="stop", usage=USAGE), says("late", usage=USAGE), says("r", usage=USAGE))
    assert message.text == "later"


def test_end_mark_ends_the_stream_whatever_the_connection_does() -> None:
    pipeline = pipeline_of()
    assert pipeline.feed(stream(says("ok", "stop"), done=False))[-1].type != "done"
    assert pipeline.complete
    assert pipeline.feed(DONE)[-1].type == "done"


def test_nothing_is_read_after_the_end() -> None:
    message = message_of(stream(says("ok", "stop")) + stream(says(" and more", "length")))
    assert (message.text, message.stop_reason) == ("ok", "stop")


# --- stop reasons -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("end", "stop"),
        ("eos", "stop"),
        ("eos_token", "stop"),
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
    ],
)
def test_good_reasons(raw: str, reason: str) -> None:
    message = answer(says("x", raw))
    assert (message.stop_reason, message.raw_stop_reason, message.diagnostics) == (reason, raw, None)


@pytest.mark.parametrize(
    ("raw", "kind", "retryable"),
    [
        ("content_filter", "filtered", False),
        ("content-filter", "filtered", False),
        ("SAFETY", "filtered", False),
        ("recitation", "filtered", False),
        ("sensitive", "filtered", False),
        ("refusal", "refusal", False),
        ("error", "provider_error", True),
        ("abort", "provider_error", True),
        ("network_error", "provider_error", True),
        ("malformed_function_call", "provider_error", True),
        ("insufficient_system_resource", "overloaded", True),
    ],
)
def test_bad_reasons_are_errors_that_keep_the_content(raw: str, kind: str, retryable: bool) -> None:
    message = answer(says("half"), chunk(finish=raw))
    assert (message.stop_reason, message.raw_stop_reason, message.text) == ("error", raw, "half")
    assert failure(message) == (kind, retryable)
    assert raw in (message.error_message or "")


def test_unknown_reason_is_stop_with_a_diagnostic() -> None:
    message = answer(says("x", "tired"))
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "tired")
    assert diagnostics(message) == ["unknown_stop_reason"]


def test_unknown_reason_can_be_an_error() -> None:
    message = answer(says("x", "tired"), unknown_stop="error")
    assert (message.stop_reason, message.error_message) == ("error", "Unknown finish_reason: tired")


@pytest.mark.parametrize("raw", ["stop", "other", "unknown"])
def test_complete_calls_turn_stop_into_tool_use(raw: str) -> None:
    message = answer(calls(piece("{}", index=0, id="t", name="f")), chunk(finish=raw))
    assert (message.stop_reason, message.raw_stop_reason) == ("toolUse", raw)


def test_repaired_arguments_count_as_complete() -> None:
    """A call whose arguments the final parse can read is made, whatever the stop reason says."""
    message = answer(calls(piece('{"a":"x\ny"}', index=0, id="t", name="f")), chunk(finish="stop"))
    assert (message.stop_reason, made(message)) == ("toolUse", [("t", "f", {"a": "x\ny"})])


def test_tool_use_without_a_call_is_stop() -> None:
    message = answer(says("Done."), chunk(finish="tool_calls"))
    assert (message.stop_reason, diagnostics(message)) == ("stop", ["tool_use_without_call"])


def test_tool_use_without_anything_is_an_error() -> None:
    assert failure(answer(chunk(finish="tool_calls"))) == ("provider_error", True)


@pytest.mark.parametrize("arguments", ['{"path":"a","text":"hal', "", None])
def test_call_cut_by_the_limit_is_marked(arguments: str | None) -> None:
    """The stop reason says length, and the call cannot be mistaken for one that is complete."""
    message = answer(calls(piece(arguments, index=0, id="t", name="write")), chunk(finish="length"))
    (call,) = message.tool_calls
    assert (message.stop_reason, call.arguments) == ("length", {})
    assert call.arguments_error


def test_only_the_last_call_was_cut() -> None:
    message = answer(
        calls(piece(index=0, id="a", name="now")),
        says("And"),
        calls(piece(index=1, id="b", name="f")),
        chunk(finish="length"),
    )
    assert [call.arguments_error is not None for call in message.tool_calls] == [False, True]
    message = answer(calls(piece(index=0, id="a", name="now")), says("And", "length"))
    assert message.tool_calls[0].arguments_error is None


# --- tool calls: which fragment belongs to which ------------------------------------------------------------------------

FINISH = chunk(finish="tool_calls")


def test_call_in_pieces() -> None:
    body = stream(
        calls(piece("", index=0, id="c", name="add", type="function")),
        calls(piece('{"a":', index=0)),
        calls(piece("1}", index=0)),
        FINISH,
    )
    events = checked(body)
    assert types(events)[1:5] == ["metadata", "toolcall_start", "toolcall_delta", "toolcall_delta"]
    assert made(check_events(events)) == [("c", "add", {"a": 1})]
    check_every_prefix(body, body.index(b"[DONE]") - len("\n\ndata: "))


def test_parallel_calls_interleave_by_index() -> None:
    message = answer(
        calls(piece("", index=0, id="a", name="f"), piece("", index=1, id="b", name="g")),
        calls(piece('{"x"', index=0)),
        calls(piece('{"y"', index=1)),
        calls(piece(":1}", index=0), piece(":2}", index=1)),
        FINISH,
    )
    assert made(message) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


def test_text_after_calls_is_a_block_of_its_own() -> None:
    """Calls stay open beside text, and end when the answer is complete."""
    body = stream(
        says("Let me see."),
        calls(piece("{}", index=0, id="a", name="f")),
        says("Wait"),
        calls(piece("{}", index=1, id="b", name="g")),
        FINISH,
    )
    events = checked(body)
    assert [block.type for block in check_events(events).content] == ["text", "toolCall", "text", "toolCall"]
    assert types(events)[-4:] == ["metadata", "toolcall_end", "toolcall_end", "done"]


def test_other_name_at_the_same_index_is_another_call() -> None:
    """Without ids, what was said for one tool is never taken for the other."""
    message = answer(
        calls(piece('{"a":1}', index=0, name="f")),
        calls(piece('{"b":', index=0, name="g")),
        calls(piece("2}", index=0)),
        FINISH,
    )
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("f", {"a": 1}), ("g", {"b": 2})]


def test_calls_keep_the_order_in_which_they_were_announced() -> None:
    """A call without arguments says nothing after its name, and still comes before what followed it."""
    message = answer(
        calls(piece("", index=0, id="a", name="now")),
        calls(piece("{}", index=1, id="b", name="f")),
        calls(piece("", index=2, id="c", name="here")),
        says("Hm."),
        chunk({"reasoning": "Hm?"}),
        FINISH,
    )
    assert [block.type for block in message.content] == [
        "toolCall",
        "toolCall",
        "toolCall",
        "text",
        "thinking",
    ]
    assert made(message) == [("a", "now", {}), ("b", "f", {}), ("c", "here", {})]


@pytest.mark.parametrize("index", [{}, {"index": None}])
def test_call_without_an_index(index: dict[str, None]) -> None:
    """A fragment with neither index nor id goes on with the last call."""
    message = answer(
        calls(piece('{"q":', **index, id="c", name="find")),
        calls(piece('"tea"', **index)),
        calls(piece("}", **index)),
        FINISH,
    )
    assert made(message) == [("c", "find", {"q": "tea"})]


def test_calls_without_an_index_are_told_apart_by_id() -> None:
    message = answer(
        calls(piece('{"q":1', id="a", name="f")),
        calls(piece('{"q":2', id="b", name="f")),
        calls(piece("1}", id="a")),
        calls(piece("2}", id="b")),
        FINISH,
    )
    assert made(message) == [("a", "f", {"q": 11}), ("b", "f", {"q": 22})]


def test_several_pieces_without_an_index_come_in_their_order() -> None:
    message = answer(
        calls(piece('{"q":', id="a", name="f"), piece('{"q":', id="b", name="f")),
        calls(piece("1}"), piece("2}")),
        FINISH,
    )
    assert made(message) == [("a", "f", {"q": 1}), ("b", "f", {"q": 2})]


@pytest.mark.parametrize("name", ["look", "", None])
@pytest.mark.parametrize("index", [0, None])
def test_id_and_name_repeated_in_every_fragment(name: str | None, index: int | None) -> None:
    """An equal id goes on with its call; equal and empty names change nothing."""
    message = answer(
        calls(piece('{"a"', index=index, id="c", name="look", type="function")),
        calls({"index": index, "id": "c", "type": "function", "function": {"name": name, "arguments": ":1"}}),
        calls({"index": index, "id": "c", "type": "function", "function": {"name": name, "arguments": "}"}}),
        FINISH,
    )
    assert made(message) == [("c", "look", {"a": 1})]


def test_parallel_calls_that_all_carry_index_0() -> None:
    """A new id with a name is a new call."""
    message = answer(
        calls(piece('{"city":', index=0, id="a", name="w")),
        calls(piece('"Oslo"}', index=0)),
        calls(piece('{"city":', index=0, id="b", name="w")),
        calls(piece('"Rome"}', index=0)),
        FINISH,
    )
    assert made(message) == [("a", "w", {"city": "Oslo"}), ("b", "w", {"city": "Rome"})]


def test_parallel_calls_with_index_0_and_no_ids() -> None:
    """Without ids, complete arguments followed by an object of its own tell two calls of one tool apart."""
    message = answer(
        calls(piece('{"city":"Oslo"}', index=0, name="w")),
        calls(piece('{"city":"Rome"}', index=0, name="w")),
        FINISH,
    )
    assert made(message) == [("call_r1_0", "w", {"city": "Oslo"}), ("call_r1_1", "w", {"city": "Rome"})]


def test_whole_calls_without_index_and_id() -> None:
    """Each is a call of its own, and gets an id that is the same each time."""
    message = answer(
        calls(piece('{"a":1}', name="f")),
        calls(piece('{"a":2}', name="f")),
        calls(piece(name="now")),
        calls(piece(name="now")),
        FINISH,
    )
    assert made(message) == [
        ("call_r1_0", "f", {"a": 1}),
        ("call_r1_1", "f", {"a": 2}),
        ("call_r1_2", "now", {}),
        ("call_r1_3", "now", {}),
    ]


def test_call_in_pieces_that_repeats_its_name_alone() -> None:
    """With neither index nor id, unfinished arguments and the same name go on."""
    message = answer(calls(piece('{"a"', name="f")), calls(piece(":1}", name="f")), FINISH)
    assert made(message) == [("call_r1_0", "f", {"a": 1})]


def test_concatenated_calls_are_an_error_and_never_empty_arguments() -> None:
    """Where nothing tells two calls apart, what was sent is there to be seen."""
    message = answer(
        calls(piece('{"a":1}', index=0, id="x", name="f")), calls(piece('{"a":2}', index=0)), FINISH
    )
    (call,) = message.tool_calls
    assert call.arguments == {}
    assert call.arguments_error is not None
    assert call.arguments_error.endswith('{"a":1}{"a":2}')


def test_id_that_changes_after_the_first_fragment() -> None:
    """A fragment without a name goes on by its index, whatever its id."""
    message = answer(
        calls(piece("", index=0, id="X", name="f")),
        calls(piece('{"a"', index=0, id="Y")),
        calls(piece(":1}", index=0, id="Y")),
        FINISH,
    )
    assert made(message) == [("X", "f", {"a": 1})]


def test_equal_id_wins_over_another_index() -> None:
    message = answer(
        calls(piece('{"a"', index=0, id="x", name="f")), calls(piece(":1}", index=7, id="x")), FINISH
    )
    assert made(message) == [("x", "f", {"a": 1})]


@pytest.mark.parametrize("index", [{"index": 0}, {"index": 0, "id": "c"}, {"id": "c"}])
def test_name_in_pieces(index: dict[str, Any]) -> None:
    """The call starts when its name is settled."""
    events = checked(
        stream(
            calls(piece(**index, name="get_")),
            calls(piece("", **index, name="weath")),
            calls(piece('{"a":1}', **index, name="er")),
            calls(piece("", **index)),
            FINISH,
        )
    )
    assert [call.name for call in check_events(events).tool_calls] == ["get_weather"]
    assert types(events).index("toolcall_start") + 1 == types(events).index("toolcall_delta")


def test_name_after_the_arguments() -> None:
    """Arguments wait for the name, and then come in one piece."""
    events = checked(
        stream(
            calls(piece('{"a"', index=0)),
            calls(piece(":1", index=0)),
            calls(piece(index=0, id="late", name="f")),
            calls(piece("}", index=0)),
            FINISH,
        )
    )
    assert [event.delta for event in events if isinstance(event, ToolCallDelta)] == ['{"a":1', "}"]
    assert made(check_events(events)) == [("late", "f", {"a": 1})]


@pytest.mark.parametrize("name", ["", None, 5])
def test_call_that_never_gets_a_name(name: Any) -> None:
    """It is an error of that call, with the raw text, and the other calls are as they should be."""
    message = answer(
        calls(piece('{"a":1}', index=0, id="x", name=name)),
        calls(piece('{"b":2}', index=1, id="y", name="g")),
        FINISH,
    )
    assert message.stop_reason == "toolUse"
    by_id = {call.id: call for call in message.tool_calls}
    assert (by_id["y"].name, by_id["y"].arguments) == ("g", {"b": 2})
    assert (by_id["x"].name, by_id["x"].arguments) == ("", {})
    assert by_id["x"].arguments_error is not None
    assert by_id["x"].arguments_error.endswith('{"a":1}')


@pytest.mark.parametrize("again", ['{"a": 1}', '{"a":1}', json.dumps('{"a": 1}')])
def test_whole_arguments_sent_again_at_the_end(again: str) -> None:
    """Plain, spaced differently, or encoded once more: they are the same arguments."""
    message = answer(
        calls(piece('{"a": ', index=0, id="c", name="f")),
        calls(piece("1}", index=0)),
        calls(piece(again, index=0, id="c", name="f")),
        FINISH,
    )
    assert made(message) == [("c", "f", {"a": 1})]


def test_repeated_text_inside_arguments_is_kept() -> None:
    """Only what follows a complete object can be a repetition."""
    message = answer(
        calls(piece('{"a":"}', index=0, id="c", name="f")),
        calls(piece("}", index=0)),
        calls(piece("}", index=0)),
        calls(piece('"}', index=0)),
        FINISH,
    )
    assert made(message) == [("c", "f", {"a": "}}}"})]


@pytest.mark.parametrize("arguments", ["", " \n", None, [], "{}", {}])
def test_tool_without_arguments(arguments: Any) -> None:
    message = answer(
        calls({"index": 0, "id": "c", "function": {"name": "now", "arguments": arguments}}), FINISH
    )
    assert (message.stop_reason, made(message)) == ("toolUse", [("c", "now", {})])


def test_arguments_as_an_object() -> None:
    """They are the whole arguments, written once."""
    events = checked(stream(calls(piece({"a": "ü"}, index=0, id="c", name="f"), finish="tool_calls")))
    assert [event.delta for event in events if isinstance(event, ToolCallDelta)] == ['{"a":"ü"}']
    assert made(check_events(events)) == [("c", "f", {"a": "ü"})]


@pytest.mark.parametrize("arguments", ['"x"', "[1]", "5", 5, True, '{"a":1,}', "<xml/>", '{"a":NaN}'])
def test_arguments_that_are_no_object_keep_their_text(arguments: Any) -> None:
    """A parse that fails is never an empty object without a word."""
    message = answer(calls(piece(arguments, index=0, id="c", name="f")), FINISH)
    (call,) = message.tool_calls
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    assert call.arguments == {}
    assert call.arguments_error is not None
    assert call.arguments_error.endswith(f"\n\n{text}")


def test_call_without_the_function_around_it() -> None:
    message = answer(calls({"index": 0, "id": "c", "name": "f", "arguments": '{"a":1}'}), FINISH)
    assert made(message) == [("c", "f", {"a": 1})]


def test_one_call_that_is_no_list() -> None:
    message = answer(chunk({"tool_calls": piece('{"a":1}', index=0, id="c", name="f")}), FINISH)
    assert made(message) == [("c", "f", {"a": 1})]


def test_fragments_that_say_nothing_are_no_calls() -> None:
    message = answer(
        chunk({"content": "x", "tool_calls": []}),
        calls({"index": 0, "id": "", "function": {"name": None, "arguments": ""}}),
        calls({}),
        chunk({"content": "y", "tool_calls": None}),
        chunk(finish="stop"),
    )
    assert message.content == [TextContent("xy")]


def test_what_is_no_call_gets_a_diagnostic() -> None:
    message = answer(chunk({"tool_calls": ["f()"]}), says("x", "stop"))
    assert (message.text, diagnostics(message)) == ("x", ["unexpected_tool_call"])


def test_legacy_function_call() -> None:
    message = answer(
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"a":'}}),
        chunk({"function_call": {"arguments": "1}"}}),
        chunk({}, "function_call"),
    )
    assert (message.stop_reason, made(message)) == ("toolUse", [("call_r1_0", "f", {"a": 1})])


def test_legacy_function_call_beside_the_same_tool_call() -> None:
    """Servers for clients of both kinds send each call twice."""
    both = {
        "function_call": {"name": "f", "arguments": '{"a":1}'},
        "tool_calls": [piece('{"a":1}', index=0, id="c", name="f")],
    }
    assert made(answer(chunk(both), FINISH)) == [("c", "f", {"a": 1})]


def test_ids_made_up_without_a_response_id() -> None:
    call = {
        "choices": [{"index": 0, "delta": {"tool_calls": [piece("{}", name="f")]}, "finish_reason": "stop"}]
    }
    assert made(answer(call)) == [("call_0", "f", {})]


def test_made_up_ids_have_only_letters_and_digits_of_the_response_id() -> None:
    call = calls(piece("{}", name="f"), finish="stop")
    (only,) = answer({**call, "id": "chatcmpl-" + "x/y+" * 20}).tool_calls
    assert only.id == "call_" + "xy" * 12 + "_0"


# --- custom tools: free text becomes JSON -------------------------------------------------------------------------------

GRAMMAR = Tool(
    "sql",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    constrained_sampling={"type": "grammar", "variants": {"openai_lark": "start: /.+/"}},
)


def custom(text: str | None, name: str | None = None, **keys: Any) -> dict[str, Any]:
    return {"index": 0, "type": "custom", **keys, "custom": {"name": name, "input": text}}


@pytest.mark.parametrize(
    "text", ['say "hi"\n\tC:\\new', "{}", '{"a":1}', "}", "\x00 \u2028 \N{GRINNING FACE}", ""]
)
def test_free_text_of_a_custom_tool(text: str) -> None:
    """It becomes the one string of the arguments, however it is cut."""
    pieces = [calls(custom(letter)) for letter in text]
    message = answer(calls(custom("", "sql", id="c")), *pieces, FINISH, tools=[GRAMMAR])
    assert (message.stop_reason, made(message)) == ("toolUse", [("c", "sql", {"query": text})])


def test_free_text_cut_by_the_limit_is_no_complete_call() -> None:
    for pieces in ([], [calls(custom("select"))]):
        message = answer(calls(custom("", "sql", id="c")), *pieces, chunk(finish="length"), tools=[GRAMMAR])
        (call,) = message.tool_calls
        assert call.arguments == {}
        assert call.arguments_error


def test_free_text_of_a_tool_that_is_not_known() -> None:
    assert made(answer(calls(custom("select 1", "sql", id="c")), FINISH)) == [
        ("c", "sql", {"input": "select 1"})
    ]


def test_half_a_surrogate_pair_in_a_piece() -> None:
    """A pair that is cut between two pieces is whole again in the arguments."""
    body = (
        frame(calls(custom("", "sql", id="c")))
        + frame(calls(custom("AA"))).replace(b"AA", rb"\ud83d")
        + frame(calls(custom("AA"))).replace(b"AA", rb"\ude00")
    )
    message = message_of(body + frame(FINISH), tools=[GRAMMAR])
    assert made(message) == [("c", "sql", {"query": "\N{GRINNING FACE}"})]


# --- thinking -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_fields(field: str) -> None:
    """The field that thinking came in is its signature, since it goes back in there."""
    body = stream(
        chunk({"content": None, field: "hm"}), chunk({"content": "", field: "m"}), says("Hi", "stop")
    )
    assert message_of(body).content == [ThinkingContent("hmm", thinking_signature=field), TextContent("Hi")]
    check_every_prefix(body, body.index(b"[DONE]") - len("\n\ndata: "))


def test_reasoning_in_two_fields_is_shown_once() -> None:
    message = answer(chunk({"reasoning_content": "hm", "reasoning": "hm"}), says("Hi", "stop"))
    assert message.thinking == "hm"


def test_reasoning_comes_before_the_content_of_its_chunk() -> None:
    message = answer(chunk({"content": "Hi", "reasoning": "hm"}, "stop"))
    assert [block.type for block in message.content] == ["thinking", "text"]


def test_thinking_between_calls_and_text() -> None:
    message = answer(
        chunk({"reasoning": "one"}),
        calls(piece("{}", index=0, id="c", name="f")),
        chunk({"reasoning": "two"}),
        says("Hi"),
        chunk({"reasoning": "three"}, "stop"),
    )
    assert [block.type for block in message.content] == [
        "thinking",
        "toolCall",
        "thinking",
        "text",
        "thinking",
    ]


def details(*entries: Any, **delta: Any) -> dict[str, Any]:
    return chunk({"content": "", **delta, "reasoning_details": list(entries)})


def signed(message: AssistantMessage) -> list[Any]:
    """The reasoning details that would be replayed."""
    (thinking,) = (block for block in message.content if isinstance(block, ThinkingContent))
    assert thinking.thinking_signature is not None
    details: list[Any] = json.loads(thinking.thinking_signature)
    return details


def test_details_are_merged_and_their_text_is_shown_once() -> None:
    """Beside the same text in a plain field, the details are kept for replay only."""
    message = answer(
        details({"type": "reasoning.text", "text": "Let ", "index": 0, "format": None}, reasoning="Let "),
        details({"type": "reasoning.text", "text": "me", "index": 0, "format": "x"}, reasoning="me"),
        details({"type": "reasoning.text", "text": "", "signature": "c2ln", "index": 0}),
        says("Hi", "stop"),
    )
    assert message.thinking == "Let me"
    assert signed(message) == [
        {"type": "reasoning.text", "text": "Let me", "index": 0, "format": "x", "signature": "c2ln"}
    ]


@pytest.mark.parametrize(("kind", "key"), [("reasoning.text", "text"), ("reasoning.summary", "summary")])
@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_text_of_details_is_shown_where_nothing_else_shows_it(
    kind: str, key: str, index: dict[str, int]
) -> None:
    message = answer(
        details({"type": kind, key: "Let ", **index}),
        details({"type": kind, key: "me", **index, "id": "rs_1"}),
        details({"type": kind, key: "!", **index}),
        says("Hi", "stop"),
    )
    assert message.thinking == "Let me!"
    assert signed(message) == [{"type": kind, key: "Let me!", **index, "id": "rs_1"}]


def test_encrypted_details_are_never_shown() -> None:
    """They open a thinking block without text, which exists for its signature."""
    message = answer(
        details({"type": "reasoning.encrypted", "data": "AAA", "id": "a", "index": 0}),
        details({"type": "reasoning.encrypted", "data": "BBB", "id": "b", "index": 0}),
        details(
            {"type": "reasoning.encrypted", "data": "CCC"}, {"type": "reasoning.encrypted", "data": "DDD"}
        ),
        says("Hi", "stop"),
    )
    assert message.thinking == ""
    assert [entry["data"] for entry in signed(message)] == ["AAA", "BBB", "CCC", "DDD"]


def test_details_that_come_late_sign_the_block_they_belong_to() -> None:
    events = checked(
        stream(
            details({"type": "reasoning.text", "text": "hm", "index": 0}),
            says("Hi"),
            details({"type": "reasoning.encrypted", "data": "AAA", "index": 1}),
            chunk(finish="stop"),
        )
    )
    late = [event for event in events if isinstance(event, Metadata) and event.signature]
    assert [event.content_index for event in late] == [0]
    message = check_events(events)
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert [entry["type"] for entry in signed(message)] == ["reasoning.text", "reasoning.encrypted"]


def test_details_before_an_error_are_kept() -> None:
    message = answer(
        details({"type": "reasoning.text", "text": "hm"}),
        says("Hi"),
        details({"type": "reasoning.encrypted", "data": "AAA"}),
        {"error": {"message": "boom"}},
    )
    assert message.error_message == "boom"
    assert len(signed(message)) == 2


def test_details_of_kinds_nobody_knows_go_back_as_they_came() -> None:
    new = {"type": "reasoning.new", "value": [1], "index": 0}
    message = answer(details(new), details(new), says("Hi", "stop"))
    assert (message.thinking, signed(message)) == ("", [new, new])


@pytest.mark.parametrize(
    "junk", [5, "x", None, {}, {"type": None}, {"type": ["reasoning.text"]}, {"type": "other"}]
)
def test_details_that_are_none_open_nothing(junk: Any) -> None:
    message = answer(
        details(junk), chunk({"reasoning_details": {"type": "reasoning.text"}}), says("Hi", "stop")
    )
    assert message.content == [TextContent("Hi")]


# --- other content ------------------------------------------------------------------------------------------------------


def test_content_as_a_list_of_parts() -> None:
    """As Mistral sends thinking, and as servers that imitate the request send text."""
    message = answer(
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}, "m"]}]}),
        chunk({"content": [{"type": "thinking", "thinking": "!"}]}),
        chunk({"content": [{"type": "text", "text": "He"}, {"type": "text", "text": ""}, "l"]}),
        chunk({"content": {"type": "output_text", "text": "lo"}}),
        chunk({"content": []}),
        chunk(finish="stop"),
    )
    assert message.content == [ThinkingContent("hm!"), TextContent("Hello")]


def test_parts_without_a_block_are_kept_as_they_are() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    message = answer(says("Look: "), chunk({"content": [image, 7, None]}), says("nice", "stop"))
    assert message.text == "Look: nice"
    assert [(entry.after, entry.data) for entry in message.provider_data or ()] == [(1, image), (1, 7)]


@pytest.mark.parametrize("key", ["annotations", "images", "audio", "executed_tools"])
def test_data_in_deltas_is_kept_piece_by_piece(key: str) -> None:
    message = answer(
        chunk({"content": "x", key: [1]}), chunk({"content": "y", key: [2]}), chunk(finish="stop")
    )
    assert message.content == [TextContent("xy")]
    assert [entry.data for entry in message.provider_data or ()] == [{key: [1]}, {key: [2]}]


@pytest.mark.parametrize("key", ["citations", "search_results", "related_questions", "prompt_filter_results"])
def test_data_beside_the_choices_is_kept_as_it_was_last(key: str) -> None:
    message = answer(
        says("x", **{key: ["a"]}), says("y"), says("z", **{key: ["a", "b"]}), chunk(finish="stop")
    )
    assert message.text == "xyz"
    assert [entry.data for entry in message.provider_data or ()] == [{key: ["a", "b"]}]


def test_refusal_is_an_error_with_its_words() -> None:
    body = stream(chunk({"role": "assistant", "content": "", "refusal": None}), chunk({"refusal": "I can"}))
    message = message_of(body[: -len(DONE)] + frame(chunk({"refusal": "not."})) + frame(chunk(finish="stop")))
    assert (message.text, message.stop_reason, message.error_message) == ("I cannot.", "error", "I cannot.")
    assert failure(message) == ("refusal", False)
    assert message.raw_stop_reason == "stop"
    part = {"type": "refusal", "refusal": "No."}
    assert failure(answer(chunk({"content": [part]}), chunk(finish="stop"))) == ("refusal", False)


def test_chunks_without_choices_are_no_content() -> None:
    """A filter's word on the prompt, pings, and usage: what they say is taken, and nothing else happens."""
    filtered = [{"prompt_index": 0, "content_filter_results": {}}]
    message = answer(
        {"id": "", "choices": [], "prompt_filter_results": filtered},
        {"id": "r9", "choices": None},
        {},
        {"choices": []},
        {**says("ok", "stop"), "id": "r9"},
        {"id": "r9", "choices": [], "usage": USAGE},
    )
    assert (message.text, message.response_id, message.usage.input, message.usage.output) == (
        "ok",
        "r9",
        9,
        5,
    )
    assert [entry.data for entry in message.provider_data or ()] == [{"prompt_filter_results": filtered}]


def test_other_choices_are_ignored() -> None:
    def both(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
        choices = [
            {"index": at, "delta": {"content": f"{text}{at}"}, "finish_reason": finish} for at in (1, 0)
        ]
        return {"id": "r1", "model": "m", "choices": choices if index < 0 else [choices[1 - index]]}

    message = answer(both(-1, "a"), both(1, "b"), both(0, "c"), both(1, "", "length"), both(-1, "d", "stop"))
    assert (message.text, message.stop_reason) == ("a0c0d0", "stop")


@pytest.mark.parametrize("snapshot", ["Hi you", "Hi you!", None, ""])
def test_whole_message_after_the_deltas_adds_only_what_is_missing(snapshot: str | None) -> None:
    last = {"index": 0, "message": {"role": "assistant", "content": snapshot}, "finish_reason": "stop"}
    message = answer(says("Hi "), says("you"), {"id": "r1", "choices": [last]})
    assert message.content == [TextContent(snapshot or "Hi you")]
    assert message.diagnostics is None


def test_whole_message_that_contradicts_the_deltas_changes_nothing() -> None:
    last = {
        "index": 0,
        "message": {"role": "assistant", "content": "Something else"},
        "finish_reason": "stop",
    }
    message = answer(says("Hi "), says("you"), {"id": "r1", "choices": [last]})
    assert (message.text, diagnostics(message)) == ("Hi you", ["final_text_differs"])


def test_whole_message_beside_every_delta() -> None:
    """Growing snapshots beside the deltas are one text, in one block."""

    def growing(delta: str, content: str, finish: str | None = None) -> dict[str, Any]:
        choice = {
            "index": 0,
            "delta": {"content": delta},
            "message": {"content": content},
            "finish_reason": finish,
        }
        return {"id": "r1", "model": "m", "choices": [choice]}

    message = answer(
        growing("Hi", "Hi"), growing(" you", "Hi you"), says(" two"), growing("!", "Hi you two!", "stop")
    )
    assert (message.content, message.diagnostics) == ([TextContent("Hi you two!")], None)


@pytest.mark.parametrize("beside", [{}, {"message": None}])
def test_deltas_after_a_whole_message_go_on(beside: dict[str, None]) -> None:
    """A snapshot that later deltas have overtaken says nothing any more."""

    def piece_of(delta: str, **more: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": {"content": delta}, "finish_reason": None, **beside, **more}
        return {"id": "r1", "model": "m", "choices": [choice]}

    whole = piece_of(" you", message={"content": "Hi you"})
    nothing = piece_of("")
    message = answer(piece_of("Hi"), whole, nothing, piece_of(" two"), piece_of("!"), chunk(finish="stop"))
    assert (message.content, message.diagnostics) == ([TextContent("Hi you two!")], None)
    more = piece_of(" you", message={"content": "Hi you!"})
    assert answer(piece_of("Hi"), more, nothing, chunk(finish="stop")).text == "Hi you!"


def test_whole_messages_alone() -> None:
    """Growing snapshots without any delta: the first is streamed, the last one says the rest."""

    def growing(content: str, finish: str | None = None) -> dict[str, Any]:
        return {
            "id": "r1",
            "choices": [{"index": 0, "message": {"content": content}, "finish_reason": finish}],
        }

    message = answer(growing("Hi"), growing("Hi you"), growing("Hi you two"), growing("Hi you two", "stop"))
    assert (message.content, message.diagnostics) == ([TextContent("Hi you two")], None)


def test_whole_message_brings_what_was_never_streamed() -> None:
    whole = {"content": "Hi", "tool_calls": [piece('{"a":1}', id="c", name="f")]}
    last = {"index": 0, "message": whole, "finish_reason": "tool_calls"}
    message = answer(chunk({"reasoning": "hm"}), {"id": "r1", "choices": [last]})
    assert (message.thinking, message.text, made(message)) == ("hm", "Hi", [("c", "f", {"a": 1})])


# --- usage, ids, model --------------------------------------------------------------------------------------------------


def counts(message: AssistantMessage) -> tuple[int, int, int, int, int]:
    usage = message.usage
    return usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens


def chunk_with(keys: dict[str, Any], text: str = "") -> dict[str, Any]:
    """A chunk of text whose choice has further keys."""
    return {**chunk(), "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None, **keys}]}


def choice_usage(usage: Any) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]}


@pytest.mark.parametrize(
    "chunks",
    [
        [says("x", "stop", usage=USAGE)],
        [says("x", "stop"), {"choices": [], "usage": USAGE}],
        [says("x", usage=USAGE), chunk(finish="stop")],
        [chunk(usage=USAGE), says("x", "stop")],
        [says("x"), choice_usage(USAGE)],
        [says("x", "stop", x_groq={"id": "g", "usage": USAGE})],
        [says("x", "stop", usage=USAGE, x_groq={"usage": {"prompt_tokens": 1}})],
        [says("x", usage=None), says("y", usage={}), says("z", usage=USAGE), chunk(finish="stop")],
        [says("x"), chunk_with({"usage": USAGE}, "y"), says("z"), chunk(finish="stop")],
        [chunk_with({"usage": None}, "x"), chunk_with({"usage": USAGE}, "y"), chunk(finish="stop")],
    ],
    ids=[
        "with-reason",
        "last",
        "before",
        "first",
        "in-choice",
        "x-groq",
        "standard-place-wins",
        "null-before",
        "in-choice-amid",
        "in-choice-after-null",
    ],
)
def test_usage_wherever_it_stands(chunks: list[dict[str, Any]]) -> None:
    message = answer(*chunks)
    assert counts(message) == (9, 5, 0, 0, 14)
    assert message.usage.provider_total_tokens == 14


def test_running_usage_is_replaced_and_never_added_up() -> None:
    """The last value that is not null wins, per field; zero is a value."""
    message = answer(
        says(
            "a",
            usage={"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
        ),
        says("b", usage={"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}),
        says("c", "stop", usage={"prompt_tokens": None, "completion_tokens": 0}),
    )
    assert counts(message) == (5, 0, 4, 0, 9)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}}, (3, 5, 4, 2, 14)),
        ({"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5}, (5, 5, 4, 0, 14)),
        ({"cached_tokens": 4}, (5, 5, 4, 0, 14)),
        ({"prompt_tokens_details": {"cached_tokens": 40}}, (0, 5, 40, 0, 45)),
        ({"prompt_tokens": -3, "completion_tokens": "5"}, (0, 0, 0, 0, 0)),
        ({"prompt_tokens": 9.0, "completion_tokens": True}, (9, 0, 0, 0, 9)),
        ({"prompt_tokens": 10**40, "prompt_tokens_details": [1]}, (0, 5, 0, 0, 5)),
    ],
)
def test_parts_of_usage_are_disjoint_and_never_negative(
    usage: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert counts(answer(says("x", "stop", usage=USAGE | usage))) == expected


def test_reasoning_tokens() -> None:
    inside = USAGE | {"completion_tokens_details": {"reasoning_tokens": 3}}
    usage = answer(says("x", "stop", usage=inside)).usage
    assert (usage.output, usage.reasoning) == (5, 3)
    assert answer(says("x", "stop", usage=USAGE | {"reasoning_tokens": 2})).usage.reasoning == 2
    assert answer(says("x", "stop", usage=USAGE)).usage.reasoning == 0


def test_reasoning_tokens_counted_beside_the_completion_are_output() -> None:
    """A total that has them on top says so (xAI)."""
    beside = USAGE | {"completion_tokens_details": {"reasoning_tokens": 30}, "total_tokens": 44}
    usage = answer(says("x", "stop", usage=beside)).usage
    assert (usage.input, usage.output, usage.reasoning, usage.total_tokens) == (9, 35, 30, 44)


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        ({"cost": 0.25, "is_byok": False}, 0.25),
        ({"cost": 0, "is_byok": False}, 0),
        ({"cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": 1}}, 1.25),
        (
            {
                "cost": 0.25,
                "is_byok": True,
                "cost_details": {
                    "upstream_inference_cost": None,
                    "upstream_inference_prompt_cost": 1,
                    "upstream_inference_completions_cost": 2,
                },
            },
            3.25,
        ),
        ({"cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": "1"}}, None),
        ({"cost": 0.25, "is_byok": True}, None),
        ({"cost": 0.25}, None),
        ({"cost": -1, "is_byok": False}, None),
        ({"cost": {"total": 1}, "is_byok": False}, None),
    ],
)
def test_what_openrouter_bills_is_the_total_cost(usage: dict[str, Any], total: float | None) -> None:
    for model in (
        Model(id="m", api=MODEL.api, provider="openrouter"),
        Model(id="m", api=MODEL.api, provider="mine", base_url="https://openrouter.ai/api/v1"),
    ):
        cost = answer(says("x", "stop", usage=USAGE | usage), model=model).usage.cost
        assert (cost.total, cost.total_from_provider) == (total or 0, total is not None)
    assert answer(says("x", "stop", usage=USAGE | usage)).usage.cost.total_from_provider is False


def test_usage_is_kept_on_an_error() -> None:
    assert counts(answer(says("x", usage=USAGE), done=False)) == (9, 5, 0, 0, 14)


def test_response_model_is_named_when_it_is_another() -> None:
    assert answer({**says("x", "stop"), "model": "m-2024"}).response_model == "m-2024"
    assert answer(says("x", "stop")).response_model is None
    late = answer({**says("x"), "model": ""}, says("y"), {**says("z", "stop"), "model": "m-2024"})
    assert (late.text, late.response_model) == ("xyz", "m-2024")
    amid = answer(
        says("x"), {**says("y"), "model": "m-2024"}, {**says("z"), "model": ""}, chunk(finish="stop")
    )
    assert (amid.text, amid.response_model) == ("xyz", "m-2024")


def test_id_that_comes_late() -> None:
    """The first id that is not empty is the answer's, whichever chunk it is in."""
    message = answer(
        *({**says(text), "id": id} for text, id in zip("abcd", ("", None, "r2", "r3"), strict=True))
    )
    assert (message.text, message.response_id) == ("abcd", "r2")


# --- errors -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "last",
    [
        {"error": {"code": 502, "message": "upstream gone"}},
        {"choices": [], "error": {"code": 502, "message": "upstream gone"}},
        {**chunk({"content": ""}, "error"), "error": {"code": 502, "message": "upstream gone"}},
        {**says(""), "error": {"code": "502", "message": "upstream gone"}},
        [{"error": {"code": 502, "message": "upstream gone"}}],
        {"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "upstream gone"}}]},
        {"object": "error", "message": "upstream gone", "code": 502},
        {"error": True, "message": "upstream gone", "code": 502},
    ],
)
def test_error_inside_the_stream(last: Any) -> None:
    """It ends the stream with the provider's words; what came is kept, and nothing after it counts."""
    message = answer(says("One mo"), last, says("ment", "stop"))
    assert (message.text, message.stop_reason, message.error_message) == ("One mo", "error", "upstream gone")
    assert failure(message) == ("provider_error", True)
    assert message.error_cause is not None
    assert (message.error_cause.status, message.error_cause.provider_code) == (502, "502")
    assert (message.error_cause.phase, message.error_cause.chunks) == ("body", 2)


def test_error_beside_content_keeps_the_content() -> None:
    message = answer(says("One"), {**says(" mo"), "error": "gone"})
    assert (message.text, message.error_message) == ("One mo", "gone")


def test_error_in_a_chunk_that_looks_like_the_others() -> None:
    """As many keys as before, text and all: the error counts."""
    beside = answer(says("a", created=1), says("b", created=1), says("c", error="gone"), says("d", "stop"))
    assert (beside.text, beside.error_message) == ("abc", "gone")
    inside = answer(
        chunk_with({"logprobs": None}, "a"),
        chunk_with({"logprobs": None}, "b"),
        chunk_with({"error": {"message": "gone"}}, "c"),
        says("d", "stop"),
    )
    assert (inside.text, inside.error_message) == ("abc", "gone")


def test_error_before_any_content_is_a_lone_error() -> None:
    events = checked(stream(chunk({"role": "assistant", "content": ""}), {"error": {"message": "boom"}}))
    assert types(events) == ["error"]
    assert check_events(events).response_id == "r1"


def test_error_in_the_groq_extension() -> None:
    message = answer(says("One"), chunk(x_groq={"error": "over capacity"}))
    assert (message.text, message.error_message) == ("One", "over capacity")


@pytest.mark.parametrize("no_error", [None, {}, "", False, []])
def test_empty_error_is_none(no_error: Any) -> None:
    assert answer({**says("x"), "error": no_error}, says("y", "stop")).text == "xy"


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"type": "overloaded_error", "message": "busy"}, "overloaded", True),
        ({"code": 429, "message": "slow down"}, "rate_limit", True),
        ({"code": "rate_limit_exceeded", "message": "too many tokens per minute"}, "rate_limit", True),
        (
            {"code": "insufficient_quota", "type": "insufficient_quota", "message": "no money"},
            "provider_error",
            False,
        ),
        ({"code": "context_length_exceeded", "message": "x"}, "overflow", False),
        ({"message": "This model's maximum context length is 8192 tokens"}, "overflow", False),
        ({"code": 401, "message": "who are you"}, "auth", False),
        ({"code": 500, "message": "oops"}, "provider_error", True),
        ({"type": "server_error", "message": "oops"}, "provider_error", True),
        ({"message": "oops"}, "provider_error", False),
        ("oops", "provider_error", False),
        ({"code": "content_filter", "message": "no"}, "filtered", False),
    ],
)
def test_kinds_of_errors(error: Any, kind: str, retryable: bool) -> None:
    message = answer({"error": error})
    assert failure(message) == (kind, retryable)
    assert message.error_cause is not None
    assert message.error_cause.overflow == (True if kind == "overflow" else None)


def test_upstream_words_are_added() -> None:
    """OpenRouter hands on what the upstream provider said."""
    error = {"code": 502, "message": "Provider returned error", "metadata": {"raw": "model is loading"}}
    assert answer({"error": error}).error_message == "Provider returned error\nmodel is loading"


def test_malformed_chunk_is_an_error_by_default() -> None:
    """The message shows where it is and how it begins; later lines do not count."""
    body = stream(says("One"), b'data: {"choices":[{"del\n\n', says("two", "stop"))
    message = message_of(body)
    assert (message.text, message.stop_reason) == ("One", "error")
    assert failure(message) == ("malformed", True)
    assert '{"choices":[{"del' in (message.error_message or "")
    assert message.error_cause is not None
    assert message.error_cause.chunks == 2


def test_malformed_chunks_can_be_left_out() -> None:
    """Lenient: each is a diagnostic, so that the message is known to have holes, and the rest is read."""
    bad = b"data: {oops\n\n"
    message = answer(bad, says("One"), bad, bad, says(" two"), bad, chunk(finish="stop"), malformed="lenient")
    assert (message.text, message.stop_reason) == ("One two", "stop")
    assert diagnostics(message) == ["malformed_chunk"] * 4


def test_chunks_that_are_no_objects_get_a_diagnostic() -> None:
    message = answer(frame(None), frame(5), frame([]), frame("x" * 9999), says("ok", "stop"))
    assert (message.text, diagnostics(message)) == ("ok", ["unexpected_chunk"] * 4)
    assert max(len(str(diagnostic.details)) for diagnostic in message.diagnostics or ()) < 5000


JUNK = [None, True, 5, "x", [], [5], ["x"], {}, {"x": 1}]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_in_any_place_changes_nothing(junk: Any) -> None:
    """A value of a wrong type is as good as none."""
    keys = ("id", "model", "choices", "x_groq", "citations")
    odd = [{**says("A"), key: junk} for key in keys if key != "choices"]
    odd += [{**chunk(), "usage": junk if not isinstance(junk, dict) else None}, {"choices": junk}]
    odd += [{"choices": [junk, *chunk()["choices"]]}]
    odd += [
        {"choices": [{"index": 0, key: junk}]}
        for key in ("delta", "message", "finish_reason", "logprobs")
        if junk != "x"
    ]
    odd += [
        chunk({key: junk}) for key in ("role", "refusal", "function_call", "reasoning_details") if junk != "x"
    ]
    message = answer(says("B"), *odd, chunk(finish="stop"))
    assert (message.text, message.stop_reason) == ("BAAAA", "stop")


# --- bodies that are no streams -----------------------------------------------------------------------------------------

WHOLE: dict[str, Any] = {
    "id": "r1",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "reasoning_content": "hm",
                "content": "Hi",
                "refusal": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                    {"id": "b", "type": "function", "function": {"name": "now", "arguments": ""}},
                ],
            },
            "finish_reason": "tool_calls",
        },
        {"index": 1, "message": {"role": "assistant", "content": "Other"}, "finish_reason": "stop"},
    ],
    "usage": USAGE,
}


@pytest.mark.parametrize("around", [b"%s", b" \r\n%s\n", b"\xef\xbb\xbf%s", b"\n\xef\xbb\xbf \n%s"])
def test_whole_answer_gives_the_events_of_its_stream(around: bytes) -> None:
    choice = WHOLE["choices"][0]
    as_stream = {**WHOLE, "choices": [{**choice, "delta": choice["message"]}]}
    del as_stream["choices"][0]["message"]
    events = checked(around % json.dumps(WHOLE).encode())
    assert events == checked(stream(as_stream))
    assert made(check_events(events)) == [("a", "f", {"x": 1}), ("b", "now", {})]


def test_whole_answer_breaks_off() -> None:
    body = json.dumps(WHOLE).encode()
    for end in range(1, len(body)):
        message = check_events(events_of(body[:end]))
        assert failure(message) == ("truncated", True)


def test_whole_answer_without_a_reason() -> None:
    body = json.dumps({"choices": [{"message": {"content": "Hi"}}]}).encode()
    message = message_of(body)
    assert (message.text, message.stop_reason) == ("Hi", "stop")
    assert diagnostics(message) == ["stop_reason_inferred"]


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"detail": "Not Found"}', b'{"choices":[]}', b"[1,2]"])
def test_json_without_an_answer(body: bytes) -> None:
    """The error shows what came instead."""
    message = message_of(body)
    assert failure(message) == ("malformed", True)
    assert body.decode()[:5].strip("]}") in (message.error_message or "")


def test_connection_lost_after_a_whole_answer() -> None:
    """All of it came: how the connection ended does not matter."""
    pipeline = pipeline_of()
    events = pipeline.feed(json.dumps(WHOLE).encode()) + pipeline.fail("transport", "connection reset")
    message = check_events(events)
    assert (message.stop_reason, diagnostics(message)) == ("toolUse", ["connection_lost_after_end"])
    half = pipeline_of()
    events = half.feed(json.dumps(WHOLE).encode()[:-9]) + half.fail("transport", "connection reset")
    assert failure(check_events(events)) == ("transport", True)


@pytest.mark.parametrize(
    "body", [b'{"error":{"message":"boom","type":"server_error"}}', b'[{"error":{"message":"boom"}}]']
)
def test_error_object_with_status_200(body: bytes) -> None:
    events = checked(body, headers={"x-request-id": "q1", "retry-after": "2"})
    message = check_events(events)
    assert (types(events), message.error_message) == (["error"], "boom")
    assert message.error_cause is not None
    assert (message.error_cause.request_id, message.error_cause.retry_after_ms) == ("q1", 2000)


@pytest.mark.parametrize(
    "body", [b"<html><title>Bad gateway</title></html>", b"\n<!DOCTYPE html><p>Bad gateway</p>"]
)
def test_web_page_with_status_200(body: bytes) -> None:
    message = message_of(body)
    assert failure(message) == ("malformed", True)
    assert "Bad gateway" in (message.error_message or "")


@pytest.mark.parametrize(
    ("status", "body", "words", "kind", "retryable"),
    [
        (400, b'{"error":{"message":"bad","type":"invalid_request_error"}}', "400 bad", "http_status", False),
        (401, b'{"error":{"message":"no key","code":"invalid_api_key"}}', "401 no key", "auth", False),
        (404, b'{"detail":"Not Found"}', "404 Not Found", "http_status", False),
        (422, b'{"error":"x","message":"long words"}', "422 long words", "http_status", False),
        (429, b"", "429 status code (no body)", "rate_limit", True),
        (500, b"Internal Server Error", "500 Internal Server Error", "http_status", True),
        (500, b"null", "500 null", "http_status", True),
        (502, b"<html><title>502 Bad Gateway</title></html>", "502 502 Bad Gateway", "http_status", True),
        (503, b'data: {"error":{"message":"busy"}}\n\n', "503 busy", "overloaded", True),
        (413, b"too big", "413 too big", "overflow", False),
    ],
)
def test_error_status(status: int, body: bytes, words: str, kind: str, retryable: bool) -> None:
    """Whatever the body is, it is a lone error with status and words."""
    events = checked(body, status=status)
    assert types(events) == ["error"]
    message = check_events(events)
    assert (message.error_message, failure(message)) == (words, (kind, retryable))
    assert message.error_cause is not None
    assert (message.error_cause.status, message.error_cause.phase) == (status, "head")


def test_error_body_of_any_size() -> None:
    """It is read up to a bound, and shown up to another."""
    events = checked(b"x" * 300_000, status=500, limits=Limits(error_bytes=1000))
    (error,) = events
    assert isinstance(error, Error)
    assert error.error.error_message == "500 " + "x" * 1000
    assert len(message_of(b"y" * 9000, status=500).error_message or "") < 4100


def test_connection_lost_in_an_error_body() -> None:
    """The status and what came of the words say more than the lost connection."""
    pipeline = pipeline_of(status=503)
    events = pipeline.feed(b"overlo") + pipeline.fail("transport", "connection reset")
    message = check_events(events)
    assert (message.error_message, failure(message)) == ("503 overlo", ("overloaded", True))


# --- framing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_line_ends(line_end: bytes) -> None:
    body = stream(says("He"), b": ping\n\n", says("llo", "stop"))
    assert checked(body.replace(b"\n", line_end)) == checked(body)


def test_mixed_line_ends() -> None:
    body = frame(says("He"))[:-2] + b"\n\r\n" + frame(says("llo", "stop"))[:-2] + b"\r\r"
    assert message_of(body + DONE).text == "Hello"


def test_no_space_or_two_after_the_colon() -> None:
    body = stream(says("He"), says("llo", "stop"))
    assert checked(body.replace(b"data: ", b"data:")) == checked(body)
    assert checked(body.replace(b"data: {", b"data:  {")) == checked(body)


def test_event_in_several_lines_among_other_fields() -> None:
    first, second = (
        b'data: {"choices":[{"index":0,\n',
        b'data: "delta":{"content":"m"},"finish_reason":"stop"}]}\n\n',
    )
    assert message_of(b"retry: 10\nid: 1\nevent: chunk\n" + first + b": x\nodd\n" + second + DONE).text == "m"


@pytest.mark.parametrize("lead", [b"", b"\xef\xbb\xbf", b": ping\n\n", b"\n\n", b"\r\n \n\xef\xbb\xbf"])
@pytest.mark.parametrize("tail", [b"", b"\n", b"\n\n"])
def test_last_event_without_an_empty_line(lead: bytes, tail: bytes) -> None:
    """A last event that is complete JSON counts, whatever is missing after it."""
    message = message_of(lead + stream(says("done", "stop"), done=False).rstrip() + tail)
    assert (message.text, message.stop_reason) == ("done", "stop")


def test_end_mark_with_white_space() -> None:
    """As loosely as servers write it."""
    for mark in (b"data: [DONE] \n\n", b"data:[DONE]\n\n", b"data:  [DONE]\n\n"):
        assert answer(says("ok", "stop"), mark, done=False).stop_reason == "stop"


def test_very_long_line() -> None:
    text = "a" * 1_000_000
    body = stream(says(text, "stop"))
    assert check_events(events_of(body)).text == check_events(events_of(body, 65_536)).text == text


def test_event_over_the_limit_is_a_named_error() -> None:
    """What came before it is kept, however it was cut."""
    limits = Limits(event_bytes=500)
    message = answer(says("ok"), says("x" * 600), says("y", "stop"), limits=limits)
    assert (message.text, failure(message)) == ("ok", ("too_large", False))
    assert message.error_cause is not None
    assert message.error_cause.origin == "limit"
    last = answer(says("ok"), says("x" * 600), done=False, limits=limits)
    assert (last.text, failure(last)) == ("ok", ("too_large", False))
    whole = message_of(json.dumps(WHOLE).encode(), limits=Limits(event_bytes=100))
    assert failure(whole) == ("too_large", False)


def test_arguments_and_blocks_over_the_limit_are_named_errors() -> None:
    """The bounds of the options hold, and what came until then is kept."""
    long = answer(
        calls(piece('{"a":"', index=0, id="c", name="f")),
        calls(piece("x" * 100, index=0)),
        limits=Limits(argument_bytes=50),
    )
    assert failure(long) == ("too_large", False)
    assert "limits.argument_bytes" in (long.error_message or "")
    many = answer(*(calls(piece("{}", index=at, name="f")) for at in range(9)), limits=Limits(blocks=3))
    assert (len(many.content), failure(many)) == (3, ("too_large", False))


def test_comments_and_empty_events_are_nothing() -> None:
    body = stream(b": ping\n\n", b"data:\n\n", b"event: ping\n\n", says("ok"), b":\n\n", chunk(finish="stop"))
    assert types(checked(body)) == types(checked(stream(says("ok"), chunk(finish="stop"))))


def test_connection_lost_after_the_reason_is_a_success() -> None:
    for kind in ("transport", "timeout_idle", "timeout_content"):
        pipeline = pipeline_of()
        events = pipeline.feed(stream(says("ok", "stop"), done=False)) + pipeline.fail(kind, "lost")
        message = check_events(events)
        assert (message.stop_reason, diagnostics(message)) == ("stop", ["connection_lost_after_end"])


def test_quiet_connection_after_the_reason_is_a_success_without_a_word() -> None:
    pipeline = pipeline_of()
    message = check_events(
        pipeline.feed(stream(says("ok", "stop"), done=False)) + pipeline.fail("drain", "quiet")
    )
    assert (message.stop_reason, message.diagnostics) == ("stop", None)


def test_abort_after_the_reason_is_an_abort() -> None:
    pipeline = pipeline_of()
    events = pipeline.feed(stream(says("ok", "stop"), done=False))
    message = check_events(events + pipeline.fail("cancelled", "aborted", origin="caller"))
    assert (message.stop_reason, message.text, failure(message)) == ("aborted", "ok", ("cancelled", False))


def test_nothing_comes_after_the_terminal_event() -> None:
    pipeline = pipeline_of()
    events = pipeline.feed(stream(says("ok", "stop")))
    assert events[-1].type == "done"
    assert pipeline.feed(b"data: {}\n\n") + pipeline.end() + pipeline.fail("transport", "lost") == []


def test_request_id_is_in_every_error() -> None:
    """Support asks for it, also when the stream broke in the middle."""
    message = answer(says("x"), done=False, headers={"x-request-id": "q1"})
    assert message.error_cause is not None
    assert message.error_cause.request_id == "q1"


def test_observer_sees_every_chunk_once() -> None:
    """However the body is cut, and nothing after the end."""
    body = stream(says("a"), says("b", "stop")) + frame(says("after"))
    for cut in (None, 1, 50):
        seen: list[Any] = []
        events_of(body, cut, on_chunk=seen.append)
        assert seen == [says("a"), says("b", "stop")]
        failed: list[Any] = []
        events_of(stream(says("a"), {"error": "gone"}, says("b")), cut, on_chunk=failed.append)
        assert failed == [says("a"), {"error": "gone"}]


# --- cost ---------------------------------------------------------------------------------------------------------------


def open_calls(many: int) -> list[dict[str, Any]]:
    return [calls(piece("{}", index=at, name="f")) for at in range(many)]


def calls_without_arguments(many: int) -> list[dict[str, Any]]:
    return [calls(piece(index=at, id=str(at), name="f")) for at in range(many)]


def calls_waiting_for_a_name(many: int) -> list[dict[str, Any]]:
    waiting = [calls(piece("{}", index=at, id=str(at))) for at in range(many)]
    return waiting + [calls(piece(index=at, name="f")) for at in range(many)]


def name_in_many_pieces(many: int) -> list[dict[str, Any]]:
    return [calls(piece(index=0, id="c", name=f"n{at}")) for at in range(many)]


def arguments_that_seem_complete(many: int) -> list[dict[str, Any]]:
    return [
        calls(piece('{"a":"', index=0, name="f")),
        *(calls(piece("{x}", index=0, name="f")) for _ in range(many)),
    ]


def arguments_again_and_again(many: int) -> list[dict[str, Any]]:
    return [calls(piece('{"a":1}', index=0, id="c", name="f")) for _ in range(many)]


def many_details(many: int) -> list[dict[str, Any]]:
    return [
        details({"type": "reasoning.encrypted", "data": "x", "id": str(at), "index": at})
        for at in range(many)
    ]


def alternating_blocks(many: int) -> list[dict[str, Any]]:
    return [
        each for _ in range(many) for each in (details({"type": "reasoning.text", "text": "x"}), says("x"))
    ]


def notes_and_data(many: int) -> list[Any]:
    return [each for at in range(many) for each in (frame(at), chunk({"content": "x", "annotations": [at]}))]


def broken_chunks(many: int) -> list[bytes]:
    return [b"data: {oops\n\n"] * many


def lines_run(body: bytes) -> int:
    """How many lines of Python it takes to read a body: the same number every time, unlike seconds."""
    lines = 0

    def count(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        events = events_of(body, malformed="lenient")
    finally:
        sys.settrace(before)
    assert events[-1].type == "done"
    return lines


@pytest.mark.parametrize(
    "make",
    [
        open_calls,
        calls_without_arguments,
        calls_waiting_for_a_name,
        name_in_many_pieces,
        arguments_that_seem_complete,
        arguments_again_and_again,
        many_details,
        alternating_blocks,
        notes_and_data,
        broken_chunks,
    ],
)
def test_twice_as_much_is_twice_the_work(make: Callable[[int], list[Any]]) -> None:
    """However many of them there are, each is handled by itself."""
    once, twice = (lines_run(stream(says("x"), *make(many), chunk(finish="stop"))) for many in (150, 300))
    assert twice < 2.1 * once


def test_thousands_of_everything() -> None:
    many = 2000
    chunks = [*open_calls(many), *many_details(many), *notes_and_data(many), FINISH]
    message = fold(events_of(stream(*chunks)))
    assert len(message.tool_calls) == len(signed(message)) == len(message.provider_data or ()) == many
    assert diagnostics(message) == ["unexpected_chunk"] * many
    (call,) = fold(events_of(stream(*name_in_many_pieces(many), FINISH))).tool_calls
    assert call.name == "".join(f"n{at}" for at in range(many))
