"""What is shown of arguments that are still streaming, and what they finally are."""

from __future__ import annotations

import copy
import json
import sys
import tracemalloc
from typing import Any

import pytest

from pi_stream.partial_json import PartialJson, parse_arguments


def shown(text: str) -> dict[str, Any]:
    parser = PartialJson()
    parser.append(text)
    return parser.value


def shown_in_steps(text: str, step: int = 1) -> dict[str, Any]:
    """The same, looked at after every few characters."""
    parser = PartialJson()
    for start in range(0, len(text), step):
        parser.append(text[start : start + step])
        parser.value  # noqa: B018  (looking may change nothing)
    return parser.value


PREVIEWS: list[tuple[str, dict[str, Any]]] = [
    # A member appears when its value starts.
    ("", {}),
    ("  {", {}),
    ('{"a', {}),
    ('{"a"', {}),
    ('{"a":', {}),
    ('{"a":1,"b', {"a": 1}),
    ('{"a":"', {"a": ""}),
    ('{"a":{', {"a": {}}),
    ('{"":"x', {"": "x"}),
    ('{"a":[1,{"b":"c', {"a": [1, {"b": "c"}]}),
    # Literals: each start is unique.
    ('{"a":t', {"a": True}),
    ('{"a":fals', {"a": False}),
    ('{"a":nul', {"a": None}),
    ('{"a":[n', {"a": [None]}),
    # Numbers: what the digits so far say.
    ('{"a":12', {"a": 12}),
    ('{"a":-12.5', {"a": -12.5}),
    ('{"a":1.', {"a": 1}),
    ('{"a":1e', {"a": 1}),
    ('{"a":1e-', {"a": 1}),
    ('{"a":1e2', {"a": 100.0}),
    ('{"a":-', {}),
    ('{"a":[1,-', {"a": [1]}),
    ('{"a":' + "1" * 64, {"a": int("1" * 64)}),
    ('{"a":' + "1" * 65, {}),
    ('{"a":[0,' + "1" * 65, {"a": [0]}),
    ('{"a":' + "1" * 65 + ",", {"a": int("1" * 65)}),
    # Strings: unfinished escapes are held back.
    ('{"a":"x\\', {"a": "x"}),
    ('{"a":"x\\u00', {"a": "x"}),
    ('{"a":"x\\u00e9', {"a": "xé"}),
    ('{"a":"x\\\\u00', {"a": "x\\u00"}),
    ('{"a":"x\\n', {"a": "x\n"}),
    ('{"a\\n":1', {"a\n": 1}),
    # Surrogates: half a pair waits for what follows.
    ('{"a":"x\\ud83d', {"a": "x"}),
    ('{"a":"x\\ud83d\\', {"a": "x"}),
    ('{"a":"x\\uD83D\\uDE0', {"a": "x"}),
    ('{"a":"x\\uD83D\\uDE00', {"a": "x😀"}),
    ('{"a":"x\\ud83dy', {"a": "x\ud83dy"}),
    ('{"a":"x\\ud83d\\n', {"a": "x\ud83d\n"}),
    ('{"a":"x\\ud83d"', {"a": "x\ud83d"}),
    ('{"a":"x\\ud83d\\ud83d\\ude00', {"a": "x\ud83d😀"}),
    ('{"a":"x\\ude00', {"a": "x\ude00"}),
    # What the final parse repairs shows as it will be.
    ('{"a":"x\ny\t', {"a": "x\ny\t"}),
    ('{"a":"\\d', {"a": "\\d"}),
    ('{"a":"C:\\u', {"a": "C:"}),
    ('{"a":"C:\\us', {"a": "C:\\us"}),
    ('{"a":"\\u12"', {"a": "\\u12"}),
    # What the final parse rejects but people want to see.
    ('{"a" 1 "b" "c" "d" [2 3]', {"a": 1, "b": "c", "d": [2, 3]}),
    ('{"a":1"b":2}', {"a": 1, "b": 2}),
    ('{"a":[1,2,],"b":1,}', {"a": [1, 2], "b": 1}),
    ('{"a":NaN,"b":-Infinity,"c":undefined,"d":[None,1],"e":2}', {"d": [1], "e": 2}),
    ('{"a":tru,"b":01,"c":1e,"d":truer,"e":+1,"f":2}', {"f": 2}),
    ('{"a":1e999,"b":2}', {"b": 2}),
    ('{"a","b":1}', {"b": 1}),
    ('{a:1,b:{"c":2},d:[3],"e":4}', {"e": 4}),
    ('{"a":[1,2},"b":3}', {"a": [1, 2], "b": 3}),
    # Roots.
    ("[1,{", {}),
    ('[{"a":1}]', {}),
    ('"{', {}),
    ('12 {"a":1}', {}),
    ("null", {}),
    ('Sure, here it is: {"a":1', {"a": 1}),
    ('```json\n{"a":1}\n```', {"a": 1}),
    ('```json\n[{"a":1}]\n```', {}),
    ('{"a":1} {"b":2}', {"a": 1}),
    ('{"a":1}}],"b":2}', {"a": 1}),
    # Equal keys: the last wins, once its value starts.
    ('{"a":1,"a":', {"a": 1}),
    ('{"a":1,"a":-', {"a": 1}),
    ('{"a":1,"a":"', {"a": ""}),
    ('{"a":1,"b":2,"a":3', {"a": 3, "b": 2}),
    ('{"a":1,"a":' + "2" * 65, {"a": 1}),
    ('{"a":1,"a":nope,', {"a": 1}),
]


