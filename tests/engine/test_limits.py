"""Deadlines computed from moments that are handed in: no test here sleeps."""

from __future__ import annotations

import pytest

from pi_stream.engine.limits import LimitClock
from pi_stream.exceptions import TransportError
from pi_stream.options import Limits

OFF = Limits(connect=None, head=None, first=None, idle=None, content=None, total=None, drain=None)


def clock(**limits: float) -> LimitClock:
    return LimitClock(
        Limits(**{"first": None, "idle": None, "content": None, "drain": None, **limits}), 100.0
    )


def test_no_limits_no_deadline() -> None:
    """With everything off nothing ever expires."""
    assert LimitClock(OFF, 100.0).wait(100.0)[0] is None


def test_idle_starts_anew_with_every_wait() -> None:
    """Any bytes, keep-alives included, put the idle deadline off."""
    limits = clock(idle=10)
    assert limits.wait(100.0) == (110.0, "timeout_idle")
    limits.received(109.0)
    assert limits.wait(109.0) == (119.0, "timeout_idle")


def test_keep_alives_do_not_put_off_the_content_deadline() -> None:
    """Bytes that are no content use up the time for the first content, and later for the next."""
    limits = clock(first=10, content=5)
    assert limits.wait(100.0) == (110.0, "timeout_first")
    limits.received(104.0)
    assert limits.wait(104.0) == (110.0, "timeout_first")
    limits.received(105.0)
    limits.content()
    assert limits.wait(105.0) == (110.0, "timeout_content")
    limits.received(108.0)
    assert limits.wait(108.0) == (110.0, "timeout_content")


def test_the_consumers_time_is_not_counted() -> None:
    """Time between the end of one wait and the start of the next belongs to the consumer."""
    limits = clock(first=10, idle=20)
    limits.wait(100.0)
    limits.received(103.0)
    assert limits.wait(1000.0) == (1007.0, "timeout_first")


def test_total_runs_all_the_time() -> None:
    """The total limit is the one that counts the consumer's time too."""
    limits = clock(total=60, idle=10)
    limits.received(101.0)
    assert limits.wait(155.0) == (160.0, "timeout_total")


def test_the_total_ends_a_stream_that_never_waits() -> None:
    """Once it has passed nothing more is read, though there be something to read."""
    limits = clock(total=60)
    assert limits.wait(159.0) == (160.0, "timeout_total")
    with pytest.raises(TransportError, match=r"limits\.total") as caught:
        limits.wait(160.0)
    assert caught.value.kind == "timeout_total"


def test_after_the_stop_reason_only_the_drain_limit_matters() -> None:
    """Keep-alives do not put the end off; content that still comes does."""
    limits = clock(drain=2, content=1, idle=10)
    assert limits.wait(100.0, complete=True) == (102.0, "drain")
    limits.received(101.0)
    assert limits.wait(101.0, complete=True) == (102.0, "drain")
    limits.received(101.5)
    limits.content()
    assert limits.wait(101.5, complete=True) == (103.5, "drain")


def test_what_earlier_attempts_took_counts_for_the_total() -> None:
    """The total limit spans them all."""
    assert LimitClock(Limits(total=60, idle=500), 100.0, elapsed=20.0).wait(100.0)[0] == 140.0


def test_age_of_the_last_byte() -> None:
    """None before the first byte, then whole milliseconds."""
    limits = clock(idle=10)
    assert limits.age_ms(100.0) is None
    limits.received(101.0)
    assert limits.age_ms(103.25) == 2250
