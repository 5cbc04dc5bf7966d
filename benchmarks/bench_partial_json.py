"""What a look at streamed tool-call arguments costs, per delta.

Each document comes in deltas of a fixed size and `PartialJson.value` is read after every one. A parser that
starts over at each delta gets slower with the document; here the column must stay flat from 10 kB to 1 MB.
The floor is one `json.loads` of the finished text, spread over the deltas, which is what a parser without
previews would pay.

    python benchmarks/bench_partial_json.py [--delta 50] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pi_stream.partial_json import PartialJson

SIZES = (10_000, 100_000, 1_000_000)
CODE_LINE = 'def area(r):\n\t"""Of a circle."""\n    return 3.14159 * r ** 2  # C:\\temp\n'
PROSE = "The quick brown fox jumps over the lazy dog, again and again. "


def one_long_string(size: int) -> str:
    return json.dumps({"path": "notes.txt", "content": PROSE * (size // len(PROSE))})


def escaped_code(size: int) -> str:
    return json.dumps({"path": "area.py", "content": CODE_LINE * (size // 80)})


def emoji_pairs(size: int) -> str:
    return json.dumps({"content": "ok \N{GRINNING FACE} " * (size // 16)})


def many_small_keys(size: int) -> str:
    return json.dumps({f"key{i}": i % 1000 for i in range(size // 16)})


def rows(size: int) -> str:
    row = {"id": 12345, "name": "Ada", "tags": ["x", "y"], "score": -1.5e3, "ok": True, "next": None}
    return json.dumps({"rows": [row] * (size // 95)})


def numbers(size: int) -> str:
    return json.dumps({"points": [[i % 977, i * 0.25] for i in range(size // 18)]})


def nested(size: int) -> str:
    return '{"a":' + "[" * (size - 6)


def open_number(size: int) -> str:
    return '{"a":' + "7" * (size - 5)


DOCUMENTS = (one_long_string, escaped_code, emoji_pairs, many_small_keys, rows, numbers, nested, open_number)


def cpu_seconds(work: Callable[[], object], repeat: int) -> float:
    """The best CPU time of some runs."""
    best = float("inf")
    for _ in range(repeat):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def read_every_delta(deltas: list[str]) -> None:
    parser = PartialJson()
    for delta in deltas:
        parser.append(delta)
        parser.value  # noqa: B018  (reading it is the work)


def read_once(deltas: list[str]) -> None:
    parser = PartialJson()
    for delta in deltas:
        parser.append(delta)
    parser.value  # noqa: B018


def loads_or_nothing(text: str) -> None:
    with suppress(ValueError, RecursionError):
        json.loads(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--delta", type=int, default=50, help="characters in a delta (default 50)")
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the best counts (default 3)")
    options = parser.parse_args()

    print(f"CPU microseconds per delta of {options.delta} characters")
    print(f"{'document':<16} {'size':>9}  {'every delta':>11}  {'read once':>9}  {'json.loads':>10}")
    for document in DOCUMENTS:
        for size in SIZES:
            text = document(size)
            deltas = [text[i : i + options.delta] for i in range(0, len(text), options.delta)]
            costs = [
                cpu_seconds(partial(read_every_delta, deltas), options.repeat),
                cpu_seconds(partial(read_once, deltas), options.repeat),
                cpu_seconds(partial(loads_or_nothing, text), options.repeat),
            ]
            every, once, floor = (cost / len(deltas) * 1e6 for cost in costs)
            print(f"{document.__name__:<16} {len(text):>9,}  {every:>11.2f}  {once:>9.2f}  {floor:>10.3f}")


if __name__ == "__main__":
    main()
