"""Newline-delimited JSON: one JSON text a line, as Ollama streams.

A line ends at LF or CRLF. White space around the JSON text is dropped, and so are lines that hold nothing else.
"""

from __future__ import annotations

from attrs import define, field

from pi_stream.exceptions import DecodeError
from pi_stream.wire.json import is_complete

__all__ = ["NDJSONDecoder"]

_WHITE_SPACE = b" \t\r"


@define(eq=False)
class NDJSONDecoder:
    """Decodes one body into the JSON texts of its lines.

    An error comes with the call after the one that returned what was complete before it; see :mod:`pi_stream.wire`.

    Args:
        max_line_bytes: Most bytes of a line.
    """

    max_line_bytes: int = 32 * 1024 * 1024
    _partial: bytearray = field(factory=bytearray, init=False, repr=False)
    _error: DecodeError | None = field(default=None, init=False, repr=False)

    def feed_data(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the body.

        Returns:
            The JSON texts of the lines they complete, undecoded and unchecked.

        Raises:
            DecodeError: A line exceeds ``max_line_bytes`` (kind ``too_large``).
        """
        if self._error is not None:
            raise self._error
        fits = len(self._partial) + len(data) <= self.max_line_bytes
        lines = data.split(b"\n")
        tail = lines.pop()
        if lines and self._partial:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
            self._partial.clear()
        self._partial += tail
        if not fits:
            lines = self._bounded(lines)
        payloads = [text for line in lines if (text := line.strip(_WHITE_SPACE))]
        if self._error is not None and not payloads:
            raise self._error
        return payloads

    def close_data(self) -> list[bytes]:
        """The body has ended properly.

        Returns:
            The last line, if it lacks no more than its line end: it is complete JSON. Otherwise :attr:`pending` is true.

        Raises:
            DecodeError: As :meth:`feed_data`.
        """
        if self._error is not None:
            raise self._error
        text = bytes(self._partial).strip(_WHITE_SPACE)
        if not is_complete(text):
            return []
        self._partial.clear()
        return [text]

    @property
    def pending(self) -> bool:
        """Whether a part of a line is held; after closing, whether it had to be left behind."""
        return bool(self._partial.strip(_WHITE_SPACE))

    def _bounded(self, lines: list[bytes]) -> list[bytes]:
        """The lines before the first that is too long."""
        for number, line in enumerate([*lines, self._partial]):
            if len(line) > self.max_line_bytes:
                self._error = DecodeError(
                    f"a line is larger than {self.max_line_bytes} bytes: raise max_line_bytes "
                    "(of a stream: Limits(event_bytes=...)) if that is meant",
                    kind="too_large",
                )
                return lines[:number]
        return lines
