"""The stream as its consumer sees it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Awaitable, Callable
from copy import deepcopy
from types import TracebackType
from typing import Protocol

import anyio
from anyio import RunFinishedError, from_thread
from anyio.lowlevel import EventLoopToken, current_token
from attrs import evolve

from pi_stream.context_size import context_tokens
from pi_stream.engine.source import Source
from pi_stream.events import Done, Draft, Error, Event, Finish, Metadata, TextDelta, ThinkingDelta
from pi_stream.exceptions import ConfigError, StreamError
from pi_stream.guard import Guard
from pi_stream.messages import AssistantMessage, Diagnostic, ErrorCause
from pi_stream.reducer import Reducer, adopt, snapshot

__all__ = ["AssistantStream"]

_CLOSE_SECONDS = 10.0


class Owned(Protocol):
    """Something that is closed with a stream, such as a client that was made for it."""

    def abort(self) -> None:
        """Close at once, without waiting."""
        ...

    async def aclose(self) -> None:
        """Close."""
        ...


class AssistantStream:
    """The events of one answer: ``async with`` it, ``async for`` over it, or ``await`` its :meth:`result`.

    The consumer's pull drives everything: nothing is sent before the first event is asked for, and nothing is read
    while nobody asks. Iterating raises nothing but cancellation: failures are the ``error`` event. Leaving the
    ``async with`` block, by whatever way, closes the socket at once.

    One task iterates at a time; :meth:`abort` may be called from any task and any thread.
    """

    def __init__(self, source: Source, head: AssistantMessage, owned: Owned | None = None) -> None:
        """Streams are made by :meth:`pi_stream.Client.stream`.

        Args:
            source: Where the events come from.
            head: The message to come.
            owned: What is closed with the stream.
        """
        self._source = source
        self._head = head
        self._owned = owned
        self._reducer = Reducer(adopt(head))
        self._batch: list[Event] = []
        self._position = 0  # how many events of the batch were handed out
        self._folded = 0  # how many of those are in the reducer
        self._final: AssistantMessage | None = None
        self._aborted: str | None = None
        self._reading = False
        self._over = False
        self._loop: tuple[int, EventLoopToken] | None = None  # the thread and loop that read

    # --- iteration ----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AssistantStream:
        return self

    async def __anext__(self) -> Event:
        position = self._position
        if position >= len(self._batch):
            await self._refill()
            position = 0
        self._position = position + 1
        return self._batch[position]

    def batches(self) -> _Batches:
        """The same events, a list for each read of the socket, for consumers that handle many at once."""
        return _Batches(self._next_batch)

    async def _next_batch(self) -> list[Event]:
        """What is left of the batch, or the next one."""
        if self._position >= len(self._batch):
            await self._refill()
        batch = self._batch[self._position :]
        self._position = len(self._batch)
        return batch

    def text(self) -> _Deltas:
        """Only the pieces of text, as strings."""
        return _Deltas(self, TextDelta)

    def thinking(self) -> _Deltas:
        """Only the pieces of thinking, as strings."""
        return _Deltas(self, ThinkingDelta)

    async def _refill(self) -> None:
        """Wait for the next batch. Raises StopAsyncIteration when the stream is over."""
        self._fold()
        if self._over:
            raise StopAsyncIteration
        if self._reading:
            raise ConfigError(
                "this stream is being read by another task already; one task iterates at a time"
            )
        self._reading = True
        if self._loop is None:
            self._loop = threading.get_ident(), current_token()
        try:
            batch = await self._source.next_batch() if self._aborted is None else []
        except BaseException:
            self._leave("the task was cancelled")
            await self._close_quietly()
            raise
        finally:
            self._reading = False
        if self._over:  # closed by somebody else meanwhile
            raise StopAsyncIteration
        if self._aborted is not None:
            # Made on a copy, so that the message follows the consumer through these events too.
            batch = self._closing_events(self._aborted, deepcopy(self._reducer))
        self._batch, self._position, self._folded = batch, 0, 0
        last = batch[-1] if batch else None
        if isinstance(last, Done | Error) or last is None:
            self._over = True
            await self._close_quietly()
        if last is None:
            raise StopAsyncIteration

    # --- the message --------------------------------------------------------------------------------------------------

    @property
    def message(self) -> AssistantMessage:
        """The message as the events handed out so far make it, brought up to date on access.

        The object is live: it grows with the stream. :meth:`snapshot` gives a copy. After the terminal event it is
        the message of that event; after leaving early it is what was received, with stop reason ``aborted``.
        """
        if self._final is not None:
            return self._final
        self._fold()
        return self._final or self._reducer.message

    def snapshot(self) -> AssistantMessage:
        """An independent copy of :attr:`message`."""
        return snapshot(self.message)

    async def result(self, *, raise_on_error: bool = False) -> AssistantMessage:
        """Wait for the end, whether or not somebody iterates, and give the final message.

        Args:
            raise_on_error: Turn an ``error`` or ``aborted`` ending into an exception.

        Raises:
            StreamError: The stream failed or was aborted, and ``raise_on_error`` is set.
        """
        async for _ in self.batches():
            pass
        message = self.message
        if raise_on_error and message.stop_reason in ("error", "aborted"):
            raise StreamError(message)
        return message

    def _fold(self) -> None:
        """Bring the reducer up to what was handed out."""
        if self._folded < self._position:
            events = self._batch[self._folded : self._position]
            self._folded = self._position
            self._reducer.apply_all(events)
            last = events[-1]
            if isinstance(last, Done):
                self._final = last.message
            elif isinstance(last, Error):
                self._final = last.error

    # --- the end ------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> AssistantStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave: close the socket at once. Idempotent; the reader gets no further events."""
        self._leave("the consumer left the stream")
        await self._close_quietly()

    def abort(self, reason: str = "aborted by the caller") -> None:
        """Stop: the reader receives the ends of open blocks and an ``aborted`` terminal. From any task or thread.

        Nothing that was handed out is lost; what was received and not handed out yet is dropped. No effect on a stream
        that has ended.

        Args:
            reason: Becomes ``error_message``.
        """
        if self._loop is None or self._loop[0] == threading.get_ident():
            self._abort(reason)
            return
        try:
            from_thread.run_sync(self._abort, reason, token=self._loop[1])
        except RunFinishedError:
            self._abort(reason)  # nobody reads any more

    def _abort(self, reason: str) -> None:
        handed_out = self._over and self._position >= len(self._batch)
        if self._final is None and self._aborted is None and not handed_out:
            self._aborted = reason
            self._over = (
                False  # for the consumer the stream still runs, although its end may have been received
            )
            del self._batch[self._position :]
            self._source.stop()

    def _leave(self, reason: str) -> None:
        """End the message where the consumer stands, without handing out events."""
        self._fold()
        if self._final is not None:
            return
        self._source.stop()
        self._over = True
        self._batch, self._position, self._folded = [], 0, 0
        last = self._closing_events(reason, self._reducer)[-1]
        self._final = last.error if isinstance(last, Error) else self._reducer.message

    def _closing_events(self, reason: str, reducer: Reducer) -> list[Event]:
        """Ends and ``aborted`` terminal for the state that the consumer has seen."""
        guard = Guard.resume(self._head, reducer, self._source.guard)
        cause = ErrorCause(kind="cancelled", phase=guard.phase, origin="caller")
        return guard.check([*_estimate(reducer.message), Finish("aborted", reason, cause)])

    async def _close_quietly(self) -> None:
        """Close what is open. Shielded, since the caller may be on its way out of a cancelled task."""
        owned, self._owned = self._owned, None
        if owned is None and not self._source.active:
            return
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await self._source.aclose()
            if owned is not None:
                await owned.aclose()

    def __del__(self) -> None:
        source = getattr(self, "_source", None)
        if source is not None and not self._over and source.active:
            source.stop()
            if self._owned is not None:
                self._owned.abort()
            warnings.warn(
                "an AssistantStream was dropped while it was open; use `async with` or `await stream.aclose()`",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )


