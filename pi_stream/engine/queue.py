"""Waiting for one's turn: how many requests to a provider may run at once.

A stream that finds all places taken waits in line; the time it waited is kept with its message, in the diagnostic
``queued``. A place is held from just before the request until the stream has ended or was left, not during the wait before
a retry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, cast

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from pi_stream.engine.source import Source
from pi_stream.events import Event, Finish, Metadata
from pi_stream.exceptions import ConfigError
from pi_stream.guard import Guard
from pi_stream.messages import Diagnostic, ErrorCause

__all__ = ["Concurrency", "Line", "Places", "QueuedSource"]


class Concurrency:
    """How many requests to each provider may run at once.

    Args:
        limits: One number for each provider, numbers by provider id, or None for no limit.

    Raises:
        ConfigError: A number is no whole number above 0.
    """

    def __init__(self, limits: int | Mapping[str, int] | None = None) -> None:
        for limit in limits.values() if isinstance(limits, Mapping) else [limits]:
            wrong = not isinstance(limit, int) or isinstance(limit, bool) or limit < 1
            if wrong and limits is not None:
                raise ConfigError(f"concurrency must be a whole number above 0, not {limit!r}")
        self._limits = limits
        self._places: dict[str, Places] = {}

    def line(self, provider: str, total: float | None) -> Line:
        """The line of a provider for one stream.

        Args:
            provider: Id of the provider.
            total: The total limit of the stream, which counts the wait too.
        """
        limit = self._limits.get(provider) if isinstance(self._limits, Mapping) else self._limits
        if limit is None:
            return Line(None, total)
        if provider not in self._places:
            self._places[provider] = Places(limit)
        return Line(self._places[provider], total)


class Line:
    """The line before a provider, as one stream sees it.

    Attributes:
        waited: Seconds the stream has waited in it, over all its attempts.
    """

    def __init__(self, places: Places | None, total: float | None) -> None:
        self.places = places
        self.total = inf if total is None else total
        self.waited = 0.0

    def join(self, guard: Guard, make: Callable[[float], Source], elapsed: float = 0.0) -> Source:
        """A source that begins when there is a place for it; without a limit the source itself.

        Args:
            guard: The guard of the source.
            make: Makes the source, told how many seconds were used up before it begins.
            elapsed: Seconds that earlier attempts took.
        """
        return make(elapsed) if self.places is None else QueuedSource(self, self.places, guard, make, elapsed)


class Places:
    """The places of one provider, given out in the order they are asked for. Belongs to the loop that uses it.

    Args:
        limit: How many there are.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free = limit
        self._line: deque[anyio.Event] = deque()
        self._loop: EventLoopToken | None = None

    @property
    def free(self) -> int:
        """How many nobody holds; while there are any, nobody is in line."""
        return self._free

    async def take(self) -> None:
        """Wait for a place, unless one is free. A wait that is cancelled takes none."""
        self._loop = current_token()
        if self._free > 0:
            self._free -= 1
            return
        turn = anyio.Event()
        self._line.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._give_back()  # it came together with the cancellation
            else:
                self._line.remove(turn)
            raise

    def give_back(self) -> None:
        """Let the next in line have the place. Also from another thread, where a collector may drop a stream."""
        if self._loop is None or self._loop == _running_loop():
            self._give_back()
            return
        native = cast(Any, self._loop.native_token)
        soon = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon
        try:
            soon(self._give_back)
        except RuntimeError:  # that loop is gone, and everybody in it
            self._give_back()

    def _give_back(self) -> None:
        if self._line:
            self._line.popleft().set()
        else:
            self._free += 1


class QueuedSource:
    """A source that begins when there is a place for it. Made by :meth:`Line.join`."""

    def __init__(
        self, line: Line, places: Places, guard: Guard, make: Callable[[float], Source], elapsed: float
    ) -> None:
        self.guard = guard
        guard.phase = "connect"
        self._line = line
        self._places = places
        self._make = make
        self._elapsed = elapsed
        self._source: Source | None = None
        self._waiting: anyio.CancelScope | None = None
        self._holds = False
        self._stopped = False

    @property
    def active(self) -> bool:
        """Whether a place is taken or waited for, or the source holds something open."""
        return self._holds or self._waiting is not None or (self._source is not None and self._source.active)

    async def next_batch(self) -> list[Event]:
        """The events of the source, once it has its place."""
        if self._source is None:
            if self._stopped or self.guard.finished:
                return []
            if not await self._take():
                return [] if self._stopped else self._expired()
            self._source = self._make(self._elapsed)
        events = await self._source.next_batch()
        if self.guard.finished:
            self._let_go()
        return events

    def stop(self) -> None:
        """Leave the line, or stop the source; the place is free at once."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._source is not None:
            self._source.stop()
        self._let_go()

    async def aclose(self) -> None:
        """Close the source. Its place is free when it is closed."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()
        try:
            if self._source is not None:
                await self._source.aclose()
        finally:
            self._let_go()

    async def _take(self) -> bool:
        """Wait in line if need be; returns whether there is a place now."""
        if self._places.free:
            await self._places.take()
            self._holds = True
        else:
            await self._wait()
        if self._line.waited:
            details = {"waitMs": round(self._line.waited * 1000), "limit": self._places.limit}
            timestamp = self.guard.message.timestamp
            self.guard.check(
                [Metadata(diagnostic=Diagnostic(type="queued", timestamp=timestamp, details=details))]
            )
        if self._stopped:
            self._let_go()
        return self._holds

    async def _wait(self) -> None:
        begun = anyio.current_time()
        try:
            with anyio.CancelScope(deadline=begun + self._line.total - self._elapsed) as self._waiting:
                await self._places.take()
                self._holds = True
        finally:
            self._waiting = None
        waited = anyio.current_time() - begun
        self._elapsed += waited
        self._line.waited += waited

    def _expired(self) -> list[Event]:
        words = (
            f"no turn among {self._places.limit} requests at once within the total of {self._line.total:g} s"
        )
        cause = ErrorCause(kind="timeout_total", phase="connect", origin="limit", retryable=True)
        return self.guard.check([Finish("error", words, cause)])

    def _let_go(self) -> None:
        if self._holds:
            self._holds = False
            self._places.give_back()


def _running_loop() -> EventLoopToken | None:
    try:
        return current_token()
    except RuntimeError:
        return None
