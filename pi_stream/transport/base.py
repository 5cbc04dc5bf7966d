"""The protocol between the engine and whatever moves bytes.

A transport knows nothing of events, limits or retries: it sends, hands out bytes as they come, and can be told to give
up at a moment in time or at once.
"""

from __future__ import annotations

from typing import Protocol

from pi_stream.http import HttpRequest, ResponseHead

__all__ = ["Body", "Transport"]


class Body(Protocol):
    """The body of one answer, read piece by piece by one reader."""

    @property
    def head(self) -> ResponseHead:
        """Status and headers."""
        ...

    async def receive(self) -> bytes:
        """Wait for bytes.

        Returns:
            What came with one read, or ``b""`` when the body has ended properly.

        Raises:
            TransportError: The connection was lost (kind ``transport``), the deadline passed (the kind given to
                :meth:`set_deadline`), or :meth:`abort` was called (``cancelled``).
        """
        ...

    def set_deadline(self, when: float | None, kind: str) -> None:
        """Let a ``receive`` that still waits at ``when`` fail with this kind.

        Costs next to nothing per read: a transport re-arms one timer. A deadline passes only while a ``receive`` waits.

        Args:
            when: Moment on the transport's clock in seconds; None for no deadline.
            kind: ``kind`` of the error, such as ``timeout_idle``.
        """
        ...

    def abort(self) -> None:
        """Close the socket at once; a waiting ``receive`` fails. From any task of the loop; idempotent."""
        ...

    def release(self, drain: float) -> None:
        """The answer is complete: let the connection return to the pool if the body ends within ``drain`` seconds.

        Does not wait: the rest is dropped in the background, and the socket closed when it does not end in time.
        """
        ...

    async def aclose(self) -> None:
        """Close whatever is open. Idempotent; never raises."""
        ...


class Transport(Protocol):
    """Sends requests. One transport serves many streams at once."""

    def time(self) -> float:
        """The clock that deadlines are measured by, in seconds."""
        ...

    async def send(
        self, request: HttpRequest, *, connect: float | None = None, head: float | None = None
    ) -> Body:
        """Send a request and wait for the head of the answer.

        Args:
            request: What to send.
            connect: Most seconds to open the connection.
            head: Most seconds from here to the head.

        Returns:
            The body, whatever the status.

        Raises:
            TransportError: ``connect``, ``tls``, ``timeout_connect``, ``timeout_head`` or ``transport``.
        """
        ...

    def abort(self) -> None:
        """Close all connections at once, without waiting: for clean-up where nothing can be awaited. Idempotent."""
        ...

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        ...
