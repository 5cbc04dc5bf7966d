"""Checking a tool call before it is carried out."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NoReturn

from attrs import evolve

from pi_stream.exceptions import ConfigError, InvalidToolCallError
from pi_stream.messages import JsonObject, Tool, ToolCall
from pi_stream.tools.coercion import coerced
from pi_stream.tools.schema import Path, Problem, Schema, problems

__all__ = ["validate_tool_call"]


def validate_tool_call(tools: Iterable[Tool], call: ToolCall) -> ToolCall:
    """Check a call against the tool it names, before it is carried out.

    Arguments of a looser type are made what the schema says where there is no doubt: numbers and booleans that are
    spelt as strings, one value for a list, null for an optional property, JSON inside a string for an object or list.
    With the extra ``schema`` all of JSON Schema is checked, else the part that tools use.

    Args:
        tools: The tools that there are; of two with a name the last counts.
        call: The call of the model. It is not changed.

    Returns:
        The call with arguments as the schema wants them; nothing in it is shared with ``call``.

    Raises:
        InvalidToolCallError: The call must not be carried out: its arguments never came whole, there is no such tool, or
            they are not what the schema says. Its text tells the model, its ``errors`` list ``path: message``.
        ConfigError: The tool's schema is none.
    """
    if call.arguments_error is not None:
        reason, _, received = call.arguments_error.partition("\n\n")
        _refuse(call, [f"arguments: {reason or 'no JSON'}"], received)
    by_name = {tool.name: tool for tool in tools}
    if call.name not in by_name:
        near = difflib.get_close_matches(call.name, by_name, n=3) or sorted(by_name)
        known = f"there are: {', '.join(near)}" if near else "there are none"
        _refuse(call, [f"name: no such tool; {known}"], _shown(call.arguments))
    schema = by_name[call.name].parameters
    try:
        arguments: JsonObject = coerced(call.arguments, schema, schema)
        found = _problems(arguments, schema)
    except RecursionError:
        found = [Problem((), "is nested too deeply")]
        arguments = {}
    except (
        TypeError,
        AttributeError,
        ValueError,
    ) as error:  # a list where the schema wants an object, and the like
        raise ConfigError(f"the schema of tool {call.name!r} is not valid: {error}") from error
    if found:
        lines = [f"{_dotted(problem.path)}: {problem.message}" for problem in found]
        _refuse(call, lines, _shown(call.arguments))
    return evolve(call, arguments=arguments)


def _refuse(call: ToolCall, errors: list[str], received: str) -> NoReturn:
    raise InvalidToolCallError(call, errors, received)


def _shown(arguments: JsonObject) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False, default=str)
    except RecursionError:
        return "(nested too deeply to be shown)"


def _dotted(path: Path) -> str:
    return ".".join(map(str, path)) or "arguments"


def _problems(value: Any, schema: Schema) -> list[Problem]:
    try:
        library = import_module("jsonschema_rs")
    except ImportError:
        return list(problems(value, schema, schema))
    try:
        validator = library.validator_for(schema, mask="it", retriever=_refuse_to_fetch)
    except ValueError as error:
        raise ConfigError(f"a tool's schema is not valid: {str(error).splitlines()[0]}") from error
    try:
        return [problem for error in validator.iter_errors(value) for problem in _translated(error)]
    except ValueError:  # half a surrogate pair, or another value that the library cannot take
        return list(problems(value, schema, schema))


def _refuse_to_fetch(uri: str) -> NoReturn:
    """A schema may come from anywhere: it makes nobody open connections."""
    raise ValueError(f"{uri} is outside of the schema")


def _translated(error: Any) -> list[Problem]:
    """An error of jsonschema-rs in our words where it is about a key, which then is part of the path."""
    path: Path = tuple(error.instance_path)
    missing = getattr(error.kind, "property", None)
    if isinstance(missing, str):
        return [Problem((*path, missing), "is required")]
    unexpected = getattr(error.kind, "unexpected", None)
    if isinstance(unexpected, list):
        return [Problem((*path, name), "is not allowed") for name in unexpected]
    return [Problem(path, error.message)]
