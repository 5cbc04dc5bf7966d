"""The pipeline: bytes of one answer in, events out. Synchronous: no await, no clock, no socket.

``decoder → translator → guard``, one call per read. A live stream and :func:`~pi_stream.engine.decode.decode` run
through the same code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from pi_stream.apis._errors import body_error, error_object, excerpt, provider_error, request_id
from pi_stream.apis.base import Api, Framing, TranslatorSetup
from pi_stream.engine.source import observed
from pi_stream.events import Draft, Event, Finish, Metadata
from pi_stream.exceptions import DecodeError
from pi_stream.guard import Guard
from pi_stream.http import ResponseHead
from pi_stream.messages import Diagnostic, ErrorCause, ErrorKind, ErrorOrigin, ErrorPhase, StopReason
from pi_stream.wire import json
from pi_stream.wire.sse import SSEDecoder

__all__ = ["Pipeline"]

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_JSON = (b"{", b"[")
# Failures of the connection itself. After the stop reason they cost nothing but the usage that may have followed.
_CONNECTION_KINDS = frozenset({"transport", "timeout_idle", "timeout_content", "timeout_total", "drain"})
_ORIGINS: dict[str, ErrorOrigin] = {"too_large": "limit", "truncated": "network"}


class Decoder(Protocol):
    """Cuts a body into the payloads of chunks."""

    def feed_data(self, data: bytes) -> list[bytes]:
        """Payloads that are complete with these bytes."""
        ...

    def close_data(self) -> list[bytes]:
        """What a clean end of the body completes."""
        ...


class _Chunks(list[Any]):
    """The chunks of a read, which note how many drafts there were when each was taken."""

    def __init__(self, values: list[Any], drafts: list[Draft], marks: list[int]) -> None:
        super().__init__(values)
        self._drafts = drafts
        self._marks = marks

    def __iter__(self) -> Iterator[Any]:
        mark, drafts = self._marks.append, self._drafts
        for chunk in super().__iter__():
            mark(len(drafts))
            yield chunk


class Pipeline:
    """One answer on its way from bytes to events.

    What a body is shows in its first bytes: an error body, a whole JSON answer or web page, or a stream. Each is a pair of
    methods, one for a read and one for the end.

    Args:
        api: The wire protocol.
        setup: What the translator is told.
        response: Status and headers of the answer.
        guard: The guard of the stream.
    """

    def __init__(self, api: Api, setup: TranslatorSetup, response: ResponseHead, guard: Guard) -> None:
        self._api = api
        self._setup = setup
        self._response = response
        self._guard = guard
        guard.request_id = request_id(response.headers)
        self._limits = setup.options.limits
        self._on_chunk = observed(setup.options.on_chunk)
        self._translator = api.translator(setup)
        self._decoder: Decoder | None = None
        self._feed: Callable[[bytes], list[Event]] = self._sniff
        self._close: Callable[[], list[Event]] = list
        if not 200 <= response.status < 300:
            self._feed, self._close = self._collect_error, self._close_error
        self._buffer = bytearray()
        self._line_end = -1  # of the first line of what seems to be a whole answer
        self._is_lines: bool | None = None
        self._marked = api.framing == "eventstream"  # a byte order mark was seen, or there can be none
        self._received = 0
        self._payload_bytes = 0
        # Of the chunks whose drafts are not checked yet: the payloads, and how many drafts were there before each.
        self._taken: list[bytes] = []
        self._marks: list[int] = []

    @property
    def finished(self) -> bool:
        """Whether the terminal event was made."""
        return self._guard.finished

    @property
    def complete(self) -> bool:
        """Whether the provider has said why it stopped: only the end is still to come."""
        return self._translator.complete

    @property
    def draining(self) -> bool:
        """Whether the outcome is known already: the provider has said why it stopped, or the status is an error."""
        return self._translator.complete or self._close == self._close_error

    def feed(self, data: bytes) -> list[Event]:
        """Turn one read into events. Never raises."""
        if self._guard.finished:
            return []
        self._received += len(data)
        # Where a chunk ends the stream, the bytes of the chunks up to it count: a number that no cut changes.
        self._guard.bytes = self._payload_bytes
        events = self._feed(data)
        if not self._guard.finished:
            self._guard.bytes = self._received
        return events

    def end(self) -> list[Event]:
        """The body ended properly. Never raises."""
        if self._guard.finished:
            return []
        self._guard.bytes = self._payload_bytes
        events = self._close()
        if not self._guard.finished:
            self._guard.bytes = self._received
            if getattr(self._translator, "ends_at_eof", False):
                events += self._draft(self._translator.sentinel)
            else:
                events += self._over([])
        return events

    def fail(self, kind: str, message: str, *, origin: ErrorOrigin = "network") -> list[Event]:
        """The body broke off, or a limit or the caller ended it. Never raises.

        Args:
            kind: Kind of the transport's error; ``drain`` is the wait for the end after the stop reason.
            message: What happened.
            origin: Who caused it.
        """
        if self._guard.finished:
            return []
        events: list[Event] = []
        if kind in _CONNECTION_KINDS:
            if self._close == self._close_stream:
                events = self._flush()
                if self._guard.finished:
                    return events
            self._guard.bytes = self._received
            details = {"kind": kind, "message": message}
            lost: list[Draft] = [] if kind == "drain" else [self._note("connection_lost_after_end", details)]
            if self._translator.complete:
                return events + self._over(lost)
            if self._close == self._close_whole and json.is_complete(bytes(self._buffer)):
                return self._guard.check(lost) + self.end()
        if self._close == self._close_error and kind != "cancelled":
            return self._close_error()  # the status says more than the lost rest of the body
        self._guard.bytes = self._received
        reason: StopReason = "aborted" if kind == "cancelled" else "error"
        cause = ErrorCause(
            kind=cast(ErrorKind, kind), phase=self._phase, origin=origin, retryable=reason == "error"
        )
        return events + self._guard.check([Finish(reason, message, cause)])

    @property
    def _phase(self) -> ErrorPhase:
        return "done" if self._translator.complete else "body"

    def _flush(self) -> list[Event]:
        """A last event whose end was lost with the connection counts if its data is complete."""
        self._guard.bytes = self._payload_bytes
        assert self._decoder is not None
        try:
            return self._payloads(self._decoder.close_data())
        except DecodeError:
            return []

    # --- what kind of body is it? -------------------------------------------------------------------------------------

    def _sniff(self, data: bytes) -> list[Event]:
        """Look at the first bytes: the body decides what it is, whatever its content type says.

        Blank ones before it, and a byte order mark, say nothing and are dropped.
        """
        buffer = self._buffer
        buffer += data
        buffer[:] = buffer.lstrip(_BLANK)
        if not self._marked and _BOM.startswith(buffer[:3]):
            if len(buffer) < 3:
                return []  # nothing yet, or half a mark
            self._marked = True
            buffer[:] = buffer[3:].lstrip(_BLANK)
        if not buffer:
            return []
        if self._api.framing == "ndjson" and len(buffer) == 1 and buffer.startswith(_JSON):
            return []  # a line, or the beginning of an object that is spread over many
        held = bytes(buffer)
        buffer.clear()
        spread = self._api.framing == "ndjson" and held[1:2] in (b"\n", b"\r")
        if held.startswith(b"<") or (held.startswith(_JSON) and (spread or self._api.framing != "ndjson")):
            self._feed, self._close = self._collect_whole, self._close_whole
            return self._feed(held)
        return self._read_stream(self._make_decoder(), held)

    def _read_stream(self, decoder: Decoder, held: bytes) -> list[Event]:
        self._decoder = decoder
        self._feed, self._close = self._stream, self._close_stream
        return self._feed(held)

    def _make_decoder(self, framing: Framing | None = None) -> Decoder:
        if (framing or self._api.framing) == "ndjson":
            from pi_stream.wire.ndjson import NDJSONDecoder

            return NDJSONDecoder(self._limits.event_bytes)
        if (framing or self._api.framing) == "eventstream":
            from pi_stream.wire.eventstream import EventStreamChunks

            return EventStreamChunks(self._limits.event_bytes)
        return SSEDecoder(self._limits.event_bytes, sentinel=self._api.sentinel, raw_json=self._api.raw_json)

    # --- error bodies -------------------------------------------------------------------------------------------------

    def _collect_error(self, data: bytes) -> list[Event]:
        self._buffer += data
        if len(self._buffer) < self._limits.error_bytes:
            return []
        del self._buffer[self._limits.error_bytes :]
        return self._close_error()

    def _close_error(self) -> list[Event]:
        self._guard.bytes = len(self._buffer)
        return self._guard.check([body_error(self._response, bytes(self._buffer))])

    # --- whole answers ------------------------------------------------------------------------------------------------

    def _collect_whole(self, data: bytes) -> list[Event]:
        seen = len(self._buffer)
        self._buffer += data
        if self._is_lines is None:
            self._is_lines = self._look_for_lines(seen)
            if self._is_lines:
                held = bytes(self._buffer)
                self._buffer.clear()
                return self._read_stream(self._make_decoder("ndjson"), held)
        if len(self._buffer) > self._limits.event_bytes:
            return self._broken("too_large", f"the answer is larger than {self._limits.event_bytes} bytes")
        return []

    def _look_for_lines(self, seen: int) -> bool | None:
        """Whether this is no whole answer, but a stream of lines of JSON each; None as long as only one line came.

        Args:
            seen: How many bytes were looked at before.
        """
        if self._line_end < 0:
            self._line_end = self._buffer.find(b"\n", seen)
            if self._line_end < 0:
                return None
        rest = self._buffer[max(seen, self._line_end) :].lstrip(_BLANK)
        if not rest:
            return None
        return rest.startswith(_JSON) and json.is_complete(bytes(self._buffer[: self._line_end]))

    def _close_whole(self) -> list[Event]:
        """A body that is no stream: a whole JSON answer, an error object, or a web page."""
        body = bytes(self._buffer)
        self._guard.bytes = self._received
        if body.startswith(b"<"):
            words = body_error(self._response, body).error_message
            return self._broken("malformed", f"the answer is a web page, not a stream: {words}")
        try:
            answer = json.loads(body)
        except DecodeError as error:
            return self._broken("truncated", f"the answer is JSON that breaks off or is malformed: {error}")
        self._guard.chunks += 1
        wrong = error_object(answer)
        if wrong is not None and not (isinstance(answer, dict) and answer.get("choices")):
            return self._guard.check([provider_error(wrong, head=self._response)])
        return self._draft(lambda drafts: self._whole(answer, drafts))

    def _whole(self, answer: Any, drafts: list[Draft]) -> None:
        self._translator.whole(answer, drafts)
        if not self._translator.complete and not _failed(drafts):
            drafts.append(self._cause("malformed", f"the JSON is no finished answer: {excerpt(answer)}"))

    # --- streams ------------------------------------------------------------------------------------------------------

    def _stream(self, data: bytes) -> list[Event]:
        assert self._decoder is not None
        try:
            payloads = self._decoder.feed_data(data)
        except DecodeError as error:
            return self._broken(error.kind, str(error))
        return self._payloads(payloads) if payloads else []

    def _close_stream(self) -> list[Event]:
        assert self._decoder is not None
        try:
            payloads = self._decoder.close_data()
        except DecodeError as error:
            return self._broken(error.kind, str(error))
        return self._payloads(payloads)

    def _payloads(self, payloads: list[bytes]) -> list[Event]:
        return self._draft(lambda drafts: self._translate(payloads, drafts))

    def _translate(self, payloads: list[bytes], drafts: list[Draft]) -> None:
        """Decode and translate payloads, up to one that is malformed or ends the answer."""
        sentinel = self._api.sentinel
        ended = sentinel is not None and sentinel in payloads
        if ended:
            payloads = payloads[: payloads.index(sentinel)]  # type: ignore[arg-type]
        rest: list[bytes] = []
        try:
            values = json.decode_many(payloads)
        except json.JsonDecodeError as error:
            values, rest = error.decoded, payloads[error.index :]
        self._take(payloads, values, drafts)
        self._resume(rest, drafts)
        if ended and not self._translator.ended:
            self._translator.sentinel(drafts)

    def _resume(self, payloads: list[bytes], drafts: list[Draft]) -> None:
        """Go on one by one where a payload is malformed."""
        for payload in payloads:
            if self._translator.ended:
                return
            try:
                values = json.decode_many([payload])
            except json.JsonDecodeError as error:
                if payload.strip() == self._api.sentinel:
                    self._translator.sentinel(drafts)
                    return
                self._marks.append(len(drafts))
                self._count([payload])
                self._malformed(error, drafts)
            else:
                self._take([payload], values, drafts)

    def _take(self, payloads: list[bytes], values: list[Any], drafts: list[Draft]) -> None:
        """Translate chunks; one whose own payload is malformed is passed over, if that is allowed."""
        while values and not self._translator.ended:
            before = len(self._marks)
            problem: DecodeError | None = None
            try:
                self._translator.translate(_Chunks(values, drafts, self._marks), drafts)
            except DecodeError as error:
                problem = error
            finally:
                taken = len(self._marks) - before
                self._count(payloads[:taken])
                if self._on_chunk is not None:
                    for chunk in values[:taken]:
                        self._on_chunk(chunk)
            if problem is None:
                return
            self._malformed(problem, drafts)
            payloads, values = payloads[max(taken, 1) :], values[max(taken, 1) :]

    def _malformed(self, problem: DecodeError, drafts: list[Draft]) -> None:
        """A chunk that cannot be read ends the answer, or is passed over with a diagnostic."""
        if self._setup.options.malformed == "strict":
            raise problem
        drafts.append(self._note("malformed_chunk", {"message": str(problem)}))

    def _count(self, payloads: list[bytes]) -> None:
        self._taken += payloads
        self._guard.chunks += len(payloads)
        self._payload_bytes += sum(map(len, payloads))
        self._guard.bytes = self._payload_bytes

    def _counts(self, position: int) -> tuple[int, int]:
        """Bytes and chunks up to the chunk that a draft of the batch came from."""
        later = self._taken[bisect_right(self._marks, position) :]
        return self._guard.bytes - sum(map(len, later)), self._guard.chunks - len(later)

    # --- drafts, and the end ------------------------------------------------------------------------------------------

    def _draft(self, say: Callable[[list[Draft]], object]) -> list[Event]:
        """Let the translator say something, and turn it into events, whatever may go wrong."""
        drafts: list[Draft] = []
        try:
            say(drafts)
        except DecodeError as error:
            drafts.append(self._cause(error.kind, str(error)))
        except Exception as error:  # a shape of JSON that no translator expects
            drafts.append(self._cause("malformed", f"cannot read a chunk ({type(error).__name__}: {error})"))
        if self._translator.ended:
            return self._over(drafts)
        return self._check(drafts)

    def _over(self, drafts: list[Draft]) -> list[Event]:
        """Nothing more comes. Without the stop reason that is truncation, never success."""
        if self._translator.complete and not _failed(drafts):
            try:
                self._translator.finish(drafts)
            except Exception as error:
                drafts.append(
                    self._cause("malformed", f"cannot end the answer ({type(error).__name__}: {error})")
                )
        events = self._check(drafts)
        if not self._guard.finished:
            where = "before the provider said why it stopped" if self._guard.started else "before any content"
            events += self._broken("truncated", f"the stream ended {where}")
        return events

    def _check(self, drafts: list[Draft]) -> list[Event]:
        events = self._guard.check(drafts, self._counts) if drafts else []
        self._taken.clear()
        self._marks.clear()
        return events

    def _broken(self, kind: str, message: str) -> list[Event]:
        return self._guard.check([self._cause(kind, message)])

    def _cause(self, kind: str, message: str) -> Finish:
        origin = _ORIGINS.get(kind, "provider")
        cause = ErrorCause(
            kind=cast(ErrorKind, kind), phase=self._phase, origin=origin, retryable=kind != "too_large"
        )
        return Finish("error", message, cause)

    def _note(self, kind: str, details: dict[str, Any]) -> Metadata:
        return Metadata(diagnostic=Diagnostic(type=kind, timestamp=self._setup.timestamp, details=details))


def _failed(drafts: list[Draft]) -> bool:
    """Whether a translator has ended the stream itself."""
    return bool(drafts) and isinstance(drafts[-1], Finish)
