"""What an import loads: the message model and the events need attrs alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "aiohttp",
    "anyio",
    "asyncio",
    "cattrs",
    "hypothesis",
    "orjson",
    "rich",
    "trio",
    "uvloop",
    "xllamacpp",
    "yarl",
}


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running ``code``."""
    script = f"{code}\nimport sys, json\nprint(json.dumps(sorted(name for name in sys.modules if '.' not in name)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import pi_stream",
        "import pi_stream; pi_stream.TextDelta, pi_stream.AssistantMessage, pi_stream.Usage, pi_stream.fold",
        "from pi_stream import TextDelta, AssistantMessage",
    ],
)
def test_messages_and_events_are_cheap_to_import(code: str) -> None:
    """Neither the HTTP client nor the converter nor an optional package is loaded before it is used."""
    assert loaded_by(code) & HEAVY - loaded_by("") == set()


def test_saving_messages_loads_no_http_client() -> None:
    """A program that only reads and writes sessions never pays for sockets."""
    loaded = loaded_by("import pi_stream; pi_stream.to_json(pi_stream.TextContent(text='hello'))")
    assert "cattrs" in loaded
    assert "aiohttp" not in loaded
