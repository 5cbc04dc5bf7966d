"""The SSE decoder: the rules of the standard, however the bytes are cut, within bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pi_stream.exceptions import DecodeError
from pi_stream.wire.sse import ServerSentEvent, SSEDecoder

Event = ServerSentEvent


def pieces(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def run(reads: list[bytes], form: str = "feed", **settings: Any) -> tuple[list[Any], str | None, bool]:
    """Everything a decoder gives for a body, the kind of its error, and whether something was left behind."""
    decoder = SSEDecoder(**settings)
    feed: Callable[[bytes], list[Any]] = decoder.feed if form == "feed" else decoder.feed_data
    close: Callable[[], list[Any]] = decoder.close if form == "feed" else decoder.close_data
    found: list[Any] = []
    try:
        for read in reads:
            found += feed(read)
        found += close()
    except DecodeError as error:
        return found, error.kind, False
    return found, None, decoder.pending


def by_the_standard(body: bytes) -> list[Event]:
    """The algorithm of the standard on the whole text at once, and our exception for the end."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, last = re.split("\r\n|\r|\n", text)
    events: list[Event] = []
    data, name, last_id, retry = "", "", None, None
    for line in [*lines, *([last] if last.startswith("data:") else []), None]:
        if not line:
            if data and (line is not None or is_whole(data[:-1])):
                events.append(Event(name or "message", data[:-1], last_id, retry))
            data, name, retry = "", "", None
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data += value + "\n"
        elif field == "event":
            name = value
        elif field == "id" and "\0" not in value:
            last_id = value
        elif field == "retry" and re.fullmatch("[0-9]{1,18}", value):
            retry = int(value)
    return events


def is_whole(data: str) -> bool:
    try:
        return data == "[DONE]" or type(json.loads(data.removeprefix("\ufeff"))) not in (int, float)
    except ValueError:
        return False


