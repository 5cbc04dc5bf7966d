"""Tools and the choice between them, as the Messages api wants them.

Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview; strict tools have the limits of
https://platform.claude.com/docs/en/build-with-claude/structured-outputs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pi_stream.apis._history import named_tool
from pi_stream.apis._schema import strict_mode, strict_schema
from pi_stream.apis.anthropic_messages.quirks import Quirks
from pi_stream.exceptions import ConfigError
from pi_stream.messages import JsonObject, Tool
from pi_stream.options import StreamOptions

__all__ = ["tool_fields"]

# Keywords at the root of a schema that are sent; others, such as `anyOf` there, are refused.
_ROOT = ("additionalProperties", "$defs", "definitions")

_STRICT_UNSUPPORTED = frozenset(
    {
        *(
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "maxItems",
            "uniqueItems",
        ),
        *("minContains", "maxContains", "minProperties", "maxProperties"),
    }
)
_STRICT_FORMATS = frozenset(
    "date-time time date duration email hostname uri ipv4 ipv6 uuid".split()  # noqa: SIM905
)
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def tool_fields(tools: Sequence[Tool], options: StreamOptions, quirks: Quirks) -> JsonObject:
    """The body fields ``tools`` and ``tool_choice``; none without tools.

    Raises:
        ConfigError: A tool's strict schema is required and impossible, or the choice names a tool that is not there.
    """
    choice = _tool_choice(tools, options)
    fields: JsonObject = {}
    if tools:
        fields["tools"] = [_tool(tool, quirks) for tool in tools]
    if choice is not None:
        fields["tool_choice"] = choice
    return fields


def _tool_choice(tools: Sequence[Tool], options: StreamOptions) -> JsonObject | None:
    named = named_tool(options.tool_choice, tools)
    given = options.tool_choice
    choice: JsonObject | None = None
    if named is not None:
        choice = {"type": "tool", "name": named.name}
    elif isinstance(given, dict):
        choice = dict(given)
    elif given is not None and tools:
        choice = {"type": _CHOICES[given]}
    if options.parallel_tool_calls is False and tools:
        choice = choice or {"type": "auto"}
        if choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
    return choice


def _tool(tool: Tool, quirks: Quirks) -> JsonObject:
    strict = _strict_parameters(tool, quirks)
    wire: JsonObject = {"name": tool.name, "description": tool.description}
    if quirks.supports_eager_tool_input_streaming:
        wire["eager_input_streaming"] = True
    if strict is not None:
        wire["strict"] = True
    wire["input_schema"] = _input_schema(tool.parameters) if strict is None else strict
    return wire


def _input_schema(schema: JsonObject) -> JsonObject:
    kept = {name: schema[name] for name in _ROOT if name in schema}
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    return {"type": "object", "properties": properties, "required": required, **kept}


def _strict_parameters(tool: Tool, quirks: Quirks) -> JsonObject | None:
    """The tool's schema in the strict dialect; None when that was not asked for, or only preferred and impossible."""
    mode = strict_mode(tool)
    if mode is None:
        return None
    if not quirks.supports_strict_tools:
        if mode == "require":
            raise ConfigError(
                f"tool {tool.name!r} requires strict arguments, which this model is not known to support; "
                "set compat flag supports_strict_tools if it does"
            )
        return None
    try:
        schema = strict_schema(tool.parameters)
        _check(schema, "$")
    except ConfigError as problem:
        if mode == "require":
            raise ConfigError(f"tool {tool.name!r} cannot have strict arguments: {problem}") from None
        return None
    return schema


def _check(node: Any, path: str) -> None:
    """Refuse what Anthropic's strict dialect lacks beyond the common one."""
    if not isinstance(node, dict):
        return
    for keyword in node:
        if keyword in _STRICT_UNSUPPORTED:
            raise ConfigError(f"{path}: `{keyword}` is not supported")
    if node.get("minItems", 0) not in (0, 1):
        raise ConfigError(f"{path}: `minItems` must be 0 or 1")
    if "format" in node and node["format"] not in _STRICT_FORMATS:
        raise ConfigError(f"{path}: the format {node['format']!r} is not supported")
    for name, inner in (node.get("properties") or {}).items():
        _check(inner, f"{path}.properties.{name}")
    _check(node.get("items"), f"{path}.items")
    for index, inner in enumerate(node.get("anyOf") or ()):
        _check(inner, f"{path}.anyOf[{index}]")
