"""What splitting a body into events costs, beside the cheapest thing one can do with its bytes.

CPU time per event of :class:`pi_stream.wire.sse.SSEDecoder` over bodies as they come from providers, cut into reads of
4 and 64 kB. The floor is ``read.split(b"\\n")`` and nothing else: no carrying over, no fields, no events. All candidates
take turns in one process, and the best of the rounds counts, so the ratios hold on a busy machine too.

Run: ``python benchmarks/bench_sse.py``
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from pi_stream.wire.json import BACKEND, decode_many, use_backend
from pi_stream.wire.sse import SSEDecoder

try:
    from httpx_sse import _decoders as httpx_sse
except ImportError:
    httpx_sse = None

EVENTS = 2000
ROUNDS = 15
Reads = list[bytes]


def chunk(number: int) -> bytes:
    """A chunk of Chat Completions, 320 bytes."""
    value = {
        "id": "chatcmpl-Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9Jj",
        "object": "chat.completion.chunk",
        "created": 1760000000,
        "model": "gpt-4o-mini-2024-07-18",
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
        "choices": [
            {"index": 0, "delta": {"content": f" word{number:05}"}, "logprobs": None, "finish_reason": None}
        ],
        "usage": None,
        "obfuscation": "abcdefgh",
    }
    return json.dumps(value, separators=(",", ":")).encode()


BODIES: dict[str, bytes] = {
    "data lines": b"".join(b"data: %b\n\n" % chunk(n) for n in range(EVENTS)),
    "event and data lines": b"".join(b"event: delta\ndata: %b\n\n" % chunk(n) for n in range(EVENTS)),
    "CRLF": b"".join(b"data: %b\r\n\r\n" % chunk(n) for n in range(EVENTS)),
    "a comment each": b"".join(b": ping\n\ndata: %b\n\n" % chunk(n) for n in range(EVENTS)),
    "no space": b"".join(b"data:%b\n\n" % chunk(n) for n in range(EVENTS)),
}


def floor(reads: Reads) -> None:
    for read in reads:
        read.split(b"\n")


def feed_data(reads: Reads) -> None:
    decoder = SSEDecoder()
    for read in reads:
        decoder.feed_data(read)


def feed(reads: Reads) -> None:
    decoder = SSEDecoder()
    for read in reads:
        decoder.feed(read)


def peer(reads: Reads) -> None:
    """The decoder of httpx-sse, which takes text and lines."""
    lines, decoder = httpx_sse.SSELineDecoder(), httpx_sse.SSEDecoder()
    for read in reads:
        for line in lines.decode(read.decode()):
            decoder.decode(line)


def floor_with_json(reads: Reads) -> None:
    partial = b""
    for read in reads:
        *lines, partial = (partial + read).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                json.loads(line[5:])


def with_json(reads: Reads) -> None:
    decoder = SSEDecoder()
    for read in reads:
        decode_many(decoder.feed_data(read))


def with_standard_json(reads: Reads) -> None:
    with use_backend("json"):
        with_json(reads)


def measure(candidates: dict[str, Callable[[Reads], None]], reads: Reads) -> dict[str, float]:
    """Microseconds of CPU time per event."""
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(ROUNDS):
        for name, candidate in candidates.items():
            start = time.process_time()
            candidate(reads)
            best[name] = min(best[name], time.process_time() - start)
    return {name: seconds / EVENTS * 1e6 for name, seconds in best.items()}


def show(title: str, costs: dict[str, float]) -> None:
    """One line; the first candidate is the floor."""
    base = next(iter(costs.values()))
    cells = (f"{name} {cost:.2f} µs ({cost / base:.1f}x)" for name, cost in costs.items())
    print(f"{title:32}  " + "   ".join(cells))


def main() -> None:
    splitting: dict[str, Callable[[Reads], None]] = {"floor": floor, "feed_data": feed_data, "feed": feed}
    if hasattr(httpx_sse, "SSELineDecoder"):
        splitting["httpx-sse"] = peer
    decoding: dict[str, Callable[[Reads], None]] = {
        "floor with json.loads": floor_with_json,
        "feed_data + decode_many, json": with_standard_json,
    }
    if BACKEND == "orjson":
        decoding["orjson"] = with_json
    for size in (4096, 65536):
        for title, body in BODIES.items():
            reads = [body[at : at + size] for at in range(0, len(body), size)]
            show(f"{title}, {size // 1024} kB reads", measure(splitting, reads))
            if title == "data lines":
                show("  and the JSON", measure(decoding, reads))


if __name__ == "__main__":
    main()
