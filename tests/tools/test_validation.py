"""A call is carried out only when its arguments are what the tool wants."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.exceptions import ConfigError, InvalidToolCallError
from pi_stream.messages import Tool, ToolCall
from pi_stream.tools import validate_tool_call
from pi_stream.tools.coercion import coerced

BOTH = pytest.mark.parametrize("library", [True, False], ids=["jsonschema-rs", "own checker"])


@pytest.fixture
def checker(library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra, and without."""
    if library:
        pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")
    else:
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": ["a"]}


def checked(properties: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    tool = Tool("t", parameters=schema(**properties))
    return validate_tool_call([tool], ToolCall("c", "t", arguments)).arguments


INTEGER, NUMBER, STRING, FLAG = ({"type": name} for name in ("integer", "number", "string", "boolean"))
LIST, OBJECT = {"type": "array", "items": INTEGER}, {"type": "object", "properties": {"x": INTEGER}}


@BOTH
@pytest.mark.usefixtures("checker")
@pytest.mark.parametrize(
    ("sub", "given", "made"),
    [
        (INTEGER, "5", 5),
        (INTEGER, " -5 ", -5),
        (INTEGER, 5.0, 5),
        (NUMBER, "1.5e3", 1500.0),
        (NUMBER, 5, 5),
        (FLAG, "true", True),
        (FLAG, "false", False),
        (STRING, 5, "5"),
        (STRING, True, "true"),
        (STRING, "5", "5"),
        (LIST, 5, [5]),
        (LIST, "5", [5]),
        (LIST, ["5", 6], [5, 6]),
        (LIST, "[5, 6]", [5, 6]),
        ({"type": "array", "items": STRING}, "a", ["a"]),
        ({"type": "array", "prefixItems": [INTEGER], "items": STRING}, ["1", 2], [1, "2"]),
        (OBJECT, {"x": "5", "other": "5"}, {"x": 5, "other": "5"}),
        (OBJECT, '{"x": "5"}', {"x": 5}),
        ({"type": "object", "additionalProperties": INTEGER}, {"y": "5"}, {"y": 5}),
        ({"type": ["integer", "null"]}, None, None),
        ({"type": ["integer", "string"]}, "5", "5"),
        ({"type": ["null", "integer"]}, "5", 5),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "5", 5),
        ({"anyOf": [INTEGER, STRING]}, "5", "5"),
        ({"oneOf": [{"enum": ["x"]}, INTEGER]}, "5", 5),
        ({"allOf": [INTEGER, {"minimum": 1}]}, "5", 5),
        ({"$ref": "#/properties/b"}, "5", 5),
        ({"$ref": "#/properties/b", "description": "beside"}, "5", 5),
        ({}, "5", "5"),
    ],
)  # fmt: skip
def test_loose_types_are_made_what_the_schema_says(sub: Any, given: Any, made: Any) -> None:
    """Where there is no doubt what was meant; what is right already stays."""
    arguments = checked({"a": sub, "b": INTEGER}, a=given)
    assert arguments == {"a": made}
    assert type(arguments["a"]) is type(made)


@BOTH
@pytest.mark.usefixtures("checker")
def test_null_for_an_optional_property_is_left_out() -> None:
    """Unless it may be null, or must be there."""
    properties = {"a": {"type": ["string", "null"]}, "b": STRING, "c": {"anyOf": [STRING, {"type": "null"}]}}
    assert checked(properties, a=None, b=None, c=None, d=None) == {"a": None, "c": None, "d": None}
    with pytest.raises(InvalidToolCallError):
        checked({"a": STRING}, a=None)


@BOTH
@pytest.mark.usefixtures("checker")
@pytest.mark.parametrize(
    ("sub", "given"),
    [
        (INTEGER, "5.5"), (INTEGER, ""), (INTEGER, "0x5"), (INTEGER, "NaN"), (INTEGER, True), (INTEGER, "9" * 5000),
        (NUMBER, "1e999"), (FLAG, 1), (FLAG, "yes"), (FLAG, "True"), (STRING, None), (STRING, ["a"]), (LIST, None),
        (LIST, "a"), (OBJECT, "x"), (OBJECT, [1]), ({"enum": ["a"]}, "b"), ({"const": 1}, True),
    ],
)  # fmt: skip
def test_what_is_in_doubt_is_refused(sub: Any, given: Any) -> None:
    """The model is told and may try again."""
    with pytest.raises(InvalidToolCallError) as caught:
        checked({"a": sub}, a=given)
    assert len(caught.value.errors) == 1
    assert caught.value.errors[0].startswith(("a: ", "a.0: "))


