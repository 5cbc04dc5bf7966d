"""Where a stream's events come from: an HTTP exchange or a custom generator, behind one small protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from pi_stream.events import Event, Finish
from pi_stream.exceptions import ConfigError, ContextOverflowError, MissingKeyError
from pi_stream.guard import Guard
from pi_stream.messages import AssistantMessage, ErrorCause, ErrorKind

__all__ = ["FailedSource", "Source", "config_error", "observed"]

logger = logging.getLogger("pi_stream")
T = TypeVar("T")


class Source(Protocol):
    """Gives the events of one answer, a batch at a time. One reader."""

    @property
    def guard(self) -> Guard:
        """The guard that made the events."""
        ...

    @property
    def active(self) -> bool:
        """Whether something is open that must be closed: a connection, a generator."""
        ...

    async def next_batch(self) -> list[Event]:
        """Wait for the next events; an empty list after the terminal one. Raises nothing but cancellation."""
        ...

    def stop(self) -> None:
        """Give up at once; a waiting :meth:`next_batch` returns. Synchronous, idempotent."""
        ...

    async def aclose(self) -> None:
        """Close what is open. Idempotent."""
        ...


def observed(hook: Callable[[T], Any] | None) -> Callable[[T], None] | None:
    """A hook of the caller that only looks on: what it raises is logged and never reaches the stream."""
    if hook is None:
        return None

    def observe(value: T) -> None:
        try:
            hook(value)
        except Exception:
            logger.exception("the observer %r raised; the stream goes on", hook)

    return observe


def config_error(error: ConfigError) -> Finish:
    """The end of a stream that could not even begin: a missing key, an unknown provider, a missing package."""
    kind: ErrorKind = "auth" if isinstance(error, MissingKeyError) else "config"
    cause = ErrorCause(kind=kind, phase="connect", origin="caller")
    if isinstance(error, ContextOverflowError):
        cause.kind, cause.overflow = "overflow", True
    return Finish("error", str(error), cause)


class FailedSource:
    """A source whose one batch is the error that kept the request from being made."""

    active = False

    def __init__(self, head: AssistantMessage, error: ConfigError) -> None:
        self.guard = Guard(head)
        self._error = error

    async def next_batch(self) -> list[Event]:
        """The lone error, then nothing."""
        return self.guard.check([config_error(self._error)])

    def stop(self) -> None:
        """Nothing is open."""

    async def aclose(self) -> None:
        """Nothing is open."""
