"""Tools made of Python functions and classes."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import attrs
from attrs import define, field

from pi_stream.exceptions import ConfigError
from pi_stream.messages import ImageContent, TextContent, Tool, ToolCall, ToolResultMessage, UserContent
from pi_stream.tools.signature import described, object_schema, parameters_of, structured
from pi_stream.tools.validation import validate_tool_call

__all__ = ["FunctionTool", "tool", "tool_result"]


@define
class FunctionTool(Tool):
    """A tool with the function that carries it out. It is called like the function, and given to a model like a tool."""

    function: Callable[..., Any] = field(init=False, repr=False)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function itself."""
        return self.function(*arguments, **named)

    def run(self, call: ToolCall) -> Any:
        """Carry out a call of a model.

        Args:
            call: The call. Its arguments are checked, and made values of the types that the function is annotated with.

        Returns:
            What the function returns: for an async function a coroutine, to be awaited.

        Raises:
            InvalidToolCallError: The call must not be carried out; nothing was called.
        """
        arguments = validate_tool_call([self], call).arguments
        types = {each.name: each.type for each in parameters_of(self.function)}
        return self.function(**{name: structured(value, types[name]) for name, value in arguments.items()})


@overload
def tool(function: Callable[..., Any]) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    strict: Literal["prefer", "require"] | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: Literal["prefer", "require"] | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a typed function, async or not, or of an attrs class or dataclass; usable as a decorator.

    Parameters become properties of the schema by their annotations, those without a default required. The docstring
    describes the tool, its section ``Args`` (``Attributes`` of a class) the parameters.

    Args:
        function: What carries the tool out.
        name: Its name; else that of the function.
        description: Its description; else the docstring's.
        strict: Whether the provider should hold the model to the schema, where it can (``prefer``), or must.

    Raises:
        ConfigError: A parameter has no name, or a type without JSON Schema.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        summary, texts = described(function)
        own_name = name or getattr(function, "__name__", None)
        if own_name is None:
            raise ConfigError(f"{function!r} has no name: give it one with `name`")
        made = FunctionTool(
            own_name,
            summary if description is None else description,
            object_schema(parameters_of(function), texts),
            constrained_sampling={"type": "json_schema", "strict": strict} if strict else None,
        )
        made.function = function
        return made

    return make if function is None else make(function)


def tool_result(call: ToolCall, value: Any, *, is_error: bool = False) -> ToolResultMessage:
    """The result of a call, as a message.

    Args:
        call: The call.
        value: What the tool gave: a text, content blocks, an exception, which makes it an error, None for nothing, or
            anything else, which is written as JSON.
        is_error: Whether the call failed.
    """
    if isinstance(value, BaseException):
        is_error, value = True, str(value) or type(value).__name__
    return ToolResultMessage(call.id, call.name, _blocks(value), is_error=is_error)


def _blocks(value: Any) -> list[UserContent]:
    if value is None:
        return []
    if isinstance(value, (TextContent, ImageContent)):
        return [value]
    if (
        isinstance(value, Sequence)
        and value
        and all(isinstance(each, (TextContent, ImageContent)) for each in value)
    ):
        return list(value)
    return [
        TextContent(
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)
        )
    ]


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        return attrs.asdict(value, recurse=False)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, enum.Enum):
        return value.value
    return list(value) if isinstance(value, (set, frozenset)) else str(value)
