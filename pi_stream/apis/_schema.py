"""Tools whose arguments the provider guarantees: strict JSON Schema, and grammars."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from pi_stream.exceptions import ConfigError
from pi_stream.messages import JsonObject, Tool

__all__ = ["Grammar", "grammar_of", "strict_mode", "strict_parameters", "strict_schema"]

# What the strict dialects of the providers cannot say.
_UNSUPPORTED = frozenset(
    {
        *("$ref", "$defs", "definitions", "allOf", "oneOf", "not", "if", "then", "else"),
        *("patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems"),
        *("dependentSchemas", "dependentRequired", "dependencies", "contains", "prefixItems"),
    }
)


def strict_mode(tool: Tool) -> Literal["prefer", "require"] | None:
    """Whether a tool asks for arguments that follow its schema strictly.

    Raises:
        ConfigError: ``strict`` is something else than ``prefer`` or ``require``.
    """
    wanted = tool.constrained_sampling
    if not wanted or wanted.get("type") != "json_schema":
        return None
    strict = wanted.get("strict")
    if strict == "prefer":
        return "prefer"
    if strict == "require":
        return "require"
    raise ConfigError(f"tool {tool.name!r}: `strict` must be prefer or require, not {strict!r}")


def strict_parameters(tool: Tool, *, supported: bool) -> JsonObject | None:
    """The tool's schema in the strict dialect; None when that was not asked for, or only preferred and impossible.

    Args:
        tool: The tool.
        supported: Whether the server is known to take strict tools.

    Raises:
        ConfigError: The tool requires strict arguments, and cannot have them.
    """
    mode = strict_mode(tool)
    if mode is None:
        return None
    if not supported:
        if mode == "require":
            raise ConfigError(
                f"tool {tool.name!r} requires strict arguments, which this server is not known to support; "
                "set compat flag supports_strict_mode if it does"
            )
        return None
    try:
        return strict_schema(tool.parameters)
    except ConfigError as problem:
        if mode == "require":
            raise ConfigError(f"tool {tool.name!r} cannot have strict arguments: {problem}") from None
        return None


def strict_schema(schema: JsonObject) -> JsonObject:
    """A schema in the strict dialect: closed objects, every property required, optional ones nullable instead.

    Args:
        schema: JSON Schema of an object. It is not changed.

    Returns:
        A converted copy.

    Raises:
        ConfigError: The schema uses what the dialect cannot say; the message names the place.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ConfigError("$: the root must be of type object")
    return _strict_node(schema, "$")


def _strict_node(node: Any, path: str) -> JsonObject:
    if not isinstance(node, dict):
        raise ConfigError(f"{path}: {type(node).__name__} instead of a schema object")
    for keyword in node:
        if keyword in _UNSUPPORTED:
            raise ConfigError(f"{path}: `{keyword}` is not supported")
    if not {"type", "anyOf", "enum"} & node.keys():
        raise ConfigError(f"{path}: needs a `type`, `anyOf` or `enum`")
    made = dict(node)
    if "anyOf" in node:
        made["anyOf"] = _strict_variants(node["anyOf"], path)
    if "items" in node:
        made["items"] = _strict_node(node["items"], f"{path}.items")
    if "object" in _types(node) or "properties" in node:
        made.update(_strict_object(node, path))
    return made


def _strict_variants(variants: Any, path: str) -> list[JsonObject]:
    if not isinstance(variants, list):
        raise ConfigError(f"{path}.anyOf: must be a list")
    made = [_strict_node(variant, f"{path}.anyOf[{index}]") for index, variant in enumerate(variants)]
    for index, variant in enumerate(made):
        if {"object", "array"} & _types(variant):
            raise ConfigError(f"{path}.anyOf[{index}]: object and array variants are not supported")
    return made


def _strict_object(node: JsonObject, path: str) -> JsonObject:
    if node.get("additionalProperties", False) is not False:
        raise ConfigError(f"{path}: `additionalProperties` must be false")
    properties, required = node.get("properties", {}), node.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise ConfigError(f"{path}: `properties` must be an object and `required` a list")
    unknown = [name for name in required if name not in properties]
    if unknown:
        raise ConfigError(f"{path}: `required` names unknown properties: {', '.join(map(str, unknown))}")
    made = {
        name: _strict_node(property, f"{path}.properties.{name}") for name, property in properties.items()
    }
    for name, property in made.items():
        if name not in required and not _nullable(property):
            made[name] = {"anyOf": [property, {"type": "null"}]}
    return {"properties": made, "required": list(made), "additionalProperties": False}


def _types(node: JsonObject) -> set[str]:
    kind = node.get("type")
    return {kind} if isinstance(kind, str) else {str(item) for item in kind or ()}


def _nullable(node: JsonObject) -> bool:
    return (
        "null" in _types(node)
        or (isinstance(node.get("enum"), list) and "type" not in node and None in node["enum"])
        or any(_nullable(variant) for variant in node.get("anyOf", ()))
    )


@frozen
class Grammar:
    """A tool whose input is free text of a grammar.

    Attributes:
        syntax: ``lark`` or ``regex``.
        definition: The grammar.
        property: The one argument that takes the text.
    """

    syntax: Literal["lark", "regex"]
    definition: str
    property: str


def grammar_of(tool: Tool) -> Grammar | None:
    """The grammar of a tool, Lark before regex; None for an ordinary function tool.

    Raises:
        ConfigError: The tool's schema is not an object with exactly one required property, a string.
    """
    wanted = tool.constrained_sampling
    if not wanted or wanted.get("type") != "grammar":
        return None
    variants = wanted.get("variants") or {}
    required = tool.parameters.get("required") or []
    properties = tool.parameters.get("properties") or {}
    argument = properties.get(required[0]) if len(required) == 1 else None
    if not isinstance(argument, dict) or argument.get("type") != "string":
        raise ConfigError(
            f"grammar tool {tool.name!r}: its schema needs exactly one required property, a string"
        )
    if variants.get("openai_lark"):
        return Grammar("lark", variants["openai_lark"], required[0])
    if variants.get("openai_regex"):
        return Grammar("regex", variants["openai_regex"], required[0])
    return None
