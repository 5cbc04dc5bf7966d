"""Checks for streams, importable in any test suite: plain functions that raise ``AssertionError``, no pytest inside."""

from __future__ import annotations

from pi_stream.testing.events import check_events
from pi_stream.testing.waits import without_waits

__all__ = ["check_events", "without_waits"]
