"""One scripted reply, and how it is played: cut into pieces of a fixed size, paced, and broken off where it should be."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from inspect import isawaitable
from itertools import groupby
from typing import Any, TypeAlias

from anyio import sleep, sleep_forever
from attrs import Attribute, evolve, field, frozen

from pi_stream.engine.generator import GeneratorRequest
from pi_stream.events import (
    BlockEnd,
    Draft,
    Finish,
    Metadata,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallDelta,
    ToolCallStart,
)
from pi_stream.exceptions import ConfigError
from pi_stream.messages import (
    AssistantMessage,
    Content,
    DeferredHandle,
    ErrorCause,
    Message,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from pi_stream.usage import Usage, price

__all__ = ["Answer", "Reply", "ReplyFunction", "ReplyLike", "play"]

CHUNK_SIZE = 16  # characters: four tokens of four characters, as many providers send them
_ACCIDENTS = ("fail_after", "stall_after", "truncate_after")


def _at_least(least: int) -> Callable[[Any, Attribute[Any], Any], None]:
    def check(instance: Any, attribute: Attribute[Any], value: Any) -> None:
        if value is not None and not value >= least:
            raise ConfigError(f"Reply.{attribute.name} must be {least} or more, not {value!r}")

    return check


@frozen
class Reply:
    """One scripted reply: what is said, how it is cut and paced, and how it ends.

    A *piece* is what the provider hands over at once: one delta, with the start of its block before the first and the
    end after the last, or one item that is passed as it is. ``fail_after``, ``stall_after`` and ``truncate_after``
    count pieces; at most one is given, and what it says happens at the latest before the end.

    Attributes:
        content: A string, a content block, an assistant message, or a list of blocks and strings. A string in a list is
            a text block. Anything else in it is passed as it is in its place, such as ``Metadata(...)``. An empty text
            without a signature opens no block. Of a message everything but api, provider, model and times is played; its
            ``pending`` reads as not given.
        stop_reason: How it ends; ``deferred`` with a handle, ``error`` with an error, ``toolUse`` with a tool call, else
            ``stop``, when not given.
        usage: Token counts; when not given, estimated: a token for every four characters of prompt and answer.
        error: A text is reported as the provider's error, an exception is raised: after the content, or ``fail_after``.
        error_cause: The fields of a reported error; a retryable provider error when not given.
        fail_after: Pieces before it fails; with no ``error`` the provider raises.
        stall_after: Pieces before it gives nothing any more, until a limit or the caller ends it.
        truncate_after: Pieces before it returns without an end.
        interleave: Whether the pieces of tool calls that follow each other alternate.
        chunk_size: Characters of a piece.
        delay: Seconds between two pieces.
        first_delay: Seconds before anything.
        deferred: The ticket of an answer that comes later.
        response_id: The provider's id of the answer.
        metadata: What is sent before the end and belongs to no block.
        events: Instead of content and end: parts, events, drafts or lists of them, passed as they are.
    """

    content: str | Content | AssistantMessage | Sequence[Any] = ""
    stop_reason: StopReason | None = field(default=None, kw_only=True)
    usage: Usage | None = field(default=None, kw_only=True)
    error: str | Exception | None = field(default=None, kw_only=True)
    error_cause: ErrorCause | None = field(default=None, kw_only=True)
    fail_after: int | None = field(default=None, validator=_at_least(0), kw_only=True)
    stall_after: int | None = field(default=None, validator=_at_least(0), kw_only=True)
    truncate_after: int | None = field(default=None, validator=_at_least(0), kw_only=True)
    interleave: bool = field(default=False, kw_only=True)
    chunk_size: int = field(default=CHUNK_SIZE, validator=_at_least(1), kw_only=True)
    delay: float = field(default=0.0, validator=_at_least(0), kw_only=True)
    first_delay: float = field(default=0.0, validator=_at_least(0), kw_only=True)
    deferred: DeferredHandle | None = field(default=None, kw_only=True)
    response_id: str | None = field(default=None, kw_only=True)
    metadata: Sequence[Metadata] = field(default=(), kw_only=True)
    events: Sequence[Any] | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if len([name for name in _ACCIDENTS if getattr(self, name) is not None]) > 1:
            raise ConfigError(f"a Reply takes one of {', '.join(_ACCIDENTS)}, not several")
        if self.events is not None and self.content:
            raise ConfigError("a Reply takes content or events, not both")


Answer: TypeAlias = str | Content | AssistantMessage | Sequence[Any] | Reply
"""What is replied: a string, a block, a message, a list of blocks, or a :class:`Reply` for control of every detail."""

ReplyFunction: TypeAlias = Callable[[GeneratorRequest], Answer | Awaitable[Answer]]
"""Makes the reply from the request, when the request is made. May be async."""

ReplyLike: TypeAlias = Answer | ReplyFunction
"""What a script is made of."""


async def play(step: ReplyLike, request: GeneratorRequest, settings: Reply) -> AsyncGenerator[Any, None]:
    """Play one step of a script, as a generator provider does.

    Args:
        step: The reply, or what makes it.
        request: What was asked.
        settings: Cutting and pacing for a step that is no :class:`Reply`.
    """
    if callable(step):
        made = step(request)
        step = await made if isawaitable(made) else made
    reply = _unpacked(step if isinstance(step, Reply) else evolve(settings, content=step))
    pieces = _pieces(reply) if reply.events is None else list(reply.events)
    del pieces[_cut(reply, len(pieces)) :]
    await sleep(reply.first_delay)
    if reply.response_id is not None:
        yield Metadata(response_id=reply.response_id)
    for position, piece in enumerate(pieces):
        # Also without a delay this lets other tasks run, as waiting for a socket would.
        await sleep(reply.delay if position else 0)
        yield piece
    if reply.fail_after is not None and reply.error is None:
        raise RuntimeError(f"scripted failure after {len(pieces)} pieces")
    if isinstance(reply.error, Exception):
        raise reply.error
    if reply.stall_after is not None:
        await sleep_forever()
    if reply.truncate_after is None and (reply.events is None or reply.error is not None):
        yield _end(reply, _estimate(request, pieces))


def _cut(reply: Reply, count: int) -> int:
    """After how many of the pieces the reply breaks off."""
    return min(count if (after := getattr(reply, name)) is None else after for name in _ACCIDENTS)


def _unpacked(reply: Reply) -> Reply:
    """The reply with the parts of a message as its own; what the reply says itself wins."""
    message = reply.content
    if not isinstance(message, AssistantMessage):
        return reply
    notes = [Metadata(response_model=message.response_model, raw_stop_reason=message.raw_stop_reason)]
    notes += [Metadata(diagnostic=diagnostic) for diagnostic in message.diagnostics or ()]
    notes += [Metadata(provider_data=entry) for entry in message.provider_data or ()]
    says = message.stop_reason != "pending" and reply.error is None
    return evolve(
        reply,
        content=message.content,
        stop_reason=reply.stop_reason or (message.stop_reason if says else None),
        usage=reply.usage or (None if message.usage == Usage() else message.usage),
        error=reply.error or message.error_message,
        error_cause=reply.error_cause or message.error_cause,
        deferred=reply.deferred or message.deferred,
        response_id=reply.response_id or message.response_id,
        metadata=[*(note for note in notes if note != Metadata()), *reply.metadata],
    )


# --- content to pieces ------------------------------------------------------------------------------------------------


def _items(content: Any) -> list[Any]:
    """The content as a list, strings made blocks, blocks that would be empty left out."""
    several = isinstance(content, Sequence) and not isinstance(content, str)
    items: Iterable[Any] = content if several else [content]
    blocks = [TextContent(item) if isinstance(item, str) else item for item in items]
    return [block for block in blocks if not _is_empty(block)]


def _is_empty(item: Any) -> bool:
    match item:
        case TextContent():
            return not item.text and not item.text_signature
        case ThinkingContent():
            return not item.thinking and not item.thinking_signature
        case _:
            return False


def _pieces(reply: Reply) -> list[Any]:
    """All pieces of the content, in the order they are played."""
    groups: list[list[list[Any]]] = []  # what alternates, of which each is a list of pieces
    index = 0
    for is_call, items in groupby(_items(reply.content), lambda item: isinstance(item, ToolCall)):
        cut: list[list[Any]] = []
        for item in items:
            is_block = isinstance(item, TextContent | ThinkingContent | ToolCall)
            cut.append(_block_pieces(index, item, reply.chunk_size) if is_block else [item])
            index += is_block
        groups += [cut] if is_call and reply.interleave else [[one] for one in cut]
    return [piece for group in groups for piece in _alternate(group)]


def _alternate(lists: list[list[Any]]) -> list[Any]:
    """The first of each, then the second of each, and so on."""
    longest = max(map(len, lists))
    return [one[position] for position in range(longest) for one in lists if position < len(one)]


def _block_pieces(
    index: int, block: TextContent | ThinkingContent | ToolCall, size: int
) -> list[list[Draft]]:
    start: Draft
    delta: Callable[[int, str], Draft]
    match block:
        case TextContent():
            start, delta, text = TextStart(index), TextDelta, block.text
            end = BlockEnd(index, signature=block.text_signature)
        case ThinkingContent():
            start, delta, text = ThinkingStart(index), ThinkingDelta, block.thinking
            end = BlockEnd(index, signature=block.thinking_signature, redacted=block.redacted)
        case ToolCall():
            start, delta = ToolCallStart(index, block.id, block.name), ToolCallDelta
            text, error = _argument_text(block)
            end = BlockEnd(index, signature=block.thought_signature, namespace=block.namespace, error=error)
    pieces: list[list[Draft]] = [
        [delta(index, text[at : at + size])] for at in range(0, len(text), size)
    ] or [[]]
    pieces[0].insert(0, start)
    pieces[-1].append(end)
    return pieces


def _argument_text(call: ToolCall) -> tuple[str, str | None]:
    """The text that is streamed for the arguments, and what is wrong with it."""
    if call.arguments_error is not None:
        error, _, text = call.arguments_error.partition("\n\n")
        return text, error
    return json.dumps(call.arguments, ensure_ascii=False), None


# --- the end ----------------------------------------------------------------------------------------------------------


def _end(reply: Reply, estimate: Usage) -> list[Draft]:
    """What comes after the last piece. Copies: a reply may be played again."""
    usage = deepcopy(reply.usage) if reply.usage is not None else estimate
    reason, error = _stop_reason(reply), None
    cause = deepcopy(reply.error_cause)
    if reason in ("error", "aborted"):
        error = str(reply.error or f"the script ends with {reason!r}")
        if cause is None and reason == "error":
            cause = ErrorCause(kind="provider_error", origin="provider", retryable=True)
    notes = [] if reply.events is not None else [*deepcopy(list(reply.metadata)), Metadata(usage=usage)]
    return [*notes, Finish(reason, error, cause, deepcopy(reply.deferred))]


def _stop_reason(reply: Reply) -> StopReason:
    if reply.stop_reason is not None:
        return reply.stop_reason
    if reply.error is not None:
        return "error"
    if reply.deferred is not None:
        return "deferred"
    return "toolUse" if any(isinstance(item, ToolCall) for item in _items(reply.content)) else "stop"


def _estimate(request: GeneratorRequest, pieces: Sequence[Any]) -> Usage:
    """Four characters are a token: of the prompt as text, and of what was played."""
    prompt = "\n\n".join(f"{message.role}:{_text(message)}" for message in request.messages)
    said = sum(
        len(getattr(draft, "delta", "")) for piece in pieces if isinstance(piece, list) for draft in piece
    )
    usage = Usage(input=-(-len(prompt) // 4), output=-(-said // 4), quality="estimated")
    usage.total_tokens = usage.input + usage.output
    usage.cost = price(usage, request.model.cost)
    return usage


def _text(message: Message) -> str:
    """The text of a message, for counting."""
    if isinstance(message.content, str):
        return message.content
    return "".join(map(_block_text, message.content))


def _block_text(block: Any) -> str:
    match block:
        case TextContent():
            return block.text
        case ThinkingContent():
            return block.thinking
        case ToolCall():
            return block.name + _argument_text(block)[0]
        case _:
            return ""
