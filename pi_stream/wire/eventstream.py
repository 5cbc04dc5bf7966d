"""Frames of ``application/vnd.amazon.eventstream``, the binary framing of Bedrock.

A frame, all numbers big-endian::

    total length   4 bytes   of the whole frame
    header length  4 bytes
    prelude CRC    4 bytes   CRC-32 of the eight bytes before
    headers                  name length (1), name, value type (1), value
    payload
    message CRC    4 bytes   CRC-32 of everything before

:class:`EventStreamDecoder` gives frames, :class:`EventStreamChunks` what the frames say, as the JSON text of chunks.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, TypeAlias
from uuid import UUID
from zlib import crc32

from attrs import define, field, frozen

from pi_stream.exceptions import DecodeError
from pi_stream.wire import json

__all__ = ["EventStreamChunks", "EventStreamDecoder", "Frame", "HeaderValue", "encode_frame"]

HeaderValue: TypeAlias = bool | int | bytes | str | UUID
"""Value of a header. A timestamp is an integer, milliseconds since 1970."""

_PRELUDE = struct.Struct(">III")
_CRC_SIZE = 4
_LEAST = _PRELUDE.size + _CRC_SIZE

_TRUE, _FALSE = 0, 1
_NUMBERS = {2: struct.Struct(">b"), 3: struct.Struct(">h"), 4: struct.Struct(">i"), 5: struct.Struct(">q")}
_BYTES, _STRING = 6, 7
_TIMESTAMP = 8
_UUID = 9
_NUMBERS[_TIMESTAMP] = _NUMBERS[5]
_LENGTH = struct.Struct(">H")


@frozen
class Frame:
    """One frame.

    Attributes:
        headers: Such as ``:message-type``, ``:event-type`` and ``:content-type``. Frames with the same ones share them.
        payload: JSON text, with Bedrock.
    """

    headers: dict[str, HeaderValue]
    payload: bytes


@define(eq=False)
class EventStreamDecoder:
    """Decodes one body into frames; both checksums are checked.

    An error comes with the call after the one that returned what was complete before it; see :mod:`pi_stream.wire`.

    Args:
        max_frame_bytes: Most bytes of a frame.
    """

    max_frame_bytes: int = 32 * 1024 * 1024
    _buffer: bytearray = field(factory=bytearray, init=False, repr=False)
    _wanted: int = field(
        default=_PRELUDE.size, init=False, repr=False
    )  # with fewer bytes there is nothing to do
    _error: DecodeError | None = field(default=None, init=False, repr=False)
    # Headers of the last frame, as bytes and decoded: most frames have the same as the one before.
    _headers: tuple[bytes, dict[str, HeaderValue]] = field(factory=lambda: (b"", {}), init=False, repr=False)

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes of the body.

        Returns:
            The frames they complete.

        Raises:
            DecodeError: A checksum, a length or a header is wrong (kind ``malformed``), or a frame announces more than
                ``max_frame_bytes`` (kind ``too_large``).
        """
        if self._error is not None:
            raise self._error
        self._buffer += data
        frames: list[Frame] = []
        try:
            while len(self._buffer) >= self._wanted:
                total = self._frame_length()
                self._wanted = total
                if len(self._buffer) < total:
                    break
                frame = bytes(self._buffer[:total])
                del self._buffer[:total]
                self._wanted = _PRELUDE.size
                frames.append(self._decode_frame(frame))
        except DecodeError as error:
            self._error = error
            if not frames:
                raise
        return frames

    def close(self) -> list[Frame]:
        """The body has ended. A frame has no end that could be missing without loss: never gives one.

        Raises:
            DecodeError: As :meth:`feed`.
        """
        if self._error is not None:
            raise self._error
        return []

    @property
    def pending(self) -> bool:
        """Whether a part of a frame is held; after closing, whether it had to be left behind."""
        return bool(self._buffer)

    def _frame_length(self) -> int:
        """Length of the frame at the start of the buffer, once its prelude is found right."""
        total, headers, checksum = _PRELUDE.unpack_from(self._buffer)
        prelude = bytes(self._buffer[: _PRELUDE.size])
        if crc32(prelude[:-_CRC_SIZE]) != checksum:
            raise DecodeError(f"frame with a wrong prelude checksum, or no frame at all: {prelude!r}")
        if total < _LEAST or headers > total - _LEAST:
            raise DecodeError(f"frame of {total} bytes cannot have {headers} bytes of headers")
        if total > self.max_frame_bytes:
            raise DecodeError(
                f"a frame of {total} bytes is larger than {self.max_frame_bytes} bytes: raise max_frame_bytes "
                "(of a stream: Limits(event_bytes=...)) if that is meant",
                kind="too_large",
            )
        return int(total)

    def _decode_frame(self, frame: bytes) -> Frame:
        checked = len(frame) - _CRC_SIZE
        if crc32(memoryview(frame)[:checked]) != int.from_bytes(frame[checked:], "big"):
            raise DecodeError(f"frame of {len(frame)} bytes with a wrong checksum")
        payload_at = _PRELUDE.size + int.from_bytes(frame[4:8], "big")
        headers = frame[_PRELUDE.size : payload_at]
        if headers != self._headers[0]:
            try:
                self._headers = headers, _decode_headers(headers)
            except (ValueError, IndexError, struct.error) as error:
                raise DecodeError(f"frame with malformed headers: {error}") from error
        return Frame(self._headers[1], frame[payload_at:checked])


