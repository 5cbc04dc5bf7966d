"""The guard alone: what drafts and raw events of any kind become, and that nothing they do is ever raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_stream.events import (
    BlockEnd,
    Done,
    Draft,
    Error,
    Event,
    Finish,
    Metadata,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from pi_stream.exceptions import ProtocolViolation
from pi_stream.guard import Guard
from pi_stream.messages import (
    AssistantMessage,
    DeferredHandle,
    Diagnostic,
    ErrorCause,
    ProviderData,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from pi_stream.reducer import Reducer
from pi_stream.serialization import from_json, to_json
from pi_stream.testing import check_events
from pi_stream.usage import Usage


def head() -> AssistantMessage:
    return AssistantMessage(api="a", provider="p", model="m", timestamp=7)


def final(**fields: Any) -> AssistantMessage:
    return AssistantMessage(api="a", provider="p", model="m", timestamp=7, **fields)


def guarded(*batches: list[Any], **limits: int) -> list[Event]:
    """What a guard makes of batches of drafts; the guarantees hold as far as they go."""
    guard = Guard(head(), **limits)
    events: list[Event] = []
    for batch in batches:
        events += guard.check(batch)
    assert guard.finished == bool(events and events[-1].type in ("done", "error"))
    if guard.finished:
        assert check_events(events) == guard.message
    return events


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def error_of(events: list[Event]) -> AssistantMessage:
    last = events[-1]
    assert isinstance(last, Error)
    return last.error


def violation(*batches: list[Any]) -> tuple[int, str]:
    """The number of the guarantee that drafts break, and what the error says."""
    message = error_of(guarded(*batches))
    cause = message.error_cause
    assert cause is not None
    assert (cause.kind, cause.origin, cause.retryable) == ("protocol", "provider", False)
    assert cause.provider_code is not None
    rule = int(cause.provider_code.removeprefix("guarantee-"))
    assert f"guarantee {rule}: " in (message.error_message or "")
    return rule, message.error_message or ""


TEXT: list[Draft] = [TextStart(0), TextDelta(0, "Hi")]
CALL: list[Draft] = [ToolCallStart(0, "c", "f"), ToolCallDelta(0, '{"a":1}')]
GOOD = ToolCall("c", "f", {"a": 1})


# --- a stream as it should be -------------------------------------------------------------------------------------------


def test_drafts_become_events() -> None:
    """The guard opens the stream, ends blocks, parses arguments, and builds the terminal event."""
    events = guarded(
        [*TEXT, BlockEnd(0)],
        [ToolCallStart(1, "c", "f"), ToolCallDelta(1, '{"a":')],
        [ToolCallDelta(1, "1}"), Finish("toolUse")],
    )
    assert types(events) == [
        *("start", "text_start", "text_delta", "text_end"),
        *("toolcall_start", "toolcall_delta", "toolcall_delta", "toolcall_end", "done"),
    ]
    assert check_events(events).content == [TextContent("Hi"), GOOD]


def test_start_comes_with_the_first_block_and_what_was_held_back_follows_it() -> None:
    """Metadata alone opens nothing, so a failure before the first block is a lone error, with all of it."""
    early: list[Draft] = [Metadata(response_id="r"), Metadata(usage=Usage(input=3))]
    guard = Guard(head())
    assert guard.check(early) == []
    assert not guard.started
    assert types(guard.check([TextStart(0)])) == ["start", "metadata", "metadata", "text_start"]
    events = guarded(early, [Finish("error", "boom")])
    assert types(events) == ["error"]
    assert (error_of(events).response_id, error_of(events).usage.input) == ("r", 3)


def test_an_empty_answer_is_start_and_done() -> None:
    assert types(guarded([Metadata(response_id="r")], [Finish("stop")])) == ["start", "metadata", "done"]


def test_open_blocks_are_ended_before_the_terminal_event() -> None:
    for finish in (Finish("stop"), Finish("error", "boom"), Finish("aborted", "left")):
        assert types(guarded([*TEXT, finish]))[-2:] == [
            "text_end",
            "done" if finish.reason == "stop" else "error",
        ]


def test_blocks_that_were_cut_off_empty_may_stay_empty() -> None:
    """Not a guarantee broken by the provider: the failure came in between."""
    events = guarded([TextStart(0), Finish("error", "boom")])
    assert types(events) == ["start", "text_start", "text_end", "error"]
    assert error_of(events).error_message == "boom"


def test_refused_event_leaves_nothing_behind() -> None:
    """What a refused event says beside what it breaks is not in the message either."""
    events = guarded([*TEXT, Metadata(response_id="r", content_index=0, signature="s")])
    assert error_of(events).response_id is None


def test_call_that_was_cut_off_before_its_arguments_is_no_complete_call() -> None:
    events = guarded([ToolCallStart(0, "c", "f"), Finish("error", "boom")])
    (call,) = error_of(events).tool_calls
    assert (call.arguments, bool(call.arguments_error)) == ({}, True)
    (call,) = check_events(guarded([ToolCallStart(0, "c", "f"), BlockEnd(0), Finish("toolUse")])).tool_calls
    assert (call.arguments, call.arguments_error) == ({}, None)


def test_half_arguments_become_an_error_of_the_call_with_their_text() -> None:
    for finish in (Finish("error", "boom"), Finish("length")):
        events = guarded([ToolCallStart(0, "c", "f"), ToolCallDelta(0, '{"a":'), finish])
        (call,) = check_events(events).tool_calls
        assert call.arguments == {}
        assert (call.arguments_error or "").endswith('\n\n{"a":')


def test_a_reason_why_a_call_is_unusable_is_kept_with_its_text() -> None:
    (call,) = check_events(guarded([*CALL, BlockEnd(0, error="no name"), Finish("toolUse")])).tool_calls
    assert (call.arguments, call.arguments_error) == ({}, 'no name\n\n{"a":1}')


def test_signatures_of_all_kinds() -> None:
    events = guarded(
        [ThinkingStart(0), BlockEnd(0, signature="t", redacted=True)],
        [TextStart(1), BlockEnd(1, signature="x")],
        [ToolCallStart(2, "c", "f"), BlockEnd(2, signature="s", namespace="n")],
        [Metadata(content_index=1, signature="late"), Finish("toolUse")],
    )
    assert check_events(events).content == [
        ThinkingContent("", thinking_signature="t", redacted=True),
        TextContent("", text_signature="late"),
        ToolCall("c", "f", {}, thought_signature="s", namespace="n"),
    ]


def test_deferred_answers() -> None:
    ticket = DeferredHandle(provider="p", model_id="m", api="a", id="d")
    message = check_events(guarded([Finish("deferred", deferred=ticket)]))
    assert (message.stop_reason, message.deferred) == ("deferred", ticket)


def test_final_text_that_continues_the_streamed_one_is_a_last_delta() -> None:
    events = guarded([*TEXT, BlockEnd(0, content="Hi there"), Finish("stop")])
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["Hi", " there"]
    events = guarded([ThinkingStart(0), BlockEnd(0, content="hm"), Finish("stop")])
    assert check_events(events).content == [ThinkingContent("hm")]


def test_final_text_that_contradicts_the_streamed_one_changes_nothing() -> None:
    message = check_events(guarded([*TEXT, BlockEnd(0, content="Bye"), Finish("stop")]))
    (diagnostic,) = message.diagnostics or ()
    assert (message.text, diagnostic.type) == ("Hi", "final_text_differs")
    assert diagnostic.details == {"contentIndex": 0, "content": "Bye"}


@pytest.mark.parametrize(
    ("streamed", "said", "arguments", "differs"),
    [
        ("", '{"a":1}', {"a": 1}, False),
        (" ", '{"a":1}', {"a": 1}, False),
        ('{"a"', '{"a":1}', {"a": 1}, False),
        ('{"a": 1}', '{"a":1}', {"a": 1}, False),
        ('{"a":2}', '{"a":1}', {"a": 2}, True),
    ],
)
def test_final_arguments(streamed: str, said: str, arguments: dict[str, int], differs: bool) -> None:
    """They add what is missing; the same value spelt differently is no contradiction."""
    drafts = [
        ToolCallStart(0, "c", "f"),
        ToolCallDelta(0, streamed),
        BlockEnd(0, content=said),
        Finish("toolUse"),
    ]
    message = check_events(guarded(drafts))
    assert message.tool_calls[0].arguments == arguments
    assert bool(message.diagnostics) == differs


@pytest.mark.parametrize("reason", ["error", "aborted"])
def test_error_without_words_or_cause(reason: Any) -> None:
    """An error event always has both."""
    message = error_of(guarded([Finish(reason)]))
    assert message.error_message
    assert message.error_cause is not None
    assert message.error_cause.kind == ("cancelled" if reason == "aborted" else "provider_error")


def test_words_of_an_error_do_not_stay_on_a_success() -> None:
    message = check_events(guarded([*TEXT, Finish("stop", "boom", ErrorCause(kind="tls"))]))
    assert (message.error_message, message.error_cause) == (None, None)


def test_counts_and_request_id_are_in_the_cause_of_every_error() -> None:
    """The cause a provider gives is copied: it may be the same object every time."""
    shared = ErrorCause(kind="overloaded")
    for total in (5, 9):
        guard = Guard(head())
        guard.bytes, guard.chunks, guard.request_id = total, 2, "q"
        cause = error_of(guard.check([Finish("error", "busy", shared)])).error_cause
        assert cause == ErrorCause(kind="overloaded", bytes=total, chunks=2, request_id="q")
    assert shared == ErrorCause(kind="overloaded")


def test_counts_as_of_the_draft_that_is_refused() -> None:
    guard = Guard(head())
    events = guard.check(
        [*TEXT, TextDelta(1, "x"), TextDelta(0, "y")], lambda position: (position * 10, position)
    )
    cause = error_of(events).error_cause
    assert cause is not None
    assert (cause.bytes, cause.chunks) == (20, 2)


def test_events_that_were_handed_out_never_change() -> None:
    """Notes that come later do not show in the message of `start`."""
    begun = AssistantMessage(diagnostics=[Diagnostic(type="a")], provider_data=[], timestamp=7)
    guard = Guard(begun)
    events = guard.check([*TEXT, Metadata(diagnostic=Diagnostic(type="b"))])
    assert isinstance(events[0], Start)
    assert events[0].message.diagnostics == begun.diagnostics == [Diagnostic(type="a")]
    assert len(check_events(events + guard.check([END])).diagnostics or ()) == 2


def test_duration_is_measured_when_somebody_can() -> None:
    guard = Guard(head(), elapsed_ms=lambda: 12)
    assert check_events(guard.check([Finish("stop")])).duration_ms == 12


def test_nothing_comes_after_the_end() -> None:
    guard = Guard(head())
    guard.check([Finish("stop")])
    assert guard.check([*TEXT, Finish("stop")]) == []
    assert guard.violate(ProtocolViolation(8, "x")) == []
    assert guard.message.stop_reason == "stop"


def test_a_violation_told_from_outside_ends_the_stream() -> None:
    guard = Guard(head())
    events = guard.check(TEXT) + guard.violate(ProtocolViolation(9, "returned without finish()"))
    assert types(events)[-2:] == ["text_end", "error"]
    assert "guarantee 9: returned without finish()" in (error_of(events).error_message or "")


def test_guard_that_goes_on_where_a_reducer_stands() -> None:
    """What a consumer was handed ends properly, with the counts of the stream."""
    guard = Guard(head())
    handed = guard.check(TEXT)[:2]
    guard.bytes, guard.chunks, guard.request_id = 9, 2, "q"
    reducer = Reducer()
    reducer.apply_all(handed)
    events = Guard.resume(head(), reducer, guard).check([Finish("aborted", "left")])
    message = check_events(handed + events)
    assert (message.stop_reason, message.content) == ("aborted", [TextContent("")])
    assert message.error_cause == ErrorCause(kind="cancelled", bytes=9, chunks=2, request_id="q")


# --- guarantees broken --------------------------------------------------------------------------------------------------

END = Finish("stop")
DONE = Done("stop", final(stop_reason="stop"))


@pytest.mark.parametrize(
    ("rule", "batches"),
    [
        (1, [[Start(head()), Start(head())]]),
        (1, [[*TEXT], [Start(head())]]),
        (1, [[*TEXT, END, END]]),
        (1, [[*TEXT, END, DONE]]),
        (1, [[END, Error("error", final(stop_reason="error"))]]),
        (2, [[TextStart(1)]]),
        (2, [[TextStart(-1)]]),
        (2, [[TextStart(True)]]),
        (2, [[TextStart(0.0)]]),  # type: ignore[arg-type]
        (2, [[*TEXT, TextEnd(0, "Hi"), TextStart(0)]]),
        (2, [[*TEXT, TextEnd(0, "Hi"), TextDelta(0, "x")]]),
        (2, [[*TEXT, TextEnd(0, "Hi"), TextEnd(0, "Hi")]]),
        (2, [[*TEXT, ThinkingDelta(0, "x")]]),
        (2, [[*TEXT, ToolCallDelta(0, "x")]]),
        (2, [[*TEXT, ThinkingEnd(0, "Hi")]]),
        (2, [[*TEXT, TextDelta(1, "x")]]),
        (2, [[*TEXT, BlockEnd(1)]]),
        (2, [[TextDelta(0, "x")]]),
        (2, [[TextEnd(0, "")]]),
        (2, [[BlockEnd(0)]]),
        (2, [[*CALL, ToolCallEnd(0, GOOD), ToolCallDelta(0, "x")]]),
        (2, [[*CALL, TextEnd(0, "x")]]),
        (2, [[*TEXT, Metadata(content_index=0, signature="s")]]),
        (2, [[Metadata(content_index=0, signature="s"), Finish("error", "x")]]),
        (3, [[*TEXT, DONE]]),
        (3, [[*CALL, Done("toolUse", final(stop_reason="toolUse"))]]),
        (4, [[*TEXT, TextEnd(0, "Ho")]]),
        (4, [[*TEXT, TextEnd(0, "Hi there")]]),
        (4, [[ThinkingStart(0), ThinkingDelta(0, "a"), ThinkingEnd(0, "")]]),
        (4, [[*CALL, ToolCallEnd(0, ToolCall("c", "f", {"a": 2}))]]),
        (4, [[*CALL, ToolCallEnd(0, ToolCall("c", "f"))]]),
        (4, [[*CALL, ToolCallEnd(0, ToolCall("c", "g", {"a": 1}))]]),
        (4, [[*CALL, ToolCallEnd(0, ToolCall("d", "f", {"a": 1}))]]),
        (4, [[ToolCallStart(0, "c", "f"), ToolCallDelta(0, "{bad"), ToolCallEnd(0, ToolCall("c", "f"))]]),
        (5, [[*TEXT, Finish("pending")]]),
        (5, [[*TEXT, Finish("never")]]),  # type: ignore[arg-type]
        (5, [[*TEXT, TextEnd(0, "Hi"), Done("stop", final())]]),
        (5, [[*TEXT, TextEnd(0, "Hi"), Done("length", final(stop_reason="stop"))]]),
        (
            5,
            [[*TEXT, TextEnd(0, "Hi"), Done("stop", final(stop_reason="stop", content=[TextContent("Ho")]))]],
        ),
        (6, [[*TEXT, ThinkingStart(1)]]),
        (6, [[*TEXT, TextStart(1)]]),
        (6, [[*TEXT, ToolCallStart(1, "c", "f")]]),
        (6, [[*CALL, TextStart(1), ToolCallStart(2, "d", "f")]]),
        (7, [[TextStart(0), BlockEnd(0)]]),
        (7, [[TextStart(0), TextDelta(0, ""), BlockEnd(0, content="", signature="")]]),
        (7, [[ThinkingStart(0), ThinkingEnd(0, "")]]),
        (7, [[TextStart(0), TextEnd(0, "")]]),
        (7, [[TextStart(0), END]]),
        (9, [[*TEXT, Finish("toolUse")]]),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_broken_guarantee_is_one_error_that_names_it(rule: int, batches: list[list[Draft]]) -> None:
    """Every block that was open is ended, and what was streamed is kept."""
    assert violation(*batches)[0] == rule


class Odd:
    """Nothing that a stream knows."""

    def __repr__(self) -> str:
        return "Odd()"  # without an address: the names of tests are the same in every process


class MyText(TextDelta):
    """A class of a provider's own."""