CASES: dict[str, tuple[bytes, list[Event]]] = {
    "one event": (b"data: a\n\n", [Event(data="a")]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [Event(data="a")]),
    "byte order mark before an empty line": (b"\xef\xbb\xbf\ndata: a\n\n", [Event(data="a")]),
    "second byte order mark is part of the name": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    "late byte order mark is part of the name": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Event(data="a")]),
    "CR": (b"data: a\r\rdata: b\r\r", [Event(data="a"), Event(data="b")]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [Event(data="a"), Event(data="b")]),
    "mixed line ends": (
        b"data: a\n\r\ndata: b\r\n\rdata: c\r\ndata: d\n\n",
        [Event(data="a"), Event(data="b"), Event(data="c\nd")],
    ),
    "LF CR is two line ends": (b"data: a\n\rdata: b\n\r", [Event(data="a"), Event(data="b")]),
    "several data lines": (b"data: a\ndata:\ndata: b\n\n", [Event(data="a\n\nb")]),
    "no space after the colon": (b'data:{"a":1}\n\n', [Event(data='{"a":1}')]),
    "only one space is dropped": (b"data:  a\n\n", [Event(data=" a")]),
    "a tab is not dropped": (b"data:\ta\n\n", [Event(data="\ta")]),
    "colons in the value": (b"data: a: b:\n\n", [Event(data="a: b:")]),
    "field without colon": (b"data\n\ndata\ndata\n\n", [Event(data=""), Event(data="\n")]),
    "empty data": (b"data:\n\ndata: \n\n", [Event(data=""), Event(data="")]),
    "no data, no event": (b"event: x\n\nid: 1\n\n\n\ndata: a\n\n", [Event(data="a", id="1")]),
    "name of an event without data is forgotten": (b"event: x\n\ndata: a\n\n", [Event(data="a")]),
    "event name": (b"event: x\ndata: a\n\ndata: b\nevent: y\n\n", [Event("x", "a"), Event("y", "b")]),
    "last name wins, an empty one is none": (
        b"event: x\nevent: y\ndata: a\n\nevent: x\nevent\ndata: b\n\n",
        [Event("y", "a"), Event("message", "b")],
    ),
    "comments": (
        b": hi\n\n:\n\ndata: a\n: in between\ndata: b\n\n: OPENROUTER PROCESSING\n\n",
        [Event(data="a\nb")],
    ),
    "unknown fields": (b"Data: x\n data: x\ndata : x\nfoo: x\nbar\ndata: a\n\n", [Event(data="a")]),
    "id is kept": (
        b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
        [Event(data="a", id="1"), Event(data="b", id="1"), Event(data="c", id="")],
    ),
    "id with NUL": (b"id: 1\n\nid: 2\0\ndata: a\n\n", [Event(data="a", id="1")]),
    "retry": (b"retry: 300\ndata: a\n\ndata: b\n\n", [Event(data="a", retry=300), Event(data="b")]),
    "bad retry": (
        b"retry: 3x\nretry: -1\nretry:\nretry: \xd9\xa3\nretry: " + b"9" * 5000 + b"\ndata: a\n\n",
        [Event(data="a")],
    ),
    "other line separators are data": (
        "data: a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\0\n\n".encode(),
        [Event(data="a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\0")],
    ),
    "characters of several bytes": ("event: é\nid: ü\ndata: 😀\n\n".encode(), [Event("é", "😀", "ü")]),
    "invalid UTF-8": (b"data: a\xffb\xf0\x9f\x98\ndata: c\n\n", [Event(data="a\ufffdb\ufffd\nc")]),
    "no empty line at the end": (b"data: a\n\ndata: b\n", [Event(data="a")]),
    "no line end at the end": (b"data: a\n\ndata: b", [Event(data="a")]),
    "complete JSON at the end": (b'event: x\ndata: {"a":1}\n', [Event("x", '{"a":1}')]),
    "complete JSON at the end without line end": (b'data: {"a":\ndata: 1}', [Event(data='{"a":\n1}')]),
    "complete JSON and a line that is cut": (b'event: x\ndata: {"a":1}\nevent: y', [Event("x", '{"a":1}')]),
    "end mark at the end": (b"data:[DONE]", [Event(data="[DONE]")]),
    "end mark cut": (b"data:[DON", []),
    "cut JSON at the end": (b'data: {"a":1\n', []),
    "a number at the end may be cut": (b"data: 12", []),
    "empty body": (b"", []),
    "only line ends": (b"\n\n\r\n\r\r\n", []),
}


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
@pytest.mark.parametrize("name", CASES)
def test_spec(name: str, size: int) -> None:
    body, events = CASES[name]
    assert run(pieces(body, size))[0] == events
    data = [event.data for event in events if event.data]
    assert [payload.decode("utf-8", "replace") for payload in run(pieces(body, size), "data")[0]] == data


# Bodies of lines as servers send them, as they should not, and of arbitrary bytes.
line_ends = st.sampled_from([b"\n", b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"\r", b"\r\r", b"\n\r", b""])
values = st.one_of(
    st.sampled_from(
        [b"", b" ", b"  x", b'{"a":1}', b'{"a":', b"1}", b"[DONE]", b"12", b"\0", b"a:b", b"message_stop"]
    ),
    st.sampled_from(["\u2028", "\x85", "\x0b", "é", "😀", "\ufeff"]).map(str.encode),
    st.binary(max_size=8),
)
FIELDS = [
    b"data: ", b"data: ", b"data: ", b"data:", b"data", b"event: ", b"event:", b"event", b"id: ", b"id", b"retry: ",
    b"retry:", b":", b": ", b"", b"datax: ", b" data: ", b"\xef\xbb\xbfdata: ", b"\xef\xbb\xbf",
]  # fmt: skip
lines = st.tuples(st.sampled_from(FIELDS), values, line_ends).map(b"".join)
bodies = st.lists(lines, max_size=12).map(b"".join) | st.binary(max_size=60)
places = st.lists(st.integers(0, 1000), max_size=8)


