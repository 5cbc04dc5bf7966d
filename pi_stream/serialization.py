"""JSON to objects and back, by the rules of the message model.

- **Names.** ``tool_call_id`` is ``toolCallId``, mechanically. Keys inside user data (arguments, details, sections, JSON
  schemas, headers, metadata) stay as they are, and user data is passed on, not copied.
- **Strictness.** Nothing is coerced. A value of another kind is a :class:`~pi_stream.exceptions.SerializationError`
  that names its JSON path.
- **Nothing is lost.** Unknown keys, and known optional keys that were null, are kept in ``extra`` and written back.
  Keys that were absent are left out again as long as their attribute keeps its default; where that default is a time,
  it is 0. A block of an unknown type is an :class:`~pi_stream.messages.UnknownContent`, a message of an unknown role a
  :class:`~pi_stream.messages.CustomMessage`.
- **Without a place for extras** (events, options, requests): an event leaves unknown keys out, so that a log of a newer
  version still reads; anything else refuses them, so that a misspelt option is noticed.
- **Order.** ``role`` or ``type`` comes first, unknown keys come last. A key whose attribute is None by default is
  absent, never null.

The rules themselves are in :mod:`pi_stream._json_rules`; these two modules are the only ones that import cattrs.
"""

from __future__ import annotations

import enum
import json
import re
from types import NoneType
from typing import Any, Final, NoReturn, TypeVar, overload

import attrs
from cattrs import BaseValidationError, Converter, StructureHandlerNotFoundError
from cattrs.fns import identity

from pi_stream import _json_rules as rules
from pi_stream.exceptions import ConfigError, SerializationError
from pi_stream.messages import CustomMessage, UnknownContent

__all__ = ["dumps", "from_json", "loads", "to_json"]

T = TypeVar("T")


def to_json(obj: Any) -> Any:
    """Turn an object of this package into JSON values.

    Args:
        obj: A message, block, event, context, usage, model, options or any other value class of this package; an
            instance of a class given to :func:`~pi_stream.messages.register_role`; a list, tuple or dict of them; or a
            plain JSON value.

    Returns:
        A dict for an object, a list for a list or tuple, a plain value as it is. User data inside is not copied. The
        API key and the callables of :class:`~pi_stream.options.StreamOptions` are never written.

    Raises:
        SerializationError: ``obj`` or an object in it has no JSON form.
    """
    return _converter.unstructure(obj)


@overload
def from_json(data: Any, cls: type[T]) -> T: ...
@overload
def from_json(data: Any, cls: Any) -> Any: ...
def from_json(data: Any, cls: Any) -> Any:
    """Make an object of JSON values, strictly.

    Args:
        data: JSON values as :func:`json.loads` gives them. User data inside becomes part of the object uncopied.
        cls: A value class of this package, a union such as :data:`~pi_stream.messages.Message` or
            :data:`~pi_stream.events.Event`, or a list of one: ``list[Message]``.

    Returns:
        An instance of ``cls``. Where that is ``Message``, a message of an application role is an instance of the class
        registered for it, else a :class:`~pi_stream.messages.CustomMessage`.

    Raises:
        SerializationError: The JSON is not what the message model says; ``path`` leads to the first value at fault.
        ConfigError: ``cls`` is nothing that can be read from JSON.
    """
    try:
        return _converter.structure(data, cls)
    except (BaseValidationError, rules.Invalid) as error:
        raise _as_serialization_error(error) from None
    except StructureHandlerNotFoundError as error:
        raise ConfigError(f"{cls!r} cannot be read from JSON: {error}") from error


def dumps(obj: Any, *, indent: int | None = None) -> str:
    r"""Write an object as JSON text that encodes as UTF-8, whatever strings it holds.

    Args:
        obj: What :func:`to_json` takes.
        indent: Spaces per level; None for one compact line.

    Returns:
        The text. Characters stand as they are, except that half of a surrogate pair, which JavaScript strings may
        hold, is written as its ``\udXXX`` escape.

    Raises:
        SerializationError: Something in it has no JSON form, such as a set or NaN.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    try:
        text = json.dumps(
            to_json(obj), ensure_ascii=False, allow_nan=False, indent=indent, separators=separators
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise SerializationError(f"no JSON form: {error}") from error
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


@overload
def loads(text: str | bytes, cls: type[T]) -> T: ...
@overload
def loads(text: str | bytes, cls: Any) -> Any: ...
def loads(text: str | bytes, cls: Any) -> Any:
    """Make an object of JSON text.

    Args:
        text: JSON text, or its bytes in UTF-8.
        cls: As for :func:`from_json`.

    Returns:
        An instance of ``cls``.

    Raises:
        SerializationError: The text is not JSON, or not JSON that the message model allows.
        ConfigError: ``cls`` is nothing that can be read from JSON.
    """
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, nested too deep, or a number too long
        raise SerializationError(f"not JSON: {error}") from None
    return from_json(data, cls)


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _as_serialization_error(error: Exception) -> SerializationError:
    (path, reason), *others = rules.problems(error)
    shown = "".join(f"; {other_path}: {other}" for other_path, other in others[:4])
    more = f"; and {len(others) - 4} more" if len(others) > 4 else ""
    return SerializationError(reason + shown + more, path)


def _refuse_to_write(obj: Any) -> NoReturn:
    raise SerializationError(f"{type(obj).__name__} has no JSON form")


def _make_converter() -> Converter:
    converter = Converter(unstructure_fallback_factory=lambda _: _refuse_to_write)

    for kind in (NoneType, bool, int, str):
        converter.register_structure_hook(kind, rules.exactly(kind))
        converter.register_unstructure_hook(kind, identity)
    converter.register_structure_hook(float, rules.read_number)
    converter.register_unstructure_hook(float, identity)
    converter.register_structure_hook_factory(rules.is_literal, rules.literal_reader)
    converter.register_unstructure_hook_factory(rules.is_literal, lambda _: identity)
    converter.register_unstructure_hook_factory(lambda cls: cls is Any, lambda _: identity)
    for enumeration in (enum.IntEnum, enum.StrEnum):  # of applications: plain values, not members
        converter.register_unstructure_hook(enumeration, lambda member: member.value)
    for unknown in (bytes, set, frozenset):
        converter.register_unstructure_hook(unknown, _refuse_to_write)

    converter.register_structure_hook_factory(lambda cls: cls in (list, dict), rules.exactly)
    converter.register_structure_hook_factory(rules.is_array, rules.array_reader)
    converter.register_unstructure_hook_factory(rules.is_array, rules.array_writer)
    converter.register_structure_hook_factory(rules.is_mapping, rules.mapping_reader)
    converter.register_unstructure_hook_factory(rules.is_mapping, rules.mapping_writer)
    converter.register_structure_hook_factory(rules.is_union, rules.union_reader)
    converter.register_unstructure_hook_factory(rules.is_union, rules.union_writer)
    converter.register_structure_hook_factory(attrs.has, rules.object_reader)
    converter.register_unstructure_hook_factory(attrs.has, rules.object_writer)
    for cls, key in ((UnknownContent, "type"), (CustomMessage, "role")):
        converter.register_structure_hook(cls, rules.whole_reader(cls, key))
        converter.register_unstructure_hook(cls, rules.whole_writer(key))
    return converter


_converter: Final = _make_converter()
