"""Previews of streamed arguments against a slow parser of the same rules, cut and looked at anywhere."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pi_stream.partial_json import PartialJson, parse_arguments


class SlowParser:
    """The rules once more, by plain recursion over the whole text, for texts that are nearly JSON objects."""

    MISSING = object()

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def root(self) -> dict[str, Any]:
        self.at = self.text.find("{")
        return self.object() if self.at >= 0 else {}

    def here(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, characters: str) -> str:
        while self.here() and self.here() in characters:
            self.at += 1
        return self.here()

    def object(self) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        self.at += 1
        while self.skip(" \t\r\n,") == '"':
            key, closed = self.string()
            if closed and self.skip(" \t\r\n:"):
                value = self.value()
                if value is not self.MISSING:
                    shown[key] = value
        self.at += 1
        return shown

    def array(self) -> list[Any]:
        shown: list[Any] = []
        self.at += 1
        while self.skip(" \t\r\n,") not in ("]", ""):
            value = self.value()
            if value is not self.MISSING:
                shown.append(value)
        self.at += 1
        return shown

    def value(self) -> Any:
        if self.here() == "{":
            return self.object()
        if self.here() == "[":
            return self.array()
        if self.here() == '"':
            return self.string()[0]
        start = self.at
        while self.here() and self.here() not in ' \t\r\n,:[]{}"':
            self.at += 1
        word, ended = self.text[start : self.at], self.at < len(self.text)
        return self.finished(word) if ended else self.unfinished(word)

    def finished(self, word: str) -> Any:
        if word in ("NaN", "Infinity", "-Infinity"):
            return self.MISSING
        try:
            return json.loads(word)
        except ValueError:
            return self.MISSING

    def unfinished(self, word: str) -> Any:
        for literal in ("true", "false", "null"):
            if literal[: len(word)] == word:
                return json.loads(literal)
        number = re.fullmatch(r"(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?)(\.|[eE][-+]?)?", word)
        return json.loads(number[1]) if number and len(word) <= 64 else self.MISSING

    def string(self) -> tuple[str, bool]:
        shown = ""
        self.at += 1
        while self.here() not in ('"', ""):
            character, length = self.character(self.text[self.at :])
            if not length:
                self.at = len(self.text)
            shown += character
            self.at += length
        closed = self.here() == '"'
        self.at += 1
        return shown, closed

    def character(self, rest: str) -> tuple[str, int]:
        """The next character of a string and its length in the text, 0 if that is not settled yet."""
        if rest[0] != "\\":
            return rest[0], 1
        if rest[1:2] in tuple('"\\/bfnrt'):
            return json.loads(f'"{rest[:2]}"'), 2
        if len(rest) < 6 and re.fullmatch(r"\\(u[0-9a-fA-F]*)?", rest):
            return "", 0
        if not re.match(r"\\u[0-9a-fA-F]{4}", rest):
            return "\\", 1
        first, second = rest[:6], rest[6:12]
        if re.match(r"\\u[dD][89abAB]", first):
            if len(second) < 6 and re.fullmatch(r"(\\(u[0-9a-fA-F]*)?)?", second):
                return "", 0
            if re.fullmatch(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}", second):
                return json.loads(f'"{first}{second}"'), 12
        return json.loads(f'"{first}"'), 6


def shown(text: str) -> str:
    parser = PartialJson()
    parser.append(text)
    return repr(parser.value)


def pieces(text: str, cuts: list[int]) -> list[str]:
    borders = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:stop] for start, stop in pairwise(borders)]


DOCUMENTS = [
    '{"city": "Paris", "days": 3, "units": null, "alerts": true, "wind": false}',
    '{"matrix":[[1,-2.5],[],[0,1e3,-0,-0.0,1.5E-7,2e+2]],"deep":{"a":{"b":[{"c":{}}]}}}',
    ' {\n\t"path" : "src/\\u00fcber.py" ,\r\n "text" : "\\"quoted\\"\\n\\ttab \\\\ slash\\/ \\b\\f\\r" } \n',
    '{"emoji":"\\ud83d\\ude00 x \\uD83D\\uDE00","raw":"😀é"}',
    '{"lone":"\\ud83d","low":"\\ude00","two":"\\ud83d\\ud83d\\ude00","swapped":"\\ude00\\ud83d"}',
    '{"half":"\\ud83d\\n \\ud83d\\u0041 \\ud83d\\\\u","k\\ud83d\\ude00y\\t":["\\u0041\\u0042"],"":""}',
    '{"regex":"\\d+\\.\\w\\s","path":"C:\\users\\new\\x41","raw":"line\nline\ttab\x01"}',
    '{"bad":"\\u12 \\uzzzz \\u00g \\\\d","\\k":"\\ud83d\\d \\ud83d\\uzz"}',
    '{"a":1,"b":[1],"a":"two","a":{"b":3,"b":null},"a":true,"b":-1}',
    '{"a" 1 "b" "x" "c" [1 2 "y"] "d" {"e" null}}',
    '{"a":[1,2,],"b":{"c":1,},}',
    '{"a":NaN,"b":[Infinity,1,-Infinity,nope],"c":undefined,"d":tru,"e":Null,"f":01,"g":1e,"h":2}',
    '{"long":' + "1234567890" * 7 + ',"a":[' + "9" * 64 + "," + "9" * 65 + ',0.' + "3" * 80 + '],"long":5}',
    'I will call it now:\n```json\n{"a": {"b": "c"}}\n```\nDone {"x":1}',
]  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_prefix(document: str) -> None:
    """At every character, read at once or looked at all the way, what is shown is what the rules say."""
    parser = PartialJson()
    for end in range(len(document) + 1):
        prefix = document[:end]
        expected = repr(SlowParser(prefix).root())
        assert shown(prefix) == expected, prefix
        parser.append(document[max(end - 1, 0) : end])
        assert repr(parser.value) == expected, prefix


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_cut(document: str) -> None:
    """Where a document is cut in two, and whether it was looked at there, leaves no trace in the end."""
    for cut in range(len(document)):
        parser = PartialJson()
        parser.append(document[:cut])
        parser.value  # noqa: B018
        parser.append(document[cut:])
        assert repr(parser.value) == shown(document), document[:cut]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=20,
)
json_objects = st.dictionaries(st.text(max_size=8), json_values, max_size=6)
json_texts = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    json_objects,
    st.booleans(),
    st.sampled_from([None, 0, 2]),
)
# Texts that are now and then nearly JSON: the tokens, and the pieces of tokens, in any order.
structure = ["{", "}", "[", "]", '"', ":", ",", " ", "\n", '{"', '":', '","', "```json\n"]
in_strings = ["\\", "u", "d83d", "\\ud83d", "\\ude00", "\\u00e9", "\\n", "\\d", "a", "é", "\N{GRINNING FACE}"]
words = ["true", "tru", "null", "NaN", "-", "0", "12", "1.5", "1e", "e5", ".", "7" * 40]
token_soup = st.lists(st.sampled_from(structure + in_strings + words), max_size=40).map("".join)
argument_soup = token_soup.map(lambda text: '{"a":' + text)
cut_lists = st.lists(st.integers(min_value=0, max_value=10_000), max_size=12)


@given(text=json_texts, cuts=cut_lists, looks=st.lists(st.booleans(), min_size=13, max_size=13))
def test_any_object_in_any_pieces(text: str, cuts: list[int], looks: list[bool]) -> None:
    """The end is what `json.loads` says; every look on the way shows what the rules say."""
    parser = PartialJson()
    for piece, look in zip(pieces(text, cuts), looks, strict=False):
        parser.append(piece)
        if look:
            assert repr(parser.value) == repr(SlowParser(parser.text).root())
    assert repr(parser.value) == repr(json.loads(text))
    assert parse_arguments(text) == (json.loads(text), None)
    assert parser.text == text


@given(text=st.text() | token_soup | argument_soup, cuts=cut_lists)
@example(text='{"a":"\\ud83d\\ude00"}', cuts=[9, 14, 15, 16])
@example(text='{"a":1,"a":truex,"a":' + "1" * 70, cuts=[12, 14, 17, 40, 80])
def test_any_text_in_any_pieces(text: str, cuts: list[int]) -> None:
    """No text raises, and what is shown depends on the text so far alone."""
    parser = PartialJson()
    for piece in pieces(text, cuts):
        parser.append(piece)
        assert repr(parser.value) == shown(parser.text)


@given(text=st.text() | token_soup | argument_soup)
@example(text='{"a":"\\d\\u12\n\\ud83d"}')
@example(text='{"a":1,"a":-0}')
def test_preview_and_final_parse_agree(text: str) -> None:
    """What the final parse accepts is what the preview showed; what it rejects is an error with the text."""
    arguments, error = parse_arguments(text)
    if error is None:
        assert shown(text) == repr(arguments)
    else:
        assert arguments == {}
        assert error.endswith(f"\n\n{text}")


@given(
    body=st.lists(st.sampled_from([*'\\dun"/0aAfF \n\x01é', "\\u00e9", "\\ud83d", "\\ude00"]), max_size=20)
)
def test_strings_with_anything_in_them(body: list[str]) -> None:
    """Any text between quotes that ends where it should is shown as it is finally parsed."""
    text = '{"a":"' + "".join(body) + '"}'
    arguments, error = parse_arguments(text)
    if error is None:
        assert shown(text) == repr(arguments)