@given(bodies, places)
@example(b"\xef\xbb\xbfdata: \xf0\x9f\x98\x80\r\n\r\n", [1, 2, 11, 12, 14, 16])
def test_any_cut_gives_what_the_standard_says(body: bytes, where: list[int]) -> None:
    events, error, _ = run(cut(body, where))
    assert error is None
    assert events == by_the_standard(body)


@given(bodies, places)
def test_the_fast_form_gives_the_data_of_the_events(body: bytes, where: list[int]) -> None:
    payloads, error, left = run(cut(body, where), "data")
    events, _, left_of_events = run([body])
    assert error is None
    assert [payload.decode("utf-8", "replace") for payload in payloads] == [e.data for e in events if e.data]
    assert left == left_of_events


@given(bodies, places, st.integers(1, 30))
def test_any_cut_meets_the_limit_at_the_same_place(body: bytes, where: list[int], limit: int) -> None:
    for form in ("feed", "data"):
        whole = run([body], form, max_event_bytes=limit)
        assert run(cut(body, where), form, max_event_bytes=limit) == whole
        assert run(pieces(body, 1), form, max_event_bytes=limit) == whole


@given(st.lists(lines, max_size=12).map(b"".join), st.integers(1, 30))
def test_no_event_is_larger_than_the_limit(body: bytes, limit: int) -> None:
    payloads, error, _ = run([body], "data", max_event_bytes=limit)
    assert all(len(payload) <= limit for payload in payloads)
    if error is None:
        assert payloads == run([body], "data")[0]


@pytest.mark.parametrize("cut_at", [1, 50, 1000])
@pytest.mark.parametrize(
    "large",
    [
        b"data: " + b"x" * 200,
        b"data: xxxxxxxx\n" * 20,
        b"data: xxxxxxxx\r\n" * 20,
        b"data:\n" * 102,
        b":" + b"x" * 200,
        b"id" * 100,
    ],
    ids=["one line", "many lines", "many CRLF lines", "many empty lines", "comment", "unknown field"],
)
@pytest.mark.parametrize("form", ["feed", "data"])
def test_a_too_large_event_loses_nothing_before_it_and_is_a_named_error(
    large: bytes, cut_at: int, form: str
) -> None:
    decoder = SSEDecoder(max_event_bytes=100)
    reads = iter([*pieces(b"data: a\n\n: hi\n\ndata: b\n\n" + large + b"\n\ndata: c\n\n", cut_at), b""])
    feed: Callable[[bytes], list[Any]] = decoder.feed if form == "feed" else decoder.feed_data
    found: list[Any] = []
    with pytest.raises(DecodeError, match=r"larger than 100 bytes.*max_event_bytes.*event_bytes") as caught:
        found.extend(item for read in reads for item in feed(read))
    assert found == ([Event(data="a"), Event(data="b")] if form == "feed" else [b"a", b"b"])
    assert caught.value.kind == "too_large"
    for attempt in (decoder.close, lambda: feed(b"data: d\n\n")):
        with pytest.raises(DecodeError):
            attempt()


def test_a_too_large_event_with_nothing_before_it_is_an_error_at_once() -> None:
    with pytest.raises(DecodeError):
        SSEDecoder(max_event_bytes=10).feed(b"data: 56789")


def test_keep_alives_never_add_up_to_the_limit() -> None:
    decoder = SSEDecoder(max_event_bytes=20)
    assert [decoder.feed(b": keep-alive\n") for _ in range(100)] == [[]] * 100
    assert decoder.feed(b"data: a\n\n") == [Event(data="a")]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_very_long_line_in_small_reads_is_one_event(newline: bytes) -> None:
    """Takes minutes if a decoder looks at the whole line with every read."""
    text = b"x" * 16_000_000
    decoder = SSEDecoder()
    found = [p for read in pieces(b"data: " + text + newline * 2, 400) for p in decoder.feed_data(read)]
    assert found == [text]


