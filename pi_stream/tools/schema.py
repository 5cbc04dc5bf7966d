"""A checker for the part of JSON Schema that tools use.

It knows types, ``enum``, ``const``, bounds of numbers, strings, lists and objects, ``properties`` and their kin, ``items``,
``prefixItems``, ``contains``, combinations, conditions, and references within the schema. It passes over keywords that it does
not know, formats, and patterns that are no Python regular expression. The extra ``schema`` (jsonschema-rs) knows all of it.

Source: https://json-schema.org/draft/2020-12/json-schema-validation
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias
from urllib.parse import unquote

from attrs import frozen

from pi_stream.exceptions import ConfigError

__all__ = ["Path", "Problem", "Schema", "is_type", "problems", "resolved", "types_of"]

Schema: TypeAlias = Any
"""A JSON Schema: an object, or true or false."""

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indices that lead to a value."""


@frozen
class Problem:
    """What is wrong with a value, and where."""

    path: Path
    message: str


def problems(value: Any, schema: Schema, root: Schema, path: Path = ()) -> Iterator[Problem]:
    """Find what is wrong with a value.

    Args:
        value: A JSON value.
        schema: What it should be.
        root: The whole schema, for references.
        path: Where the value is.

    Yields:
        Every problem, that of a value before those inside it.

    Raises:
        ConfigError: The schema refers to what is not in it.
    """
    if schema is False:
        yield Problem(path, "is not allowed")
    if not isinstance(schema, Mapping):
        return
    if "$ref" in schema:
        yield from problems(value, _target(schema["$ref"], root), root, path)
    yield from _plain_problems(value, schema, path)
    if isinstance(value, Mapping):
        yield from _object_problems(value, schema, root, path)
    elif isinstance(value, (list, tuple)):
        yield from _list_problems(value, schema, root, path)
    yield from _combined_problems(value, schema, root, path)


def resolved(schema: Schema, root: Schema) -> Schema:
    """The schema that a reference leads to; any other schema as it is.

    Raises:
        ConfigError: The reference leads nowhere, or in a circle.
    """
    seen: set[str] = set()
    while isinstance(schema, Mapping) and set(schema) == {"$ref"}:
        reference = schema["$ref"]
        if reference in seen:
            raise ConfigError(f"the reference {reference!r} of a tool's schema leads to itself")
        seen.add(reference)
        schema = _target(reference, root)
    return schema


def _target(reference: Any, root: Schema) -> Schema:
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise ConfigError(f"a tool's schema refers to {reference!r}, which is outside of it")
    node = root
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(key)] if isinstance(node, list) else node[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ConfigError(f"a tool's schema refers to {reference!r}, which is not in it") from None
    return node


def _is_valid(value: Any, schema: Schema, root: Schema) -> bool:
    return next(problems(value, schema, root), None) is None


# --- a value alone ----------------------------------------------------------------------------------------------------


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _number(value) and value == value // 1,
    "number": _number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, (list, tuple)),
    "object": lambda value: isinstance(value, Mapping),
}


def types_of(schema: Schema) -> list[str]:
    """The types that a schema names; none if it allows any."""
    named = schema.get("type") if isinstance(schema, Mapping) else None
    return [named] if isinstance(named, str) else list(named or ())


def is_type(value: Any, name: str) -> bool:
    """Whether a value is of a type of JSON Schema. A type that does not exist has all values."""
    return name not in _TYPES or _TYPES[name](value)


