"""Waiting for one's turn: how many requests to a provider may run at once.

A stream that finds all places taken waits in line; the time it waited is kept with its message, in the diagnostic
``queued``. A place is held from just before the request until the stream has ended or was left, not during the wait before
a retry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, cast

import anyio
from anyio.lowlevel import EventLoopToken, current_token
from attrs import define, field

from pi_stream.engine.source import Source
from pi_stream.events import Event, Finish, Metadata
from pi_stream.guard import Guard
from pi_stream.messages import Diagnostic, ErrorCause

__all__ = ["Places", "QueuedSource", "Waited"]


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

    async def take(self) -> None:
        """Wait for a place. A wait that is cancelled takes none."""
        self._loop = current_token()
        if self._free > 0 and not self._line:
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


def _running_loop() -> EventLoopToken | None:
    try:
        return current_token()
    except RuntimeError:
        return None


@define
class Waited:
    """How long a stream has waited in line, over all its attempts."""

    seconds: float = field(default=0.0, init=False)


class QueuedSource:
    """A source that begins when there is a place for it.

    Args:
        places: The places of the provider.
        make: Makes the source, told how many seconds were used up before it begins.
        guard: The guard of the source.
        waited: The waits of earlier attempts of the same stream; this one's is added.
        elapsed: Seconds that earlier attempts took of the total limit.
        total: The total limit, which counts the wait too.
    """

    def __init__(
        self,
        places: Places,
        make: Callable[[float], Source],
        guard: Guard,
        *,
        waited: Waited,
        elapsed: float = 0.0,
        total: float | None = None,
    ) -> None:
        self.guard = guard
        guard.phase = "connect"
        self._places = places
        self._make = make
        self._waited = waited
        self._elapsed = elapsed
        self._total = inf if total is None else total
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
            if self.guard.finished or self._stopped:
                return []
            events = await self._begin()
            if self._source is None:
                return events
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

    async def _begin(self) -> list[Event]:
        """Wait in line, and make the source. Gives events only when the total limit passes."""
        begun = anyio.current_time()
        with anyio.CancelScope(deadline=begun + self._total - self._elapsed) as self._waiting:
            await self._places.take()
            self._holds = True
        self._waiting = None
        waited = anyio.current_time() - begun
        if self._stopped:
            self._let_go()
            return []
        if not self._holds:
            words = f"no turn among {self._places.limit} requests at once within the total of {self._total:g} s"
            cause = ErrorCause(kind="timeout_total", phase="connect", origin="limit", retryable=True)
            return self.guard.check([Finish("error", words, cause)])
        self._waited.seconds += waited
        self._note()
        self._source = self._make(self._elapsed + waited)
        return []

    def _note(self) -> None:
        """Keep the figure with the message, if there is one to speak of."""
        wait_ms = round(self._waited.seconds * 1000)
        if wait_ms > 0:
            details = {"waitMs": wait_ms, "limit": self._places.limit}
            timestamp = self.guard.message.timestamp
            self.guard.check([Metadata(diagnostic=Diagnostic(type="queued", timestamp=timestamp, details=details))])

    def _let_go(self) -> None:
        if self._holds:
            self._holds = False
            self._places.give_back()
