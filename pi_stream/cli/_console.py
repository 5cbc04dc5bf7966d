"""What the commands share: exit codes, and how they read and write."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from pathlib import Path
from typing import Final, TypeAlias

from pi_stream.exceptions import ConfigError

__all__ = [
    "BROKEN_PIPE",
    "FAILED",
    "INTERRUPTED",
    "MISUSE",
    "OK",
    "Commands",
    "note",
    "read_input",
    "replace_unprintable",
    "silence_stdout",
    "use_utf8",
    "visible",
]

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # pyright: ignore[reportPrivateUsage]
"""Where a command is added."""

OK: Final = 0
FAILED: Final = 1
MISUSE: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT and 128 + SIGPIPE, as shells report them
BROKEN_PIPE: Final = 141

# Everything a terminal may obey, save tab and line feed. A model's answer must not move the cursor, set the clipboard
# or retitle the window.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """The text with control characters shown as U+FFFD, and without carriage returns, fit for a terminal."""
    return _CONTROLS.sub("\ufffd", text.replace("\r", ""))


def note(text: str) -> None:
    """Say something beside the output, on stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def use_utf8() -> None:
    """Write UTF-8 with plain line feeds to stdout, whatever the locale or the system: for output that programs read."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")


def replace_unprintable() -> None:
    """Have stdout write a question mark for what its encoding lacks: for output that people read."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def silence_stdout() -> None:
    """Send what is left for a broken stdout to nowhere, so that the interpreter's last flush does not complain."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError):
        return  # not a file: nothing will be flushed
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def read_input(name: str) -> bytes:
    """The bytes of a file; of standard input for ``-``.

    Raises:
        ConfigError: It cannot be read.
    """
    if name == "-" and sys.stdin is None:
        raise ConfigError("standard input is closed")
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {name}: {error.strerror}") from None
