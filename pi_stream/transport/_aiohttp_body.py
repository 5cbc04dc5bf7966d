"""The body of an answer that comes over aiohttp: its reads, its one timer, and the ways to let it go."""

from __future__ import annotations

import asyncio
import logging
import math
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from attrs import define

from pi_stream.exceptions import TransportError
from pi_stream.http import ResponseHead
from pi_stream.transport._net import failure

if TYPE_CHECKING:
    import aiohttp

__all__ = ["AiohttpBody", "Drain", "LossWatch", "abort_connection", "runs_here"]

logger = logging.getLogger("pi_stream.transport")

_RESOLUTION: Final = 0.001
"""Loops round timers to the millisecond, so that one may fire this much early."""

_GRACE: Final = 0.002
"""Seconds between a deadline and its effect, for bytes that came in time."""


class AiohttpBody:
    """The body of one answer. Made by ``AiohttpTransport.send``, read by one task.

    After its end, after a failure and after :meth:`release` the connection is no longer the body's, and :meth:`abort`
    and :meth:`aclose` do nothing. A body that is dropped while open closes its socket and gives a ResourceWarning.

    Args:
        response: Its head has been read.
        head: Status and headers.
        target: Host and port, for messages.
        loop: The loop that the response lives in.
        drains: Where a released body is kept while its rest is awaited.
    """

    __slots__ = (
        "__weakref__",
        "_armed",
        "_content",
        "_drains",
        "_kind",
        "_loop",
        "_open",
        "_response",
        "_target",
        "_timer",
        "_until_close",
        "_waiting",
        "_when",
        "head",
    )

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        head: ResponseHead,
        target: str,
        loop: asyncio.AbstractEventLoop,
        drains: set[Drain],
    ) -> None:
        self.head = head
        self._response = response
        self._content = response.content
        self._target = target
        self._loop = loop
        self._drains = drains
        self._open = True
        self._waiting = False
        self._when: float | None = None
        self._kind = "transport"
        self._timer: asyncio.TimerHandle | None = None
        self._armed = math.inf
        # A body without a length ends with the connection, and aiohttp takes a reset for such an end.
        framed = "content-length" in head.headers or "transfer-encoding" in head.headers
        self._until_close: Any = None if framed or not response.connection else response.connection.protocol

    async def receive(self) -> bytes:
        """Wait for bytes; see :meth:`pi_stream.transport.base.Body.receive`.

        Returns:
            What has come since the last call, or ``b""`` when the body has ended as HTTP says it must.

        Raises:
            TransportError: The connection was lost or the encoding is broken (``transport``), the deadline passed
                (its kind), or the body was aborted (``cancelled``).
        """
        if self._timer is None and self._when is not None:
            self._arm(self._when)
        self._waiting = True
        try:
            data = await self._content.readany()
        except Exception as exc:
            data = self._lost(exc)
        finally:
            self._waiting = False
        if not data:
            self._ended()
        return data

    def set_deadline(self, when: float | None, kind: str) -> None:
        """Let a ``receive`` that still waits at ``when`` (time of the loop) fail with this kind; None for never.

        Stores two values: the timer that runs already looks at them when it fires.
        """
        if not self._open:
            return
        self._when = when
        self._kind = kind
        if when is not None and when < self._armed and (self._waiting or self._timer is not None):
            self._arm(when)

    def abort(self) -> None:
        """Close the socket at once; a waiting ``receive`` and every later one fail with ``cancelled``."""
        if not self._open:
            return
        if runs_here(self._loop):
            self._fail(TransportError(f"the answer of {self._target} was aborted", kind="cancelled"))
        elif not self._loop.is_closed():  # a collector at work in another thread
            self._loop.call_soon_threadsafe(self.abort)

    def release(self, drain: float) -> None:
        """Give the connection back to the pool if the body ends within ``drain`` seconds, else close it.

        Does not wait: a callback and a timer do it, without a task. The body must not be read any more. No more than
        the read buffer is taken in meanwhile, so a server that goes on sending is cut off too.
        """
        if self._waiting:
            self.abort()
        if not self._open:
            return
        self._finish()
        if self._content.is_eof():
            return  # aiohttp has given the connection back already
        background = Drain(self._response, self._drains)
        if drain <= 0 or self._content.exception() is not None:
            background.close()
        else:
            self._content.read_nowait()  # room, in case reading is paused
            background.start(self._loop, drain)

    async def aclose(self) -> None:
        """Close whatever is open. Idempotent; never raises and never waits."""
        self.abort()

    def __repr__(self) -> str:
        return f"<AiohttpBody {self.head.status} of {self._target}, {'open' if self._open else 'closed'}>"

    def __del__(self) -> None:
        if not self._open or self._response.connection is None or self._loop.is_closed():
            return
        # The collector runs in any thread, and a socket may be touched in that of its loop only.
        self._loop.call_soon_threadsafe(_close, self._response, self._timer)
        warnings.warn(
            f"unclosed {self!r}: use async with, or aclose()", ResourceWarning, source=self, stacklevel=2
        )

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = when
        # A weak reference: the clock must not keep a dropped body, and with it the socket, alive.
        self._timer = self._loop.call_at(when, AiohttpBody._on_timer, weakref.ref(self))

    @staticmethod
    def _on_timer(reference: Callable[[], AiohttpBody | None]) -> None:
        body = reference()
        if body is None:
            return
        body._timer = None  # if nobody waits now, the next receive arms it again
        body._armed = math.inf
        if body._when is None:
            return
        if body._loop.time() + _RESOLUTION < body._when:
            body._arm(body._when)  # most often: bytes have come, and the deadline has moved on
        else:
            # After a stall of the loop, bytes may lie in the socket that have come in time: once round for them, then
            # behind the reader that they wake.
            body._loop.call_later(_GRACE, body._loop.call_soon, AiohttpBody._expire, reference, body._when)

    @staticmethod
    def _expire(reference: Callable[[], AiohttpBody | None], when: float) -> None:
        body = reference()
        if body is not None and body._open and body._waiting and body._when == when:
            message = f"{body._target} sent nothing in time ({body._kind})"
            body._fail(TransportError(message, kind=body._kind))

    def _lost(self, exc: Exception) -> bytes:
        """What came before the connection failed; raises when that has been handed out."""
        if isinstance(exc, TransportError):
            raise exc
        reason, cause = failure(exc)
        error = TransportError(f"connection to {self._target} lost: {reason}")
        error.__cause__ = cause
        # aiohttp raises ahead of the bytes in its buffer, and the end of the answer may be among them.
        self._content.set_exception(None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        rest = self._content.read_nowait()
        self._fail(error)
        if not rest:
            raise error
        return rest

    def _ended(self) -> None:
        reset = self._until_close.exception() if self._until_close is not None and self._open else None
        if isinstance(reset, OSError):
            self._lost(reset)
        self._finish()

    def _fail(self, error: TransportError) -> None:
        """Let a waiting ``receive`` and every later one raise this, and close the socket."""
        logger.debug("%s", error)
        self._finish()
        self._content.set_exception(error)
        _close(self._response)

    def _finish(self) -> None:
        self._open = False
        self._when = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._armed = math.inf


@define(eq=False)
class LossWatch:
    """Tells the reader that its connection is gone. One for each connection, whatever answers it carries.

    aiohttp leaves a reader waiting for ever when a chunk is not valid HTTP: it closes the socket and tells nobody.

    Attributes:
        content: Body of the current answer.
    """

    content: aiohttp.StreamReader

    def lost(self, closed: asyncio.Future[None]) -> None:
        """Called when the connection has closed, whoever closed it."""
        if not closed.cancelled():
            closed.exception()  # looked at, or asyncio complains that nobody did
        if not self.content.is_eof() and self.content.exception() is None:
            self.content.set_exception(ConnectionError("what came is not valid HTTP"))


class Drain:
    """Waits in the background for the end of an answer that nobody reads any more.

    Args:
        response: The answer.
        registry: Holds this while it waits.
    """

    __slots__ = ("_registry", "_response", "_timer")

    def __init__(self, response: aiohttp.ClientResponse, registry: set[Drain]) -> None:
        self._response = response
        self._registry = registry
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Wait this long at most, then close."""
        self._registry.add(self)
        self._timer = loop.call_later(seconds, self.close)
        self._response.content.on_eof(self._done)

    def close(self) -> None:
        """Close the connection now."""
        self._done()
        _close(self._response)

    def _done(self) -> None:
        self._registry.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this is called by the loop, so that its sockets may be touched."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def abort_connection(response: aiohttp.ClientResponse) -> None:
    """Close the socket without unsent bytes and without a TLS goodbye: the peer may be the one that hangs."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _close(response: aiohttp.ClientResponse, timer: asyncio.TimerHandle | None = None) -> None:
    if timer is not None:
        timer.cancel()
    abort_connection(response)
    response.close()
