"""The generator door: a custom provider is one async generator.

The generator is pulled one item at a time, inside a scope that ends before anything is handed out. Whatever it does
wrong becomes one ``error`` event that names the guarantee it broke.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from inspect import iscoroutine
from typing import Any, cast

import anyio
from anyio.lowlevel import checkpoint
from attrs import field, frozen

from pi_stream.engine.limits import LimitClock
from pi_stream.engine.parts import Assembler
from pi_stream.engine.source import config_error
from pi_stream.events import Event, Finish
from pi_stream.exceptions import ConfigError, ProtocolViolation, TransportError
from pi_stream.guard import Guard
from pi_stream.messages import Context, ErrorCause, ErrorKind, Message, TextContent, Tool
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["Generate", "GeneratorRequest", "GeneratorSource"]

_TURN = 0.01  # seconds that a generator may run before others have their turn


@frozen(kw_only=True)
class GeneratorRequest:
    """What a generator provider is asked.

    Attributes:
        model: The model asked for.
        messages: Plain messages, system prompt and tools folded into a leading system message.
        tools: The tools that were given.
        options: What the caller wants.
        context: The context as the caller gave it.
    """

    model: Model
    messages: list[Message]
    tools: tuple[Tool, ...] = ()
    options: StreamOptions = field(factory=StreamOptions)
    context: Context = field(factory=Context)

    @property
    def prompt(self) -> str:
        """The text of the last user message."""
        for message in reversed(self.messages):
            if message.role == "user":
                content = message.content
                if isinstance(content, str):
                    return content
                return "".join(block.text for block in content if isinstance(block, TextContent))
        return ""


Generate = Callable[[GeneratorRequest], AsyncIterator[Any]]
"""A generator provider: an async generator function of one request."""


class GeneratorSource:
    """The events of one run of a generator provider."""

    def __init__(self, generate: Generate, request: GeneratorRequest, guard: Guard) -> None:
        self.guard = guard
        guard.phase = "body"
        self._generate = generate
        self._request = request
        self._assembler = Assembler()
        self._clock: LimitClock | None = None
        self._generator: AsyncIterator[Any] | None = None
        self._pulling: anyio.CancelScope | None = None
        self._stopped = False
        self._rested = float("-inf")

    @property
    def active(self) -> bool:
        """Whether the generator has been started and not closed."""
        return self._generator is not None

    async def next_batch(self) -> list[Event]:
        """The events of the next item that makes any."""
        while not self.guard.finished and not self._stopped:
            events = await self._pull()
            if events:
                if self.guard.finished:
                    await self.aclose()
                return events
        return []

    def stop(self) -> None:
        """Interrupt the generator where it waits."""
        self._stopped = True
        if self._pulling is not None:
            self._pulling.cancel()

    async def aclose(self) -> None:
        """Close the generator. What it raises while closing is dropped: its answer is over."""
        self._stopped = True
        generator, self._generator = self._generator, None
        close = getattr(generator, "aclose", None)
        if close is not None:
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                try:
                    await close()
                except Exception:
                    pass

    async def _pull(self) -> list[Event]:
        """Ask the generator for one item and say what it means."""
        now = anyio.current_time()
        if self._clock is None:
            self._clock = LimitClock(self._request.options.limits, now)
        try:
            when, kind = self._clock.wait(now)
        except TransportError as passed:
            return self._expired(passed.kind)
        item: Any = None
        try:
            if self._generator is None:
                self._generator = _started(self._generate(self._request))
            with anyio.CancelScope(deadline=float("inf") if when is None else when) as self._pulling:
                await self._rest(now)
                item = await anext(self._generator)
        except StopAsyncIteration:
            return self._violated(ProtocolViolation(9, "the provider returned without finish()"))
        except ConfigError as error:
            return self.guard.check([config_error(error)])
        except Exception as error:
            return self._violated(
                ProtocolViolation(8, f"the provider raised {type(error).__name__}: {error}")
            )
        finally:
            scope, self._pulling = self._pulling, None
        if scope is not None and scope.cancelled_caught:
            return [] if self._stopped else self._expired(kind)
        self._clock.received(anyio.current_time())
        self._clock.content()
        try:
            return self.guard.check(self._assembler.drafts(item))
        except ProtocolViolation as violation:
            return self._violated(violation)

    async def _rest(self, now: float) -> None:
        """Let others run from time to time: a generator that never waits could not be aborted, nor meet a limit."""
        if now - self._rested > _TURN:
            await checkpoint()
            self._rested = anyio.current_time()

    def _violated(self, violation: ProtocolViolation) -> list[Event]:
        return self.guard.violate(violation)

    def _expired(self, kind: str) -> list[Event]:
        cause = ErrorCause(kind=cast(ErrorKind, kind), origin="limit", retryable=True)
        return self.guard.check([Finish("error", f"the provider gave nothing in time ({kind})", cause)])


def _started(answer: Any) -> AsyncIterator[Any]:
    if iscoroutine(answer):
        answer.close()  # it will never be awaited, and would warn of that
        raise TypeError("it is a coroutine function; it must yield its parts: an async generator function")
    return aiter(answer)
