"""Our own checker of JSON Schema, beside a complete one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.exceptions import ConfigError
from pi_stream.tools.schema import Problem, problems

# --- generated schemas ------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.5, "", "a", "ab", "5", "é"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
sizes = st.integers(0, 3)
keywords: dict[str, st.SearchStrategy[Any]] = {
    "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
    "enum": st.lists(values, min_size=1, max_size=3),
    "const": values,
    "minimum": st.integers(-2, 2),
    "maximum": st.integers(-2, 2),
    "exclusiveMinimum": st.integers(-2, 2),
    "exclusiveMaximum": st.integers(-2, 2),
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    "minLength": sizes,
    "maxLength": sizes,
    "pattern": st.sampled_from(["^a", "b$", r"\d", "^[a-c]*$"]),
    "minItems": sizes,
    "maxItems": sizes,
    "uniqueItems": st.booleans(),
    "minProperties": sizes,
    "maxProperties": sizes,
    "required": st.lists(names, max_size=2, unique=True),
    "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=2),
    "minContains": sizes,
    "maxContains": sizes,
}


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    nested = {
        "properties": st.dictionaries(names, inner, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "items": inner,
        "prefixItems": some,
        "contains": inner,
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "$ref": st.sampled_from(["#/$defs/x", "#/$defs/y~1z/allOf/0"]),
    }
    return st.fixed_dictionaries({}, optional=nested)


leaves = st.booleans() | st.fixed_dictionaries({}, optional=keywords)
schemas = st.recursive(leaves, larger, max_leaves=6)


@given(schemas, st.lists(values, min_size=1, max_size=4))
def test_it_says_what_a_complete_checker_says(schema: Any, some: list[Any]) -> None:
    """For every keyword it knows, alone and together."""
    library = pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")
    defs = {"x": {"type": "string"}, "y/z": {"allOf": [{"minimum": 1}]}}
    root = {**schema, "$defs": defs} if isinstance(schema, dict) else schema
    validator = library.validator_for(root)
    for value in some:
        assert (not list(problems(value, root, root))) == validator.is_valid(value), value


# --- what it says -----------------------------------------------------------------------------------------------------


def said(value: Any, schema: Any) -> list[str]:
    return [f"{'.'.join(map(str, each.path))}: {each.message}" for each in problems(value, schema, schema)]


@pytest.mark.parametrize(
    ("value", "schema", "words"),
    [
        (1, False, [": is not allowed"]),
        ("1", {"type": "integer"}, [": must be of type integer"]),
        ("1", {"type": ["integer", "null"]}, [": must be of type integer or null"]),
        ("c", {"enum": ["a", "b"]}, [': must be one of "a", "b"']),
        (True, {"const": 1}, [": must be 1"]),
        (5, {"maximum": 3, "multipleOf": 2}, [": must be 3 or less", ": must be a multiple of 2"]),
        ("ab", {"pattern": "^b", "minLength": 3}, [": must have 3 characters or more", ': must match "^b"']),
        ({}, {"required": ["a"]}, ["a: is required"]),
        ({"a": 1}, {"additionalProperties": False}, ["a: is not allowed"]),
        ([1, "x"], {"items": {"type": "string"}}, ["0: must be of type string"]),
        ({"a": [{"b": 1}]}, {"properties": {"a": {"items": {"required": ["c"]}}}}, ["a.0.c: is required"]),
        ([1, 1.0], {"uniqueItems": True}, [": must not have an item twice"]),
        ([1], {"contains": {"type": "string"}}, [": does not contain the items it should"]),
        (1, {"anyOf": [{"type": "null"}]}, [": is none of the allowed alternatives"]),
        (1, {"oneOf": [True, True]}, [": fits 2 of the alternatives instead of one"]),
        (1, {"not": {}}, [": is what it must not be"]),
        (["a", 1], {"items": [{"type": "integer"}], "additionalItems": False}, ["0: must be of type integer", "1: is not allowed"]),
        ({"a": {"a": 1}}, {"properties": {"a": {"$ref": "#"}}, "type": "object"}, ["a.a: must be of type object"]),
    ],
)  # fmt: skip
def test_every_problem_is_named_with_its_place(value: Any, schema: Any, words: list[str]) -> None:
    """The key that is missing or too much is part of the path."""
    assert said(value, schema) == words


@pytest.mark.parametrize(
    "schema", [True, {}, {"format": "email"}, {"pattern": r"\p{L}("}, {"type": "int32"}, "x"]
)
def test_what_it_does_not_know_is_passed_over(schema: Any) -> None:
    """Better than to refuse a call that may be right."""
    assert list(problems("any", schema, schema)) == []


@pytest.mark.parametrize(
    "reference", ["http://example.com/x", "other.json#/a", "#/$defs/no", "#/$defs/list/9", 5]
)
def test_a_reference_that_leads_nowhere_is_a_mistake_in_the_tool(reference: Any) -> None:
    """Nothing is fetched."""
    schema = {"$ref": reference, "$defs": {"list": []}}
    with pytest.raises(ConfigError, match="refers to"):
        list(problems(1, schema, schema))


def test_numbers_of_any_size_are_checked() -> None:
    """Quotients that no decimal holds, too."""
    assert list(problems(10**40, {"multipleOf": 7}, {})) == [Problem((), "must be a multiple of 7")]
    assert list(problems(1e300, {"type": "integer", "multipleOf": 1}, {})) == []
    assert list(problems(float("inf"), {"type": "number"}, {})) == []
