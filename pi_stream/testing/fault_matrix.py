"""Everything a server can do to a connection, times everything a reader can do: for each api the same rows.

::

    for row in ROWS:
        fault = row.fault(wire)  # play it with FaultServer
        row.outcome(fault, "abort")  # what has to come of it for a reader who aborts
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from attrs import evolve, frozen

from pi_stream.messages import ErrorKind
from pi_stream.options import Limits
from pi_stream.testing._fault import Consumer, Fault, Outcome, Step
from pi_stream.testing.wires import OVERLOADED, Wire

__all__ = ["CONSUMERS", "FIRST", "ROWS", "Row"]

CONSUMERS: tuple[Consumer, ...] = ("read", "leave", "abort", "cancel")
FIRST, _SECOND = "Hel", "lo"
_TEXT = FIRST + _SECOND
_SOON = 0.15
_WHILE = 0.05  # long enough that what was sent before is read before the connection is lost

_DONE = Outcome(text=_TEXT)
_GONE: dict[str, Any] = {"stop": "aborted", "kind": "cancelled", "retryable": False}


def _failed(kind: ErrorKind, text: str = "", **more: Any) -> Outcome:
    return Outcome(stop="error", kind=kind, text=text, **more)


@frozen(kw_only=True)
class Row:
    """Something a server does.

    Attributes:
        name: What it is, in a few words.
        make: Makes the steps and the outcome for who reads to the end, for an api.
        first: The first piece of text that comes, for who leaves there; None where none comes.
        more: Status, headers, options and the like.
    """

    name: str
    make: Callable[[Wire], tuple[tuple[Step, ...], Outcome]]
    first: str | None = None
    more: dict[str, Any]

    def fault(self, wire: Wire) -> Fault:
        """The case of an api."""
        steps, expect = self.make(wire)
        return Fault(id="M", name=self.name, api=wire.api, steps=steps, expect=expect, **self.more)

    def outcome(self, fault: Fault, consumer: Consumer) -> Outcome:
        """What has to come of it: who goes away is `aborted`, if the answer lasts until then."""
        lasts = self.first is not None or ("hold" in fault.steps and consumer != "leave")
        if consumer == "read" or not lasts:
            return fault.expect
        return Outcome(text=self.first or "", **_GONE)

    def case(self, wire: Wire, consumer: Consumer) -> Fault:
        """The case with its reader. Who goes away does so long before any limit."""
        fault = self.fault(wire)
        outcome = self.outcome(fault, consumer)
        options = fault.options if outcome is fault.expect else {}
        return evolve(fault, consumer=consumer, expect=outcome, options=options)


def _row(
    name: str,
    make: Callable[[Wire], tuple[tuple[Step, ...], Outcome]],
    first: str | None = None,
    *,
    limits: Limits | None = None,
    **more: Any,
) -> Row:
    if limits is not None:
        more["options"] = {"limits": limits}
    return Row(name=name, make=make, first=first, more=more)


def _begun(wire: Wire) -> bytes:
    return wire.begin(FIRST, _SECOND)


def _half(wire: Wire) -> bytes:
    """A text, and half a chunk."""
    return _begun(wire) + wire.frames(wire.words("never"))[:-12]


def _completed(wire: Wire) -> bytes:
    return _begun(wire) + wire.completing


def _body(wire: Wire) -> bytes:
    return wire.body(FIRST, _SECOND)


def _drip(wire: Wire) -> tuple[tuple[Step, ...], Outcome]:
    body = _body(wire)
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    return tuple(step for piece in pieces for step in (piece, 0.001)), _DONE


def _garbage(wire: Wire) -> tuple[tuple[Step, ...], Outcome]:
    """Lines of a text stream that mean nothing are ignored, by the standard; other framings have no such thing."""
    lenient = wire.content_type == "text/event-stream"
    return (b"\x00\x01\xfe\xff garbage \x80\n" * 40,), _failed("truncated" if lenient else "malformed")


def _whole(wire: Wire) -> tuple[tuple[Step, ...], Outcome]:
    return (json.dumps(wire.whole(_TEXT)).encode(),), _DONE


def _huge(wire: Wire) -> tuple[tuple[Step, ...], Outcome]:
    return (wire.body("x" * 1_000_000),), _failed("too_large", retryable=False)


def _bomb(wire: Wire) -> tuple[tuple[Step, ...], Outcome]:
    kind: ErrorKind = "malformed" if wire.binary else "too_large"  # a frame of no bytes is none
    return (_packed(wire.binary),), _failed(kind)


@cache
def _packed(binary: bool) -> bytes:
    """64 MB that take some kB on the wire."""
    return gzip.compress(bytes(2**26) if binary else b"data: " + b" " * 2**26, 1)


_HTML = b"<html><head><title>Sign in</title></head><body>Welcome to the hotel network</body></html>"
_TOLD = json.dumps({"error": {"message": OVERLOADED, "type": "overloaded_error"}}).encode()
_HUGE_HEAD = b"HTTP/1.1 200 OK\r\nx-huge: " + b"x" * 1_000_000 + b"\r\ncontent-length: 0\r\n\r\n"
_SMALL = Limits(event_bytes=65536)

ROWS: tuple[Row, ...] = (
    _row("refuse", lambda wire: (("refuse",), _failed("connect", retryable=True)), raw=True),
    _row("reset before the head", lambda wire: (("reset",), _failed("transport", retryable=True)), raw=True),
    _row(
        "reset amid an event",
        lambda wire: ((_half(wire), _WHILE, "reset"), _failed("transport", _TEXT, retryable=True)),
        FIRST,
    ),
    _row("reset after the stop reason", lambda wire: ((_completed(wire), _WHILE, "reset"), _DONE), FIRST),
    _row("reset after the end", lambda wire: ((_body(wire), _WHILE, "reset"), _DONE), FIRST),
    _row(
        "open after the end", lambda wire: ((_body(wire), "hold"), _DONE), FIRST, limits=Limits(drain=_SOON)
    ),
    _row(
        "stall before the head",
        lambda wire: (("hold",), _failed("timeout_head", retryable=True)),
        raw=True,
        limits=Limits(head=_SOON),
    ),
    _row(
        "stall after the head",
        lambda wire: (("hold",), _failed("timeout_first", retryable=True)),
        limits=Limits(first=_SOON),
    ),
    _row(
        "stall amid an event",
        lambda wire: ((_half(wire), "hold"), _failed("timeout_idle", _TEXT, retryable=True)),
        FIRST,
        limits=Limits(idle=_SOON),
    ),
    _row(
        "stall between events",
        lambda wire: ((_begun(wire), "hold"), _failed("timeout_content", _TEXT, retryable=True)),
        FIRST,
        limits=Limits(content=_SOON),
    ),
    _row(
        "stall after the stop reason",
        lambda wire: ((_completed(wire), "hold"), _DONE),
        FIRST,
        limits=Limits(drain=_SOON),
    ),
    _row("slow drip", _drip, FIRST),
    _row("garbage", _garbage),
    _row(
        "garbage instead of HTTP",
        lambda wire: ((b"\x16\x03\x01 garbage\r\n\r\n", "cut"), _failed("transport")),
        raw=True,
    ),
    _row("web page", lambda wire: ((_HTML,), _failed("malformed")), headers={"content-type": "text/html"}),
    _row(
        "gzip",
        lambda wire: ((gzip.compress(_body(wire)),), _DONE),
        FIRST,
        headers={"content-encoding": "gzip"},
    ),
    _row(
        "wrong content type",
        lambda wire: ((_body(wire),), _DONE),
        FIRST,
        headers={"content-type": "application/json"},
    ),
    _row("whole JSON answer", _whole, _TEXT, headers={"content-type": "application/json"}),
    _row("error JSON with 200", lambda wire: ((_TOLD,), _failed("overloaded", retryable=True))),
    _row(
        "redirect",
        lambda wire: ((), _failed("http_status", words="elsewhere.test", retryable=False)),
        status=307,
        headers={"location": "http://elsewhere.test/v1"},
    ),
    _row("huge line", _huge, limits=_SMALL),
    _row("huge head", lambda wire: ((_HUGE_HEAD, "cut"), _failed("transport")), raw=True),
    _row("bomb", _bomb, limits=_SMALL, headers={"content-encoding": "gzip"}),
)
"""What a server does, in the order of a stream's life."""