def _estimate(message: AssistantMessage) -> list[Draft]:
    """What an answer took that was left before its token counts came: a guess, so it stands beside the usage."""
    if not message.content or message.raw_stop_reason is not None or message.usage.quality is not None:
        return []
    tokens = context_tokens([evolve(message, stop_reason="aborted")]).tokens
    details = {"output": tokens}
    return [
        Metadata(diagnostic=Diagnostic(type="usage_estimate", timestamp=message.timestamp, details=details))
    ]


class _Batches:
    """Iterates a stream batch by batch."""

    __slots__ = ("_next",)

    def __init__(self, next_batch: Callable[[], Awaitable[list[Event]]]) -> None:
        self._next = next_batch

    def __aiter__(self) -> _Batches:
        return self

    async def __anext__(self) -> list[Event]:
        return await self._next()


class _Deltas:
    """Iterates the deltas of one kind."""

    __slots__ = ("_kind", "_stream")

    def __init__(self, stream: AssistantStream, kind: type[TextDelta] | type[ThinkingDelta]) -> None:
        self._stream = stream
        self._kind = kind

    def __aiter__(self) -> _Deltas:
        return self

    async def __anext__(self) -> str:
        while True:
            event = await anext(self._stream)
            if isinstance(event, self._kind):
                return event.delta
