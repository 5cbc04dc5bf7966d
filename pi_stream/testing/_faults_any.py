"""Faults that every api can have: of the connection, the framing, the status, the reader. Made for each row of the wires."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pi_stream.options import Limits
from pi_stream.testing._fault import Fault, Outcome, Step
from pi_stream.testing.wires import OVERLOADED, USED, WIRES, Wire, sse_event

__all__ = ["faults"]

_WHOLE = Outcome(text="Hello", usage={"input": USED[0], "output": USED[1]})
_TRUNCATED = Outcome(stop="error", text="Hello", kind="truncated", retryable=True)
_LONG = "a" * 1_000_000


def faults() -> Iterator[Fault]:
    """The cases of all rows."""
    for wire in WIRES.values():
        yield from _ends(wire)
        yield from _errors(wire)
        yield from _chunks(wire)
        yield from _statuses(wire)
        yield from _readers(wire)
        if wire.frame is sse_event:
            yield from _lines(wire)


def _ends(wire: Wire) -> Iterator[Fault]:
    """How an answer can end."""

    def case(id: str, name: str, expect: Outcome, *steps: Step, **more: Any) -> Fault:
        return Fault(id=id, name=name, api=wire.api, steps=steps, expect=expect, **more)

    begun, completing, ending = wire.begin("Hel", "lo"), wire.completing, wire.ending
    tail = Outcome(text="Hello")
    yield case("B01", "the body ends before the provider said why it stopped", _TRUNCATED, begun)
    yield case(
        "B01", "the body ends before anything", Outcome(stop="error", kind="truncated", retryable=True)
    )
    if not wire.binary:
        last = wire.frames(*(wire.complete or wire.end)[-1:]).rstrip()
        yield case("B20", "the last line has no end", tail, (begun + completing).rstrip(b"\n"))
        yield case("B20", "the last line is cut in the middle", _TRUNCATED, begun + last[:-3])
    if ending:
        yield case("B38", "the stop reason comes, the end mark does not", tail, begun + completing)
    lost = Outcome(stop="error", text="Hello", kind="transport", retryable=True)
    yield case("B52", "the connection closes in the middle of a chunk", lost, begun, "cut")
    yield case("B52", "the connection is reset in the middle of an answer", lost, begun, 0.1, "reset")
    note = ("connection_lost_after_end",)
    if ending or not wire.end:
        noted = Outcome(text="Hello", notes=note)
        yield case("B52", "the connection closes after the stop reason", noted, begun + completing, "cut")
    yield case("B49", "the end mark comes, the connection stays open", _WHOLE, wire.body("Hel", "lo"), "hold")
    if ending:
        limits = {"limits": Limits(drain=0.1)}
        yield case(
            "B49",
            "the stop reason comes, then nothing more",
            tail,
            begun + completing,
            "hold",
            options=limits,
        )


def _errors(wire: Wire) -> Iterator[Fault]:
    """Errors inside an answer of status 200."""
    error = wire.frame(wire.error)
    failed = {"stop": "error", "kind": wire.error_kind, "retryable": wire.error_kind == "overloaded"}
    for id, name, body, text in (
        ("B04", "an error comes after some text", wire.begin("Hel") + error, "Hel"),
        (
            "B04",
            "text comes after an error",
            wire.begin("Hel") + error + wire.frames(wire.words("lo")),
            "Hel",
        ),
        ("B10", "an overload is the first thing that comes", error, ""),
    ):
        expect = Outcome(text=text, words=OVERLOADED, **failed)  # type: ignore[arg-type]
        yield Fault(id=id, name=name, api=wire.api, steps=(body,), expect=expect)


def _chunks(wire: Wire) -> Iterator[Fault]:
    """Chunks that are broken, long or equal."""

    def case(id: str, name: str, expect: Outcome, *steps: Step, **options: Any) -> Fault:
        return Fault(id=id, name=name, api=wire.api, steps=steps, expect=expect, options=options)

    broken = Outcome(stop="error", text="Hel", kind="malformed", retryable=True)
    rest = wire.frames(wire.words("lo"), *wire.complete, *wire.end)
    body = wire.begin("Hel") + wire.broken + rest
    yield case("B64", "one chunk is broken", broken, body)
    passed = Outcome(text="Hello", notes=("malformed_chunk",))
    yield case("B64", "one chunk is broken, and may be passed over", passed, body, malformed="lenient")
    yield case("B22", "a chunk of a megabyte", Outcome(text=_LONG), wire.body(_LONG))
    large = Outcome(stop="error", kind="too_large", retryable=False)
    yield case(
        "B22", "a chunk beyond the limit", large, wire.body("a" * 5000), limits=Limits(event_bytes=4096)
    )
    yield case(
        "B83", "the same piece of text twice", Outcome(text="haha\n\n"), wire.body("ha", "ha", "\n", "\n")
    )
    if wire.keep_alive:
        alive: list[Step] = [wire.keep_alive, 0.15] * 10
        steps = (wire.begin("Hel"), *alive, rest)
        yield case(
            "B74", "only keep-alives, for longer than silence may last", _WHOLE, *steps, limits=Limits(idle=1)
        )
        none = Outcome(stop="error", text="Hel", kind="timeout_content", retryable=True)
        limits = Limits(content=0.3)
        yield case(
            "B74", "only keep-alives, for longer than content may stay away", none, *steps, limits=limits
        )


def _statuses(wire: Wire) -> Iterator[Fault]:
    """Answers with an error status, and answers that are no stream."""
    told = json.dumps({"error": {"message": OVERLOADED, "type": "overloaded_error"}}).encode()
    page = b"<html><head><title>502 Bad Gateway</title></head><body><h1>Oh no</h1></body></html>"
    for name, status, headers, body, expect in (
        ("JSON", 529, {}, told, {"kind": "overloaded", "words": OVERLOADED}),
        ("a web page", 502, {"content-type": "text/html"}, page, {"kind": "http_status", "words": "502 Bad Gateway"}),
        ("text", 500, {"content-type": "text/plain"}, b"out of order", {"kind": "http_status", "words": "out of order"}),
        ("nothing", 503, {}, b"", {"kind": "overloaded", "words": "503"}),
        ("a stream", 529, {"content-type": "text/event-stream"}, b"event: error\ndata: " + told + b"\n\n",
         {"kind": "overloaded", "words": OVERLOADED}),
    ):  # fmt: skip
        outcome = Outcome(stop="error", retryable=True, status=status, **expect)  # type: ignore[arg-type]
        yield Fault(
            id="B86",
            name=f"the body of an error status is {name}",
            api=wire.api,
            steps=(body,) if body else (),
            expect=outcome,
            status=status,
            headers=headers,
        )
    malformed = Outcome(stop="error", kind="malformed", words="web page")
    yield Fault(id="B86", name="a web page with status 200", api=wire.api, steps=(page,), expect=malformed)
    wrong = Outcome(stop="error", kind="overloaded", words=OVERLOADED)
    yield Fault(id="B04", name="an error body with status 200", api=wire.api, steps=(told,), expect=wrong)
    whole = json.dumps(wire.whole("Hello")).encode()
    yield Fault(
        id="B32", name="a whole answer instead of a stream", api=wire.api, steps=(whole,), expect=_WHOLE
    )


def _readers(wire: Wire) -> Iterator[Fault]:
    """Readers that go away amid an answer."""
    gone = Outcome(
        stop="aborted", text="Hel", kind="cancelled", retryable=False, usage={"quality": "partial"}
    )
    steps: tuple[Step, ...] = (wire.begin("Hel"), "hold")
    yield Fault(id="B76", name="the reader leaves", api=wire.api, steps=steps, expect=gone, consumer="leave")
    yield Fault(
        id="B77", name="another task aborts", api=wire.api, steps=steps, expect=gone, consumer="abort"
    )
    yield Fault(
        id="B79", name="the reader is cancelled", api=wire.api, steps=steps, expect=gone, consumer="cancel"
    )
    counted = gone
    if wire.api == "anthropic-messages":
        counted = Outcome(stop="aborted", text="Hel", kind="cancelled", usage={"quality": "partial", "input": USED[0]},
                          notes=("usage_estimate",))  # fmt: skip
    name = "the reader leaves before the token counts came"
    yield Fault(id="B37", name=name, api=wire.api, steps=steps, expect=counted, consumer="leave")


def _lines(wire: Wire) -> Iterator[Fault]:
    """Other ways to write the same server-sent events."""
    body = wire.body("Hel", "lo")
    spread = b"".join(_spread(chunk) for chunk in wire.chunks("Hel", "lo"))
    mixed = re.sub(rb"\n\n", b"\n\r\n", body)
    fields = b"\xef\xbb\xbf: hello\nretry: 3000\nid: 7\nevent: x\nunknown: y\n" + body
    for id, name, changed in (
        ("B26", "lines end with CRLF", body.replace(b"\n", b"\r\n")),
        ("B26", "lines end with CR", body.replace(b"\n", b"\r")),
        ("B26", "lines end in several ways", mixed),
        ("B71", "no space after the colon", body.replace(b"data: ", b"data:")),
        ("B71", "two spaces after the colon", body.replace(b"data: ", b"data:  ")),
        ("B73", "an event in several lines", spread),
        ("B73", "comments, ids and unknown fields", fields),
        ("B74", "keep-alives between all events", body.replace(b"\n\n", b"\n\n: keep-alive\n\n")),
    ):
        yield Fault(id=id, name=name, api=wire.api, steps=(changed,), expect=_WHOLE)


def _spread(chunk: Any) -> bytes:
    text = chunk if isinstance(chunk, str) else json.dumps(chunk, indent=1)
    return "".join(f"data: {line}\n" for line in text.split("\n")).encode() + b"\n"
