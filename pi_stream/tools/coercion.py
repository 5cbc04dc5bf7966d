"""Loosely typed arguments made what the schema says, where there is no doubt what was meant."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pi_stream.tools.schema import Schema, is_type, problems, resolved, types_of

__all__ = ["coerced"]

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def coerced(value: Any, schema: Schema, root: Schema) -> Any:
    """A deep copy of a value, closer to its schema. What is right already, or cannot be made right, stays as it is.

    - A string becomes the number or boolean that it spells; a number or boolean becomes a string.
    - A string of JSON becomes the object or list that it spells; any other value becomes a list of one.
    - A whole float becomes an integer.
    - Null for an optional property that cannot be null is left out.

    Args:
        value: A JSON value.
        schema: What it should be.
        root: The whole schema, for references.
    """
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping):
        return deepcopy(value)
    if "$ref" in schema:
        value = coerced(value, {"$ref": schema["$ref"]}, root)
    for sub in schema.get("allOf", ()):
        value = coerced(value, sub, root)
    value = _first_fitting(value, [*schema.get("anyOf", ()), *schema.get("oneOf", ())], root)
    types = types_of(schema)
    if types and not any(is_type(value, name) for name in types):
        value = _converted(value, types)
    if isinstance(value, float) and "integer" in types and "number" not in types and value.is_integer():
        value = int(value)
    if isinstance(value, Mapping):
        return _coerced_object(value, schema, root)
    if isinstance(value, (list, tuple)):
        return _coerced_list(value, schema, root)
    return value


def _first_fitting(value: Any, alternatives: list[Schema], root: Schema) -> Any:
    """The value made fit for the first alternative that takes it as it is, else that can be met at all."""

    def fits(candidate: Any, sub: Schema) -> bool:
        return next(problems(candidate, sub, root), None) is None

    if any(fits(value, sub) for sub in alternatives):
        return value
    made = ((coerced(value, sub, root), sub) for sub in alternatives)
    return next((candidate for candidate, sub in made if fits(candidate, sub)), value)


def _converted(value: Any, types: list[str]) -> Any:
    """The value in the first of the types that it can be read as; else itself."""
    for name in types:
        made = _as_type(value, name)
        if is_type(made, name):
            return made
    return value


def _as_type(value: Any, name: str) -> Any:
    if name in ("integer", "number") and isinstance(value, str):
        return _spelt_number(value)
    if name == "boolean" and value in ("true", "false"):
        return value == "true"
    if name == "string" and isinstance(value, (bool, int, float)):
        return json.dumps(value)
    if name in ("array", "object") and isinstance(value, str):
        spelt = _spelt_json(value)
        if is_type(spelt, name):
            return spelt
    return [value] if name == "array" and value is not None else value


def _spelt_number(text: str) -> Any:
    if not _NUMBER.fullmatch(text.strip()):
        return text
    try:
        number = json.loads(text)
    except ValueError:  # more digits than Python reads
        return text
    return number if math.isfinite(number) else text


def _spelt_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _coerced_object(value: Mapping[str, Any], schema: Mapping[str, Any], root: Schema) -> dict[str, Any]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    made: dict[str, Any] = {}
    for name, item in value.items():
        sub = properties.get(name, others)
        new = coerced(item, sub, root)
        optional = name in properties and name not in schema.get("required", ())
        if new is None and optional and next(problems(None, sub, root), None) is not None:
            continue
        made[name] = new
    return made


def _coerced_list(value: Any, schema: Mapping[str, Any], root: Schema) -> list[Any]:
    items, first = schema.get("items", True), schema.get("prefixItems", [])
    if isinstance(items, list):
        items, first = True, items
    return [
        coerced(item, first[index] if index < len(first) else items, root) for index, item in enumerate(value)
    ]
