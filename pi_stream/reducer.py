"""The reducer: folds events into the message. The only writer of a streamed message.

:class:`Reducer` is strict about what it can see: an event for a block that is not open, an index out of order, an end
that contradicts its deltas, or anything after the terminal raises :class:`~pi_stream.exceptions.ProtocolViolation`.
Streams never show that exception, since the guard stands before the consumer.

Deltas are only stored; the message is brought up to date when somebody looks. A fold is linear in the text it folds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import copy, deepcopy
from typing import Any

from attrs import evolve

from pi_stream.events import (
    Done,
    Error,
    Event,
    Fallback,
    Metadata,
    Restart,
    Retry,
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
from pi_stream.messages import AssistantContent, AssistantMessage, TextContent, ThinkingContent, ToolCall
from pi_stream.partial_json import PartialJson
from pi_stream.usage import Usage

__all__ = ["Reducer", "fold", "snapshot", "unfold"]

_CALL_FIELDS = ("id", "name", "arguments", "thought_signature", "namespace", "arguments_error", "extra")
_TERMINAL_FIELDS = ("deferred", "error_message", "error_cause", "duration_ms", "end_turn")
_LATER_FIELDS = (
    *("response_id", "response_model", "raw_stop_reason", "diagnostics", "provider_data"),
    *_TERMINAL_FIELDS,
)


class TextBlock:
    """An open text block: the content in the message and the deltas that are not in it yet."""

    delta_class: type = TextDelta
    __slots__ = ("content", "pieces")

    def __init__(self) -> None:
        self.content = TextContent("")
        self.pieces: list[str] = []

    def flush(self) -> str:
        """Bring the content up to date and return all of its text."""
        content = self.content
        text = content.text
        if self.pieces:
            content.text = ""  # the only other reference goes, so that += grows the string in place
            text += "".join(self.pieces)
            content.text = text
            self.pieces.clear()
        return text


class ThinkingBlock:
    """An open thinking block."""

    delta_class: type = ThinkingDelta
    __slots__ = ("content", "pieces")

    def __init__(self) -> None:
        self.content = ThinkingContent("")
        self.pieces: list[str] = []

    def flush(self) -> str:
        """Bring the content up to date and return all of its text."""
        content = self.content
        text = content.thinking
        if self.pieces:
            content.thinking = ""
            text += "".join(self.pieces)
            content.thinking = text
            self.pieces.clear()
        return text


class ToolCallBlock:
    """An open tool call: its arguments are parsed only as far as somebody looks at them."""

    delta_class: type = ToolCallDelta
    __slots__ = ("content", "parser", "pieces")

    def __init__(self, id: str, name: str) -> None:
        self.content = ToolCall(id, name)
        self.parser = PartialJson()
        self.pieces: list[str] = []

    def flush(self) -> str:
        """Bring the arguments up to date; the raw text comes from :meth:`raw`."""
        self._hand_over()
        self.content.arguments = self.parser.value
        return ""

    def _hand_over(self) -> None:
        """Hand what came since to the parser, which parses nothing until it is asked."""
        if self.pieces:
            self.parser.append("".join(self.pieces))
            self.pieces.clear()

    def raw(self) -> str:
        """The argument text so far."""
        self._hand_over()
        return self.parser.text


Block = TextBlock | ThinkingBlock | ToolCallBlock


class Reducer:
    """Folds events into an :class:`~pi_stream.messages.AssistantMessage`, event by event or in batches."""

    __slots__ = ("_message", "finished", "open_blocks", "started")

    def __init__(self, head: AssistantMessage | None = None) -> None:
        """Args: head: what the message looks like before ``start``; an empty pending message by default."""
        self._message = head if head is not None else AssistantMessage(timestamp=0)
        self.open_blocks: dict[int, Block] = {}
        self.started = False
        self.finished = False

    @property
    def message(self) -> AssistantMessage:
        """The message so far, brought up to date. The same live object every time until the terminal event."""
        for block in self.open_blocks.values():
            block.flush()
        return self._message

    @property
    def content(self) -> list[AssistantContent]:
        """The blocks so far, open ones as they were when somebody last looked at the message."""
        return self._message.content

    def apply(self, event: Event) -> None:
        """Fold one event.

        Raises:
            ProtocolViolation: The event breaks the order that :mod:`pi_stream.events` describes.
        """
        self.apply_all((event,))

    def apply_all(self, events: Iterable[Event]) -> None:
        """Fold events in order. Raises as :meth:`apply` does, at the first event that does not fit."""
        open_blocks = self.open_blocks
        for event in events:
            cls = event.__class__
            if cls is TextDelta or cls is ThinkingDelta or cls is ToolCallDelta:
                block = open_blocks.get(event.content_index)  # type: ignore[union-attr, arg-type]
                if block is None or block.delta_class is not cls:
                    raise self._misplaced(event)
                block.pieces.append(event.delta)  # type: ignore[union-attr]
            else:
                self._apply_rare(event)

    def _apply_rare(self, event: Event) -> None:
        if self.finished:
            raise ProtocolViolation(1, f"{event.type} after the terminal event")
        match event:
            case TextStart(content_index=index):
                self._open(event, index, TextBlock())
            case ThinkingStart(content_index=index):
                self._open(event, index, ThinkingBlock())
            case ToolCallStart(content_index=index, id=id, name=name):
                self._open(event, index, ToolCallBlock(id, name))
            case TextEnd():
                self._end_text(event)
            case ThinkingEnd():
                self._end_thinking(event)
            case ToolCallEnd():
                self._end_tool_call(event)
            case Metadata():
                self._note(event)
            case Start(message=head):
                if self.started:
                    raise ProtocolViolation(1, "a second start")
                self._message = adopt(head)
                self._message.content = []
                self.started = True
            case Retry() | Fallback():
                pass  # notices: nothing of what failed was handed out
            case Restart(message=head):
                self._message = adopt(head)
                self.open_blocks.clear()
                self.started = False
            case Done(reason=reason, message=final) | Error(reason=reason, error=final):
                self._finish(reason, final)
            case _:
                raise self._misplaced(event)

    def _open(self, event: Event, index: int, block: Block) -> None:
        count = len(self._message.content)
        if index != count:
            raise ProtocolViolation(2, f"{event.type} with contentIndex {index!r} where {count} is next")
        self.open_blocks[index] = block
        self._message.content.append(block.content)

    def _close(self, event: TextEnd | ThinkingEnd | ToolCallEnd, kind: type) -> Any:
        block = self.open_blocks.get(event.content_index)
        if block is None or block.__class__ is not kind:
            raise self._misplaced(event)
        return block

    def _end_text(self, event: TextEnd) -> None:
        block: TextBlock = self._close(event, TextBlock)
        _same(block.flush(), event.content, event.type)
        block.content.text_signature = event.text_signature
        del self.open_blocks[event.content_index]

    def _end_thinking(self, event: ThinkingEnd) -> None:
        block: ThinkingBlock = self._close(event, ThinkingBlock)
        _same(block.flush(), event.content, event.type)
        block.content.thinking_signature = event.thinking_signature
        block.content.redacted = event.redacted
        del self.open_blocks[event.content_index]

    def _end_tool_call(self, event: ToolCallEnd) -> None:
        block: ToolCallBlock = self._close(event, ToolCallBlock)
        for attribute in _CALL_FIELDS:
            setattr(block.content, attribute, getattr(event.tool_call, attribute))
        del self.open_blocks[event.content_index]

    def _note(self, event: Metadata) -> None:
        message = self._message
        if event.content_index is not None:  # first: an event that is refused changes nothing
            self._sign(event.content_index, event.signature)
        if event.usage is not None:
            message.usage = event.usage
        if event.response_id is not None:
            message.response_id = event.response_id
        if event.response_model is not None:
            message.response_model = event.response_model
        if event.raw_stop_reason is not None:
            message.raw_stop_reason = event.raw_stop_reason
        if event.diagnostic is not None:
            message.diagnostics = message.diagnostics or []
            message.diagnostics.append(event.diagnostic)
        if event.provider_data is not None:
            message.provider_data = message.provider_data or []
            message.provider_data.append(event.provider_data)

    def _sign(self, index: int, signature: str | None) -> None:
        if not 0 <= index < len(self._message.content) or index in self.open_blocks:
            raise ProtocolViolation(2, f"metadata signs block {index}, which is no ended block")
        content = self._message.content[index]
        if isinstance(content, TextContent):
            content.text_signature = signature
        elif isinstance(content, ThinkingContent):
            content.thinking_signature = signature
        elif isinstance(content, ToolCall):
            content.thought_signature = signature

    def _finish(self, reason: Any, final: AssistantMessage) -> None:
        if self.open_blocks:
            raise ProtocolViolation(
                3, f"the terminal event came while block {min(self.open_blocks)} was open"
            )
        if not self.started:
            self._message = adopt(final)
        message = self._message
        message.stop_reason = reason
        for attribute in _TERMINAL_FIELDS:
            setattr(message, attribute, getattr(final, attribute))
        quality = final.usage.quality
        if quality is not None and quality != message.usage.quality:  # a copy, since an event holds the other
            message.usage = evolve(message.usage, quality=quality)
        self.finished = True

    def _misplaced(self, event: Any) -> ProtocolViolation:
        index = getattr(event, "content_index", None)
        name = getattr(event, "type", type(event).__name__)
        if not isinstance(index, int):
            return ProtocolViolation(8, f"{name!r} is no event")
        if not 0 <= index < len(self._message.content):
            return ProtocolViolation(2, f"{name} for block {index}, which was never opened")
        if index in self.open_blocks:
            kind = self._message.content[index].type
            return ProtocolViolation(2, f"{name} for block {index}, which is a {kind} block")
        return ProtocolViolation(2, f"{name} for block {index}, which has ended")


def _same(streamed: str, content: str, what: str) -> None:
    if streamed != content:
        raise ProtocolViolation(4, f"the content of {what} is not what its deltas add up to")


def adopt(message: AssistantMessage) -> AssistantMessage:
    """A copy whose own attributes and lists may change; what they hold is shared."""
    adopted = copy(message)
    adopted.content = list(message.content)
    adopted.diagnostics = message.diagnostics and list(message.diagnostics)
    adopted.provider_data = message.provider_data and list(message.provider_data)
    return adopted


def snapshot(message: AssistantMessage) -> AssistantMessage:
    """An independent copy of a message: later changes of the original do not show in it."""
    return deepcopy(message)


def fold(events: Iterable[Event]) -> AssistantMessage:
    """Fold the events of a stream, or of its beginning, into the message they make.

    Args:
        events: Events in order, as a stream hands them out.

    Returns:
        The message; ``stop_reason`` is ``pending`` unless the terminal event is among them.

    Raises:
        ProtocolViolation: The events are not in the order of :mod:`pi_stream.events`.
    """
    reducer = Reducer()
    reducer.apply_all(events)
    return reducer.message


def unfold(message: AssistantMessage) -> list[Event]:
    """The inverse of :func:`fold`: the events that fold into this message.

    Every block comes as one delta. A message that is ``pending`` gives no terminal event.

    Args:
        message: A message with text, thinking and tool calls.

    Returns:
        Events for which ``fold(events) == message``.

    Raises:
        ValueError: A block is of a type that no event can carry.
    """
    message = snapshot(message)
    if message.stop_reason in ("error", "aborted") and not message.content:
        return [Error(message.stop_reason, message)]
    events: list[Event] = [Start(_head(message))]
    for index, block in enumerate(message.content):
        events.extend(_unfold_block(index, block))
    events.extend(_unfold_metadata(message))
    match message.stop_reason:
        case "pending":
            pass
        case "error" | "aborted" as reason:
            events.append(Error(reason, message))
        case "stop" | "length" | "toolUse" | "deferred" as reason:
            events.append(Done(reason, message))
    return events


def _head(message: AssistantMessage) -> AssistantMessage:
    """The message as ``start`` shows it: what the events to come will add is taken away."""
    head = copy(message)
    head.content = []
    head.usage = Usage()
    head.stop_reason = "pending"
    for attribute in _LATER_FIELDS:
        setattr(head, attribute, None)
    return head


def _unfold_block(index: int, block: Any) -> list[Event]:
    match block:
        case TextContent(text=text):
            middle: list[Event] = [TextDelta(index, text)] if text else []
            return [TextStart(index), *middle, TextEnd(index, text, block.text_signature)]
        case ThinkingContent(thinking=text):
            middle = [ThinkingDelta(index, text)] if text else []
            end = ThinkingEnd(index, text, block.thinking_signature, block.redacted)
            return [ThinkingStart(index), *middle, end]
        case ToolCall():
            raw = _argument_text(block)
            middle = [ToolCallDelta(index, raw)] if raw else []
            return [ToolCallStart(index, block.id, block.name), *middle, ToolCallEnd(index, block)]
        case _:
            raise ValueError(f"content[{index}]: no event carries a block of type {block.type!r}")


def _argument_text(call: ToolCall) -> str:
    if call.arguments_error is not None:
        return call.arguments_error.partition("\n\n")[2]
    return json.dumps(call.arguments, ensure_ascii=False) if call.arguments else ""


def _unfold_metadata(message: AssistantMessage) -> list[Event]:
    events: list[Event] = [
        Metadata(
            usage=message.usage,
            response_id=message.response_id,
            response_model=message.response_model,
            raw_stop_reason=message.raw_stop_reason,
        )
    ]
    events += [Metadata(diagnostic=diagnostic) for diagnostic in message.diagnostics or ()]
    events += [Metadata(provider_data=entry) for entry in message.provider_data or ()]
    return events
