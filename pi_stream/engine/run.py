"""One HTTP exchange: send, read, turn reads into events, let go."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import cast

import anyio
from attrs import frozen

from pi_stream.apis.base import Api, TranslatorSetup
from pi_stream.engine.limits import LimitClock
from pi_stream.engine.pipeline import Pipeline
from pi_stream.engine.source import config_error, observed
from pi_stream.events import Event, Finish
from pi_stream.exceptions import ConfigError, TransportError
from pi_stream.guard import Guard
from pi_stream.http import HttpRequest, mask_url
from pi_stream.messages import ErrorCause, ErrorKind, ErrorOrigin
from pi_stream.transport.base import Body, Transport

__all__ = ["Exchange", "HttpSource"]

logger = logging.getLogger("pi_stream")


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
        exchange, limits = self._exchange, self._options.limits
        body: Body | None = None
        try:
            with anyio.CancelScope() as self._opening:
                request = await exchange.request()
                on_request = observed(self._options.on_request)
                if on_request is not None:
                    on_request(request)
                logger.debug("%s %s", request.method, mask_url(request.url))
                self._clock = clock = LimitClock(limits, exchange.transport.time(), self._elapsed)
                body = await exchange.transport.send(
                    request,
                    connect=clock.remaining(limits.connect),
                    head=clock.remaining(limits.head),
                )
        except ConfigError as error:
            return self.guard.check([config_error(error)])
        except TransportError as error:
            return self.guard.check([_not_sent(error)])
        except Exception as error:  # a custom credential or transport; nothing escapes a stream
            logger.exception("the request could not be made")
            cause = ErrorCause(kind="config", phase="connect", origin="engine")
            return self.guard.check([Finish("error", f"the request could not be made: {error!r}", cause)])
        finally:
            self._opening = None
        if body is None:
            return []  # stopped
        if self._stopped:
            body.abort()
            return []
        self._body = body
        on_response = observed(self._options.on_response)
        if on_response is not None:
            on_response(body.head)
        logger.debug("answer: status %d, %s", body.head.status, body.head.content_type)
        self._pipeline = Pipeline(exchange.api, exchange.setup, body.head, self.guard)
        return []

    async def _read(self, body: Body, pipeline: Pipeline, clock: LimitClock) -> list[Event]:
        """Wait for one read and turn it into events."""
        time = self._exchange.transport.time
        body.set_deadline(*clock.wait(time(), complete=pipeline.complete))
        try:
            data = await body.receive()
        except TransportError as error:
            age = clock.age_ms(time())
            events = pipeline.fail(error.kind, str(error), origin=_origin(error), age_ms=age)
            self.stop()
            return events
        clock.received(time())
        if data:
            events = pipeline.feed(data)
            if events:
                clock.content()
        else:
            events = pipeline.end()
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


def _not_sent(error: TransportError) -> Finish:
    cause = ErrorCause(
        kind=cast(ErrorKind, error.kind),
        phase="head" if error.kind in ("timeout_head", "transport") else "connect",
        origin=_origin(error),
        retryable=error.kind != "tls",
    )
    return Finish("error", str(error), cause)