def _canonical(value: Any) -> str:
    """The same text for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(key)}:{_canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return json.dumps(value)


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _multiple(value: Any, of: Any) -> bool:
    try:
        return Decimal(str(value)) % Decimal(str(of)) == 0
    except InvalidOperation:  # a quotient of more digits than a Decimal has
        return bool(value % of == 0)


def _matches(value: str, pattern: str) -> bool:
    try:
        return re.search(pattern, value, re.ASCII) is not None
    except re.error:
        return True


_CHECKS: tuple[tuple[str, Callable[[Any], bool], Callable[[Any, Any], bool], str], ...] = (
    ("minimum", _number, lambda value, bound: value >= bound, "must be {} or more"),
    ("maximum", _number, lambda value, bound: value <= bound, "must be {} or less"),
    ("exclusiveMinimum", _number, lambda value, bound: value > bound, "must be more than {}"),
    ("exclusiveMaximum", _number, lambda value, bound: value < bound, "must be less than {}"),
    ("multipleOf", _number, _multiple, "must be a multiple of {}"),
    (
        "minLength",
        _TYPES["string"],
        lambda value, bound: len(value) >= bound,
        "must have {} characters or more",
    ),
    (
        "maxLength",
        _TYPES["string"],
        lambda value, bound: len(value) <= bound,
        "must have {} characters or fewer",
    ),
    ("pattern", _TYPES["string"], _matches, "must match {}"),
    ("minItems", _TYPES["array"], lambda value, bound: len(value) >= bound, "must have {} items or more"),
    ("maxItems", _TYPES["array"], lambda value, bound: len(value) <= bound, "must have {} items or fewer"),
    (
        "minProperties",
        _TYPES["object"],
        lambda value, bound: len(value) >= bound,
        "must have {} keys or more",
    ),
    (
        "maxProperties",
        _TYPES["object"],
        lambda value, bound: len(value) <= bound,
        "must have {} keys or fewer",
    ),
)
"""Keyword, the values it is about, the check, and what the message says of its value."""


def _plain_problems(value: Any, schema: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    types = types_of(schema)
    if types and not any(is_type(value, name) for name in types):
        yield Problem(path, f"must be of type {' or '.join(types)}")
    if "enum" in schema and _canonical(value) not in map(_canonical, schema["enum"]):
        yield Problem(path, f"must be one of {', '.join(map(_show, schema['enum']))}")
    if "const" in schema and _canonical(value) != _canonical(schema["const"]):
        yield Problem(path, f"must be {_show(schema['const'])}")
    for keyword, concerns, holds, words in _CHECKS:
        if keyword in schema and concerns(value) and not holds(value, schema[keyword]):
            yield Problem(path, words.format(_show(schema[keyword])))


# --- objects and lists ------------------------------------------------------------------------------------------------


def _object_problems(
    value: Mapping[str, Any], schema: Mapping[str, Any], root: Schema, path: Path
) -> Iterator[Problem]:
    properties = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    required = [name for name in schema.get("required", ()) if name not in value]
    for name, others in schema.get("dependentRequired", {}).items():
        required += [other for other in others if name in value and other not in value]
    for name in dict.fromkeys(required):
        yield Problem((*path, name), "is required")
    for name, item in value.items():
        here = (*path, name)
        yield from problems(name, schema.get("propertyNames", True), root, here)
        matching = [sub for pattern, sub in patterns.items() if _matches(name, pattern)]
        if name in properties:
            matching.append(properties[name])
        for sub in matching or [schema.get("additionalProperties", True)]:
            yield from problems(item, sub, root, here)


def _list_problems(
    value: Sequence[Any], schema: Mapping[str, Any], root: Schema, path: Path
) -> Iterator[Problem]:
    items, first = schema.get("items", True), schema.get("prefixItems", [])
    if isinstance(items, list):  # as it was before 2020-12
        items, first = schema.get("additionalItems", True), items
    for index, item in enumerate(value):
        sub = first[index] if index < len(first) else items
        yield from problems(item, sub, root, (*path, index))
    if schema.get("uniqueItems") is True and len(set(map(_canonical, value))) < len(value):
        yield Problem(path, "must not have an item twice")
    if "contains" in schema:
        found = sum(_is_valid(item, schema["contains"], root) for item in value)
        if not schema.get("minContains", 1) <= found <= schema.get("maxContains", found):
            yield Problem(path, "does not contain the items it should")


def _combined_problems(value: Any, schema: Mapping[str, Any], root: Schema, path: Path) -> Iterator[Problem]:
    for sub in schema.get("allOf", ()):
        yield from problems(value, sub, root, path)
    if "anyOf" in schema and not any(_is_valid(value, sub, root) for sub in schema["anyOf"]):
        yield Problem(path, "is none of the allowed alternatives")
    if "oneOf" in schema:
        fitting = sum(_is_valid(value, sub, root) for sub in schema["oneOf"])
        if fitting != 1:
            yield Problem(path, f"fits {fitting} of the alternatives instead of one")
    if "not" in schema and _is_valid(value, schema["not"], root):
        yield Problem(path, "is what it must not be")
    if "if" in schema:
        branch = "then" if _is_valid(value, schema["if"], root) else "else"
        yield from problems(value, schema.get(branch, True), root, path)
