"""A switch for tests: retries without their waits."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio.lowlevel

from pi_stream.engine import retry

__all__ = ["without_waits"]


@contextmanager
def without_waits() -> Generator[list[float]]:
    """Let retries happen at once inside a ``with`` block, for the whole process.

    Yields:
        The seconds that would have been waited, as they are asked for.
    """
    asked: list[float] = []

    async def record(seconds: float) -> None:
        asked.append(seconds)
        await anyio.lowlevel.checkpoint()

    before = retry.wait
    retry.wait = record
    try:
        yield asked
    finally:
        retry.wait = before
