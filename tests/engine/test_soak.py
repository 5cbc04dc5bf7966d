"""A thousand streams at once for two minutes (``SOAK`` seconds), five of a hundred faulty, one in five left early.

Server and client are processes of their own: `tests/soak.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak.py"
SECONDS = float(os.environ.get("SOAK", "120"))


@pytest.mark.long
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="measuring memory needs /proc")
def test_a_thousand_streams_at_once() -> None:
    """Each ends once and as it was asked to, the totals add up, and the memory is given back."""
    server = subprocess.Popen([sys.executable, SOAK, "server"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        command = [sys.executable, "-W", "error", SOAK, "client", port, str(SECONDS)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 300, check=False)
        assert result.returncode == 0, result.stderr
        assert not result.stderr
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        served = {"open": 1}
        give_up = time.monotonic() + 30
        while (
            served["open"] and time.monotonic() < give_up
        ):  # a server notices that a client is gone when it writes
            time.sleep(0.1)
            with opener.open(f"http://127.0.0.1:{port}/") as answer:
                served = json.load(answer)
    finally:
        server.kill()
        server.communicate()
    report = json.loads(result.stdout)
    print(report)
    assert not report["wrong"]
    assert sum(report["outcomes"].values()) == report["streams"] >= 1000
    assert set(report["outcomes"]) == {"stop", "aborted", "error"}
    assert (served["requests"], served["open"]) == (report["sent"], 0)
    assert report["sent"] > report["streams"]  # those that were sent away came again
    assert (report["tasks"], report["alive"]) == (0, [])
    before, after = report["memory"]
    assert after < 1.1 * before
