"""The JSON seam: both backends give the same values, and every failure is one error class."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.exceptions import ConfigError, DecodeError
from pi_stream.wire.json import JsonDecodeError, decode_many, dumps, is_complete, loads, use_backend

HAS_ORJSON = find_spec("orjson") is not None
BACKENDS = [
    "json",
    pytest.param("orjson", marks=pytest.mark.skipif(not HAS_ORJSON, reason="orjson is not installed")),
]
needs_orjson = pytest.mark.skipif(not HAS_ORJSON, reason="orjson is not installed: nothing to compare with")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=20,
)
# Text that is close to JSON: pieces of it in any order.
PIECES = [
    '{"a":', "}", "[", "]", ",", ":", '"', '"x"', "\\", "\\ud83d", "\\ude00", "\\u0000", "\\n", "true", "null", "NaN",
    "-Infinity", "0", "-0", "00", "1e5", "1E400", "-1.5e-3", ".", "-", "12345678901234567", "9007199254740993",
    "18446744073709551616", "-9223372036854775809", "0.30000000000000004441", *" \n\t\r\ufeff\x00\x0c\x7f\x85\u2028é😀",
]  # fmt: skip
json_like = st.lists(st.sampled_from(PIECES) | st.text(max_size=2), max_size=8).map("".join)
numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_backend(request.param):
        yield request.param


def outcome(payload: bytes, backend: str) -> str:
    """What a backend makes of a payload, comparable with NaN, -0.0 and the type of numbers in it."""
    with use_backend(backend):
        try:
            return repr(loads(payload))
        except JsonDecodeError as error:
            return f"refused: {error}"


@needs_orjson
@given(json_like | numbers | json_values.map(json.dumps))
def test_backends_agree_on_text(text: str) -> None:
    payload = text.encode("utf-8", "surrogatepass")
    assert outcome(payload, "orjson") == outcome(payload, "json")


@needs_orjson
@given(st.binary(max_size=20) | st.binary(max_size=6).map(lambda raw: b'"' + raw + b'"'))
def test_backends_agree_on_bytes(payload: bytes) -> None:
    assert outcome(payload, "orjson") == outcome(payload, "json")


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b"\xef\xbb\xbf{}", {}),
        (b' \r\n\t{"a" : 1}\n', {"a": 1}),
        (b'"\\ud83d"', "\ud83d"),
        (b'"\\ud83d\\ude00"', "😀"),
        (b"18446744073709551616", 2**64),
        (b"-9223372036854775809", -(2**63) - 1),
        (b'{"id":[1,123456789012345678901234567890]}', {"id": [1, 123456789012345678901234567890]}),
        (b"[-Infinity,Infinity,1e400]", [-math.inf, math.inf, math.inf]),
        (b"-0", 0),
        (b'{"a":1,"a":2}', {"a": 2}),
        ('"\u2028é😀"'.encode(), "\u2028é😀"),
    ],
)
def test_unusual_json_has_one_meaning(backend: str, payload: bytes, value: Any) -> None:
    assert loads(payload) == value
    assert type(loads(payload)) is type(value)
    assert decode_many([payload] * 9) == [value] * 9


def test_nan_is_read(backend: str) -> None:
    assert math.isnan(loads(b"NaN"))


def test_a_string_is_read_as_its_bytes_are(backend: str) -> None:
    assert loads('\ufeff{"a": 18446744073709551616}') == {"a": 2**64}
    assert loads('"\udc80"') == "\udc80"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b'{"choices":[{"del', "Unterminated string starting at at character 13"),
        (b"", "Expecting value at character 0"),
        (b"<html>", "Expecting value at character 0"),
        (b"{} {}", "Extra data at character 3"),
        (b'"\xff"', "invalid UTF-8 at byte 1"),
        (b'"\xed\xa0\x80"', "invalid UTF-8 at byte 1"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"n":' + b"9" * 5000 + b"}", "4300"),
    ],
)
def test_a_broken_payload_is_one_error(backend: str, payload: bytes, reason: str) -> None:
    """Bad UTF-8, deep nesting and endless numbers raise other classes inside: none of them comes out."""
    for attempt in (lambda: loads(payload), lambda: decode_many([payload])):
        with pytest.raises(JsonDecodeError) as caught:
            attempt()
        assert caught.value.kind == "malformed"
        assert reason in str(caught.value)


def test_a_broken_string_is_the_same_error(backend: str) -> None:
    with pytest.raises(JsonDecodeError, match="Expecting value at character 0"):
        loads("\udc80")


def test_the_error_says_how_the_payload_starts(backend: str) -> None:
    with pytest.raises(DecodeError) as caught:
        loads(b"<html>" + b"x" * 1000)
    assert "b'<html>xxx" in str(caught.value)
    assert "(1006 bytes)" in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("before", [0, 1, 12])
def test_what_stands_before_a_broken_payload_is_kept(backend: str, before: int) -> None:
    payloads = [b'{"n":%d}' % n for n in range(before)] + [b'{"choices":[{"del'] + [b"{}"] * 9
    with pytest.raises(JsonDecodeError) as caught:
        decode_many(payloads)
    assert caught.value.decoded == [{"n": n} for n in range(before)]
    assert caught.value.index == caught.value.position == before


@pytest.mark.parametrize(
    "broken",
    [
        [b"1,2", b"[3", b"4]"],
        [b"1,2,3", b"[4", b"5]"],
        [b"1],[2", b"[3", b"4]"],
        [b"1,9007199254740993,2", b"[3", b"4]"],
        [b'"a', b'b"', b"1,9007199254740993,2"],
    ],
)
def test_broken_payloads_cannot_complete_each_other(backend: str, broken: list[bytes]) -> None:
    """As many values as payloads, all of them invalid: an array of all must not be taken for their values."""
    with pytest.raises(JsonDecodeError) as caught:
        decode_many([*broken, b"{}", b"{}", b"{}", b"{}", b"{}", b"{}"])
    assert caught.value.index == 0


def outcome_of_many(payloads: list[bytes]) -> tuple[str, str | None]:
    """The values, all of them or those before the error, and the error."""
    try:
        return repr(decode_many(payloads)), None
    except JsonDecodeError as error:
        return repr(error.decoded), str(error)


def outcome_one_by_one(payloads: list[bytes]) -> tuple[str, str | None]:
    values = []
    for payload in payloads:
        try:
            values.append(loads(payload))
        except JsonDecodeError as error:
            return repr(values), str(error)
    return repr(values), None


@given(
    st.lists(json_like.map(str.encode), max_size=12),
    st.sampled_from(["json", "orjson"] if HAS_ORJSON else ["json"]),
)
def test_a_read_is_its_payloads_one_by_one(payloads: list[bytes], name: str) -> None:
    with use_backend(name):
        assert outcome_of_many(payloads) == outcome_one_by_one(payloads)


def test_the_fence_between_payloads_is_ordinary_data(backend: str) -> None:
    payloads = [b"9007199254740993", b'"9007199254740993"', b"[9007199254740993,9007199254740993]"] * 4
    assert decode_many(payloads) == [2**53 + 1, "9007199254740993", [2**53 + 1] * 2] * 4


def test_no_payloads_no_values(backend: str) -> None:
    assert decode_many([]) == []


@given(json_values)
def test_dumps_is_read_back(value: Any) -> None:
    def plain(item: Any) -> Any:
        """The value with what JSON has no words for: non-finite numbers, and surrogates that form a pair."""
        match item:
            case float():
                return item if math.isfinite(item) else None
            case str():
                return item.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            case list():
                return [plain(part) for part in item]
            case dict():
                return {plain(key): plain(part) for key, part in item.items()}
            case _:
                return item

    assert repr(loads(dumps(value))) == repr(plain(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None], "b": "é😀"}, '{"a":[1,null],"b":"é😀"}'.encode()),
        ({"\ud800": "x\udfff"}, b'{"\\ud800":"x\\udfff"}'),
        ([math.nan, (math.inf,), {"a": -math.inf, "b": 1.5}], b'[null,[null],{"a":null,"b":1.5}]'),
        (2**70, b"1180591620717411303424"),
        ({1: 2}, b'{"1":2}'),
    ],
)
def test_dumps_is_compact_and_never_fails_on_text_or_numbers(backend: str, value: Any, text: bytes) -> None:
    assert dumps(value) == text


def test_dumps_refuses_what_is_not_plain_data(backend: str) -> None:
    circle: list[Any] = [math.nan]
    circle.append(circle)
    with pytest.raises(ValueError, match="Circular"):
        dumps(circle)
    with pytest.raises(TypeError):
        dumps({"a": object()})


@pytest.mark.parametrize(
    ("payload", "complete"),
    [
        (b"{}", True),
        (b" [1]\n", True),
        (b'"a"', True),
        (b"true", True),
        (b"12", False),
        (b"1.5", False),
        (b'{"a":1', False),
        (b"", False),
        (b"\xff", False),
    ],
)
def test_complete_means_nothing_can_be_missing(payload: bytes, complete: bool) -> None:
    assert is_complete(payload) is complete


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


WITHOUT_ORJSON = "import sys; sys.modules['orjson'] = None; "
SHOW = "from pi_stream.wire import json; print(json.BACKEND, json.loads(b'[1]'))"


def test_works_without_orjson() -> None:
    assert run(WITHOUT_ORJSON + SHOW, PI_STREAM_JSON="").stdout == "json [1]\n"


def test_the_environment_keeps_orjson_out() -> None:
    assert run(SHOW, PI_STREAM_JSON="json").stdout == "json [1]\n"


def test_the_environment_can_insist_on_orjson() -> None:
    failed = run(WITHOUT_ORJSON + SHOW, PI_STREAM_JSON="orjson")
    assert "pip install 'pi-stream[fast]'" in failed.stderr


@needs_orjson
def test_orjson_is_used_when_installed() -> None:
    assert run(SHOW, PI_STREAM_JSON="").stdout == "orjson [1]\n"


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ConfigError, match="ujson"), use_backend("ujson"):
        pass
