"""Trying again: only while nothing was handed out, so that it is invisible but for its time.

A failed attempt is a lone ``error`` event with a retryable cause. The waits grow exponentially with full jitter; a wait
the provider asks for is obeyed up to a cap, and beyond it the request fails at once.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable

import anyio

from pi_stream.engine.source import Source
from pi_stream.events import Error, Event, Retry
from pi_stream.guard import Guard
from pi_stream.messages import AssistantMessage, ErrorCause
from pi_stream.options import RetryPolicy

__all__ = ["RetryingSource", "retry_delay"]

logger = logging.getLogger("pi_stream")


def retry_delay(policy: RetryPolicy, attempt: int, retry_after_ms: int | None, chance: float) -> float | None:
    """How long to wait before the next attempt.

    Args:
        policy: The caller's policy.
        attempt: How many attempts have failed, from 1.
        retry_after_ms: What the provider asks for, in ms.
        chance: A random number from 0 to 1: full jitter.

    Returns:
        Seconds, or None if the provider asks for more than the policy allows.
    """
    if retry_after_ms is not None:
        seconds = retry_after_ms / 1000
        return seconds if seconds <= policy.max_delay else None
    return min(policy.max_delay, policy.base_delay * 2.0 ** min(attempt - 1, 60)) * chance


class RetryingSource:
    """A source that begins anew while its attempts fail before anything was handed out.

    Args:
        make: Makes the source of one attempt, told how many seconds the earlier ones took.
        policy: When to try again.
        total: Most seconds for all attempts together.
        notices: Whether the consumer sees a ``retry`` event before each wait.
    """

    def __init__(
        self,
        make: Callable[[float], Source],
        policy: RetryPolicy,
        *,
        total: float | None = None,
        notices: bool = False,
    ) -> None:
        self._make = make
        self._policy = policy
        self._total = total
        self._started: float | None = None
        self._notices = notices
        self._source = make(0.0)
        self._failed = 0
        self._wait: float | None = None
        self._waiting: anyio.CancelScope | None = None
        self._stopped = False

    @property
    def guard(self) -> Guard:
        """The guard of the current attempt."""
        return self._source.guard

    @property
    def active(self) -> bool:
        """Whether the current attempt holds a connection."""
        return self._source.active

    async def next_batch(self) -> list[Event]:
        """The events of the first attempt that gives any that count."""
        if self._started is None:
            self._started = time.monotonic()
        while not self._stopped:
            if self._wait is not None:
                await self._pause(self._wait)
                continue
            events = await self._source.next_batch()
            last = events[-1] if events else None
            if not isinstance(last, Error) or self._source.guard.started or self._stopped:
                return events
            retry = self._plan(last.error)
            if retry is None:
                return events
            if self._notices:
                return [retry]
        return []

    def stop(self) -> None:
        """Give up at once, also amid a wait."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()
        self._source.stop()

    async def aclose(self) -> None:
        """Close what is open."""
        self.stop()
        await self._source.aclose()

    def _plan(self, failed: AssistantMessage) -> Retry | None:
        """What to do about a failed attempt: wait and try again, or None to let it stand."""
        cause = failed.error_cause
        if cause is None or not cause.retryable or self._failed >= self._policy.max_retries:
            return None
        delay = retry_delay(self._policy, self._failed + 1, cause.retry_after_ms, random.random())
        if delay is None:
            _refuse_wait(failed, cause, self._policy)
            return None
        if self._total is not None and self._elapsed() + delay >= self._total:
            return None
        self._failed += 1
        self._wait = delay
        logger.debug("attempt %d failed (%s), next in %.2f s", self._failed, cause.kind, delay)
        return Retry(self._failed, round(delay * 1000), failed)

    def _elapsed(self) -> float:
        return 0.0 if self._started is None else time.monotonic() - self._started

    async def _pause(self, seconds: float) -> None:
        with anyio.CancelScope() as self._waiting:
            await wait(seconds)
        self._waiting = None
        self._wait = None
        if not self._stopped:
            self._source = self._make(self._elapsed())


def _refuse_wait(failed: AssistantMessage, cause: ErrorCause, policy: RetryPolicy) -> None:
    asked = (cause.retry_after_ms or 0) / 1000
    failed.error_message = (
        f"{failed.error_message} (the provider asks to wait {asked:g} s, more than the {policy.max_delay:g} s "
        "that retries.max_delay allows)"
    )


async def wait(seconds: float) -> None:
    """The wait between attempts; ``pi_stream.testing.without_waits`` replaces it."""
    await anyio.sleep(seconds)
