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

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from pi_stream.apis import get_api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.engine.pipeline import Pipeline
from pi_stream.events import Event
from pi_stream.guard import Guard
from pi_stream.http import ResponseHead
from pi_stream.messages import AssistantMessage, ErrorKind, StopReason
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.testing.events import check_events

__all__ = ["FAULTS", "Consumer", "Fault", "Outcome", "Step", "check_outcome", "cuts", "play"]

Step: TypeAlias = bytes | float | Literal["hold", "cut", "reset"]
"""What a server does next: send bytes, wait that many seconds, keep the connection open for ever, close it without the end
that HTTP asks for, or reset it. After the last step the body ends as it should."""

Consumer: TypeAlias = Literal["read", "leave", "abort", "cancel"]
"""What the reader does: read to the end, or go at the first piece of text, by leaving, aborting or being cancelled."""


@frozen(kw_only=True)
class Outcome:
    """What a client has to make of a fault.

    Attributes:
        stop: The stop reason.
        text, thinking: All of it, joined.
        calls: Name and arguments of each tool call; None for arguments that could not be read.
        kind: Kind of the error.
        retryable: Whether the error may go away by itself; None where it does not matter.
        code, status: What the provider or HTTP calls the error.
        words: What the error message says, among other things.
        usage: Token counts that must be so, by the attributes of :class:`~pi_stream.usage.Usage`.
        notes: Types of diagnostics that must be there.
        check: Looks at what is in none of these fields.
    """

    stop: StopReason = "stop"
    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, dict[str, Any] | None], ...] = ()
    kind: ErrorKind | None = None
    retryable: bool | None = None
    code: str | None = None
    status: int | None = None
    words: str = ""
    usage: Mapping[str, Any] = field(factory=dict)
    notes: tuple[str, ...] = ()
    check: Callable[[AssistantMessage], object] | None = None


@frozen(kw_only=True)
class Fault:
    """A case.

    Attributes:
        id: The fault it is a case of, such as ``B01``.
        name: What the server does.
        api: Whose protocol it speaks.
        steps: What it does, one by one.
        expect: What has to come of it.
        status, headers: Of the answer.
        consumer: What the reader does.
        options: Options of the request.
    """

    id: str
    name: str
    api: str
    steps: tuple[Step, ...]
    expect: Outcome
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict)
    consumer: Consumer = "read"
    options: Mapping[str, Any] = field(factory=dict)

    @property
    def body(self) -> bytes:
        """The bytes of all steps."""
        return b"".join(step for step in self.steps if isinstance(step, bytes))

    @property
    def is_body(self) -> bool:
        """Whether it is all in the bytes: no time, connection or reader has a part in it."""
        return self.consumer == "read" and all(isinstance(step, bytes) for step in self.steps)

    def __str__(self) -> str:
        return f"{self.id} {self.api}: {self.name}"


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
    guard = Guard(
        head, max_blocks=options.limits.blocks, max_argument_bytes=options.limits.argument_bytes
    )
    response = ResponseHead(status=fault.status, headers=dict(fault.headers))
    pipeline = Pipeline(get_api(fault.api), TranslatorSetup(model=model, options=options), response, guard)
    events: list[Event] = []
    for piece in [fault.body] if pieces is None else pieces:
        events += pipeline.feed(piece)
    return events + pipeline.end()


def cuts(body: bytes, *, small: int = 2048, most: int = 200) -> Iterator[list[bytes]]:
    """Ways to cut a body into reads.

    A small one at every byte, and in two at each of its bytes. A larger one around the end of each line: just before it,
    right at it and just behind it, everywhere at once; frames without lines are cut every 61 bytes.

    Args:
        body: The body.
        small: Up to this many bytes it is cut everywhere.
        most: Up to this many bytes it is also cut in two everywhere.
    """
    if len(body) <= small:
        yield [body[at : at + 1] for at in range(len(body))]
        for at in range(1, len(body), 1 if len(body) <= most else 7):
            yield [body[:at], body[at:]]
        return
    borders = [at + 1 for at, byte in enumerate(body) if byte in b"\r\n"] or list(range(0, len(body), 61))
    for shift in (-1, 0, 1):
        places = sorted({0, len(body), *(min(max(at + shift, 0), len(body)) for at in borders)})
        yield [body[begin:end] for begin, end in zip(places, places[1:], strict=False)]


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
    found = {
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
    assert found == wanted, f"{fault}: {message.error_message or ''}"
    assert expect.words in (message.error_message or ""), f"{fault}: {message.error_message}"
    notes = [diagnostic.type for diagnostic in message.diagnostics or ()]
    assert set(expect.notes) <= set(notes), f"{fault}: the diagnostics are {notes}"
    if expect.check is not None:
        expect.check(message)
    return message


def _all_faults() -> tuple[Fault, ...]:
    from pi_stream.testing import _faults_any, _faults_chat, _faults_others  # they are made of the classes above

    return (*_faults_any.faults(), *_faults_chat.faults(), *_faults_others.faults())


FAULTS: tuple[Fault, ...] = _all_faults()
"""All cases."""
