"""A slow reader stops the reading: what a server pushes stays in the sockets, and no limit but the total is met.

The reader is a process of its own: `tests/pressure.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pressure import GIGABYTE, pushing

PROGRAM = Path(__file__).parents[1] / "pressure.py"
pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="the peak of memory is told by /proc"
)


def check(seconds: float, pulls: int, text_size: int) -> None:
    with pushing(text_size) as (port, written):
        command = [sys.executable, "-W", "error", PROGRAM, str(port), str(seconds), str(pulls)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        report = json.loads(result.stdout)
        pushed = max(written)
    print(report, pushed)
    assert set(report["kinds"]) <= {"metadata", "text_start", "text_delta"}
    assert (report["stop"], report["late"]) == ("aborted", "timeout_total")
    assert report["grown"] < 2 * 2**20
    assert pushed < GIGABYTE / 10, "the server got rid of far more than sockets hold"


@pytest.mark.parametrize("text_size", [20, 20_000])
def test_a_reader_who_sleeps_between_pulls(text_size: int) -> None:
    """Small events, many to a read, and events that take a read each."""
    check(0.6, 5, text_size)


@pytest.mark.long
@pytest.mark.parametrize("text_size", [20, 20_000])
def test_a_reader_who_sleeps_ten_seconds(text_size: int) -> None:
    """The same with ten seconds, longer than any socket or server would be patient by chance."""
    check(10, 6, text_size)
