"""The pipeline: bytes of one answer in, events out. Synchronous: no await, no clock, no socket.

``decoder → translator → guard``, one call per read. A live stream and :func:`~pi_stream.engine.decode.decode` run
through the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from pi_stream.apis._errors import body_error, error_object, provider_error
from pi_stream.apis.base import Api, TranslatorSetup
from pi_stream.engine.source import observed
from pi_stream.events import Draft, Event, Finish, Metadata
from pi_stream.exceptions import DecodeError
from pi_stream.guard import Guard
from pi_stream.http import ResponseHead
from pi_stream.messages import Diagnostic, ErrorCause, ErrorKind, ErrorOrigin, StopReason
from pi_stream.wire import json
from pi_stream.wire.sse import SSEDecoder

__all__ = ["Pipeline"]

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
# Failures of the connection itself. After the stop reason they cost nothing but the usage that may have followed.
_CONNECTION_KINDS = frozenset({"transport", "timeout_idle", "timeout_content", "drain"})
_ORIGINS: dict[str, ErrorOrigin] = {"too_large": "limit", "truncated": "network"}


class Decoder(Protocol):
    """Cuts a body into the payloads of chunks."""

    def feed_data(self, data: bytes) -> list[bytes]:
        """Payloads that are complete with these bytes."""
        ...

    def close_data(self) -> list[bytes]:
        """What a clean end of the body completes."""
        ...


class Pipeline:
    """One answer on its way from bytes to events.

    Args:
        api: The wire protocol.
        head: The message to come.
        setup: What the translator is told.
        response: Status and headers of the answer.
        guard: The guard of the stream.
    """

    def __init__(self, api: Api, setup: TranslatorSetup, response: ResponseHead, guard: Guard) -> None:
        self._api = api
        self._setup = setup
        self._response = response
        self._guard = guard
        self._limits = setup.options.limits
        self._on_chunk = observed(setup.options.on_chunk)
        self._translator = api.translator(setup)
        self._decoder: Decoder | None = None
        self._feed: Callable[[bytes], list[Event]] = self._sniff
        self._buffer = bytearray()
        self._received = 0
        self._payload_bytes = 0

    @property
    def finished(self) -> bool:
        """Whether the terminal event was made."""
        return self._guard.finished

    @property
    def complete(self) -> bool:
        """Whether the provider has said why it stopped: only the end is still to come."""
        return self._translator.complete

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
        """The body ended properly."""
        if self._guard.finished:
            return []
        self._guard.bytes = self._received
        events: list[Event] = []
        if self._feed == self._stream and self._decoder is not None:
            events = self._payloads(self._decoder.close_data())
            self._guard.bytes = self._received
        elif self._feed == self._collect_error:
            events = self._guard.check([body_error(self._response, bytes(self._buffer))])
        elif self._buffer:
            events = self._whole(bytes(self._buffer))
        if not self._guard.finished:
            events += self._over()
        return events

    def fail(
        self, kind: str, message: str, *, origin: ErrorOrigin = "network", age_ms: int | None = None
    ) -> list[Event]:
        """The body broke off, or a limit or the caller ended it.

        Args:
            kind: Kind of the transport's error; ``drain`` is the wait for the end after the stop reason.
            message: What happened.
            origin: Who caused it.
            age_ms: Age of the last byte in ms.
        """
        if self._guard.finished:
            return []
        self._guard.bytes = self._received
        if self._translator.complete and kind in _CONNECTION_KINDS:
            details = {"kind": kind, "message": message}
            return self._finish(
                [] if kind == "drain" else [self._diagnostic("connection_lost_after_end", details)]
            )
        reason: StopReason = "aborted" if kind == "cancelled" else "error"
        cause = ErrorCause(
            kind=cast(ErrorKind, kind),
            origin=origin,
            retryable=reason == "error",
            last_byte_age_ms=age_ms,
        )
        return self._guard.check([Finish(reason, message, cause)])

    # --- what kind of body is it? -------------------------------------------------------------------------------------

    def _sniff(self, data: bytes) -> list[Event]:
        """Look at the first bytes: the body decides what it is, whatever its content type says."""
        if not 200 <= self._response.status < 300:
            self._feed = self._collect_error
            return self._feed(data)
        self._buffer += data
        start = self._buffer.lstrip(_BLANK)
        if self._api.framing == "sse" and _BOM.startswith(bytes(start[:3])):
            if len(start) < 3:
                return []  # perhaps half a byte order mark
            start = start[3:].lstrip(_BLANK)
        if not start:
            return []
        held = bytes(self._buffer)
        if start[:1] == b"<" or (start[:1] in b"{[" and self._api.framing == "sse"):
            self._feed = self._collect_whole
            self._buffer.clear()
            return self._feed(held)
        self._buffer.clear()
        self._decoder = self._make_decoder()
        self._feed = self._stream
        return self._feed(held)

    def _make_decoder(self) -> Decoder:
        if self._api.framing == "ndjson":
            from pi_stream.wire.ndjson import NDJSONDecoder

            return NDJSONDecoder(self._limits.event_bytes)
        return SSEDecoder(self._limits.event_bytes, sentinel=self._api.sentinel)

    def _collect_error(self, data: bytes) -> list[Event]:
        self._buffer += data
        if len(self._buffer) < self._limits.error_bytes:
            return []
        del self._buffer[self._limits.error_bytes :]
        self._guard.bytes = len(self._buffer)
        return self._guard.check([body_error(self._response, bytes(self._buffer))])

    def _collect_whole(self, data: bytes) -> list[Event]:
        self._buffer += data
        if len(self._buffer) > self._limits.event_bytes:
            return self._broken("too_large", f"the answer is larger than {self._limits.event_bytes} bytes")
        return []

    # --- chunks -------------------------------------------------------------------------------------------------------

    def _stream(self, data: bytes) -> list[Event]:
        assert self._decoder is not None
        try:
            payloads = self._decoder.feed_data(data)
        except DecodeError as error:
            events = self._payloads(getattr(error, "decoded", []))
            return events + self._broken(error.kind, str(error))
        return self._payloads(payloads) if payloads else []

    def _payloads(self, payloads: list[bytes]) -> list[Event]:
        drafts: list[Draft] = []
        sentinel = self._api.sentinel
        ended = sentinel is not None and sentinel in payloads
        if ended:
            payloads = payloads[: payloads.index(sentinel)]  # type: ignore[arg-type]
        try:
            self._translate(payloads, drafts)
            if ended and not self._translator.ended:
                self._translator.sentinel(drafts)
        except DecodeError as error:
            drafts.append(self._cause(error.kind, str(error)))
        except Exception as error:  # a shape of JSON that no translator expects
            drafts.append(self._cause("malformed", f"cannot read a chunk ({type(error).__name__}: {error})"))
        if self._translator.ended:
            return self._finish(drafts)
        return self._guard.check(drafts) if drafts else []

    def _translate(self, payloads: list[bytes], drafts: list[Draft]) -> None:
        """Decode and translate payloads, up to one that is malformed or ends the answer."""
        while payloads and not self._translator.ended:
            try:
                self._take(payloads, json.decode_many(payloads), drafts)
                return
            except json.JsonDecodeError as error:
                self._take(payloads, error.decoded, drafts)
                if self._translator.ended:
                    return
                self._count(payloads[error.index : error.index + 1])
                if self._setup.options.malformed == "strict":
                    raise
                drafts.append(self._diagnostic("malformed_chunk", {"message": str(error)}))
                payloads = payloads[error.index + 1 :]

    def _take(self, payloads: list[bytes], chunks: list[Any], drafts: list[Draft]) -> None:
        if self._on_chunk is not None:
            for chunk in chunks:
                self._on_chunk(chunk)
        taken = self._translator.translate(chunks, drafts)
        self._count(payloads[:taken])

    def _count(self, payloads: list[bytes]) -> None:
        self._guard.chunks += len(payloads)
        self._payload_bytes += sum(map(len, payloads))
        self._guard.bytes = self._payload_bytes

    def _whole(self, body: bytes) -> list[Event]:
        """A body that is no stream: a whole JSON answer, an error object, or a web page."""
        if body.lstrip(_BOM + _BLANK)[:1] == b"<":
            finish = body_error(self._response, body)
            return self._broken(
                "malformed", f"the answer is a web page, not a stream: {finish.error_message}"
            )
        try:
            answer = json.loads(body)
        except DecodeError as error:
            return self._broken("truncated", f"the answer is JSON that breaks off or is malformed: {error}")
        self._guard.chunks += 1
        wrong = error_object(answer)
        if wrong is not None and not (isinstance(answer, dict) and answer.get("choices")):
            return self._guard.check([provider_error(wrong, head=self._response)])
        drafts: list[Draft] = []
        try:
            self._translator.whole(answer, drafts)
        except Exception as error:
            drafts.append(
                self._cause("malformed", f"cannot read the answer ({type(error).__name__}: {error})")
            )
        return self._finish(drafts) if self._translator.ended else self._guard.check(drafts)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _over(self) -> list[Event]:
        """Nothing more comes. Without the stop reason that is truncation, never success."""
        if self._translator.complete:
            return self._finish([])
        where = "before any content" if not self._guard.started else "before the provider said why it stopped"
        return self._broken("truncated", f"the stream ended {where}")

    def _finish(self, drafts: list[Draft]) -> list[Event]:
        if not any(isinstance(draft, Finish) for draft in drafts):
            if not self._translator.complete:
                return self._guard.check(drafts) + self._over()
            self._translator.finish(drafts)
        return self._guard.check(drafts)

    def _broken(self, kind: str, message: str) -> list[Event]:
        return self._guard.check([self._cause(kind, message)])

    def _cause(self, kind: str, message: str) -> Finish:
        origin = _ORIGINS.get(kind, "provider")
        cause = ErrorCause(kind=cast(ErrorKind, kind), origin=origin, retryable=kind != "too_large")
        return Finish("error", message, cause)

    def _diagnostic(self, kind: str, details: dict[str, Any]) -> Metadata:
        return Metadata(diagnostic=Diagnostic(type=kind, timestamp=self._setup.timestamp, details=details))