def test_very_many_data_lines_in_small_reads_are_one_event() -> None:
    """Takes minutes if a decoder joins the lines again with every line."""
    decoder = SSEDecoder()
    reads = pieces(b"data: 0123456789\n" * 400_000 + b"\n", 4096)
    assert [p for read in reads for p in decoder.feed_data(read)] == [b"\n".join([b"0123456789"] * 400_000)]


def test_an_event_comes_with_the_read_that_ends_it() -> None:
    """Also when the line ends are CR, where the next byte could be an LF."""
    decoder = SSEDecoder()
    assert decoder.feed_data(b"data: a\r\n\r") == [b"a"]
    assert decoder.feed_data(b"\ndata: b\r\r") == [b"b"]


@pytest.mark.parametrize(
    ("body", "pending"),
    [
        (b"", False),
        (b"data: a\n\n", False),
        (b"data: a\n\n: ping\n", False),
        (b"data: a\n\n: pi", False),
        (b"\xef\xbb\xbf", False),
        (b"data: {}\n", False),
        (b"data: {}", False),
        (b"data: {\n", True),
        (b"data: {\n: ping\n", True),
        (b"data: {\n: pi", True),
        (b"data: {}\n\nda", True),
        (b"data: {}\n\nevent: message_stop\n", True),
        (b"\xef\xbb\xbfdata: {", True),
    ],
)
@pytest.mark.parametrize("form", ["feed", "data"])
@pytest.mark.parametrize("size", [1, 100])
def test_pending_tells_what_was_left_behind(body: bytes, pending: bool, form: str, size: int) -> None:
    assert run(pieces(body, size), form)[2] is pending


def test_pending_while_an_event_is_open() -> None:
    decoder = SSEDecoder()
    states = []
    for read in (b"", b"da", b"ta: {}\n", b": x\n", b"\n", b": ping\n"):
        decoder.feed_data(read)
        states.append(decoder.pending)
    assert states == [False, True, True, True, False, False]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_closing_twice_gives_the_last_event_once(end: bytes) -> None:
    decoder = SSEDecoder()
    decoder.feed(b"data: {}" + end)
    assert (decoder.close(), decoder.close()) == ([Event(data="{}")], [])


def test_another_end_mark() -> None:
    assert run([b"data: <end>"], sentinel=b"<end>")[0] == [Event(data="<end>")]
    assert run([b"data: [DONE]"], sentinel=None)[0] == []


RAW = b'data: 1\n\n{\r\n  "error": {"a": 1}\r\n}\r\n\r\ndata: 2\nid: 3\n\n{"b": 2}'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("form", ["feed", "data"])
def test_json_outside_of_any_field_is_data_where_that_is_asked_for(size: int, form: str) -> None:
    found, error, pending = run(pieces(RAW, size), form, raw_json=True)
    payloads = [each.data.encode() if form == "feed" else each for each in found]
    assert payloads == [b"1", b'{\n  "error": {"a": 1}\n}', b"2", b'{"b": 2}']
    assert (error, pending) == (None, False)
    assert [event.data for event in run(pieces(RAW, size))[0]] == ["1", "2"]


def test_json_outside_of_any_field_is_bounded() -> None:
    body = b"{\n" + b"x" * 9 + b"\n" + b"x" * 9 + b"\n\n"
    assert run([body], raw_json=True, max_event_bytes=15)[1] == "too_large"


def test_json_outside_of_any_field_that_breaks_off_is_left_behind() -> None:
    assert run([b'{\n"a": '], raw_json=True) == ([], None, True)


def test_recorded_answers(shared: Path) -> None:
    """What servers have sent, cut at awkward places, is what the standard makes of the whole."""
    bodies = sorted((shared / "recordings").rglob("*.sse"))
    assert bodies
    for body in (path.read_bytes() for path in bodies):
        events = by_the_standard(body)
        assert run(pieces(body, 997))[0] == events
        assert [payload.decode("utf-8", "replace") for payload in run(pieces(body, 61), "data")[0]] == [
            event.data for event in events if event.data
        ]
