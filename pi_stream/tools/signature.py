"""JSON Schema of Python types, and values of these types out of arguments.

Types are ``str``, ``int``, ``float``, ``bool``, None, ``Any``, ``Literal``, enums, lists, sets, tuples, mappings with string
keys, unions, attrs classes, dataclasses, and ``Annotated`` with a description or further keywords of a schema.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
from attrs import frozen

from pi_stream.exceptions import ConfigError
from pi_stream.messages import JsonObject

__all__ = ["Parameter", "described", "object_schema", "parameters_of", "schema_of", "structured"]

_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_ARRAYS = (list, tuple, set, frozenset, Sequence, Iterable)


@frozen
class Parameter:
    """A parameter of a function, or a field of a class."""

    name: str
    type: Any
    required: bool


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """What a function or class is called with, by keyword.

    Raises:
        ConfigError: It takes arguments without names, or a type is not known at run time.
    """
    name = getattr(function, "__name__", repr(function))
    typed = function.__init__ if inspect.isclass(function) and not _is_record(function) else function
    try:
        hints = get_type_hints(typed, include_extras=True)
        signature = inspect.signature(function)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(f"the types of {name} must be known at run time: {error}") from error
    found: list[Parameter] = []
    for each in signature.parameters.values():
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise ConfigError(f"{name} cannot be a tool: {each} has no name that a model can give")
        kind = hints.get(each.name, hints.get(f"_{each.name}", Any))  # attrs leaves the underscore out
        found.append(Parameter(each.name, kind, each.default is each.empty))
    return found


def object_schema(
    parameters: Iterable[Parameter], texts: Mapping[str, str], outer: tuple[Any, ...] = ()
) -> JsonObject:
    """The schema of an object with these properties and no others.

    Args:
        parameters: What the properties are.
        texts: Descriptions by name.
        outer: Classes that this object is in.
    """
    properties: JsonObject = {}
    required: list[str] = []
    for each in parameters:
        schema = schema_of(each.type, outer)
        if each.name in texts:
            schema = {**schema, "description": texts[each.name]}
        properties[each.name] = schema
        if each.required:
            required.append(each.name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def schema_of(kind: Any, outer: tuple[Any, ...] = ()) -> JsonObject:
    """The JSON Schema of a type.

    Args:
        kind: The type, as an annotation has it.
        outer: Classes that it is in.

    Raises:
        ConfigError: It has none.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(schema_of(inner[0], outer), inner[1:])
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin is Literal:
        return _choice(list(inner))
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(each, outer) for each in inner]}
    if (origin or kind) in _ARRAYS:
        return _array(origin or kind, inner, outer)
    if (origin or kind) in (dict, Mapping) and inner[:1] in ((), (str,)):
        return {"type": "object", **({"additionalProperties": schema_of(inner[1], outer)} if inner else {})}
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        return _choice([member.value for member in kind])
    if _is_record(kind):
        if kind in outer:
            raise ConfigError(f"{kind.__name__} is part of itself: write its schema by hand")
        _, texts = described(kind)
        return object_schema(parameters_of(kind), texts, (*outer, kind))
    raise ConfigError(
        f"{kind!r} has no JSON Schema: annotate it with another type, or write the schema by hand"
    )


def _is_record(kind: Any) -> bool:
    return inspect.isclass(kind) and (attrs.has(kind) or dataclasses.is_dataclass(kind))


def _annotated(schema: JsonObject, notes: Sequence[Any]) -> JsonObject:
    for note in notes:
        if isinstance(note, str):
            schema = {**schema, "description": note}
        elif isinstance(note, Mapping):
            schema = {**schema, **note}
    return schema


def _choice(values: list[Any]) -> JsonObject:
    kinds = {_PLAIN.get(type(value)) for value in values}
    if None in kinds:
        raise ConfigError(f"{values!r} are no JSON values to choose from")
    return {"type": kinds.pop() if len(kinds) == 1 else sorted(map(str, kinds)), "enum": values}


def _array(kind: Any, inner: tuple[Any, ...], outer: tuple[Any, ...]) -> JsonObject:
    if kind is tuple and inner and inner[-1] is not Ellipsis:
        return {
            "type": "array",
            "prefixItems": [schema_of(each, outer) for each in inner],
            "minItems": len(inner),
            "maxItems": len(inner),
        }
    items = {"items": schema_of(inner[0], outer)} if inner else {}
    return {"type": "array", **items, **({"uniqueItems": True} if kind in (set, frozenset) else {})}


# --- values -----------------------------------------------------------------------------------------------------------


def structured(value: Any, kind: Any) -> Any:
    """A value of a type out of a JSON value that its schema allows."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return structured(value, inner[0])
    if origin in (Union, UnionType):
        return structured(value, _member(value, inner))
    if isinstance(value, list) and (origin or kind) in _ARRAYS:
        return _structured_list(value, origin or kind, inner)
    if isinstance(value, Mapping) and origin in (dict, Mapping):
        return {name: structured(item, inner[1]) for name, item in value.items()}
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        return kind(value)
    if isinstance(value, Mapping) and _is_record(kind):
        types = {each.name: each.type for each in parameters_of(kind)}
        return kind(**{name: structured(item, types[name]) for name, item in value.items()})
    return float(value) if kind is float and isinstance(value, int) else value


def _structured_list(value: list[Any], kind: Any, inner: tuple[Any, ...]) -> Any:
    if kind is tuple and inner and inner[-1] is not Ellipsis:
        return tuple(structured(item, each) for item, each in zip(value, inner, strict=True))
    made = [structured(item, inner[0]) for item in value] if inner else value
    return kind(made) if kind in (tuple, set, frozenset) else made


def _member(value: Any, members: Sequence[Any]) -> Any:
    """The member of a union that a value is of: the first whose schema allows it."""
    from pi_stream.tools.schema import problems

    for each in members:
        schema = schema_of(each)
        if next(problems(value, schema, schema), None) is None:
            return each
    return Any


# --- docstrings -------------------------------------------------------------------------------------------------------

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Attributes):\s*$", re.MULTILINE)
_OTHER_SECTION = re.compile(
    r"^(Returns|Raises|Yields|Examples?|Notes?|Args|Attributes|Source):", re.MULTILINE
)
_ENTRY = re.compile(r"^(\w+)(?: \([^)]*\))?:\s*(.*)")


def described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description in a docstring, and those of parameters in its section ``Args`` or ``Attributes`` (Google style)."""
    text = inspect.getdoc(function) or ""
    if inspect.isclass(function):
        own = vars(function).get("__doc__")
        if own is None or own.startswith(f"{function.__name__}("):
            text = ""  # inherited, or the signature that dataclasses write there
    section = _SECTION.search(text)
    end = _OTHER_SECTION.search(text)
    summary = text[: end.start()] if end else text
    return " ".join(summary.split()), _entries(text[section.end() :]) if section else {}


def _entries(text: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    lines = text.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    name = ""
    for line in lines:
        deep = len(line) - len(line.lstrip())
        entry = _ENTRY.match(line.strip())
        if line.strip() and deep < indent:
            break
        if entry and deep == indent:
            name = entry[1]
            entries[name] = entry[2]
        elif name and line.strip():
            entries[name] = f"{entries[name]} {line.strip()}".strip()
    return entries
