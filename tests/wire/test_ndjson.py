"""The NDJSON decoder: lines, however the bytes are cut, within bounds."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.exceptions import DecodeError
from pi_stream.wire.ndjson import NDJSONDecoder


def pieces(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def run(reads: list[bytes], limit: int = 1000) -> tuple[list[bytes], str | None, bool]:
    """Everything a decoder gives for a body, the kind of its error, and whether something was left behind."""
    decoder = NDJSONDecoder(limit)
    found: list[bytes] = []
    try:
        for read in reads:
            found += decoder.feed_data(read)
        found += decoder.close_data()
    except DecodeError as error:
        return found, error.kind, False
    return found, None, decoder.pending


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    ("body", "payloads", "pending"),
    [
        (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}'], False),
        (b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}'], False),
        (b'\n\r\n \t\n{"a":1}\n\n', [b'{"a":1}'], False),
        (b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}'], False),
        (b'{"a":1}\n{"b":2} \r', [b'{"a":1}', b'{"b":2}'], False),
        (b'{"a":1}\n{"b":2', [b'{"a":1}'], True),
        (b"1\n2", [b"1"], True),
        (b"not JSON\n{}\n", [b"not JSON", b"{}"], False),
        ('{"a":"\u2028\x85\x0b\x0c😀"}\n'.encode(), ['{"a":"\u2028\x85\x0b\x0c😀"}'.encode()], False),
        (b'{"a"\r:1}\n', [b'{"a"\r:1}'], False),
        (b"", [], False),
        (b" \r\n ", [], False),
    ],
)
def test_lines(body: bytes, payloads: list[bytes], pending: bool, size: int) -> None:
    assert run(pieces(body, size)) == (payloads, None, pending)


bodies = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"{}", b'{"a":1}', b"[", b"12", b"\xe2\x80\xa8"])
    | st.binary(max_size=5)
).map(b"".join)
places = st.lists(st.integers(0, 1000), max_size=8)


@given(bodies, places)
def test_any_cut_gives_the_lines_of_the_whole(body: bytes, where: list[int]) -> None:
    *lines, last = (line.strip(b" \t\r") for line in body.split(b"\n"))
    payloads, error, pending = run(cut(body, where))
    assert error is None
    assert payloads in ([*filter(None, lines)], [*filter(None, [*lines, last])])
    assert (payloads, error, pending) == run([body])


@given(bodies, places, st.integers(1, 10))
def test_any_cut_meets_the_limit_at_the_same_place(body: bytes, where: list[int], limit: int) -> None:
    whole = run([body], limit)
    assert run(cut(body, where), limit) == whole
    assert run(pieces(body, 1), limit) == whole
    assert all(len(line) <= limit for line in whole[0])


@pytest.mark.parametrize("size", [1, 50, 1000])
def test_a_too_large_line_loses_nothing_before_it_and_is_a_named_error(size: int) -> None:
    decoder = NDJSONDecoder(max_line_bytes=100)
    reads = iter([*pieces(b"{}\n[]\n" + b"x" * 200 + b"\n{}\n", size), b""])
    payloads: list[bytes] = []
    with pytest.raises(DecodeError, match=r"larger than 100 bytes.*max_line_bytes") as caught:
        payloads.extend(payload for read in reads for payload in decoder.feed_data(read))
    assert payloads == [b"{}", b"[]"]
    assert caught.value.kind == "too_large"
    with pytest.raises(DecodeError):
        decoder.close_data()


def test_a_very_long_line_in_small_reads_is_one_payload() -> None:
    """Takes minutes if the decoder looks at the whole line with every read."""
    decoder = NDJSONDecoder()
    text = b"x" * 16_000_000
    assert [p for read in pieces(text + b"\n", 400) for p in decoder.feed_data(read)] == [text]
