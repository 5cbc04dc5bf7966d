"""The guard: makes sure that what a stream hands out keeps the guarantees of :mod:`pi_stream.events`.

Built-in translators and custom providers speak in drafts; the guard turns each batch of drafts into events. It opens
the stream, ends blocks, parses the arguments of finished calls, builds the terminal event, and turns any violation
into one ``error`` event that names the guarantee. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from operator import length_hint
from typing import Any, cast

from attrs import evolve

from pi_stream.events import (
    BlockEnd,
    Done,
    DoneReason,
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
from pi_stream.exceptions import DecodeError, ProtocolViolation
from pi_stream.messages import (
    AssistantMessage,
    DeferredHandle,
    Diagnostic,
    ErrorCause,
    ErrorKind,
    ErrorPhase,
    ProviderData,
    ToolCall,
)
from pi_stream.partial_json import parse_arguments
from pi_stream.reducer import Reducer, TextBlock, ThinkingBlock, ToolCallBlock, adopt
from pi_stream.usage import Usage, UsageQuality

__all__ = ["Guard"]

_DONE_REASONS = ("stop", "length", "toolUse", "deferred")
_STARTS = (TextStart, ThinkingStart, ToolCallStart)
_ENDS = (TextEnd, ThinkingEnd, ToolCallEnd)
_TERMINALS = (Finish, Done, Error)
# What rarely seen values must be, None aside. Texts and indexes are checked where they are used.
_VALUES: dict[type, dict[str, type]] = {
    BlockEnd: {"content": str, "signature": str, "redacted": bool, "namespace": str, "error": str},
    TextEnd: {"text_signature": str},
    ThinkingEnd: {"thinking_signature": str, "redacted": bool},
    ToolCall: {"thought_signature": str, "namespace": str, "arguments_error": str},
    Metadata: {
        "usage": Usage,
        "response_id": str,
        "response_model": str,
        "raw_stop_reason": str,
        "diagnostic": Diagnostic,
        "provider_data": ProviderData,
        "content_index": int,
        "signature": str,
    },
    Finish: {"error_message": str, "error_cause": ErrorCause, "deferred": DeferredHandle},
}
_UNSAID = {"error": "the provider reported an error", "aborted": "the provider aborted the answer"}


class Guard:
    """Turns drafts into the events of one stream.

    Args:
        head: The message to come: api, provider, model, timestamp.
        max_blocks: Most content blocks.
        max_argument_bytes: Most argument text of one tool call, in characters.
        elapsed_ms: Gives the ms since the request started, for ``duration_ms``; None leaves it out.

    Attributes:
        bytes, chunks: How much was received, for the cause of a failure.
        request_id: The provider's id of the exchange.
        hide: Takes secrets out of an error message: some servers send back what was sent to them.
        phase: How far the exchange has come, for who leaves now.
        age_ms: Gives the age of the last byte in ms; None before the first, and where nothing is timed.
    """

    def __init__(
        self,
        head: AssistantMessage,
        *,
        max_blocks: int = 10_000,
        max_argument_bytes: int = 16 * 1024 * 1024,
        elapsed_ms: Callable[[], int] | None = None,
    ) -> None:
        self._head = head
        self._reducer = Reducer(adopt(head))
        self._held: list[Event] = []
        self._max_blocks = max_blocks
        self._max_argument_bytes = max_argument_bytes
        self._argument_sizes: dict[int, int] = {}
        self._elapsed_ms = elapsed_ms
        self._start_seen = False
        self.bytes = 0
        self.chunks = 0
        self.request_id: str | None = None
        self.hide: Callable[[str], str] = str
        self.phase: ErrorPhase = "body"
        self.age_ms: Callable[[], int | None] = _untimed

    @classmethod
    def resume(cls, head: AssistantMessage, reducer: Reducer, counts: Guard) -> Guard:
        """A guard that goes on where a reducer stands, to end a stream from there.

        Args:
            head: The message as ``start`` shows it.
            reducer: What was handed out so far; the guard's events are folded into it.
            counts: Where the numbers of bytes and chunks, the request id and the times come from.
        """
        guard = cls(head, elapsed_ms=counts._elapsed_ms)
        guard._reducer = reducer
        guard.bytes, guard.chunks, guard.request_id = counts.bytes, counts.chunks, counts.request_id
        guard.phase, guard.age_ms, guard.hide = counts.phase, counts.age_ms, counts.hide
        return guard

    @property
    def message(self) -> AssistantMessage:
        """The message that the events made so far fold into."""
        return self._reducer.message

    @property
    def finished(self) -> bool:
        """Whether the terminal event was made."""
        return self._reducer.finished

    @property
    def started(self) -> bool:
        """Whether ``start`` was made."""
        return self._reducer.started

    def check(
        self, drafts: Sequence[Draft], counts: Callable[[int], tuple[int, int]] | None = None
    ) -> list[Event]:
        """Turn one batch of drafts into events. After the terminal event there are none. Never raises.

        Args:
            drafts: What a translator or a provider says.
            counts: Gives :attr:`bytes` and :attr:`chunks` as of the draft at a position, for one that is refused.
        """
        out: list[Event] = []
        if self._reducer.finished:
            return out
        rest = iter(drafts)
        try:
            self._check(rest, out)
        except Exception as error:
            if counts is not None:
                self.bytes, self.chunks = counts(len(drafts) - length_hint(rest) - 1)
            self._refuse(error, out)
        return out

    def violate(self, violation: ProtocolViolation) -> list[Event]:
        """End the stream with an error that names the guarantee a provider broke."""
        out: list[Event] = []
        if not self._reducer.finished:
            self._violated(violation, out)
        return out

    def _check(self, rest: Iterator[Draft], out: list[Event]) -> None:
        open_blocks = self._reducer.open_blocks
        for draft in rest:
            cls = draft.__class__
            if cls is TextDelta or cls is ThinkingDelta or cls is ToolCallDelta:
                delta: str = draft.delta  # type: ignore[union-attr]
                block = open_blocks.get(draft.content_index)  # type: ignore[union-attr, arg-type]
                if block is None or block.delta_class is not cls or delta.__class__ is not str:
                    self._refuse_delta(draft)
                if cls is ToolCallDelta:
                    self._count_arguments(cast(ToolCallDelta, draft))
                block.pieces.append(delta)  # type: ignore[union-attr]
                out.append(draft)  # type: ignore[arg-type]
            elif cls in _TERMINALS:
                self._end_stream(cast("Finish | Done | Error", draft), list(rest), out)
                return
            else:
                self._rare(draft, out)

    def _rare(self, draft: Draft, out: list[Event]) -> None:
        _check_values(draft)
        if isinstance(draft, BlockEnd):
            self._end_block(draft, out)
        elif isinstance(draft, _STARTS):
            self._open(draft, out)
        elif isinstance(draft, _ENDS):
            self._raw_end(draft, out)
        elif isinstance(draft, Metadata):
            if self._reducer.started:
                self._emit(draft, out)
            elif draft.content_index is None:
                self._held.append(draft)
            else:  # refused now: once held back, it would fail while the terminal event is made
                raise ProtocolViolation(2, f"metadata signs block {draft.content_index} before any opened")
        elif isinstance(draft, Start):
            if self._start_seen or self._reducer.started:
                raise ProtocolViolation(1, "a second start")
            self._start_seen = True
            self._held.extend(self._news(draft.message))
        else:
            raise ProtocolViolation(8, f"{type(draft).__name__} is no event")

    def _emit(self, event: Event, out: list[Event]) -> None:
        self._reducer.apply(event)
        out.append(event)

    # --- start and blocks ---------------------------------------------------------------------------------------------

    def _begin(self, out: list[Event]) -> None:
        """Hand out ``start`` and what was held back for it."""
        held, self._held = self._held, []
        for event in [Start(self._head), *held]:
            self._emit(event, out)

    def _open(self, start: TextStart | ThinkingStart | ToolCallStart, out: list[Event]) -> None:
        if not self._reducer.started:
            self._begin(out)
        last = len(self._reducer.content) - 1
        if not isinstance(self._reducer.open_blocks.get(last), ToolCallBlock | None):
            raise ProtocolViolation(6, f"{start.type} while block {last} was open")
        if start.content_index.__class__ is not int:
            raise ProtocolViolation(2, f"{start.type} with contentIndex {start.content_index!r}")
        if isinstance(start, ToolCallStart) and not (
            isinstance(start.id, str) and isinstance(start.name, str)
        ):
            raise ProtocolViolation(
                8, f"toolcall_start of block {start.content_index} needs an id and a name"
            )
        if start.content_index >= self._max_blocks:
            raise DecodeError(f"more than {self._max_blocks} blocks (limits.blocks)", kind="too_large")
        self._emit(start, out)

    def _count_arguments(self, delta: ToolCallDelta) -> None:
        size = self._argument_sizes.get(delta.content_index, 0) + len(delta.delta)
        self._argument_sizes[delta.content_index] = size
        if size > self._max_argument_bytes:
            limit = f"{self._max_argument_bytes} bytes (limits.argument_bytes)"
            words = f"the arguments of block {delta.content_index} are larger than {limit}"
            raise DecodeError(words, kind="too_large")

    def _refuse_delta(self, draft: Any) -> None:
        if draft.delta.__class__ is not str:
            raise ProtocolViolation(8, f"the delta of {draft.type} is {type(draft.delta).__name__}, not str")
        Reducer.apply(self._reducer, draft)  # raises with the reason

    def _end_block(self, end: BlockEnd, out: list[Event], *, broken: bool = False) -> None:
        index = end.content_index
        block = self._reducer.open_blocks.get(index)
        if block is None:
            raise ProtocolViolation(2, f"the end of block {index}, which is not open")
        if isinstance(block, ToolCallBlock):
            if broken and not block.raw().strip():
                end.error = "the answer ended before the arguments came"  # {} would look like a complete call
            self._emit(ToolCallEnd(index, self._finished_call(block, end, out)), out)
            return
        text = block.flush()
        if end.content is not None and end.content != text:
            text = self._reconcile(index, block, text, end.content, out)
        if not text and not end.signature and not broken:
            raise ProtocolViolation(7, f"block {index} is empty")
        if isinstance(block, TextBlock):
            self._emit(TextEnd(index, text, end.signature), out)
        else:
            self._emit(ThinkingEnd(index, text, end.signature, end.redacted), out)

    def _reconcile(self, index: int, block: Any, streamed: str, final: str, out: list[Event]) -> str:
        """A final text that continues the streamed one becomes a last delta; else a diagnostic, and nothing changes."""
        if final.startswith(streamed):
            self._emit(block.delta_class(index, final[len(streamed) :]), out)
            return final
        self._emit(self._diagnostic("final_text_differs", {"contentIndex": index, "content": final}), out)
        return streamed

    def _finished_call(self, block: ToolCallBlock, end: BlockEnd, out: list[Event]) -> ToolCall:
        raw = block.raw()
        if end.content is not None and end.content.strip() and end.content != raw:
            blank = not raw.strip()
            if blank or parse_arguments(raw) != parse_arguments(end.content):
                final = raw + end.content if blank else end.content
                raw = self._reconcile(end.content_index, block, raw, final, out)
        arguments, error = parse_arguments(raw)
        if end.error is not None:
            arguments, error = {}, f"{end.error}\n\n{raw}"
        call = block.content
        return ToolCall(
            call.id,
            call.name,
            arguments,
            thought_signature=end.signature,
            namespace=end.namespace,
            arguments_error=error,
        )

    def _raw_end(self, end: TextEnd | ThinkingEnd | ToolCallEnd, out: list[Event]) -> None:
        block = self._reducer.open_blocks.get(end.content_index)
        if isinstance(end, ToolCallEnd):
            if isinstance(block, ToolCallBlock):
                end = ToolCallEnd(end.content_index, self._checked_call(block, end.tool_call))
        elif not end.content and isinstance(block, (TextBlock, ThinkingBlock)):
            signature = end.text_signature if isinstance(end, TextEnd) else end.thinking_signature
            if not signature and not block.flush():
                raise ProtocolViolation(7, f"block {end.content_index} is empty")
        self._emit(end, out)

    def _checked_call(self, block: ToolCallBlock, call: ToolCall) -> ToolCall:
        """The call of a provider's own end event, if it is the one that was streamed."""
        _check_values(call)
        if (call.id, call.name) != (block.content.id, block.content.name):
            raise ProtocolViolation(4, f"toolcall_end renames the call {block.content.name!r}")
        raw = block.raw()
        if call.arguments_error is None:
            if parse_arguments(raw) != (call.arguments, None):
                raise ProtocolViolation(4, "the arguments of toolcall_end are not what its deltas add up to")
        elif not call.arguments_error.endswith(raw):
            call = evolve(call, arguments={}, arguments_error=f"{call.arguments_error}\n\n{raw}")
        return call

    # --- the terminal event -----------------------------------------------------------------------------------------

    def _end_stream(self, last: Finish | Done | Error, rest: Sequence[Draft], out: list[Event]) -> None:
        if any(isinstance(draft, _TERMINALS) for draft in rest):
            raise ProtocolViolation(1, "two terminal events in one batch")
        finish = last if isinstance(last, Finish) else self._raw_finish(last, out)
        _check_values(finish)
        if finish.reason not in _DONE_REASONS and finish.reason not in ("error", "aborted"):
            raise ProtocolViolation(5, f"the stream ended while its stop reason was {finish.reason!r}")
        if finish.reason == "toolUse" and not self._reducer.message.tool_calls:
            raise ProtocolViolation(9, "the stream ended with toolUse and without a tool call")
        if rest:
            types = [getattr(draft, "type", type(draft).__name__) for draft in rest]
            self._rare(self._diagnostic("after_terminal", {"dropped": types}), out)
        self._terminate(finish, out)

    def _raw_finish(self, last: Done | Error, out: list[Event]) -> Finish:
        """What a provider's own terminal event says, as a draft."""
        message = last.message if isinstance(last, Done) else last.error
        if isinstance(last, Done):
            if last.reason not in _DONE_REASONS or message.stop_reason != last.reason:
                raise ProtocolViolation(
                    5, f"done ({last.reason}) while the message says {message.stop_reason!r}"
                )
            if self._reducer.open_blocks:
                raise ProtocolViolation(3, f"done while block {min(self._reducer.open_blocks)} was open")
            if message.content and message.content != self._reducer.message.content:
                raise ProtocolViolation(5, "the message of done is not what was streamed")
        for event in self._news(message):
            self._rare(event, out)
        return Finish(last.reason, message.error_message, message.error_cause, message.deferred)

    def _news(self, message: AssistantMessage) -> Iterator[Metadata]:
        """What a provider's own message says beyond the events so far."""
        known = self._reducer.message
        if message.usage not in (known.usage, Usage()):
            yield Metadata(usage=message.usage)
        for attribute in ("response_id", "response_model", "raw_stop_reason"):
            value = getattr(message, attribute)
            if value is not None and value != getattr(known, attribute):
                yield Metadata(**{attribute: value})
        for diagnostic in message.diagnostics or ():
            if diagnostic not in (known.diagnostics or ()):
                yield Metadata(diagnostic=diagnostic)
        for entry in message.provider_data or ():
            if entry not in (known.provider_data or ()):
                yield Metadata(provider_data=entry)

    def _terminate(self, finish: Finish, out: list[Event]) -> None:
        failed = finish.reason in ("error", "aborted")
        for index in sorted(self._reducer.open_blocks):
            self._end_block(BlockEnd(index), out, broken=failed)
        if not self._reducer.started:
            if not failed:
                self._begin(out)
            # A failure before any block is a lone error: what was held back is in its message.
            held, self._held = self._held, []
            self._reducer.apply_all(held)
        quality = _quality(self._reducer.message, failed=failed, started=self._reducer.started)
        final = AssistantMessage(
            usage=Usage(quality=quality),
            error_message=self.hide(finish.error_message or _UNSAID[finish.reason]) if failed else None,
            error_cause=self._counted(finish) if failed else None,
            deferred=finish.deferred,
            duration_ms=self._elapsed_ms() if self._elapsed_ms is not None else None,
            timestamp=0,
        )
        out.append(self._terminal(finish, final))

    def _terminal(self, finish: Finish, final: AssistantMessage) -> Event:
        reducer = self._reducer
        started, known = reducer.started, reducer.message
        if finish.reason == "error" or finish.reason == "aborted":
            reducer.started = True  # a lone error: the fold starts from the head, not from `final`
            reducer.apply(Error(finish.reason, final))
            reducer.started = started
            return Error(finish.reason, known)
        done = cast(DoneReason, finish.reason)
        reducer.apply(Done(done, final))
        return Done(done, known)

    def _counted(self, finish: Finish) -> ErrorCause:
        kind: ErrorKind = "cancelled" if finish.reason == "aborted" else "provider_error"
        cause = copy(finish.error_cause) if finish.error_cause is not None else ErrorCause(kind=kind)
        cause.bytes, cause.chunks = self.bytes, self.chunks
        cause.request_id = cause.request_id or self.request_id
        if cause.last_byte_age_ms is None:
            cause.last_byte_age_ms = self.age_ms()
        return cause

    def _refuse(self, error: Exception, out: list[Event]) -> None:
        if isinstance(error, DecodeError):  # a bound was passed
            self._terminate(Finish("error", str(error), ErrorCause(kind="too_large", origin="limit")), out)
        elif isinstance(error, ProtocolViolation):
            self._violated(error, out)
        else:  # an event of a custom provider with values of a wrong type
            self._violated(ProtocolViolation(8, f"unusable event ({type(error).__name__}: {error})"), out)

    def _violated(self, violation: ProtocolViolation, out: list[Event]) -> None:
        """Turn a violation into the one error event."""
        cause = ErrorCause(kind="protocol", origin="provider", provider_code=f"guarantee-{violation.rule}")
        self._terminate(Finish("error", str(violation), cause), out)

    def _diagnostic(self, kind: str, details: dict[str, Any]) -> Metadata:
        return Metadata(diagnostic=Diagnostic(type=kind, timestamp=self._head.timestamp, details=details))


def _untimed() -> None:
    return None


def _quality(message: AssistantMessage, *, failed: bool, started: bool) -> UsageQuality | None:
    """How far the token counts of an answer that ends can be trusted; None where there are none to speak of.

    What came with the stop reason, or after it, is final. Before that an answer that breaks off has used more than was told.
    """
    usage = message.usage
    known = usage != Usage()
    if usage.quality is not None:
        return usage.quality
    if failed and (message.raw_stop_reason is None or not known):
        return "partial" if known or started else None
    return "reported" if known else None


def _check_values(draft: Any) -> None:
    """Refuse values that the message could not be written with."""
    for name, wanted in _VALUES.get(type(draft), {}).items():
        value = getattr(draft, name)
        if value is not None and not isinstance(value, wanted):
            what = getattr(draft, "type", type(draft).__name__)
            raise ProtocolViolation(8, f"{name} of {what} is {type(value).__name__}, not {wanted.__name__}")
