"""The reducer: what events fold into, at every step, and what it refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.events import (
    Done,
    Error,
    Event,
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
from pi_stream.messages import (
    AssistantMessage,
    Diagnostic,
    ErrorCause,
    ProviderData,
    TextContent,
    ThinkingContent,
    ToolCall,
    UnknownContent,
)
from pi_stream.reducer import Reducer, fold, snapshot, unfold
from pi_stream.usage import Usage


def head() -> AssistantMessage:
    return AssistantMessage(api="openai-completions", provider="p", model="m", timestamp=7)


def test_message_is_pending_and_complete_at_every_step() -> None:
    """After each event the message holds what was streamed so far, and is final only after the terminal event."""
    reducer = Reducer()
    call = ToolCall("c1", "add", {"a": 1})
    final = head()
    steps: list[tuple[Event, object]] = [
        (Start(head()), []),
        (ThinkingStart(0), [ThinkingContent("")]),
        (ThinkingDelta(0, "hm"), [ThinkingContent("hm")]),
        (ThinkingEnd(0, "hm", "sig"), [ThinkingContent("hm", thinking_signature="sig")]),
        (ToolCallStart(1, "c1", "add"), ToolCall("c1", "add", {})),
        (ToolCallDelta(1, '{"a"'), ToolCall("c1", "add", {})),
        (ToolCallDelta(1, ":1"), ToolCall("c1", "add", {"a": 1})),
        (ToolCallDelta(1, "}"), call),
        (ToolCallEnd(1, call), call),
        (Metadata(usage=Usage(input=3)), call),
    ]
    for event, expected in steps:
        reducer.apply(event)
        content = reducer.message.content
        assert (content if isinstance(expected, list) else content[-1]) == expected
        assert reducer.message.stop_reason == "pending"
    reducer.apply(Done("toolUse", final))
    assert reducer.message.stop_reason == "toolUse"
    assert reducer.message.usage.input == 3
    assert (reducer.message.api, reducer.message.timestamp) == ("openai-completions", 7)


def test_start_message_is_not_touched_by_later_events() -> None:
    """Events are values: what `start` carried stays as it was."""
    start = Start(head())
    fold([start, TextStart(0), TextDelta(0, "x"), TextEnd(0, "x"), Metadata(response_id="r")])
    assert start == Start(head())


def test_late_signature_reaches_its_block() -> None:
    """A signature that comes after the end belongs to the block that the metadata names."""
    events: list[Event] = [Start(head()), TextStart(0), TextDelta(0, "x"), TextEnd(0, "x")]
    assert fold([*events, Metadata(content_index=0, signature="s")]).content == [
        TextContent("x", text_signature="s")
    ]


def test_diagnostics_and_provider_data_are_collected() -> None:
    """Each metadata event adds to the lists and replaces the rest."""
    data = ProviderData(after=0, api="a", provider="p", model="m", data={"x": 1})
    message = fold(
        [
            Start(head()),
            Metadata(diagnostic=Diagnostic(type="a")),
            Metadata(diagnostic=Diagnostic(type="b"), provider_data=data),
            Metadata(raw_stop_reason="end", response_model="m2", response_id="r"),
        ]
    )
    assert [diagnostic.type for diagnostic in message.diagnostics or ()] == ["a", "b"]
    assert message.provider_data == [data]
    assert (message.raw_stop_reason, message.response_model, message.response_id) == ("end", "m2", "r")


def test_a_lone_error_folds_into_its_message() -> None:
    """A failure before the start has its whole message in the error event."""
    failed = head()
    failed.stop_reason = "error"
    failed.error_message = "no"
    failed.error_cause = ErrorCause(kind="connect")
    assert fold([Error("error", failed)]) == failed


OPENED: list[Event] = [Start(head()), TextStart(0), TextDelta(0, "x")]


@pytest.mark.parametrize(
    ("events", "rule"),
    [
        ([*OPENED, TextStart(2)], 2),
        ([*OPENED, TextStart(0)], 2),
        ([*OPENED, TextDelta(1, "x")], 2),
        ([*OPENED, ThinkingDelta(0, "x")], 2),
        ([*OPENED, ThinkingEnd(0, "x")], 2),
        ([*OPENED, TextEnd(0, "x"), TextDelta(0, "y")], 2),
        ([*OPENED, TextEnd(0, "x"), TextEnd(0, "x")], 2),
        ([*OPENED, TextEnd(0, "other")], 4),
        ([*OPENED, Done("stop", head())], 3),
        ([*OPENED, Metadata(content_index=0, signature="s")], 2),
        ([Start(head()), Start(head())], 1),
        ([Start(head()), Done("stop", head()), TextStart(0)], 1),
        ([Start(head()), Done("stop", head()), Done("stop", head())], 1),
        ([Start(head()), "text"], 8),
    ],
)
def test_events_out_of_order_are_refused(events: list[Event], rule: int) -> None:
    """The reducer names the guarantee that an event breaks."""
    with pytest.raises(ProtocolViolation, match=f"guarantee {rule}:"):
        fold(events)


def test_snapshot_does_not_grow() -> None:
    """A snapshot is independent of the live message, arguments included."""
    reducer = Reducer()
    reducer.apply_all([Start(head()), ToolCallStart(0, "c", "f"), ToolCallDelta(0, '{"a":[1')])
    taken = snapshot(reducer.message)
    reducer.apply(ToolCallDelta(0, ",2]"))
    assert reducer.message.content == [ToolCall("c", "f", {"a": [1, 2]})]
    assert taken.content == [ToolCall("c", "f", {"a": [1]})]


texts = st.text(max_size=20)
names = st.text("abc", min_size=1, max_size=4)
signatures = st.none() | names
arguments = st.dictionaries(
    names, st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2)
)
blocks = st.one_of(
    st.builds(TextContent, texts, text_signature=signatures),
    st.builds(ThinkingContent, texts, thinking_signature=signatures, redacted=st.none() | st.just(True)),
    st.builds(ToolCall, names, names, arguments, thought_signature=signatures, namespace=signatures),
)


@st.composite
def messages(draw: st.DrawFn) -> AssistantMessage:
    message = draw(
        st.builds(
            AssistantMessage,
            st.lists(blocks, max_size=4),
            api=names,
            provider=names,
            model=names,
            response_model=signatures,
            response_id=signatures,
            thinking_level=signatures,
            raw_stop_reason=signatures,
            usage=st.builds(Usage, input=st.integers(0, 9), output=st.integers(0, 9)),
            diagnostics=st.none() | st.lists(st.builds(Diagnostic, type=names), min_size=1, max_size=2),
            stop_reason=st.sampled_from(
                ["pending", "stop", "length", "toolUse", "error", "aborted", "deferred"]
            ),
            timestamp=st.integers(0, 9),
            duration_ms=st.none() | st.integers(0, 9),
            extra=st.dictionaries(st.just("newKey"), st.integers(), max_size=1),
        )
    )
    if message.stop_reason == "pending":
        message.duration_ms = None
    if message.stop_reason in ("error", "aborted"):
        message.error_message = draw(names)
        message.error_cause = ErrorCause(kind="truncated")
    return message


@given(messages())
def test_unfold_is_the_inverse_of_fold(message: AssistantMessage) -> None:
    """Every message comes back from the events it unfolds into, and is not changed by that."""
    before = snapshot(message)
    assert fold(unfold(message)) == before
    assert message == before


def test_unfold_keeps_the_text_of_broken_arguments() -> None:
    """A call whose arguments were no JSON unfolds into the text that was received."""
    call = ToolCall("c", "f", {}, arguments_error='Expecting value\n\n{"a":\n\n oops')
    message = AssistantMessage([call], stop_reason="stop", timestamp=1)
    assert ToolCallDelta(0, '{"a":\n\n oops') in unfold(message)
    assert fold(unfold(message)) == message


def test_unfold_names_a_block_that_no_event_can_carry() -> None:
    """Nothing is lost silently: an unknown block is an error that says where it stands."""
    message = AssistantMessage([TextContent("a"), UnknownContent("hologram")], stop_reason="stop")
    with pytest.raises(ValueError, match=r"content\[1\].*hologram"):
        unfold(message)


def test_text_is_readable_after_every_delta() -> None:
    """The live text is right whenever somebody looks, however often."""
    reducer = Reducer()
    reducer.apply_all([Start(head()), TextStart(0)])
    expected = ""
    for number in range(2000):
        reducer.apply(TextDelta(0, f"{number} é\U0001f600"))
        expected += f"{number} é\U0001f600"
        if number % 3 == 0:
            assert reducer.message.text == expected
    reducer.apply(TextEnd(0, expected))
    assert reducer.message.text == expected


def test_live_arguments_follow_every_delta() -> None:
    """Half-received arguments can be read at any point and end as the strict parse of the whole."""
    value = {"path": "/tmp/x", "edits": [{"from": "a\nb", "to": "é"}] * 20, "n": -1.5e3, "ok": True}
    raw = json.dumps(value)
    reducer = Reducer()
    reducer.apply_all([Start(head()), ToolCallStart(0, "c", "f")])
    for character in raw:
        reducer.apply(ToolCallDelta(0, character))
        (call,) = reducer.message.tool_calls
        assert set(call.arguments) <= set(value)
    assert reducer.message.tool_calls[0].arguments == value