@BOTH
@pytest.mark.usefixtures("checker")
def test_errors_name_path_and_reason_and_show_what_was_received() -> None:
    """The text can go to the model as the result of the call."""
    tool = Tool("t", parameters={**schema(a=OBJECT, b={"items": INTEGER}), "additionalProperties": False})
    call = ToolCall("c", "t", {"b": [1, "x"], "extra": "é"})
    with pytest.raises(InvalidToolCallError) as caught:
        validate_tool_call([tool], call)
    assert sorted(error.split(":")[0] for error in caught.value.errors) == ["a", "b.1", "extra"]
    assert {"a: is required", "extra: is not allowed"} < set(caught.value.errors)
    text = str(caught.value)
    assert text.startswith("the call of tool 't' is not valid:\n- ")
    assert text.endswith('received arguments:\n{"b": [1, "x"], "extra": "é"}')
    assert caught.value.call is call


def test_a_call_that_was_cut_is_refused() -> None:
    """Its arguments are empty and would fit a tool without required ones."""
    call = ToolCall("c", "t", {}, arguments_error='unterminated string\n\n{"path": "/et')
    with pytest.raises(InvalidToolCallError) as caught:
        validate_tool_call([Tool("t")], call)
    assert caught.value.errors == ["arguments: unterminated string"]
    assert str(caught.value).endswith('received arguments:\n{"path": "/et')


@pytest.mark.parametrize(
    ("tools", "words"),
    [(["write", "add"], "there are: write"), (["x"], "there are: x"), ([], "there are none")],
)
def test_a_tool_that_does_not_exist_is_refused_with_near_names(tools: list[str], words: str) -> None:
    """The model may have misspelt it."""
    with pytest.raises(InvalidToolCallError) as caught:
        validate_tool_call(map(Tool, tools), ToolCall("c", "wrte", {"a": 1}))
    assert caught.value.errors == [f"name: no such tool; {words}"]


def test_the_last_tool_of_a_name_counts() -> None:
    """As in a transcript that declares it anew."""
    tools = [Tool("t", parameters=schema(a=STRING)), Tool("t", parameters=schema(a=INTEGER))]
    assert validate_tool_call(tools, ToolCall("c", "t", {"a": "1"})).arguments == {"a": 1}


@BOTH
@pytest.mark.usefixtures("checker")
def test_the_call_is_not_changed_and_shares_nothing_with_the_one_returned() -> None:
    """Who carries it out may do with its arguments what they like."""
    call = ToolCall("c", "t", {"a": {"x": "1", "deep": [{"y": 1}]}, "free": [[1]]}, thought_signature="s")
    before = copy.deepcopy(call)
    made = validate_tool_call([Tool("t", parameters=schema(a=OBJECT))], call)
    made.arguments["a"]["deep"][0]["y"] = 2
    made.arguments["free"][0].append(2)
    assert call == before
    assert (made.id, made.name, made.thought_signature) == ("c", "t", "s")


@BOTH
@pytest.mark.usefixtures("checker")
@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "required": 5},
        {"properties": []},
        {"$ref": "#/nope"},
        {"$ref": "http://localhost:1/x"},
    ],
)
def test_a_schema_that_is_none_is_a_mistake_of_the_caller(parameters: Any) -> None:
    """Not of the model; and nothing is fetched for it."""
    with pytest.raises(ConfigError):
        validate_tool_call([Tool("t", parameters=parameters)], ToolCall("c", "t", {"a": 1}))


@BOTH
@pytest.mark.usefixtures("checker")
def test_arguments_that_no_checker_can_take_do_not_break_it() -> None:
    """Half characters, and nesting without end."""
    assert checked({"a": STRING}, a="\ud800") == {"a": "\ud800"}
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidToolCallError, match="nested too deeply"):
        checked({"a": {}}, a=deep)


names = st.sampled_from(["a", "b"])
scalars = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["5", "x", "true", "[1]", 1.0, 0.5])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2)
)
types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
schemas = st.recursive(
    st.fixed_dictionaries(
        {}, optional={"type": types | st.lists(types, min_size=1, max_size=3), "minimum": st.just(0)}
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": types,
            "properties": st.dictionaries(names, inner),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "required": st.lists(names, max_size=1),
        },
    ),
    max_leaves=5,
)


@given(values, schemas)
def test_coercion_never_changes_what_is_valid_and_has_nothing_to_do_twice(value: Any, sub: Any) -> None:
    """Whatever the value and the schema."""
    from pi_stream.tools.schema import problems

    made = coerced(value, sub, sub)
    if not list(problems(value, sub, sub)):
        assert made == value
    assert coerced(made, sub, sub) == made
