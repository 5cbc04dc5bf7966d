"""The closing line of an answer: how it ended, tokens, speed and cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field

from pi_stream.events import Done, Error, Event, Metadata, Start
from pi_stream.messages import AssistantMessage
from pi_stream.usage import Usage

__all__ = ["Meter", "closing_line"]


@define
class Meter:
    """Measures a stream while it passes. All moments are seconds on one monotonic clock.

    Attributes:
        clock: The clock.
        started: When the request was sent; a local server has loaded its model by then.
        first: When the first content came.
        last: When the last content came.
    """

    clock: Callable[[], float] = time.perf_counter
    started: float = field(init=False)
    first: float | None = field(default=None, init=False)
    last: float | None = field(default=None, init=False)
    _sent: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.started = self.clock()

    def sent(self, _: Any = None) -> None:
        """The request goes out. A retry changes nothing: the user waits for the first attempt too."""
        if not self._sent:
            self._sent = True
            self.started = self.clock()

    def saw(self, events: Iterable[Event]) -> None:
        """Events came."""
        if any(not isinstance(event, Start | Metadata | Done | Error) for event in events):
            self.last = self.clock()
            if self.first is None:
                self.first = self.last

    @property
    def first_after(self) -> float | None:
        """Seconds from the request to the first content."""
        return None if self.first is None else self.first - self.started

    def rate(self, tokens: int) -> float | None:
        """Tokens per second. The first token marks the start, so it is not counted."""
        if self.first is None or self.last is None or self.last <= self.first or tokens < 2:
            return None
        return (tokens - 1) / (self.last - self.first)


def closing_line(message: AssistantMessage, meter: Meter) -> str:
    """Such as ``stop · 31 in, 42 out · first token 0.29 s · 120 tokens/s · $0.00``; what is unknown is left out."""
    usage = message.usage
    parts: list[str] = [message.stop_reason]
    if usage.total_tokens:
        parts.append(_tokens(usage))
    if (seconds := meter.first_after) is not None:
        parts.append(f"first token {seconds:.2f} s")
    if (rate := meter.rate(usage.output)) is not None:
        parts.append(f"{rate:.0f} tokens/s" if rate >= 10 else f"{rate:.1f} tokens/s")
    if usage.total_tokens:
        parts.append(_cost(message))
    return " · ".join(parts)


def _tokens(usage: Usage) -> str:
    cached = f" ({usage.cache_read} cached)" if usage.cache_read else ""
    thought = f" ({usage.reasoning} thinking)" if usage.reasoning else ""
    return f"{usage.prompt_tokens} in{cached}, {usage.output} out{thought}"


def _cost(message: AssistantMessage) -> str:
    dollars = message.usage.cost.total
    if not dollars:
        kinds = {diagnostic.type for diagnostic in message.diagnostics or ()}
        return "price unknown" if "unknown_model" in kinds else "$0.00"
    if dollars < 0.0001:
        return "<$0.0001"
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}"
