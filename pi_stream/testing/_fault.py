"""What a case of the torture set is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from pi_stream.messages import AssistantMessage, ErrorKind, StopReason

__all__ = ["Consumer", "Fault", "Outcome", "Step"]

Step: TypeAlias = bytes | float | Literal["hold", "cut", "reset", "refuse"]
"""What a server does next: send bytes, wait that many seconds, keep the connection open for ever, close it without the end
that HTTP asks for, or reset it. After the last step the body ends as it should. ``refuse`` stands alone: nobody listens."""

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
        raw: Whether the bytes are all that the server sends, its HTTP head included.
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
    raw: bool = False
    consumer: Consumer = "read"
    options: Mapping[str, Any] = field(factory=dict)

    @property
    def body(self) -> bytes:
        """The bytes of all steps."""
        return b"".join(step for step in self.steps if isinstance(step, bytes))

    @property
    def is_body(self) -> bool:
        """Whether it is all in the bytes: no time, connection or reader has a part in it."""
        silent = all(isinstance(step, bytes) for step in self.steps)
        return self.consumer == "read" and not self.raw and silent

    def __str__(self) -> str:
        return f"{self.id} {self.api}: {self.name}"
