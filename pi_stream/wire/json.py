"""The JSON seam: JSON text of the wire becomes objects here, and objects become JSON text.

Two backends, the standard library and orjson (used when installed, extra ``fast``), give the same results for
everything. orjson refuses what the standard library takes (lone surrogate escapes, ``NaN``, ``Infinity``, numbers beyond
the range of a float, a byte order mark), so whatever it refuses is tried again with the standard library, whose word is
final. It also turns integers of more than 64 bits into floats without a word, so payloads with a run of 19 or more digits
never reach it: every integer of up to 18 digits fits 64 bits. One difference is left: how deep values may be nested is
the interpreter's recursion limit with one backend and at least 1,000 levels with the other.

``PI_STREAM_JSON=json`` in the environment keeps orjson out, ``PI_STREAM_JSON=orjson`` insists on it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from pi_stream.exceptions import ConfigError, DecodeError, MissingExtraError

__all__ = ["BACKEND", "JsonDecodeError", "decode_many", "dumps", "is_complete", "loads", "use_backend"]

_EXCERPT = 80

# The separator between payloads that are parsed as one array. No other JSON number equals 2**53 + 1: it is no float,
# and an integer has one spelling. So if this text occurs only where we put it, and every odd element of the array is
# this number, then each payload is exactly one element: broken payloads cannot complete each other.
_FENCE = 2**53 + 1
_FENCE_TEXT = str(_FENCE)
_FENCE_BYTES = f",{_FENCE},".encode()
_JOIN_FROM = (
    8  # Measured: with fewer payloads one by one is faster, from here on the array is, by about 10 %.
)

_DIGITS_AS_ZERO = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))


class JsonDecodeError(DecodeError):
    """A payload that is not JSON. The kind is ``malformed``.

    Args:
        message: What is wrong, where, and how the payload starts.
        index: Number of the payload in the list that was to be decoded; also the ``position``.
        decoded: Values of the payloads before it.
    """

    def __init__(self, message: str, *, index: int, decoded: list[Any]) -> None:
        super().__init__(message, kind="malformed", position=index)
        self.index = index
        self.decoded = decoded


def _import_orjson() -> Callable[[bytes], Any] | None:
    try:
        import orjson
    except ImportError:
        return None
    return orjson.loads


def _choose(name: str) -> Callable[[bytes], Any] | None:
    """The function of orjson, or None for the standard library."""
    if name == "json":
        return None
    if name not in ("", "orjson"):
        raise ConfigError(f"unknown JSON backend {name!r}: PI_STREAM_JSON may be 'json' or 'orjson'")
    found = _import_orjson()
    if found is None and name:
        raise MissingExtraError("fast", "orjson", "pip install 'pi-stream[fast]'")
    return found


_orjson_loads = _choose(os.environ.get("PI_STREAM_JSON", ""))
BACKEND = "json" if _orjson_loads is None else "orjson"
"""Name of the backend in use, outside of :func:`use_backend`."""

_decoder = json.JSONDecoder()
# The C scanner itself: half the cost of json.loads, which guesses the encoding and looks for white space first.
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@contextmanager
def use_backend(name: str) -> Generator[None]:
    """Use one backend inside a ``with`` block. Meant for tests: the switch is for the whole process.

    Args:
        name: ``"json"`` or ``"orjson"``.

    Raises:
        ConfigError: There is no such backend.
        MissingExtraError: It is not installed.
    """
    global _orjson_loads
    before = _orjson_loads
    _orjson_loads = _choose(name)
    try:
        yield
    finally:
        _orjson_loads = before


def loads(data: bytes | str) -> Any:
    """Parse one JSON text.

    Args:
        data: UTF-8 bytes or a string; a byte order mark and white space around the value are allowed, and so are
            ``NaN`` and ``Infinity``, as in the standard library.

    Raises:
        JsonDecodeError: It is not JSON, not UTF-8, nested too deeply, or has a number with too many digits.
    """
    if isinstance(data, bytes):
        return decode_many([data])[0]
    try:
        return _parse(data)
    except (ValueError, RecursionError) as error:
        raise _failure(data.encode("utf-8", "backslashreplace"), error, []) from error


def decode_many(payloads: list[bytes]) -> list[Any]:
    """Parse the payloads of one read, each a JSON text of its own.

    Args:
        payloads: JSON texts in UTF-8.

    Returns:
        Their values, as many as there are payloads.

    Raises:
        JsonDecodeError: One of them is not JSON. ``decoded`` holds the values of those before it.
    """
    if _orjson_loads is not None and not _may_exceed_64_bits(b" ".join(payloads)):
        try:
            return list(map(_orjson_loads, payloads))
        except ValueError:
            pass
    elif len(payloads) >= _JOIN_FROM:
        values = _decode_joined(payloads)
        if values is not None:
            return values
    return _decode_each(payloads)


def _may_exceed_64_bits(text: bytes) -> bool:
    """Whether the text has a run of 19 digits."""
    # Such a run covers three neighbours among every sixth byte, and in few other texts all three are digits. This look
    # at a sixth of the bytes takes an eighth of the time that orjson takes, a regular expression takes more than orjson.
    sample = text[::6].translate(_DIGITS_AS_ZERO)
    return b"000" in sample and b"0" * 19 in text.translate(_DIGITS_AS_ZERO)


def _decode_joined(payloads: list[bytes]) -> list[Any] | None:
    """Parse all payloads as one array; None when they must be looked at one by one."""
    count = len(payloads)
    try:
        text = f"[{_FENCE_BYTES.join(payloads).decode()}]"
        values, end = _scan(text, 0)
    except (ValueError, RecursionError, StopIteration):
        return None
    if (
        end != len(text)
        or len(values) != 2 * count - 1
        or values[1::2].count(_FENCE) != count - 1
        or text.count(_FENCE_TEXT) != count - 1
    ):
        return None
    return values[::2]  # type: ignore[no-any-return]


def _decode_each(payloads: list[bytes]) -> list[Any]:
    values: list[Any] = []
    for payload in payloads:
        try:
            text = payload.decode()
            try:
                value, end = _scan(text, 0)
            except StopIteration:
                value, end = None, -1
            values.append(value if end == len(text) else _parse(text))
        except (ValueError, RecursionError) as error:
            raise _failure(payload, error, values) from error
    return values


def _parse(text: str) -> Any:
    """The whole text, with a byte order mark or white space around the value."""
    return _decoder.decode(text.removeprefix("\ufeff"))


def _failure(payload: bytes, error: Exception, decoded: list[Any]) -> JsonDecodeError:
    match error:
        case json.JSONDecodeError():
            reason = f"{error.msg} at character {error.pos}"
        case UnicodeDecodeError():
            reason = f"invalid UTF-8 at byte {error.start}"
        case RecursionError():
            reason = "nested too deeply"
        case _:
            reason = str(error)
    excerpt = repr(payload[:_EXCERPT]) + (f"... ({len(payload)} bytes)" if len(payload) > _EXCERPT else "")
    return JsonDecodeError(f"not JSON: {reason}: {excerpt}", index=len(decoded), decoded=decoded)


def is_complete(payload: bytes) -> bool:
    """Whether a payload at the end of a body is a whole JSON text, so that nothing of it can be missing.

    A bare number is not: its last digits could be.
    """
    try:
        value = loads(payload)
    except DecodeError:
        return False
    return type(value) not in (int, float)


def dumps(value: Any) -> bytes:
    """Write compact JSON in UTF-8. The same bytes with every backend.

    Lone surrogates are escaped, which is the only way to write them. ``NaN`` and infinities become ``null``, as in
    JavaScript: other readers refuse the whole text otherwise.

    Args:
        value: Plain data: dicts, lists, tuples, strings, numbers, booleans and None.

    Raises:
        TypeError: Something else is in it.
        ValueError: It contains itself.
    """
    try:
        text = _encode(value)
    except ValueError:
        text = _encode(_without_nan(value, ()))
    # Surrogates stand inside strings only, and the escape written here is the JSON one: \udc80.
    return text.encode("utf-8", "backslashreplace")


def _without_nan(value: Any, parents: tuple[int, ...]) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list | tuple):
        return value
    if id(value) in parents:
        raise ValueError("Circular reference detected")
    parents = (*parents, id(value))
    if isinstance(value, dict):
        return {key: _without_nan(item, parents) for key, item in value.items()}
    return [_without_nan(item, parents) for item in value]
