"""One HTTP exchange: send, read, turn reads into events, let go."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from math import inf
from typing import cast

import anyio
from attrs import frozen

from pi_stream.apis.base import Api, TranslatorSetup
from pi_stream.engine.limits import LimitClock
from pi_stream.engine.pipeline import Pipeline
from pi_stream.engine.source import config_error, observed
from pi_stream.events import Draft, Event, Finish, Metadata
from pi_stream.exceptions import ConfigError, TransportError
from pi_stream.guard import Guard
from pi_stream.http import HttpRequest, ResponseHead, mask_url
from pi_stream.messages import Diagnostic, ErrorCause, ErrorKind, ErrorOrigin, ErrorPhase
from pi_stream.transport.base import Body, Transport

__all__ = ["Exchange", "HttpSource"]

logger = logging.getLogger("pi_stream")

# Limits of the provider: what the vendors send, and the draft of the IETF (ratelimit, ratelimit-policy).
_RATE_LIMITS = re.compile(r"(anthropic-|x-|x-ms-)?rate-?limit|retry-after|x-should-retry", re.IGNORECASE)


@frozen(kw_only=True)
class Exchange:
    """What is needed to make one request and read its answer.

    Attributes:
        api: The wire protocol.
        setup: What the translator is told; its options hold limits and observers.
        transport: Sends the request.
        request: Makes the request, when it is about to be sent; may start a local server or fetch a token.
    """

    api: Api
    setup: TranslatorSetup
    transport: Transport
    request: Callable[[], Awaitable[HttpRequest]]


class HttpSource:
    """The events of one HTTP exchange.

    Args:
        exchange: What is needed for it.
        guard: Makes its events.
        elapsed: Seconds that earlier attempts took of the total limit.
    """

    def __init__(self, exchange: Exchange, guard: Guard, elapsed: float = 0.0) -> None:
        self.guard = guard
        guard.phase = "connect"
        self._elapsed = elapsed
        self._exchange = exchange
        self._options = exchange.setup.options
        self._clock: LimitClock | None = None
        self._body: Body | None = None
        self._pipeline: Pipeline | None = None
        self._opening: anyio.CancelScope | None = None
        self._stopped = False

    @property
    def active(self) -> bool:
        """Whether a connection is open for this exchange."""
        return self._body is not None or self._opening is not None

    async def next_batch(self) -> list[Event]:
        """The events of the next read that brings any."""
        while not self.guard.finished and not self._stopped:
            if self._pipeline is None:
                events = await self._open()
            else:
                assert self._body is not None and self._clock is not None
                events = await self._read(self._body, self._pipeline, self._clock)
            if events:
                return events
        return []

    def stop(self) -> None:
        """Close the socket at once; a waiting :meth:`next_batch` returns."""
        self._stopped = True
        if self._opening is not None:
            self._opening.cancel()
        body, self._body = self._body, None
        if body is not None:
            body.abort()

    async def aclose(self) -> None:
        """Close the connection if it is still open."""
        self.stop()

    async def _open(self) -> list[Event]:
        """Send the request. Gives events only when that fails."""
        try:
            body = self._body = await self._send()
            if body is not None:
                self._pipeline = Pipeline(self._exchange.api, self._exchange.setup, body.head, self.guard)
                self.guard.check(_rate_limits(body.head, self._exchange.setup.timestamp))
                return []
        except ConfigError as error:
            return self.guard.check([config_error(error)])
        except TransportError as error:
            return self.guard.check([_not_sent(error)])
        except Exception as error:  # a custom credential, transport or protocol; nothing escapes a stream
            logger.exception("the request could not be made")
            self.stop()
            cause = ErrorCause(kind="config", phase="connect", origin="engine")
            return self.guard.check([Finish("error", f"the request could not be made: {error!r}", cause)])
        if self._stopped:
            return []
        expired = TransportError(
            f"no answer within the total of {self._options.limits.total:g} s", kind="timeout_total"
        )
        return self.guard.check([_not_sent(expired, self.guard.phase)])

    async def _send(self) -> Body | None:
        """Send the request and wait for the head of the answer; None if stopped, or when the total limit passed."""
        exchange, limits, time = self._exchange, self._options.limits, self._exchange.transport.time
        begun = anyio.current_time() - self._elapsed
        deadline = inf if limits.total is None else begun + limits.total
        body: Body | None = None
        try:
            with anyio.CancelScope(deadline=deadline) as self._opening:
                request = await exchange.request()
                self.guard.hide = request.without_secrets
                on_request = observed(self._options.on_request)
                if on_request is not None:
                    on_request(request)
                logger.debug("%s %s", request.method, mask_url(request.url))
                self._clock = clock = LimitClock(limits, time(), anyio.current_time() - begun)
                self.guard.phase, self.guard.age_ms = "head", lambda: clock.age_ms(time())
                body = await exchange.transport.send(request, connect=limits.connect, head=limits.head)
        finally:
            self._opening = None
        if body is None:
            return None
        if self._stopped:
            body.abort()
            return None
        on_response = observed(self._options.on_response)
        if on_response is not None:
            on_response(body.head)
        logger.debug("answer: status %d, %s", body.head.status, body.head.content_type)
        self.guard.phase = "body"
        return body

    async def _read(self, body: Body, pipeline: Pipeline, clock: LimitClock) -> list[Event]:
        """Wait for one read and turn it into events."""
        time = self._exchange.transport.time
        try:
            body.set_deadline(*clock.wait(time(), complete=pipeline.draining))
            data = await body.receive()
        except TransportError as error:
            events = pipeline.fail(error.kind, str(error), origin=_origin(error))
            self.stop()
            return events
        if data:
            clock.received(time())
            events = pipeline.feed(data)
            if events:
                clock.content()
        else:
            events = pipeline.end()
        if pipeline.complete:
            self.guard.phase = "done"
        if self.guard.finished:
            self._let_go(body, at_end=not data)
        return events

    def _let_go(self, body: Body, *, at_end: bool) -> None:
        """The stream is over: keep the connection for the next request if the answer is, too."""
        self._body = None
        cause = self.guard.message.error_cause
        if at_end or cause is None:
            body.release(self._options.limits.drain or 0.0)
        else:
            body.abort()


def _origin(error: TransportError) -> ErrorOrigin:
    if error.kind == "cancelled":
        return "caller"
    return "limit" if error.kind.startswith("timeout") else "network"


def _not_sent(error: TransportError, phase: ErrorPhase | None = None) -> Finish:
    cause = ErrorCause(
        kind=cast(ErrorKind, error.kind),
        phase=phase or ("head" if error.kind in ("timeout_head", "transport") else "connect"),
        origin=_origin(error),
        retryable=error.kind != "tls",
    )
    return Finish("error", str(error), cause)


def _rate_limits(head: ResponseHead, timestamp: int) -> list[Draft]:
    """What the provider says of its limits, kept with the message."""
    details = {name: value for name, value in head.headers.items() if _RATE_LIMITS.match(name)}
    if not details:
        return []
    return [Metadata(diagnostic=Diagnostic(type="rate_limits", timestamp=timestamp, details=details))]
