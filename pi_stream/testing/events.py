"""Checks that a stream keeps the guarantees of :mod:`pi_stream.events`, from its events alone."""

from __future__ import annotations

from collections.abc import Sequence

from pi_stream.events import Done, Error, Event, Start
from pi_stream.messages import AssistantMessage
from pi_stream.partial_json import parse_arguments
from pi_stream.reducer import Reducer

__all__ = ["check_events"]

_STARTS = {"text_start": "text", "thinking_start": "thinking", "toolcall_start": "toolcall"}


def check_events(events: Sequence[Event]) -> AssistantMessage:
    """Check guarantees 1 to 7 on all events of one stream.

    Written apart from the guard and the reducer, which it checks.

    Args:
        events: All events of a stream, the terminal one last.

    Returns:
        The final message.

    Raises:
        AssertionError: A guarantee is broken; the message says which and where.
    """
    assert events, "guarantee 1: a stream has at least its terminal event"
    message = _check_terminal(events)
    blocks: list[str] = []
    open_blocks: dict[int, list[str]] = {}
    for position, event in enumerate(events):
        index = getattr(event, "content_index", None)
        where = f"event {position} ({event.type})"
        if event.type in _STARTS:
            assert index == len(blocks), f"guarantee 2: {where} has contentIndex {index}, not {len(blocks)}"
            others = [i for i in open_blocks if blocks[i] != "toolcall"]
            assert not others, f"guarantee 6: {where} while block {others} is open"
            blocks.append(_STARTS[event.type])
            open_blocks[len(blocks) - 1] = []
        elif event.type.endswith("_delta"):
            kind = event.type.removesuffix("_delta")
            assert index in open_blocks and blocks[index] == kind, f"guarantee 2: {where} for block {index}"
            open_blocks[index].append(event.delta)  # type: ignore[union-attr]
        elif event.type.endswith("_end"):
            assert index in open_blocks, f"guarantee 2: {where} for block {index}, which is not open"
            _check_end(event, "".join(open_blocks.pop(index)), where, message)
    assert not open_blocks, f"guarantee 3: blocks {sorted(open_blocks)} were never ended"
    _check_fold(events, message)
    return message


def _check_terminal(events: Sequence[Event]) -> AssistantMessage:
    terminals = [position for position, event in enumerate(events) if isinstance(event, Done | Error)]
    assert terminals == [len(events) - 1], f"guarantee 1: terminal events at {terminals} of {len(events)}"
    starts = [position for position, event in enumerate(events) if isinstance(event, Start)]
    last = events[-1]
    if starts:
        assert starts == [0], f"guarantee 1: start at {starts}"
    else:
        assert len(events) == 1 and isinstance(last, Error), "guarantee 1: only a lone error has no start"
    message = last.message if isinstance(last, Done) else last.error  # type: ignore[union-attr]
    assert message.stop_reason == last.reason, "guarantee 5: the reason is not the message's"  # type: ignore[union-attr]
    if isinstance(last, Error):
        assert message.error_message and message.error_cause, "an error has a message and a cause"
    return message


def _check_end(event: Event, streamed: str, where: str, message: AssistantMessage) -> None:
    if event.type == "toolcall_end":
        call = event.tool_call
        arguments, error = parse_arguments(streamed)
        if call.arguments_error is None:
            assert error is None and call.arguments == arguments, f"guarantee 4: arguments of {where}"
        else:
            assert call.arguments_error.endswith(streamed), (
                f"guarantee 4: {where} lost the text of its arguments"
            )
    elif event.type == "text_end" or event.type == "thinking_end":
        assert event.content == streamed, f"guarantee 4: content of {where}"
        signature = event.text_signature if event.type == "text_end" else event.thinking_signature
        later = message.content[event.content_index]
        signature = (
            signature or getattr(later, "thinking_signature", None) or getattr(later, "text_signature", None)
        )
        cut = message.stop_reason in ("error", "aborted")
        assert event.content or signature or cut, f"guarantee 7: {where} ends an empty block"


def _check_fold(events: Sequence[Event], message: AssistantMessage) -> None:
    reducer = Reducer()
    for event in events[:-1]:
        reducer.apply(event)
        assert reducer.message.stop_reason == "pending", "guarantee 5: final before the terminal event"
    reducer.apply(events[-1])
    assert reducer.message == message, "guarantee 5: the fold of the events is not the terminal message"
