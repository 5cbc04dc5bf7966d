"""Server-sent events: ``text/event-stream`` bytes to events.

The rules are those of the WHATWG HTML standard, section 9.2.6:

- A line ends at LF, CR or CRLF, in any mix, and nowhere else (U+2028, U+0085, VT and FF are data). One byte order mark
  at the very start is dropped.
- A line is ``field: value``; one space after the colon is dropped. A line that starts with a colon is a comment, a line
  without a colon is a field with an empty value, an unknown field is ignored.
- ``data`` lines are joined with LF. ``event`` names the event, ``id`` is kept for later events too (ignored if it holds
  NUL), ``retry`` counts only if it is all digits.
- An empty line ends the event. Without a ``data`` line there is no event.

One exception: the standard drops what stands at the end of the body without an empty line after it. Providers do end
like that, and the finish reason would be lost, so :meth:`SSEDecoder.close` gives such an event out if its data is
complete JSON or the end mark, which no cut can fake.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from attrs import define, field, frozen

from pi_stream.exceptions import DecodeError
from pi_stream.wire.json import is_complete

__all__ = ["SSEDecoder", "ServerSentEvent"]

_BOM = b"\xef\xbb\xbf"
_LF, _CR = b"\n\r"

# Of the event that is still open: no data line yet, one (nearly always), or several.
_Data: TypeAlias = bytes | list[bytes] | None
_T = TypeVar("_T")


class _RawJson(list[bytes]):
    """Data of lines that belong to no field."""


@frozen
class ServerSentEvent:
    """One event.

    Attributes:
        event: Its name; ``message`` if it has none.
        data: Its data lines, joined with LF. Invalid UTF-8 reads as U+FFFD.
        id: The last event id the stream has sent, with this event or before; None if none.
        retry: Reconnection time in milliseconds, if this event sets it.
    """

    event: str = "message"
    data: str = ""
    id: str | None = None
    retry: int | None = None


@define(eq=False)
class SSEDecoder:
    """Decodes one body, in one of two forms: whole events, or only their data for those who need no more.

    An error comes with the call after the one that returned what was complete before it; see :mod:`pi_stream.wire`.

    Args:
        max_event_bytes: Most bytes of a line, and of the data of an event.
        sentinel: Data that marks the end of the stream though it is not JSON.
        raw_json: Whether JSON outside of any field is taken for data, which the standard would drop: a line that starts
            with a brace, and all lines after it up to an empty one.
    """

    max_event_bytes: int = 32 * 1024 * 1024
    sentinel: bytes | None = b"[DONE]"
    raw_json: bool = False
    # The line whose end has not come; an LF that comes next belongs to the last line end; no line yet, so a byte order
    # mark may come; fields have come since the last empty line; the size, kept only while there are several data lines.
    _partial: bytearray = field(factory=bytearray, init=False, repr=False)
    _after_cr: bool = field(default=False, init=False, repr=False)
    _at_start: bool = field(default=True, init=False, repr=False)
    _open: bool = field(default=False, init=False, repr=False)
    _data_size: int = field(default=0, init=False, repr=False)
    _data: _Data = field(default=None, init=False, repr=False)
    _event: bytes = field(default=b"", init=False, repr=False)
    _id: str | None = field(default=None, init=False, repr=False)
    _retry: int | None = field(default=None, init=False, repr=False)
    _error: DecodeError | None = field(default=None, init=False, repr=False)

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes of the body.

        Returns:
            The events they complete.

        Raises:
            DecodeError: A line or the data of an event exceeds ``max_event_bytes`` (kind ``too_large``).
        """
        events: list[ServerSentEvent] = []
        try:
            for line in self._lines(data):
                if line:
                    self._data = self._field(line, self._data)
                else:
                    if self._data is not None:
                        events.append(self._take(_joined(self._data)))
                    self._data, self._event, self._retry = None, b"", None
        except DecodeError as error:
            self._error = error
        return self._checked(events)

    def feed_data(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the body; the fast form of :meth:`feed`.

        Returns:
            The data of the events they complete, undecoded. Events with empty data are left out: some servers send
            them to keep a connection alive, and there is nothing in them to decode.

        Raises:
            DecodeError: A line or the data of an event exceeds ``max_event_bytes`` (kind ``too_large``).
        """
        payloads: list[bytes] = []
        held = self._data
        try:
            for line in self._lines(data):
                head = line[:6]
                if head == b"data: " and held is None:
                    held = line[6:]
                elif not head:
                    if held:
                        payloads.append(held if isinstance(held, bytes) else b"\n".join(held))
                    held = None
                elif head != b"event:":  # the name is of no use here, and very common
                    held = self._field(line, held)
        except DecodeError as error:
            self._error = error
        self._data = held
        return self._checked(payloads)

    def close(self) -> list[ServerSentEvent]:
        """The body has ended properly.

        Returns:
            The last event, if it lacks no more than the empty line after it: its data is complete JSON or the sentinel.

        Raises:
            DecodeError: As :meth:`feed`.
        """
        return [self._take(payload) for payload in self.close_data()]

    def close_data(self) -> list[bytes]:
        """As :meth:`close`, but gives only the data."""
        if self._error is not None:
            raise self._error
        self._open = self.pending
        data, line = self._data, self._last_line()
        if line.startswith(b"data:") or self._is_raw(line, data):  # any other field may have lost its end
            data = self._field(line, data)
        self._data = None
        self._partial.clear()
        payload = b"" if data is None else _joined(data)
        if payload != self.sentinel and not is_complete(payload):
            return []
        self._open = False
        return [payload]

    @property
    def pending(self) -> bool:
        """Whether bytes of an unfinished event are held; after closing, whether they had to be left behind."""
        return self._open or self._last_line()[:1] not in (b"", b":")

    def _lines(self, data: bytes) -> list[bytes]:
        """Complete lines, without their ends; what follows the last one is kept."""
        if self._error is not None:
            return []
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if not data:
            return []
        fits = len(self._partial) + len(data) <= self.max_event_bytes
        lines = data.splitlines()  # of bytes: splits at LF, CR and CRLF only
        last = data[-1]
        self._after_cr = last == _CR
        tail = b"" if last in (_LF, _CR) else lines.pop()
        if lines and self._partial:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
            self._partial.clear()
        self._partial += tail
        if not fits:
            lines = self._bounded(lines)
        if lines:
            self._note(lines)
        return lines

    def _note(self, lines: list[bytes]) -> None:
        """Keep what these lines change beyond the events they form."""
        if self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        for line in reversed(lines):
            if line[:1] != b":":
                self._open = line != b""
                break

    def _bounded(self, lines: list[bytes]) -> list[bytes]:
        """The lines before the first that is too long."""
        for number, line in enumerate(lines):
            if len(line) > self.max_event_bytes:
                self._error = self._too_large()
                return lines[:number]
        if len(self._partial) > self.max_event_bytes:
            self._error = self._too_large()
        return lines

    def _field(self, line: bytes, data: _Data) -> _Data:
        """Take one line that is not empty; returns the data of the open event."""
        if self.raw_json and self._is_raw(line, data):
            return self._add_line(_RawJson() if data is None else data, line)
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            return value if data is None else self._add_line(data, value)
        if name == b"event":
            self._event = value
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 19:  # beyond that it is no time
            self._retry = int(value)
        return data

    def _is_raw(self, line: bytes, data: _Data) -> bool:
        """Whether a line belongs to JSON outside of any field."""
        return isinstance(data, _RawJson) or (self.raw_json and data is None and line[:1] == b"{")

    def _add_line(self, data: bytes | list[bytes], value: bytes) -> list[bytes]:
        if isinstance(data, bytes):
            data = [data]
        if len(data) < 2:
            self._data_size = sum(map(len, data))
        data.append(value)
        self._data_size += 1 + len(value)
        if self._data_size > self.max_event_bytes:
            raise self._too_large()
        return data

    def _take(self, payload: bytes) -> ServerSentEvent:
        name = self._event.decode("utf-8", "replace") or "message"
        return ServerSentEvent(name, payload.decode("utf-8", "replace"), self._id, self._retry)

    def _last_line(self) -> bytes:
        line = bytes(self._partial)
        return line.removeprefix(_BOM) if self._at_start else line

    def _checked(self, found: list[_T]) -> list[_T]:
        if self._error is not None and not found:
            raise self._error
        return found

    def _too_large(self) -> DecodeError:
        return DecodeError(
            f"an event is larger than {self.max_event_bytes} bytes: raise max_event_bytes "
            "(of a stream: Limits(event_bytes=...)) if that is meant",
            kind="too_large",
        )


def _joined(data: bytes | list[bytes]) -> bytes:
    return data if isinstance(data, bytes) else b"\n".join(data)