def _decode_headers(data: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    at = 0
    while at < len(data):
        name, at = _take(data, at + 1, data[at])
        key = name.decode()
        if key in headers:
            raise ValueError(f"{key!r} twice")
        headers[key], at = _decode_value(data, at + 1, data[at])
    return headers


def _decode_value(data: bytes, at: int, kind: int) -> tuple[HeaderValue, int]:
    """The value at this place, and the place after it."""
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in _NUMBERS:
        number = _NUMBERS[kind]
        return number.unpack_from(data, at)[0], at + number.size
    if kind == _UUID:
        raw, at = _take(data, at, 16)
        return UUID(bytes=raw), at
    if kind not in (_BYTES, _STRING):
        raise ValueError(f"unknown value type {kind}")
    raw, at = _take(data, at + _LENGTH.size, _LENGTH.unpack_from(data, at)[0])
    return (raw if kind == _BYTES else raw.decode()), at


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise ValueError("a header is cut off")
    return data[at : at + size], at + size


@define(eq=False)
class EventStreamChunks:
    """Decodes one body into the JSON texts of its chunks.

    An event is a chunk as the AWS SDKs show it, its payload under its type: ``{"contentBlockDelta": {...}}``. A frame that
    says what went wrong is ``{"exception": {"type": "throttlingException", "message": ..., ...}}``, whether it is an
    exception of the protocol or an error of the connection.

    Source: https://smithy.io/2.0/aws/amazon-eventstream.html

    Args:
        max_frame_bytes: Most bytes of a frame.
    """

    max_frame_bytes: int = 32 * 1024 * 1024
    _frames: EventStreamDecoder = field(init=False, repr=False)
    _name: tuple[str, bytes] = field(
        default=("", b'{"":'), init=False, repr=False
    )  # the last event type, and as JSON

    def __attrs_post_init__(self) -> None:
        self._frames = EventStreamDecoder(self.max_frame_bytes)

    def feed_data(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the body.

        Returns:
            The JSON texts of the chunks they complete; payloads are neither decoded nor checked.

        Raises:
            DecodeError: As :meth:`EventStreamDecoder.feed`.
        """
        return [self._chunk(frame) for frame in self._frames.feed(data)]

    def close_data(self) -> list[bytes]:
        """The body has ended properly. Never gives a chunk.

        Raises:
            DecodeError: As :meth:`feed_data`.
        """
        return [self._chunk(frame) for frame in self._frames.close()]

    @property
    def pending(self) -> bool:
        """Whether a part of a frame is held; after closing, whether it had to be left behind."""
        return self._frames.pending

    def _chunk(self, frame: Frame) -> bytes:
        headers = frame.headers
        kind = headers.get(":event-type")
        if ":exception-type" in headers or headers.get(":message-type") in ("exception", "error"):
            return json.dumps({"exception": _exception(frame)})
        if kind != self._name[0]:
            kind = kind if isinstance(kind, str) else ""
            self._name = kind, b"{" + json.dumps(kind) + b":"
        return self._name[1] + (frame.payload or b"{}") + b"}"


def _exception(frame: Frame) -> dict[str, Any]:
    """What a frame says went wrong: texts and numbers. A payload that is no object is taken for the message."""
    headers = frame.headers
    kind = headers.get(":exception-type", headers.get(":error-code"))
    text = frame.payload.decode("utf-8", "replace").strip() or headers.get(":error-message")
    try:
        payload = json.loads(frame.payload)
    except DecodeError:
        payload = None
    fields = payload if isinstance(payload, dict) else {"message": text}
    told = {name: value for name, value in fields.items() if isinstance(value, str | int | float)}
    return {**told, "type": kind if isinstance(kind, str) else "exception"}


def encode_frame(headers: Mapping[str, HeaderValue], payload: bytes = b"") -> bytes:
    """Write one frame, as a server does.

    Args:
        headers: Integers are written with 32 bits, or 64 if they need them.
        payload: What the frame carries.

    Raises:
        ValueError: A name or value is too long, or an integer too large.
    """
    try:
        encoded = b"".join(_encode_header(name, value) for name, value in headers.items())
    except (struct.error, OverflowError) as error:
        raise ValueError(f"header too large: {error}") from error
    total = _LEAST + len(encoded) + len(payload)
    prelude = struct.pack(">II", total, len(encoded))
    frame = b"".join((prelude, crc32(prelude).to_bytes(_CRC_SIZE, "big"), encoded, payload))
    return frame + crc32(frame).to_bytes(_CRC_SIZE, "big")


def _encode_header(name: str, value: HeaderValue) -> bytes:
    key = name.encode()
    return b"".join((len(key).to_bytes(1, "big"), key, _encode_value(value)))


def _encode_value(value: HeaderValue) -> bytes:
    match value:
        case bool():
            return bytes([_TRUE if value else _FALSE])
        case int():
            kind = 4 if -(2**31) <= value < 2**31 else 5
            return bytes([kind]) + _NUMBERS[kind].pack(value)
        case UUID():
            return bytes([_UUID]) + value.bytes
        case bytes():
            return bytes([_BYTES]) + _LENGTH.pack(len(value)) + value
        case str():
            text = value.encode()
            return bytes([_STRING]) + _LENGTH.pack(len(text)) + text
