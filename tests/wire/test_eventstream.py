"""AWS event-stream frames: both directions, checksums, cuts, bounds, and botocore as the judge."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any
from uuid import UUID
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.exceptions import DecodeError
from pi_stream.wire.eventstream import EventStreamChunks, EventStreamDecoder, Frame, encode_frame

EVENT = {":message-type": "event", ":event-type": "contentBlockDelta", ":content-type": "application/json"}
PAYLOAD = json.dumps({"contentBlockIndex": 0, "delta": {"text": "é😀"}}, ensure_ascii=False).encode()

needs_botocore = pytest.mark.skipif(
    find_spec("botocore") is None, reason="botocore is not installed: no second opinion"
)

header_values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=20),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.uuids(),
)
header_maps = st.dictionaries(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), header_values, max_size=5
)
frames = st.lists(st.builds(Frame, header_maps, st.binary(max_size=40)), max_size=5)
places = st.lists(st.integers(0, 10_000), max_size=8)


def pieces(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def cut(body: bytes, where: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in where), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def run(reads: list[bytes], limit: int = 10_000) -> tuple[list[Frame], str | None, bool]:
    """Everything a decoder gives for a body, its error, and whether something was left behind."""
    decoder = EventStreamDecoder(limit)
    found: list[Frame] = []
    try:
        for read in reads:
            found += decoder.feed(read)
        found += decoder.close()
    except DecodeError as error:
        return found, f"{error.kind}: {error}", False
    return found, None, decoder.pending


def frame_with(headers: bytes, payload: bytes = b"{}") -> bytes:
    """A frame with right checksums and any headers."""
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    frame = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return frame + struct.pack(">I", crc32(frame))


def test_the_smallest_frame_has_known_bytes() -> None:
    """From the test suite of the protocol: an empty message."""
    assert encode_frame({}).hex() == "000000100000000005c248eb7d98c8ff"


@given(frames, places)
def test_frames_come_back_however_they_are_cut(sent: list[Frame], where: list[int]) -> None:
    body = b"".join(encode_frame(frame.headers, frame.payload) for frame in sent)
    found, error, pending = run(cut(body, where))
    assert (found, error, pending) == (sent, None, False)
    assert [*map(type, (v for f in found for v in f.headers.values()))] == [
        *map(type, (v for f in sent for v in f.headers.values()))
    ]


@given(frames, places)
def test_a_cut_body_gives_whole_frames_and_says_that_bytes_are_left(
    sent: list[Frame], where: list[int]
) -> None:
    encoded = [encode_frame(frame.headers, frame.payload) for frame in sent]
    end = (where or [0])[0] % (len(b"".join(encoded)) + 1)
    whole = 0
    while len(b"".join(encoded[: whole + 1])) <= end and whole < len(encoded):
        whole += 1
    left = end > len(b"".join(encoded[:whole]))
    assert run(pieces(b"".join(encoded)[:end], 5)) == (sent[:whole], None, left)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_every_wrong_byte_is_an_error_and_loses_nothing_before_it(size: int) -> None:
    good = encode_frame(EVENT, PAYLOAD)
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 0x41
        found, error, _ = run(pieces(good + bad + good, size))
        assert found == [Frame(dict(EVENT), PAYLOAD)]
        assert error is not None
        assert error.startswith("malformed: ")


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        (b"\x01a\x00", True),
        (b"\x01a\x01", False),
        (b"\x01a\x02\xff", -1),
        (b"\x01a\x03\xff\xfe", -2),
        (b"\x01a\x04\x00\x00\x01\x00", 256),
        (b"\x01a\x05" + b"\xff" * 7 + b"\xfd", -3),
        (b"\x01a\x06\x00\x02\xff\x00", b"\xff\x00"),
        (b"\x01a\x07\x00\x02\xc3\xa9", "é"),
        (b"\x01a\x08\x00\x00\x01\x00\x00\x00\x00\x00", 1 << 40),
        (b"\x01a\x09" + bytes(range(16)), UUID(bytes=bytes(range(16)))),
    ],
)
def test_every_type_of_header(headers: bytes, value: Any) -> None:
    [frame] = EventStreamDecoder().feed(frame_with(headers))
    assert frame.headers == {"a": value}
    assert type(frame.headers["a"]) is type(value)
    assert frame.payload == b"{}"


MALFORMED_HEADERS = {
    "no name": b"\x01",
    "name cut": b"\x05a",
    "no type": b"\x01a",
    "unknown type": b"\x01a\x0a",
    "number cut": b"\x01a\x04\x00",
    "no length": b"\x01a\x07",
    "length cut": b"\x01a\x07\x00",
    "text cut": b"\x01a\x07\x00\x05ab",
    "uuid cut": b"\x01a\x09ab",
    "name not UTF-8": b"\x01\xff\x00",
    "text not UTF-8": b"\x01a\x07\x00\x01\xff",
    "name twice": b"\x01a\x00\x01a\x01",
}


@pytest.mark.parametrize("headers", MALFORMED_HEADERS.values(), ids=MALFORMED_HEADERS)
def test_malformed_headers(headers: bytes) -> None:
    with pytest.raises(DecodeError, match="header") as caught:
        EventStreamDecoder().feed(frame_with(headers))
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize(("total", "headers"), [(0, 0), (15, 0), (16, 1), (100, 2**32 - 1)])
def test_impossible_lengths(total: int, headers: int) -> None:
    prelude = struct.pack(">II", total, headers)
    with pytest.raises(DecodeError, match="cannot have") as caught:
        EventStreamDecoder().feed(prelude + struct.pack(">I", crc32(prelude)))
    assert caught.value.kind == "malformed"


def test_a_body_of_another_kind_is_named_by_its_first_bytes() -> None:
    with pytest.raises(DecodeError, match="<html><head>"):
        EventStreamDecoder().feed(b"<html><head><title>")


@pytest.mark.parametrize("size", [1, 1000])
def test_a_too_large_frame_is_refused_before_it_is_buffered(size: int) -> None:
    good = encode_frame(EVENT, PAYLOAD)
    found, error, _ = run(pieces(good + encode_frame(EVENT, b"x" * 1000)[:12], size), limit=len(good))
    assert found == [Frame(dict(EVENT), PAYLOAD)]
    assert error is not None
    assert error.startswith("too_large: ")
    assert "max_frame_bytes" in error
    assert f"{len(good)} bytes" in error


@given(st.binary(max_size=100), places)
def test_arbitrary_bytes_give_an_error_or_nothing(body: bytes, where: list[int]) -> None:
    assert run(cut(body, where)) == run([body])


@given(st.binary(max_size=40))
def test_arbitrary_headers_give_an_error_or_a_frame(headers: bytes) -> None:
    found, error, _ = run([frame_with(headers)])
    assert len(found) + (error is not None) == 1


def test_a_large_frame_in_small_reads_is_one_frame() -> None:
    """Takes minutes if the decoder looks at the whole frame with every read."""
    decoder = EventStreamDecoder()
    payload = b"x" * 16_000_000
    reads = pieces(encode_frame(EVENT, payload), 400)
    assert [f for read in reads for f in decoder.feed(read)] == [Frame(dict(EVENT), payload)]


@pytest.mark.parametrize(
    "headers",
    [{"x" * 256: 1}, {"a": "x" * 65536}, {"a": b"x" * 65536}, {"a": 2**63}],
    ids=["name", "text", "bytes", "int"],
)
def test_headers_that_do_not_fit_are_refused(headers: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="too large"):
        encode_frame(headers)


def botocore_reads(body: bytes) -> list[tuple[dict[str, Any], bytes]]:
    from botocore.eventstream import EventStreamBuffer

    buffer = EventStreamBuffer()
    buffer.add_data(body)
    return [(message.headers, message.payload) for message in buffer]


@needs_botocore
@given(frames)
def test_botocore_reads_our_frames(sent: list[Frame]) -> None:
    body = b"".join(encode_frame(frame.headers, frame.payload) for frame in sent)
    plain: Callable[[Any], Any] = lambda value: value.bytes if isinstance(value, UUID) else value  # noqa: E731
    assert botocore_reads(body) == [({k: plain(v) for k, v in f.headers.items()}, f.payload) for f in sent]


@needs_botocore
@given(st.binary(max_size=30), st.binary(max_size=10))
def test_we_refuse_what_botocore_refuses(headers: bytes, payload: bytes) -> None:
    body = frame_with(headers, payload)
    found, error, _ = run([body])
    try:
        theirs = botocore_reads(body)
    except Exception:
        assert error is not None
    else:
        # botocore takes a value that is cut off by the end of the headers; we do not.
        assert error is not None or [f.payload for f in found] == [payload for _, payload in theirs]


# --- chunks: what the frames say --------------------------------------------------------------------------------------


def chunks(body: bytes, size: int | None = None) -> list[Any]:
    decoder = EventStreamChunks()
    reads = pieces(body, size) if size else [body]
    payloads = [payload for read in reads for payload in decoder.feed_data(read)]
    return [json.loads(payload) for payload in payloads + decoder.close_data()]


@pytest.mark.parametrize("size", [None, 1, 7])
def test_events_are_chunks_under_their_type(size: int | None) -> None:
    body = encode_frame(EVENT, PAYLOAD) + encode_frame({":event-type": 'a"b'}) + encode_frame({}, b"[1]")
    assert chunks(body, size) == [{"contentBlockDelta": json.loads(PAYLOAD)}, {'a"b': {}}, {"": [1]}]


@pytest.mark.parametrize(
    ("headers", "payload", "expected"),
    [
        (
            {":message-type": "exception", ":exception-type": "throttlingException"},
            b'{"message": "slow", "originalStatusCode": 429, "type": "other", "deep": {"a": 1}}',
            {"type": "throttlingException", "message": "slow", "originalStatusCode": 429},
        ),
        ({":exception-type": "gone"}, b"plain words", {"type": "gone", "message": "plain words"}),
        (
            {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "oops"},
            b"",
            {"type": "InternalFailure", "message": "oops"},
        ),
        ({":message-type": "exception"}, b"\xff", {"type": "exception", "message": "\ufffd"}),
        ({":message-type": "error", ":error-code": 5}, b"", {"type": "exception"}),
    ],
)
def test_what_went_wrong_is_an_exception(headers: Any, payload: bytes, expected: Any) -> None:
    assert chunks(encode_frame(headers, payload)) == [{"exception": expected}]


def test_a_broken_frame_is_an_error_after_the_chunks_before_it() -> None:
    decoder = EventStreamChunks()
    broken = bytearray(encode_frame(EVENT, PAYLOAD))
    broken[-1] ^= 1
    assert len(decoder.feed_data(encode_frame(EVENT, PAYLOAD) + bytes(broken))) == 1
    with pytest.raises(DecodeError, match="checksum"):
        decoder.close_data()


def test_the_bound_holds_for_chunks_and_half_a_frame_is_pending() -> None:
    with pytest.raises(DecodeError, match="larger than 20 bytes"):
        EventStreamChunks(20).feed_data(encode_frame(EVENT, PAYLOAD))
    decoder = EventStreamChunks()
    assert decoder.feed_data(encode_frame(EVENT, PAYLOAD)[:30]) == []
    assert decoder.close_data() == []
    assert decoder.pending


@given(frames)
def test_any_frames_give_json_that_can_be_encoded_again(frames: list[Frame]) -> None:
    decoder = EventStreamChunks()
    for frame in frames:
        for payload in decoder.feed_data(encode_frame(frame.headers, b'{"a": 1}')):
            assert len(json.loads(payload)) == 1
