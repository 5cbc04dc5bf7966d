"""Writes docs/reference/faults.md from the torture set and the fault matrix: ``python tests/fault_page.py``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from pi_stream.testing.fault_matrix import CONSUMERS, ROWS, Row
from pi_stream.testing.faults import FAULTS, Consumer, Outcome
from pi_stream.testing.wires import WIRES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "faults.md"

HEAD = """\
# Faults, and what comes of them

This page is made by `python tests/fault_page.py` from what the tests run; a test keeps it up to date.

Two things are tested on every api: what a server can do to a connection, times what a reader can do (the matrix), and what
servers were seen to send (the torture set). Both are plain data in `pi_stream.testing`, for any client to run:
`fault_matrix.ROWS`, `faults.FAULTS`, and `FaultServer` of `fault_server`, which plays them on a socket.

An outcome is the stop reason of a success, or the kind of the error; what came before an error is kept. Truncation is never
success, and nothing waits for longer than a limit: see [Limit time](../howto/limit-time.md) and [Errors](errors.md).
"""

MATRIX = """
## The matrix

Each cell runs over a real socket, and ends by itself. It leaves no socket, no task, no timer and no warning, also on uvloop.
The readers: one who reads to the end, one who leaves the loop at the first piece of text, one whose stream is aborted by another
task, one whose task is cancelled; the last two at the first piece of text, or when the server has stopped sending. `=` means the
same as for who reads to the end, since the answer is over before the reader goes.
"""

SET = """
## The torture set

Each case runs whole and cut: at every byte up to 2 kB, else around the end of every line; those of connection, time or reader run
over a real socket. The numbers are those of the kinds of faults that were seen in the field.
"""


def page() -> str:
    """The page."""
    return "".join([HEAD, MATRIX, "\n", *matrix(), SET, "\n", *torture_set()])


def matrix() -> Iterable[str]:
    yield "| the server | read to the end | leave | abort | cancel |\n|---|---|---|---|---|\n"
    for row in ROWS:
        cells = [told(row, consumer) for consumer in CONSUMERS]
        shown = [cells[0], *("=" if cell == cells[0] else cell for cell in cells[1:])]
        yield f"| {row.name} | {' | '.join(shown)} |\n"


def told(row: Row, consumer: Consumer) -> str:
    """The outcome of a cell; where apis differ, the most common one first."""
    apis = defaultdict(list)
    for wire in WIRES.values():
        apis[outcome(row.case(wire, consumer).expect)].append(wire.api)
    usual, *others = sorted(apis, key=lambda each: -len(apis[each]))
    return "; ".join([usual, *(f"{other} ({', '.join(apis[other])})" for other in others)])


def outcome(expect: Outcome) -> str:
    return f"`{expect.stop if expect.kind in (None, 'cancelled') else expect.kind}`"


def torture_set() -> Iterable[str]:
    yield "| | the server | apis | outcome |\n|---|---|---|---|\n"
    cases = defaultdict(list)
    for fault in FAULTS:
        cases[fault.id, fault.name, outcome(fault.expect)].append(fault.api)
    for id, name, result in sorted(cases, key=lambda case: case[0]):
        apis = cases[id, name, result]
        yield f"| {id} | {name} | {listed(apis)} | {result} |\n"


def listed(apis: list[str]) -> str:
    missing = [api for api in WIRES if api not in apis]
    if not missing:
        return "all"
    return f"all but {', '.join(missing)}" if len(missing) <= 5 else ", ".join(apis)


if __name__ == "__main__":
    PAGE.write_text(page())
    print("".join(matrix()))
