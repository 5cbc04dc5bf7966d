"""The events of a stream: what ``async for`` hands out.

The order is a contract, kept for every api, every custom provider and every way of ending:

1. Exactly one terminal event (``done`` or ``error``), and it is last. ``start`` is first and is handed out together
   with the first block or the terminal event; a failure before that is a lone ``error``.
2. ``content_index`` of a ``*_start`` is the number of blocks before it. A block never changes kind and gets nothing
   after its end, save a late signature through ``metadata``.
3. Every opened block gets its ``*_end`` before the terminal event.
4. Concatenated deltas equal the content of the ``*_end``.
5. ``fold(events so far)`` equals ``stream.message``; ``stop_reason`` is ``pending`` until the terminal event.
6. Text and thinking blocks end when a block of another kind opens; tool calls may interleave.
7. Blocks are never invented empty.
8. A violation becomes one ``error`` event that names the rule.
9. Truncation is never success.
10. The same bytes give the same events, however they are cut.

Events are values: comparable, serialisable, and they carry no live state. The class is the tag: ``match event: case
TextDelta(delta=text)`` and ``event.type == "text_delta"`` both narrow the type.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from attrs import define

from pi_stream.messages import (
    AssistantMessage,
    DeferredHandle,
    Diagnostic,
    ErrorCause,
    ProviderData,
    StopReason,
    ToolCall,
)
from pi_stream.usage import Usage

__all__ = [
    "BlockEnd",
    "Done",
    "DoneReason",
    "Draft",
    "Error",
    "ErrorReason",
    "Event",
    "Fallback",
    "Finish",
    "Metadata",
    "Restart",
    "Retry",
    "Start",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingStart",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
]

DoneReason = Literal["stop", "length", "toolUse", "deferred"]
ErrorReason = Literal["error", "aborted"]


@define(weakref_slot=False)
class Start:
    """An answer begins. ``message`` is the answer to come: api, provider, model, time, no content, ``pending``."""

    type: ClassVar[Literal["start"]] = "start"
    message: AssistantMessage


@define(weakref_slot=False)
class TextStart:
    """A text block opens, empty."""

    type: ClassVar[Literal["text_start"]] = "text_start"
    content_index: int


@define(weakref_slot=False)
class TextDelta:
    """A piece of text."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    content_index: int
    delta: str


@define(weakref_slot=False)
class TextEnd:
    """A text block is complete: ``content`` is all of it."""

    type: ClassVar[Literal["text_end"]] = "text_end"
    content_index: int
    content: str
    text_signature: str | None = None


@define(weakref_slot=False)
class ThinkingStart:
    """A thinking block opens, empty."""

    type: ClassVar[Literal["thinking_start"]] = "thinking_start"
    content_index: int


@define(weakref_slot=False)
class ThinkingDelta:
    """A piece of thinking."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    content_index: int
    delta: str


@define(weakref_slot=False)
class ThinkingEnd:
    """A thinking block is complete. With ``redacted`` the signature is an opaque payload."""

    type: ClassVar[Literal["thinking_end"]] = "thinking_end"
    content_index: int
    content: str
    thinking_signature: str | None = None
    redacted: bool | None = None


@define(weakref_slot=False)
class ToolCallStart:
    """A tool call opens; its name is settled."""

    type: ClassVar[Literal["toolcall_start"]] = "toolcall_start"
    content_index: int
    id: str
    name: str


@define(weakref_slot=False)
class ToolCallDelta:
    """A piece of the JSON text of a call's arguments."""

    type: ClassVar[Literal["toolcall_delta"]] = "toolcall_delta"
    content_index: int
    delta: str


@define(weakref_slot=False)
class ToolCallEnd:
    """A tool call is complete, its arguments parsed."""

    type: ClassVar[Literal["toolcall_end"]] = "toolcall_end"
    content_index: int
    tool_call: ToolCall


@define(weakref_slot=False)
class Metadata:
    """Something that belongs to the message but to no open block.

    ``signature`` comes with the ``content_index`` of the ended block it belongs to; ``usage`` replaces the usage so
    far; ``diagnostic`` and ``provider_data`` are added to the message's lists.
    """

    type: ClassVar[Literal["metadata"]] = "metadata"
    usage: Usage | None = None
    response_id: str | None = None
    response_model: str | None = None
    raw_stop_reason: str | None = None
    diagnostic: Diagnostic | None = None
    provider_data: ProviderData | None = None
    content_index: int | None = None
    signature: str | None = None


@define(weakref_slot=False)
class Done:
    """The answer is complete: ``message`` is all of it."""

    type: ClassVar[Literal["done"]] = "done"
    reason: DoneReason
    message: AssistantMessage


@define(weakref_slot=False)
class Error:
    """The answer failed or was aborted: ``error`` is the message with everything received and the cause."""

    type: ClassVar[Literal["error"]] = "error"
    reason: ErrorReason
    error: AssistantMessage


@define(weakref_slot=False)
class Retry:
    """A notice, for consumers who ask for it (``notices=True``): an attempt failed before anything was handed out.

    Attributes:
        attempt: How many attempts have failed.
        delay_ms: How long the engine waits before the next one, in ms.
        error: The message of the failed attempt, with its cause.
    """

    type: ClassVar[Literal["retry"]] = "retry"
    attempt: int
    delay_ms: int
    error: AssistantMessage


@define(weakref_slot=False)
class Fallback:
    """A notice, for consumers who ask for it: a model failed before content, another one is asked.

    Attributes:
        provider, model: Who is asked now.
        error: The message of the model that failed, with its cause.
    """

    type: ClassVar[Literal["fallback"]] = "fallback"
    provider: str
    model: str
    error: AssistantMessage


@define(weakref_slot=False)
class Restart:
    """The answer broke after content, and begins anew with the next model, as the caller's policy says.

    Everything handed out so far is given up; a new ``start`` follows.

    Attributes:
        message: The new answer to come, pending; a diagnostic in it keeps what was given up.
        error: The message that was given up, with its cause.
    """

    type: ClassVar[Literal["restart"]] = "restart"
    message: AssistantMessage
    error: AssistantMessage


Event: TypeAlias = (
    Start
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Metadata
    | Done
    | Error
    | Retry
    | Fallback
    | Restart
)


# --- drafts: what a translator says, and the guard turns into events ----------------------------------------------


@define(weakref_slot=False)
class BlockEnd:
    """A translator's word that a block is complete. The guard makes the ``*_end`` of it.

    Attributes:
        content_index: The block.
        content: The final text where the provider repeats it: what continues the streamed text becomes a last delta,
            what contradicts it becomes a diagnostic. None where the deltas are all there is.
        signature: Opaque replay data for the block.
        redacted: For thinking whose signature is the payload.
        namespace: For a tool call that has one.
        error: Why a tool call cannot be used although it ended, such as a missing name.
    """

    content_index: int
    content: str | None = None
    signature: str | None = None
    redacted: bool | None = None
    namespace: str | None = None
    error: str | None = None


@define(weakref_slot=False)
class Finish:
    """A translator's or the engine's word that the stream is over. The guard ends open blocks and makes the terminal.

    ``reason`` says how: a :data:`DoneReason`, or ``error`` or ``aborted`` with message and cause.
    """

    reason: StopReason
    error_message: str | None = None
    error_cause: ErrorCause | None = None
    deferred: DeferredHandle | None = None


Draft: TypeAlias = Event | BlockEnd | Finish
"""What a translator may say."""