@pytest.mark.parametrize(("text", "expected"), PREVIEWS)
def test_shows_what_the_rules_say(text: str, expected: dict[str, Any]) -> None:
    """The preview follows the table, in types and order of keys too, however it was read."""
    assert repr(shown(text)) == repr(expected)
    assert repr(shown_in_steps(text)) == repr(expected)


def test_value_is_the_live_object() -> None:
    """Later accesses update the same dict and the same containers in it."""
    parser = PartialJson()
    parser.append('{"a":[1,')
    value, items = parser.value, parser.value["a"]
    parser.append('2],"b":"x')
    assert parser.value is value
    assert value["a"] is items
    assert value == {"a": [1, 2], "b": "x"}


def test_a_kept_string_does_not_change() -> None:
    """A string taken from the value stays what it was while the value goes on."""
    parser = PartialJson()
    parser.append('{"a":"one')
    kept = parser.value["a"]
    for _ in range(50):
        parser.append(" more")
        assert parser.value["a"] != kept
    assert kept == "one"


def test_a_number_that_grows_is_replaced() -> None:
    """A number or literal read early leaves no trace, in lists neither."""
    assert shown_in_steps('{"a":[12345,true,-1.5e3],"b":987}') == {"a": [12345, True, -1500.0], "b": 987}


def test_text_is_all_of_it() -> None:
    """The text is what was appended, whether or not anybody looked, and whatever it is worth."""
    parser = PartialJson()
    assert parser.text == ""
    parser.append('{"a"')
    parser.append("")
    parser.append(":1}")
    assert parser.text == '{"a":1}'
    assert parser.value == {"a": 1}
    parser.append(" and more")
    assert parser.text == '{"a":1} and more'
    assert parser.value == {"a": 1}


def test_a_copy_goes_on_by_itself() -> None:
    """A deep copy of a parser in the middle of a token is independent of it."""
    parser = PartialJson()
    parser.append('{"a":1,"a":2')
    assert parser.value == {"a": 2}
    other = copy.deepcopy(parser)
    other.append("x,")
    parser.append("3")
    assert other.value == {"a": 1}
    assert parser.value == {"a": 23}


# Linear in the text: what is already read costs nothing more.


@pytest.mark.skipif(
    sys.implementation.name != "cpython", reason="other interpreters grow strings differently"
)
@pytest.mark.skipif(
    sys.gettrace() is not None, reason="under a trace function strings are not grown in place"
)
@pytest.mark.parametrize(
    ("start", "delta"),
    [
        ('{"a":"' + "x" * 1_000_000, "more"),
        ('{"a":["' + "é\\n" * 300_000, "\\nmore\\"),
        ('{"' + "x" * 1_000_000, "more"),
        ('{"a":' + "7" * 1_000_000, "777"),
        ('{"a":[' + "12,34," * 20_000, '56,{"b":7'),
        ('{"a":' + "[" * 40_000, "[[["),
        ('{"a":1}' + " " * 1_000_000, "more"),
    ],
    ids=["string", "escapes", "key", "number", "list", "nesting", "after"],
)
def test_a_small_delta_is_cheap_after_much_text(start: str, delta: str) -> None:
    """With much text read, a look at a few more characters copies none of it: no text and no string in it."""
    parser = PartialJson()
    tracemalloc.start()
    try:
        for piece in (start, *[delta] * 30):  # the interpreter needs some rounds to specialise the code
            parser.append(piece)
            parser.value  # noqa: B018
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        parser.append(delta)
        parser.value  # noqa: B018
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 20_000


@pytest.mark.parametrize("filler", ["plain text ", 'tab\tquote"slash\\é😀\n'])
def test_a_long_string_in_small_deltas(filler: str) -> None:
    """A value of 1 MB that is looked at after each of 20,000 deltas."""
    text = json.dumps({"path": "a.txt", "content": filler * (1_000_000 // len(json.dumps(filler)))})
    assert shown_in_steps(text, step=50) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"a": "x" * 100_000}),
        json.dumps({"k" * 100_000: 1}),
        json.dumps({f"key{i}": i for i in range(8_000)}),
        json.dumps({"rows": [{"id": i, "ok": True, "tags": ["x", None]} for i in range(2_500)]}),
        " " * 50_000 + '{"a":' + " " * 50_000 + "1}",
        '{"a":' + "[" * 400 + "]" * 400 + ',"b":"' + "\\\\" * 50_000 + '"}',
    ],
    ids=["string", "key", "keys", "rows", "blanks", "backslashes"],
)
def test_a_document_in_single_characters(text: str) -> None:
    """About 100,000 one-character deltas, each looked at."""
    assert shown_in_steps(text) == json.loads(text)


