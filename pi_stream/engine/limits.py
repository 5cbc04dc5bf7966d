"""Clocks without a clock: which deadline comes next, computed from moments that are handed in.

The clocks for the first content, for silence and for missing content run only while the engine waits for bytes: the
consumer's own time is never counted. Only ``total`` runs all the time.
"""

from __future__ import annotations

from math import inf

from pi_stream.exceptions import TransportError
from pi_stream.options import Limits

__all__ = ["LimitClock"]


class LimitClock:
    """The time limits of one stream. All moments are seconds on one monotonic clock.

    Args:
        limits: The bounds.
        now: When the request started.
        elapsed: Seconds of the total limit that are used up already.
    """

    __slots__ = (
        "_content_left",
        "_drain_left",
        "_end",
        "_got_content",
        "_idle",
        "_limits",
        "_since",
        "last_byte",
    )

    def __init__(self, limits: Limits, now: float, elapsed: float = 0.0) -> None:
        self._limits = limits
        self._end = inf if limits.total is None else now - elapsed + limits.total
        self._idle = limits.idle or inf
        self._content_left = limits.first or inf
        self._drain_left = limits.drain or inf
        self._got_content = False
        self._since = now
        self.last_byte: float | None = None

    def wait(self, now: float, *, complete: bool = False) -> tuple[float | None, str]:
        """The engine begins to wait for bytes.

        Args:
            now: This moment.
            complete: The provider has said why it stopped: only the end is still to come.

        Returns:
            The deadline, or None for no limit, and the kind of error if it passes.

        Raises:
            TransportError: The total limit has passed, whether or not there is something to read.
        """
        self._since = now
        if now >= self._end:
            raise TransportError("the answer took longer than limits.total", kind="timeout_total")
        when, kind = now + self._idle, "timeout_idle"
        if complete:
            if now + self._drain_left < when:
                when, kind = now + self._drain_left, "drain"
        elif now + self._content_left < when:
            when, kind = now + self._content_left, "timeout_content" if self._got_content else "timeout_first"
        if self._end < when:
            when, kind = self._end, "timeout_total"
        return (None, kind) if when == inf else (when, kind)

    def received(self, now: float) -> None:
        """Bytes came, of whatever kind."""
        waited = now - self._since
        self._content_left -= waited
        self._drain_left -= waited
        self.last_byte = now

    def content(self) -> None:
        """What came with the last bytes was content, not a keep-alive."""
        self._got_content = True
        self._content_left = self._limits.content or inf
        self._drain_left = self._limits.drain or inf

    def age_ms(self, now: float) -> int | None:
        """Age of the last byte in ms; None before the first."""
        return None if self.last_byte is None else max(0, round((now - self.last_byte) * 1000))
