"""Tools made of functions and classes: their schema, and calls that reach the function."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from attrs import define, field

from pi_stream.exceptions import ConfigError, InvalidToolCallError
from pi_stream.messages import Context, ImageContent, TextContent, Tool, ToolCall, UserMessage
from pi_stream.serialization import to_json
from pi_stream.tools import FunctionTool, schema_of, tool, tool_result
from pi_stream.tools.schema import problems


class Unit(enum.Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


@define
class Place:
    """Somewhere on earth.

    Attributes:
        name: As people
            call it.
        at: Latitude and longitude.
    """

    name: str
    at: tuple[float, float] | None = None
    _tags: list[str] = field(factory=list)


@dataclass
class Point:
    x: int
    y: int = 0


@define
class Node:
    next: Node | None = None


@tool
def weather(
    place: Place,
    days: Annotated[int, "How far ahead.", {"minimum": 1}] = 1,
    unit: Unit = Unit.METRIC,
    *,
    detail: Literal["low", "high"] | None = None,
) -> str:
    """Say what the weather
    will be.

    Args:
        place: Where.
        unit (Unit): For numbers:
            metric by default.

    Returns:
        A sentence.
    """
    return f"{place} {days} {unit} {detail}"


def test_a_function_tells_the_model_everything_it_needs() -> None:
    """Name, description and schema come from the signature and the docstring."""
    assert (weather.name, weather.description) == ("weather", "Say what the weather will be.")
    number = {"type": "number"}
    position = {"type": "array", "prefixItems": [number, number], "minItems": 2, "maxItems": 2}
    assert weather.parameters == {
        "type": "object",
        "properties": {
            "place": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "As people call it."},
                    "at": {"anyOf": [position, {"type": "null"}], "description": "Latitude and longitude."},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["name"],
                "additionalProperties": False,
                "description": "Where.",
            },
            "days": {"type": "integer", "description": "How far ahead.", "minimum": 1},
            "unit": {
                "type": "string",
                "enum": ["metric", "imperial"],
                "description": "For numbers: metric by default.",
            },
            "detail": {"anyOf": [{"type": "string", "enum": ["low", "high"]}, {"type": "null"}]},
        },
        "required": ["place"],
        "additionalProperties": False,
    }


def test_a_call_reaches_the_function_with_values_of_its_types() -> None:
    """Objects of classes, members of enums; loose types are made right first."""
    arguments = {"place": {"name": "Rome", "at": ["41", 12], "tags": "old"}, "days": "2", "unit": "imperial"}
    place = Place("Rome", (41.0, 12.0), ["old"])
    assert weather.run(ToolCall("c", "weather", arguments)) == f"{place} 2 {Unit.IMPERIAL} None"
    assert weather(place, 2) == f"{place} 2 {Unit.METRIC} None"


def test_a_call_that_does_not_fit_calls_nothing() -> None:
    """The error lists what is wrong."""
    called: list[int] = []

    @tool
    def count() -> None:
        called.append(1)

    with pytest.raises(InvalidToolCallError) as caught:
        weather.run(ToolCall("c", "weather", {"place": {}, "days": 0, "more": 1}))
    assert {error.split(":")[0] for error in caught.value.errors} == {"place.name", "days", "more"}
    with pytest.raises(InvalidToolCallError):
        count.run(ToolCall("c", "count", {}, arguments_error="cut"))
    assert called == []


@pytest.mark.anyio
async def test_an_async_function_is_awaited_by_the_caller() -> None:
    """Whether it is one can be seen from what comes back."""

    @tool
    async def double(x: int) -> int:
        return 2 * x

    given = double.run(ToolCall("c", "double", {"x": "4"}))
    assert inspect.isawaitable(given)
    assert await given == 8


def test_classes_and_methods_are_tools_too() -> None:
    """A call of a class gives an object: structured output through a tool."""
    made = tool(Place)
    assert (made.name, made.description, made.parameters["required"]) == (
        "Place",
        "Somewhere on earth.",
        ["name"],
    )
    assert made.run(ToolCall("c", "Place", {"name": "Rome"})) == Place("Rome")
    assert tool(Point).description == ""  # what dataclasses write there says nothing new
    assert tool(Point).run(ToolCall("c", "Point", {"x": 1})) == Point(1)

    class Counter:
        def __init__(self, start: int) -> None:
            self.count = start

        def add(self, amount: int = 1) -> int:
            """Add to it."""
            self.count += amount
            return self.count

    counter = tool(Counter).run(ToolCall("c", "Counter", {"start": 5}))
    adding = tool(counter.add)
    assert (adding.name, adding.description) == ("add", "Add to it.")
    assert adding.run(ToolCall("c", "add", {"amount": 2})) == 7


def test_name_description_and_strictness_can_be_given() -> None:
    """The docstring is for programmers, after all."""
    made = tool(name="where", description="Find it.", strict="prefer")(weather.function)
    assert (made.name, made.description) == ("where", "Find it.")
    assert made.constrained_sampling == {"type": "json_schema", "strict": "prefer"}


def test_it_is_a_tool_wherever_one_is_wanted() -> None:
    """In a context, saved as one; the function stays here."""
    data = to_json(Context([UserMessage("hi", timestamp=1)], tools=[weather]))
    plain = Tool(weather.name, weather.description, weather.parameters)
    assert data["tools"] == [to_json(plain)] == [to_json(weather)]
    assert isinstance(weather, FunctionTool)


@pytest.mark.parametrize(
    ("kind", "schema", "value", "made"),
    [
        (Any, {}, [1], [1]),
        (list, {"type": "array"}, [1], [1]),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1, 2], (1, 2)),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a"], {"a"}),
        (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}, {"a": 1}, {"a": 1.0}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, 2, 2),
        (Literal["a", None], {"type": ["null", "string"], "enum": ["a", None]}, None, None),
        (None | int, {"anyOf": [{"type": "null"}, {"type": "integer"}]}, 5, 5),
        (Annotated[str, {"format": "date"}], {"type": "string", "format": "date"}, "x", "x"),
        (list[Unit], {"type": "array", "items": {"type": "string", "enum": ["metric", "imperial"]}}, ["metric"], [Unit.METRIC]),
        (int | list[Point], None, [{"x": 1}], [Point(1)]),
        (Point | Place, None, {"name": "Rome"}, Place("Rome")),
    ],
)  # fmt: skip
def test_types_have_a_schema_and_values_of_it_become_theirs(
    kind: Any, schema: dict[str, Any] | None, value: Any, made: Any
) -> None:
    """What the schema allows can be made."""
    from pi_stream.tools.signature import structured

    written = schema_of(kind)
    assert schema is None or written == schema
    assert list(problems(value, written, written)) == []
    assert structured(value, kind) == made
    assert type(structured(value, kind)) is type(made)


def positional(a: int, /) -> None: ...
def variable(*numbers: int) -> None: ...
def keywords(**numbers: int) -> None: ...
def unknown(a: Missing) -> None: ...  # type: ignore[name-defined] # noqa: F821
def odd(a: bytes) -> None: ...
def keyed(a: dict[int, str]) -> None: ...
def choosing(a: Literal[b"x"]) -> None: ...


@pytest.mark.parametrize(
    "function", [positional, variable, keywords, unknown, odd, keyed, choosing, Node, partial(odd)]
)
def test_what_no_model_could_call_is_refused(function: Any) -> None:
    """When the tool is made, not when it is called."""
    with pytest.raises(ConfigError):
        tool(function)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, []),
        ("text", [TextContent("text")]),
        ({"a": [1, "é"]}, [TextContent('{"a": [1, "é"]}')]),
        (7, [TextContent("7")]),
        ([], [TextContent("[]")]),
        (Place("Rome"), [TextContent('{"name": "Rome", "at": null, "_tags": []}')]),
        (Point(1), [TextContent('{"x": 1, "y": 0}')]),
        ([Unit.METRIC, {"a"}, 1j], [TextContent('["metric", ["a"], "1j"]')]),
        (ImageContent("aGk=", "image/png"), [ImageContent("aGk=", "image/png")]),
        ([TextContent("a"), TextContent("b")], [TextContent("a"), TextContent("b")]),
    ],
)  # fmt: skip
def test_whatever_a_tool_gives_becomes_its_result(value: Any, content: list[Any]) -> None:
    """Text as it is, content blocks too, anything else as JSON."""
    result = tool_result(ToolCall("c", "t"), value)
    assert (result.tool_call_id, result.tool_name, result.content, result.is_error) == (
        "c",
        "t",
        content,
        False,
    )


def test_an_exception_becomes_an_error_result() -> None:
    """Its words, or its name when it has none."""
    assert tool_result(ToolCall("c", "t"), ValueError("no")).content == [TextContent("no")]
    result = tool_result(ToolCall("c", "t"), TimeoutError())
    assert (result.content, result.is_error) == ([TextContent("TimeoutError")], True)
    assert tool_result(ToolCall("c", "t"), "no", is_error=True).is_error