def test_a_number_that_never_ends() -> None:
    """Digits without end stay hidden, and cost nothing more for being many."""
    text = '{"a":' + "7" * 200_000
    assert shown_in_steps(text) == {}
    assert shown_in_steps(text + ',"b":1}', step=10) == {"b": 1}


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_of_any_depth(opening: str) -> None:
    """100,000 levels neither raise nor take long, and every one is there."""
    value: Any = shown_in_steps('{"a":' + opening * 100_000, step=7)["a"]
    depth = 0
    while value:
        value = value[0] if isinstance(value, list) else value["a"]
        depth += 1
    assert depth == 99_999
    closed = shown_in_steps('{"a":' + "[" * 100_000 + "]" * 100_000 + ',"b":1}', step=7)
    assert closed["b"] == 1


def test_wrong_brackets_without_end() -> None:
    """Closing brackets that match nothing are no burden."""
    text = '{"a":' * 50_000 + "]" * 49_999 + ',"b":1}'
    assert shown_in_steps(text, step=7)["b"] == 1


# The final parse.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (" \n\t", {}),
        ("{}", {}),
        (' {"a": [1, 2.5, {"b": null}], "c": true} \n', {"a": [1, 2.5, {"b": None}], "c": True}),
        ('{"a":1,"b":2,"a":3}', {"a": 3, "b": 2}),
        ('{"a":123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        ('{"a":"\\ud83d\\ude00 \\ud83d"}', {"a": "😀 \ud83d"}),
        ('{"a":"x\ny\tz\x00"}', {"a": "x\ny\tz\x00"}),
        ('{"a":"\\d+\\.\\d","\\p":1}', {"a": "\\d+\\.\\d", "\\p": 1}),
        ('{"a":"C:\\users\\me","b":"\\u12"}', {"a": "C:\\users\\me", "b": "\\u12"}),
        ('{"a":"\\\\d \\\\\\d"}', {"a": "\\d \\\\d"}),
        ('{"a":"\'\\\'"}', {"a": "'\\'"}),
    ],
)
def test_final_arguments(text: str, expected: dict[str, Any]) -> None:
    """Objects, blank text, and strings with raw control characters or stray backslashes are arguments."""
    arguments, error = parse_arguments(text)
    assert error is None
    assert repr(arguments) == repr(expected)
    assert repr(shown(text)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":"x', "Unterminated string starting at: line 1 column 6 (char 5)"),
        ('{"a":1,}', "Expecting property name enclosed in double quotes: line 1 column 8 (char 7)"),
        ('{"a":1', "Expecting ',' delimiter: line 1 column 7 (char 6)"),
        ('{"a":1} x', "Extra data: line 1 column 9 (char 8)"),
        ('```json\n{"a":1}\n```', "Expecting value: line 1 column 1 (char 0)"),
        ("[1]", "The arguments must be a JSON object, not an array"),
        ('"x"', "The arguments must be a JSON object, not a string"),
        ("12", "The arguments must be a JSON object, not a number"),
        ("true", "The arguments must be a JSON object, not a boolean"),
        ("null", "The arguments must be a JSON object, not null"),
        ('{"a":NaN}', "NaN is not a JSON value"),
        ('{"a":[-Infinity]}', "-Infinity is not a JSON value"),
        ('{"a":1e999}', "1e999 is out of range for a number"),
        # Positions are those of the text as received, also after a repair.
        (
            '{"a":"\\d\\d","b":"\\d",}',
            "Expecting property name enclosed in double quotes: line 1 column 22 (char 21)",
        ),
        ('{"a":"\\d', "Unterminated string starting at: line 1 column 6 (char 5)"),
        ('{"a":"\\', "Unterminated string starting at: line 1 column 6 (char 5)"),
    ],
)
def test_final_error(text: str, message: str) -> None:
    """What is no object gives empty arguments and an error of message, blank line and received text."""
    assert parse_arguments(text) == ({}, f"{message}\n\n{text}")


def test_final_error_of_deep_nesting() -> None:
    """Nesting that the parser cannot take is an error, not an exception."""
    text = '{"a":' + "[" * 200_000 + "]" * 200_000 + "}"
    assert parse_arguments(text) == ({}, f"The arguments are nested too deeply\n\n{text}")


@pytest.mark.skipif(sys.get_int_max_str_digits() == 0, reason="this interpreter reads integers of any length")
def test_final_error_of_endless_integer() -> None:
    """An integer with more digits than Python reads is an error, and never shown."""
    text = '{"a":' + "9" * (sys.get_int_max_str_digits() + 1) + "}"
    arguments, error = parse_arguments(text)
    assert arguments == {}
    assert error is not None
    assert error.endswith(f"\n\n{text}")
    assert shown(text) == {}
