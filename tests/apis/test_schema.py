"""Strict schemas and grammars of tools."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pi_stream.apis._schema import Grammar, grammar_of, strict_mode, strict_schema
from pi_stream.exceptions import ConfigError
from pi_stream.messages import Tool


def with_property(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"p": schema}, "required": ["p"]}


def test_objects_are_closed_and_optional_properties_become_nullable() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "string", "description": "B"},
            "c": {"type": ["string", "null"]},
            "d": {"type": "array", "items": inner},
            "e": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "f": {"enum": ["x", None]},
        },
        "required": ["a", "d"],
    }
    before = copy.deepcopy(schema)
    closed_inner = {
        "type": "object",
        "properties": {"x": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert strict_schema(schema) == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"anyOf": [{"type": "string", "description": "B"}, {"type": "null"}]},
            "c": {"type": ["string", "null"]},
            "d": {"type": "array", "items": closed_inner},
            "e": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "f": {"enum": ["x", None]},
        },
        "required": ["a", "b", "c", "d", "e", "f"],
        "additionalProperties": False,
    }
    assert schema == before


def test_an_object_without_properties_is_closed_too() -> None:
    assert strict_schema({"type": "object"}) == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "string"}, r"\$"),
        ({}, r"\$"),
        (with_property(True), r"\$\.properties\.p"),
        (with_property({}), r"\$\.properties\.p"),
        (with_property({"$ref": "#"}), r"p.*\$ref"),
        (with_property({"oneOf": []}), "p.*oneOf"),
        (with_property({"type": "object", "patternProperties": {}}), "p.*patternProperties"),
        (with_property({"type": "array", "items": [{"type": "string"}]}), r"p\.items"),
        (with_property({"type": "array", "prefixItems": []}), "p.*prefixItems"),
        (with_property({"anyOf": [{"type": "object"}]}), r"p\.anyOf\[0\]"),
        (
            with_property({"anyOf": [{"type": ["array", "null"], "items": {"type": "string"}}]}),
            r"p\.anyOf\[0\]",
        ),
        (with_property({"anyOf": "x"}), r"p\.anyOf"),
        ({"type": "object", "additionalProperties": True}, "additionalProperties"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "additionalProperties"),
        ({"type": "object", "properties": {}, "required": ["x"]}, "x"),
        ({"type": "object", "properties": []}, "properties"),
    ],
)
def test_what_the_dialect_cannot_say_is_refused_with_its_place(schema: Any, path: str) -> None:
    with pytest.raises(ConfigError, match=path):
        strict_schema(schema)


def test_strict_mode_is_a_wish_or_a_demand() -> None:
    def mode(value: Any) -> str | None:
        return strict_mode(Tool("t", constrained_sampling=value))

    assert mode({"type": "json_schema", "strict": "prefer"}) == "prefer"
    assert mode({"type": "json_schema", "strict": "require"}) == "require"
    assert mode(False) is None
    assert mode(None) is None
    assert mode({"type": "grammar"}) is None
    with pytest.raises(ConfigError, match="prefer or require"):
        mode({"type": "json_schema", "strict": True})


def grammar_tool(schema: dict[str, Any], **variants: str) -> Tool:
    return Tool("g", "", schema, constrained_sampling={"type": "grammar", "variants": variants})


def test_a_grammar_has_one_syntax_and_one_property() -> None:
    schema = with_property({"type": "string"})
    assert grammar_of(grammar_tool(schema, openai_lark="L", openai_regex="R")) == Grammar("lark", "L", "p")
    assert grammar_of(grammar_tool(schema, openai_regex="R")) == Grammar("regex", "R", "p")
    assert grammar_of(grammar_tool(schema)) is None
    assert grammar_of(Tool("t")) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"p": {"type": "string"}}},
        with_property({"type": "integer"}),
        {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p", "q"]},
        {"type": "object", "properties": {}, "required": ["p"]},
    ],
)
def test_a_grammar_tool_needs_exactly_one_required_string(schema: Any) -> None:
    with pytest.raises(ConfigError, match="exactly one required property"):
        grammar_of(grammar_tool(schema, openai_lark="L"))
