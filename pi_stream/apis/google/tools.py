"""Gemini: tools and the choice among them.

Source: https://ai.google.dev/gemini-api/docs/function-calling
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pi_stream.apis._history import named_tool
from pi_stream.apis._schema import strict_parameters
from pi_stream.apis.google.quirks import Quirks
from pi_stream.messages import JsonObject, Tool
from pi_stream.options import ToolChoice

__all__ = ["gemini_schema", "tool_fields"]

_MODES = {"none": "NONE", "required": "ANY", "auto": "AUTO"}

# Keywords that hold data, not schemas.
_DATA = frozenset({"const", "default", "enum", "example", "examples", "required"})
# All that https://ai.google.dev/api/caching#Schema has.
_OPENAPI = frozenset(
    {
        *("type", "format", "title", "description", "nullable", "enum", "default", "example", "anyOf"),
        *("items", "minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum"),
        *("properties", "required", "minProperties", "maxProperties", "propertyOrdering"),
    }
)


def tool_fields(tools: Sequence[Tool], choice: ToolChoice | None, quirks: Quirks) -> JsonObject:
    """``tools`` and ``toolConfig`` of a request; the second never comes without the first.

    Raises:
        ConfigError: The choice names a tool that is not there, or a schema that must be strict cannot be.
    """
    chosen = named_tool(choice, tools)
    if not tools:
        return {}
    schemas = [strict_parameters(tool, supported=quirks.supports_strict_tools) for tool in tools]
    declarations = [
        _declaration(tool, tool.parameters if schema is None else schema, quirks)
        for tool, schema in zip(tools, schemas, strict=True)
    ]
    fields: JsonObject = {"tools": [{"functionDeclarations": declarations}]}
    is_strict = any(schema is not None for schema in schemas)
    config = _config(choice, chosen, is_strict)
    if config is not None:
        fields["toolConfig"] = config
    return fields


def _config(choice: ToolChoice | None, chosen: Tool | None, is_strict: bool) -> JsonObject | None:
    if chosen is not None:
        mode: JsonObject = {"mode": "ANY", "allowedFunctionNames": [chosen.name]}
    elif isinstance(choice, dict):
        return choice if "functionCallingConfig" in choice else {"functionCallingConfig": choice}
    elif is_strict and choice in (None, "auto"):
        mode = {"mode": "VALIDATED"}
    elif choice is not None:
        mode = {"mode": _MODES[choice]}
    else:
        return None
    return {"functionCallingConfig": mode}


def _declaration(tool: Tool, schema: JsonObject, quirks: Quirks) -> JsonObject:
    made: JsonObject = {"name": tool.name, "description": tool.description}
    if quirks.tool_schema == "openapi":
        return made | {"parameters": _mapped(schema, _openapi)}
    return made | {"parametersJsonSchema": gemini_schema(schema)}


def gemini_schema(schema: Any) -> Any:
    """A JSON Schema in which ``const`` is spelled as an ``enum`` of one value: Gemini takes no notice of ``const``."""
    return _mapped(schema, _without_const)


def _mapped(node: Any, change: Callable[[JsonObject], JsonObject]) -> Any:
    """A copy of a schema with every schema object in it changed, from the inside out."""
    if isinstance(node, list):
        return [_mapped(item, change) for item in node]
    if not isinstance(node, dict):
        return node
    made: JsonObject = {}
    for key, value in node.items():
        if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, dict):
            made[key] = {name: _mapped(schema, change) for name, schema in value.items()}
        else:
            made[key] = value if key in _DATA else _mapped(value, change)
    return change(made)


def _without_const(node: JsonObject) -> JsonObject:
    value = node.get("const")
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return node
    return {
        ("enum" if key == "const" else key): ([value] if key == "const" else item)
        for key, item in node.items()
    }


def _openapi(node: JsonObject) -> JsonObject:
    """A schema object in Google's subset of OpenAPI: what it cannot say is left out."""
    node = _without_const(node)
    made = {key: value for key, value in node.items() if key in _OPENAPI}
    types = node.get("type")
    if isinstance(types, list):
        named = [kind for kind in types if kind != "null"]
        made["type"] = named[0] if named else "string"
        made["nullable"] = "null" in types
        if len(named) > 1:
            del made["type"]
            made["anyOf"] = [{"type": kind} for kind in named]
    return made
