"""The closing line."""

from __future__ import annotations

from typing import Any

import pytest

from pi_stream.cli._summary import Meter, closing_line
from pi_stream.events import Done, Metadata, Start, TextDelta, TextStart
from pi_stream.messages import AssistantMessage, Diagnostic
from pi_stream.usage import Cost, Usage


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def measured(*moments: tuple[float, Any]) -> Meter:
    """A meter that saw these events at these moments; a moment without an event is when the request went out."""
    clock = Clock()
    meter = Meter(clock)
    for clock.now, event in moments:
        meter.sent() if event is None else meter.saw([event])
    return meter


def message(**fields: Any) -> AssistantMessage:
    """A finished message."""
    return AssistantMessage(**{"stop_reason": "stop", **fields})


def used(**counts: int) -> Usage:
    """Usage with its total."""
    return Usage(**counts, total_tokens=sum(counts.values()))


def test_whole_line() -> None:
    """The line of the documentation."""
    meter = measured(
        (1.0, None), (1.29, TextStart(0)), (1.29, TextDelta(0, "a")), (1.6317, TextDelta(0, "b"))
    )
    line = closing_line(message(usage=used(input=31, output=42)), meter)
    assert line == "stop · 31 in, 42 out · first token 0.29 s · 120 tokens/s · $0.00"


def test_time_counts_from_the_first_attempt_to_the_first_content() -> None:
    """Loading a model before, a bare start, and metadata are no content; a retry does not start the clock anew."""
    meter = measured(
        (5.0, None),
        (6.0, None),
        (6.5, Start(message())),
        (6.6, Metadata(response_id="r")),
        (7.0, TextDelta(0, "a")),
        (9.0, Done("stop", message())),
    )
    assert meter.first_after == 2.0
    assert meter.rate(100) is None  # all content came at one moment


def test_without_a_request_the_clock_runs_from_the_beginning() -> None:
    """A generator provider sends none."""
    assert measured((2.0, TextDelta(0, "a"))).first_after == 2.0


@pytest.mark.parametrize("tokens", [0, 1])
def test_no_rate_of_a_single_token(tokens: int) -> None:
    assert measured((0.0, None), (1.0, TextDelta(0, "a")), (2.0, TextDelta(0, "b"))).rate(tokens) is None


def test_slow_answers_have_a_decimal() -> None:
    meter = measured((0.0, None), (0.0, TextDelta(0, "a")), (4.0, TextDelta(0, "b")))
    assert "2.5 tokens/s" in closing_line(message(usage=used(input=1, output=11)), meter)


def test_what_is_unknown_is_left_out() -> None:
    """Aborted before anything came, or a server that reports no usage."""
    assert closing_line(message(stop_reason="aborted"), measured()) == "aborted"


def test_cached_and_thinking_tokens() -> None:
    usage = Usage(input=10, cache_read=90, cache_write=5, output=20, reasoning=15, total_tokens=125)
    assert "105 in (90 cached), 20 out (15 thinking)" in closing_line(message(usage=usage), measured())


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [(0, "$0.00"), (0.000001, "<$0.0001"), (0.00123, "$0.0012"), (0.5, "$0.5000"), (12.345, "$12.35")],
)
def test_cost(dollars: float, shown: str) -> None:
    usage = Usage(input=1, total_tokens=1, cost=Cost(total=dollars))
    assert closing_line(message(usage=usage), measured()).endswith(f" · {shown}")


def test_model_without_a_price_is_not_free() -> None:
    """Nothing is known of the model: its answer did cost something."""
    unknown = message(usage=used(input=1), diagnostics=[Diagnostic(type="unknown_model")])
    assert closing_line(unknown, measured()).endswith(" · price unknown")
