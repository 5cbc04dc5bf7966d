r"""A transport without a network: a function answers the requests. For tests and demonstrations, on asyncio and trio.

::

    def answer(request: HttpRequest) -> MemoryResponse:
        return MemoryResponse(chunks=[b"data: {}\n\n", 0.5, b"data: [DONE]\n\n"])


    transport = MemoryTransport(answer)

It keeps the contract of a real connection: a deadline passes only while a ``receive`` waits, ``abort`` wakes it, and
what is open is counted.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)

import anyio
import anyio.lowlevel
from attrs import field, frozen

from pi_stream.exceptions import ConfigError, TransportError
from pi_stream.http import HttpRequest, ResponseHead

__all__ = ["Answer", "Chunk", "Handler", "MemoryBody", "MemoryResponse", "MemoryTransport"]

Chunk = bytes | float | Exception
"""What comes next: the bytes of one read, a pause in seconds, or the loss of the connection."""


def _chunks(value: bytes | Iterable[Chunk] | AsyncIterable[Chunk]) -> Iterable[Chunk] | AsyncIterable[Chunk]:
    return [value] if isinstance(value, bytes) else value


@frozen(kw_only=True)
class MemoryResponse:
    """An answer as it will come.

    Attributes:
        status: HTTP status.
        headers: Names in lower case.
        chunks: One item for each read: bytes; a number, which is a pause in seconds before the next item; or an
            exception, which the read raises (as a TransportError of kind ``transport`` if it is none). Lone bytes are
            one read. An async iterable may wait by itself. An iterator serves one request only.
    """

    status: int = 200
    headers: dict[str, str] = field(factory=lambda: {"content-type": "text/event-stream"})
    chunks: Iterable[Chunk] | AsyncIterable[Chunk] = field(default=(), converter=_chunks, repr=False)


Answer = MemoryResponse | bytes
Handler = Callable[[HttpRequest], Answer | Awaitable[Answer]]
"""Answers a request. It may wait, and what it raises is raised by ``send``; lone bytes are an event stream."""


class MemoryBody:
    """The body of one answer; see :class:`pi_stream.transport.base.Body`.

    Args:
        response: What to hand out.
        open_bodies: Holds this while it is open.
    """

    def __init__(self, response: MemoryResponse, open_bodies: set[MemoryBody]) -> None:
        self.head = ResponseHead(status=response.status, headers=dict(response.headers))
        chunks = response.chunks
        self._chunks: Iterator[Chunk] | AsyncIterator[Chunk] = (
            aiter(chunks) if isinstance(chunks, AsyncIterable) else iter(chunks)
        )
        self._bodies = open_bodies
        self._bodies.add(self)
        self._when: float | None = None
        self._kind = "transport"
        self._resume_at: float | None = None
        self._scope: anyio.CancelScope | None = None
        self._failure: TransportError | None = None

    async def receive(self) -> bytes:
        """Wait for the next chunk.

        Returns:
            Its bytes, or ``b""`` after the last.

        Raises:
            TransportError: The chunk is an exception, the deadline passed (its kind), or the body was aborted
                (``cancelled``).
        """
        await anyio.lowlevel.checkpoint()  # as any read, it may be cancelled and lets others run
        while self._open:
            chunk = await self._next()
            if not self._open:
                break  # aborted meanwhile
            if isinstance(chunk, Exception):
                self._fail(chunk)
            elif isinstance(chunk, bytes):
                if chunk:
                    return chunk
            elif chunk is None:
                self._bodies.discard(self)
            else:
                self._resume_at = anyio.current_time() + chunk
        if self._failure is not None:
            raise self._failure
        return b""

    def set_deadline(self, when: float | None, kind: str) -> None:
        """Let a ``receive`` that still waits at ``when`` fail with this kind; None for never."""
        self._when = when
        self._kind = kind
        if self._scope is not None:
            self._scope.deadline = math.inf if when is None else when

    def abort(self) -> None:
        """Close; a waiting ``receive`` and every later one fail with ``cancelled``. No effect on a closed body."""
        if self._open:
            self._fail(TransportError("the answer was aborted", kind="cancelled"))
            if self._scope is not None:
                self._scope.cancel()

    def release(self, drain: float) -> None:
        """Close; there is no connection to give back."""
        self._bodies.discard(self)

    async def aclose(self) -> None:
        """Close, and finish an async generator that makes the chunks. Idempotent; never raises."""
        self.abort()
        if isinstance(self._chunks, AsyncGenerator):
            with anyio.CancelScope(shield=True):
                try:
                    await self._chunks.aclose()
                except Exception:
                    pass  # it fails while it is closed, or another task still waits in it

    @property
    def _open(self) -> bool:
        return self in self._bodies

    async def _next(self) -> Chunk | None:
        """The next chunk, None after the last, or the failure that kept it from coming."""
        if self._resume_at is None and isinstance(self._chunks, Iterator):
            try:
                return next(self._chunks, None)
            except (TransportError, OSError) as error:
                return error
        with anyio.CancelScope(deadline=math.inf if self._when is None else self._when) as scope:
            self._scope = scope
            try:
                if self._resume_at is not None:
                    # Kept, so that a pause that was cancelled goes on with the next call.
                    await anyio.sleep_until(self._resume_at)
                    self._resume_at = None
                    return b""
                assert isinstance(self._chunks, AsyncIterator)
                return await anext(self._chunks, None)
            except (TransportError, OSError) as error:
                return error
            finally:
                self._scope = None
        return self._failure or TransportError(f"nothing came in time ({self._kind})", kind=self._kind)

    def _fail(self, error: Exception) -> None:
        self._bodies.discard(self)
        if not isinstance(error, TransportError):
            cause = error
            error = TransportError(f"connection lost: {error}")
            error.__cause__ = cause
        self._failure = error


class MemoryTransport:
    """Answers requests with a function.

    Args:
        handler: See :data:`Handler`.

    Attributes:
        requests: All requests so far.
    """

    def __init__(self, handler: Handler) -> None:
        self.requests: list[HttpRequest] = []
        self._handler = handler
        self._bodies: set[MemoryBody] = set()
        self._closed = False

    @property
    def open_bodies(self) -> int:
        """How many answers are neither read to their end, nor failed, released, aborted or closed."""
        return len(self._bodies)

    def time(self) -> float:
        """The clock of the loop, in seconds."""
        return anyio.current_time()

    async def send(
        self, request: HttpRequest, *, connect: float | None = None, head: float | None = None
    ) -> MemoryBody:
        """Ask the handler.

        Args:
            request: What to send.
            connect: Not used: there is no connection to open.
            head: Most seconds the handler may take.

        Raises:
            TransportError: It took longer (``timeout_head``), or raised this itself.
            ConfigError: The transport is closed.
        """
        if self._closed:
            raise ConfigError("this transport is closed")
        self.requests.append(request)
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(head):
            answer = self._handler(request)
            if inspect.isawaitable(answer):
                answer = await answer
            response = MemoryResponse(chunks=answer) if isinstance(answer, bytes) else answer
            return MemoryBody(response, self._bodies)
        raise TransportError(f"no answer within {head:g} s", kind="timeout_head")

    def abort(self) -> None:
        """Abort all bodies and take no more requests. Idempotent."""
        self._closed = True
        for body in tuple(self._bodies):
            body.abort()

    async def aclose(self) -> None:
        """The same, and finish what makes their chunks."""
        self._closed = True
        for body in tuple(self._bodies):
            await body.aclose()
