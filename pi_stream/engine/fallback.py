"""Falling back: a list of models, tried in order.

Before anything was handed out a failed model is replaced invisibly (but for a ``fallback`` notice, for those who ask).
After content the stream fails, unless the caller chose ``restart``: then a ``restart`` event tells that the message
begins anew with the next model. Nothing that was handed out is ever replayed in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pi_stream.engine.source import Source
from pi_stream.events import Error, Event, Fallback, Restart
from pi_stream.guard import Guard
from pi_stream.messages import AssistantMessage, Diagnostic
from pi_stream.reducer import adopt
from pi_stream.serialization import to_json

__all__ = ["Candidate", "FallbackSource"]

logger = logging.getLogger("pi_stream")

Candidate = Callable[[Sequence[Diagnostic]], tuple[Source, AssistantMessage]]
"""Makes the source of one model and the head of its message, with diagnostics that the message begins with."""


class FallbackSource:
    """A source that goes on with the next model when one fails.

    Args:
        candidates: One for each model, in order; not empty.
        restart: Whether a failure after content begins anew instead of ending the stream.
        notices: Whether the consumer sees a ``fallback`` event when a model is replaced before content.
    """

    def __init__(self, candidates: Sequence[Candidate], *, restart: bool, notices: bool) -> None:
        self._candidates = list(candidates)
        self._restart = restart
        self._notices = notices
        self._position = 0
        self._source, self._head = self._candidates[0](())
        self._failures: list[Diagnostic] = []
        self._stopped = False

    @property
    def guard(self) -> Guard:
        """The guard of the current model's events."""
        return self._source.guard

    @property
    def active(self) -> bool:
        """Whether the current model's source holds something open."""
        return self._source.active

    async def next_batch(self) -> list[Event]:
        """The next events of the model that answers."""
        while not self._stopped:
            events = await self._source.next_batch()
            last = events[-1] if events else None
            if not isinstance(last, Error) or not self._may_replace(last):
                return events
            begun = len(events) > 1 or self._source.guard.started
            failed = last.error
            await self._source.aclose()
            self._next(failed)
            if begun:
                return [*events[:-1], Restart(adopt(self._head), failed)]
            if self._notices:
                return [Fallback(self._head.provider, self._head.model, failed)]
        return []

    def stop(self) -> None:
        """Give up at once."""
        self._stopped = True
        self._source.stop()

    async def aclose(self) -> None:
        """Close what is open."""
        self.stop()
        await self._source.aclose()

    def _may_replace(self, last: Error) -> bool:
        if last.reason == "aborted" or self._stopped or self._position + 1 >= len(self._candidates):
            return False
        return self._restart or not self._source.guard.started

    def _next(self, failed: AssistantMessage) -> None:
        """Take the next model; the failed one is kept in a diagnostic, with what it used."""
        details = {
            "provider": failed.provider,
            "model": failed.model,
            "errorMessage": failed.error_message,
            "usage": to_json(failed.usage),
        }
        if failed.error_cause is not None:
            details["errorCause"] = to_json(failed.error_cause)
        if failed.content:
            details["content"] = to_json(failed.content)
        kind = "restart" if failed.content else "fallback"
        self._failures.append(Diagnostic(type=kind, timestamp=failed.timestamp, details=details))
        self._position += 1
        logger.debug("%s/%s failed, next model", failed.provider, failed.model)
        self._source, self._head = self._candidates[self._position](tuple(self._failures))