class MyStr(str):
    __slots__ = ()


UNUSABLE: list[Any] = [
    None,
    "text",
    5,
    Odd(),
    MyText(0, "x"),
    [TextDelta(0, "x")],
    TextDelta(0, 5),  # type: ignore[arg-type]
    TextDelta(0, None),  # type: ignore[arg-type]
    TextDelta(0, b"x"),  # type: ignore[arg-type]
    TextDelta(0, MyStr("x")),
    TextDelta([], "x"),  # type: ignore[arg-type]
    TextEnd({}, "x"),  # type: ignore[arg-type]
    TextEnd(0, 5),  # type: ignore[arg-type]
    TextEnd(0, "Hi", 5),  # type: ignore[arg-type]
    BlockEnd(0, content=5),  # type: ignore[arg-type]
    BlockEnd(0, signature=b"x"),  # type: ignore[arg-type]
    BlockEnd(0, redacted="yes"),  # type: ignore[arg-type]
    BlockEnd(None),  # type: ignore[arg-type]
    ToolCallStart("x", "c", "f"),  # type: ignore[arg-type]
    ToolCallEnd(0, None),  # type: ignore[arg-type]
    Metadata(usage=5),  # type: ignore[arg-type]
    Metadata(usage={"input": 5}),  # type: ignore[arg-type]
    Metadata(response_id=5),  # type: ignore[arg-type]
    Metadata(diagnostic="x"),  # type: ignore[arg-type]
    Metadata(provider_data={}),  # type: ignore[arg-type]
    Metadata(content_index="0", signature="x"),  # type: ignore[arg-type]
    Metadata(content_index=99, signature="x"),
    Start(None),  # type: ignore[arg-type]
    Finish("error", 5),  # type: ignore[arg-type]
    Finish("error", "x", "y"),  # type: ignore[arg-type]
    Finish([]),  # type: ignore[arg-type]
    Finish(None),  # type: ignore[arg-type]
    Finish("deferred", deferred="x"),  # type: ignore[arg-type]
    Done("stop", None),  # type: ignore[arg-type]
    Error("error", None),  # type: ignore[arg-type]
    Error("error", "boom"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("bad", UNUSABLE, ids=repr)
@pytest.mark.parametrize(
    "before", [[], TEXT, [Metadata(diagnostic=Diagnostic(type="x"))]], ids=["", "text", "held"]
)
def test_unusable_value_is_one_error(bad: Any, before: list[Draft]) -> None:
    """Whatever a provider yields: the stream ends with what came before it, and can be saved."""
    events = guarded([*before, bad])
    message = error_of(events)
    assert message.text == ("Hi" if before is TEXT else "")
    assert len(message.diagnostics or ()) == (len(before) if before is not TEXT else 0)
    assert from_json(to_json(message), AssistantMessage) == message


@pytest.mark.parametrize("id", [None, 5, b"c"])
def test_call_needs_an_id_and_a_name(id: Any) -> None:
    assert violation([ToolCallStart(0, id, "f")])[0] == 8
    assert violation([ToolCallStart(0, "c", id)])[0] == 8


@pytest.mark.parametrize("field", ["thought_signature", "namespace", "arguments_error"])
def test_values_inside_a_finished_call_are_checked(field: str) -> None:
    assert violation([*CALL, ToolCallEnd(0, ToolCall("c", "f", {"a": 1}, **{field: 5}))])[0] == 8


def test_what_follows_the_end_in_its_batch_is_dropped_with_a_diagnostic() -> None:
    message = check_events(
        guarded([*TEXT, Finish("stop"), TextDelta(0, "x"), BlockEnd(0), Metadata(response_id="r")])
    )
    (diagnostic,) = message.diagnostics or ()
    assert (message.stop_reason, message.text, message.response_id) == ("stop", "Hi", None)
    assert (diagnostic.type, diagnostic.details) == (
        "after_terminal",
        {"dropped": ["text_delta", "BlockEnd", "metadata"]},
    )


# --- events of a provider's own -----------------------------------------------------------------------------------------


def test_raw_events_pass_as_they_are() -> None:
    done = Done("toolUse", final(stop_reason="toolUse", content=[TextContent("Hi"), GOOD]))
    raw: list[Draft] = [
        Start(head()),
        *TEXT,
        TextEnd(0, "Hi", "sig"),
        ToolCallStart(1, "c", "f"),
        ToolCallDelta(1, '{"a":1}'),
        ToolCallEnd(1, GOOD),
    ]
    done.message.content[0].text_signature = "sig"  # type: ignore[union-attr]
    events = guarded(raw, [done])
    assert events[1:-1] == raw[1:]
    assert check_events(events).content == done.message.content


def test_a_provider_says_things_in_its_messages_too() -> None:
    """Usage, ids and notes of its `start` and `done` reach the message, each once."""
    note, kept = Diagnostic(type="x"), ProviderData(after=0, api="a", provider="p", model="m", data=1)
    begun = final(response_id="r", diagnostics=[note])
    ended = final(
        stop_reason="stop",
        response_id="r",
        raw_stop_reason="eos",
        diagnostics=[note],
        provider_data=[kept],
        usage=Usage(input=3),
    )
    events = guarded([Start(begun), *TEXT, TextEnd(0, "Hi"), Done("stop", ended)])
    message = check_events(events)
    assert (message.response_id, message.raw_stop_reason, message.usage.input) == ("r", "eos", 3)
    assert (message.diagnostics, message.provider_data) == ([note], [kept])


def test_raw_error_keeps_its_words_and_ends_what_was_open() -> None:
    cause = ErrorCause(kind="overloaded", retryable=True)
    events = guarded(
        [*TEXT, Error("error", final(stop_reason="error", error_message="busy", error_cause=cause))]
    )
    assert types(events)[-2:] == ["text_end", "error"]
    assert (error_of(events).error_message, error_of(events).error_cause, error_of(events).text) == (
        "busy",
        cause,
        "Hi",
    )


def test_raw_error_without_words() -> None:
    assert error_of(guarded([Error("error", final())])).error_message


def test_error_of_a_call_that_lacks_its_text_gets_it() -> None:
    call = ToolCall("c", "f", {"half": 1}, arguments_error="cut")
    events = guarded([*CALL, ToolCallEnd(0, call), Finish("toolUse")])
    (made,) = check_events(events).tool_calls
    assert (made.arguments, made.arguments_error) == ({}, 'cut\n\n{"a":1}')


# --- bounds and cost ----------------------------------------------------------------------------------------------------


def failure(events: list[Event]) -> tuple[str, str, bool]:
    cause = error_of(events).error_cause
    assert cause is not None
    return cause.kind, cause.origin, cause.retryable


def test_bounds() -> None:
    """Passing one is an error of the limit, not a broken guarantee; what came until then is kept."""
    blocks: list[Draft] = []
    for index in range(4):
        blocks += [TextStart(index), TextDelta(index, "x"), BlockEnd(index)]
    events = guarded(blocks, max_blocks=3)
    assert failure(events) == ("too_large", "limit", False)
    assert error_of(events).text == "xxx"
    assert types(guarded([*blocks, END], max_blocks=4))[-1] == "done"
    arguments: list[Draft] = [ToolCallStart(0, "c", "f"), *(ToolCallDelta(0, letter) for letter in '{"a":1}')]
    assert failure(guarded(arguments, max_argument_bytes=6)) == ("too_large", "limit", False)
    assert types(guarded([*arguments, Finish("toolUse")], max_argument_bytes=7))[-1] == "done"


def test_argument_bound_is_for_each_call() -> None:
    drafts: list[Draft] = []
    for index in range(5):
        drafts += [ToolCallStart(index, str(index), "f"), ToolCallDelta(index, '{"a":1}')]
    assert types(guarded([*drafts, Finish("toolUse")], max_argument_bytes=8))[-1] == "done"


def test_thousands_of_open_calls_and_notes() -> None:
    """Each event is handled by itself, however many came before it."""
    many = 9000
    drafts: list[Draft] = [ToolCallStart(index, str(index), "f") for index in range(many)]
    drafts += [Metadata(diagnostic=Diagnostic(type="x")) for _ in range(many)]
    guard = Guard(head())
    assert len(guard.check([*drafts, Finish("toolUse")])) == 1 + many + many + many + 1
    assert len(guard.message.tool_calls) == len(guard.message.diagnostics or ()) == many


# --- anything at all ----------------------------------------------------------------------------------------------------

indexes = st.sampled_from([0, 0, 1, 1, 2, 3, -1])
texts = st.sampled_from(["", "a", "b", "{", "}", '{"a":1}', " "])
maybe = st.none() | st.sampled_from(["", "s"])
calls = st.builds(
    ToolCall,
    st.sampled_from(["c", "d"]),
    st.just("f"),
    st.sampled_from([{}, {"a": 1}]),
    arguments_error=st.none() | texts,
)
messages = st.builds(
    final,
    stop_reason=st.sampled_from(["pending", "stop", "length", "toolUse", "error", "aborted"]),
    content=st.lists(st.builds(TextContent, texts), max_size=1),
    response_id=maybe,
    usage=st.builds(Usage, input=st.integers(0, 2)),
    error_message=maybe,
    diagnostics=st.none() | st.lists(st.builds(Diagnostic, type=texts), max_size=1),
)
reasons = st.sampled_from(["stop", "length", "toolUse", "deferred", "error", "aborted", "pending", "odd"])
drafts = st.one_of(
    st.builds(TextStart, indexes),
    st.builds(TextDelta, indexes, texts),
    st.builds(TextEnd, indexes, texts, maybe),
    st.builds(ThinkingStart, indexes),
    st.builds(ThinkingDelta, indexes, texts),
    st.builds(ThinkingEnd, indexes, texts, maybe, st.none() | st.booleans()),
    st.builds(ToolCallStart, indexes, st.sampled_from(["c", "d"]), st.just("f")),
    st.builds(ToolCallDelta, indexes, texts),
    st.builds(ToolCallEnd, indexes, calls),
    st.builds(BlockEnd, indexes, st.none() | texts, maybe, st.none() | st.booleans(), error=maybe),
    st.builds(Metadata, response_id=maybe, content_index=st.none() | indexes, signature=maybe),
    st.builds(Metadata, diagnostic=st.builds(Diagnostic, type=texts)),
    st.builds(Start, messages),
    st.builds(Finish, reasons, maybe),
    st.builds(Done, reasons, messages),
    st.builds(Error, reasons, messages),
    st.sampled_from(UNUSABLE),
)


@st.composite
def mostly_right(draw: st.DrawFn) -> list[Draft]:
    """A stream as it should be, into which some of anything was put."""
    right: list[Draft] = []
    for index in range(draw(st.integers(0, 3))):
        kind = draw(
            st.sampled_from([(TextStart, TextDelta), (ThinkingStart, ThinkingDelta), (None, ToolCallDelta)])
        )
        start: Callable[[int], Draft] = kind[0] or (lambda at: ToolCallStart(at, str(at), "f"))
        right += [start(index), kind[1](index, draw(texts)), kind[1](index, draw(texts))]
        if draw(st.booleans()):
            right.append(BlockEnd(index))
    right.append(Finish(draw(reasons), "x"))
    for _ in range(draw(st.integers(0, 2))):
        right.insert(draw(st.integers(0, len(right))), draw(drafts))
    return right


@settings(max_examples=400)
@given(st.lists(drafts, max_size=8) | mostly_right(), st.integers(1, 4), st.integers(1, 3))
def test_any_drafts_in_any_order_keep_the_guarantees(line: list[Draft], batch: int, max_blocks: int) -> None:
    """Nothing is raised; what comes out is a stream that keeps its guarantees, or the beginning of one."""
    batches = [line[start : start + batch] for start in range(0, len(line), batch)]
    events = guarded(*batches, [Finish("error", "over")], max_blocks=max_blocks)
    assert events[-1].type in ("done", "error")
    assert types(events).count("start") == (len(events) > 1)


@given(st.lists(drafts, max_size=8) | mostly_right())
def test_the_message_of_the_guard_is_the_fold_of_its_events(line: list[Draft]) -> None:
    """At every step, and pending until the terminal event."""
    guard, reducer = Guard(head()), Reducer()
    for draft in line:
        events = guard.check([draft])
        reducer.apply_all(events)
        if guard.started or guard.finished:
            assert reducer.message == guard.message
        assert guard.finished or guard.message.stop_reason == "pending"
