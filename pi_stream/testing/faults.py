"""The torture set: what servers were seen to do wrong, and what a client has to make of it.

Each case is a named fault of the wire: what a server sends, and the outcome. Any client can run them, since the cases are
plain data; :func:`check_outcome` judges our own messages, :func:`play` runs a case through our pipeline, and
:class:`~pi_stream.testing.fault_server.FaultServer` plays it on a socket::

    for fault in FAULTS:
        if fault.is_body:
            check_outcome(fault, play(fault))

Faults that several apis can have stand in the set once for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from pi_stream.apis import get_api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.engine.pipeline import Pipeline
from pi_stream.events import Event
from pi_stream.guard import Guard
from pi_stream.http import ResponseHead
from pi_stream.messages import AssistantMessage
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.testing import _faults_any, _faults_chat, _faults_others
from pi_stream.testing._fault import Consumer, Fault, Outcome, Step
from pi_stream.testing.events import check_events

__all__ = ["FAULTS", "Consumer", "Fault", "Outcome", "Step", "check_outcome", "cuts", "play"]


def play(fault: Fault, pieces: Iterable[bytes] | None = None) -> list[Event]:
    """Run a fault that is all in its bytes through the pipeline of a live stream.

    Args:
        fault: The case.
        pieces: Its body as it comes, read by read; None for all at once.

    Returns:
        The events.
    """
    options = StreamOptions(**fault.options)
    model = Model(id="m", api=fault.api, provider="faults")
    head = AssistantMessage(api=fault.api, provider="faults", model="m", timestamp=0)
    guard = Guard(head, max_blocks=options.limits.blocks, max_argument_bytes=options.limits.argument_bytes)
    response = ResponseHead(status=fault.status, headers=dict(fault.headers))
    pipeline = Pipeline(get_api(fault.api), TranslatorSetup(model=model, options=options), response, guard)
    events: list[Event] = []
    for piece in [fault.body] if pieces is None else pieces:
        events += pipeline.feed(piece)
    return events + pipeline.end()


def cuts(body: bytes, *, small: int = 2048, step: int = 1) -> Iterator[list[bytes]]:
    """Ways to cut a body into reads.

    A small one at every byte, all at once and one by one. A larger one around the end of each line: just before it, right
    at it and just behind it, everywhere at once; frames without lines are cut every 61 bytes.

    Args:
        body: The body.
        small: How large a small one is, in bytes.
        step: Of the places in a small one, every how many is the one cut.
    """
    if len(body) <= small:
        yield [body[at : at + 1] for at in range(len(body))]
        for at in range(1, len(body), step):
            yield [body[:at], body[at:]]
        return
    borders = [at + 1 for at, byte in enumerate(body) if byte in b"\r\n"] or list(range(0, len(body), 61))
    for shift in (-1, 0, 1):
        places = sorted({0, len(body), *(min(max(at + shift, 0), len(body)) for at in borders)})
        yield [body[begin:end] for begin, end in pairwise(places)]


def check_outcome(fault: Fault, events: list[Event]) -> AssistantMessage:
    """Check that a stream made of a fault what it had to.

    Args:
        fault: The case.
        events: All events of the stream; they are checked with :func:`~pi_stream.testing.check_events` too.

    Returns:
        The final message.

    Raises:
        AssertionError: Something is not as expected.
    """
    message, expect = check_events(events), fault.expect
    calls = tuple(
        (call.name, None if call.arguments_error else call.arguments) for call in message.tool_calls
    )
    cause = message.error_cause
    found: dict[str, Any] = {
        "stop": message.stop_reason,
        "text": message.text,
        "thinking": message.thinking,
        "calls": calls,
        "kind": cause.kind if cause is not None else None,
    }
    wanted = {name: getattr(expect, name) for name in found}
    if cause is not None:
        for name, value in (
            ("retryable", cause.retryable),
            ("code", cause.provider_code),
            ("status", cause.status),
        ):
            if getattr(expect, name) is not None:
                found[name], wanted[name] = value, getattr(expect, name)
    for name, value in expect.usage.items():
        found[name], wanted[name] = getattr(message.usage, name), value
    wrong = "; ".join(
        f"{name} is {found[name]!r:.200}, not {wanted[name]!r:.200}"
        for name in found
        if found[name] != wanted[name]
    )
    assert not wrong, f"{fault}: {wrong} ({message.error_message})"
    assert expect.words in (message.error_message or ""), f"{fault}: {message.error_message}"
    notes = [diagnostic.type for diagnostic in message.diagnostics or ()]
    assert set(expect.notes) <= set(notes), f"{fault}: the diagnostics are {notes}"
    if expect.check is not None:
        expect.check(message)
    return message


FAULTS: tuple[Fault, ...] = (*_faults_any.faults(), *_faults_chat.faults(), *_faults_others.faults())
"""All cases."""
