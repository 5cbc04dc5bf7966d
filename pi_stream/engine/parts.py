"""What a generator provider yields: text, thinking, tool calls, usage and how it ended.

A generator may also yield :mod:`events <pi_stream.events>` themselves, or lists of either, to control every detail.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from attrs import define

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._toolcalls import Calls, Fragment
from pi_stream.events import Draft, Finish, Metadata
from pi_stream.exceptions import ProtocolViolation
from pi_stream.messages import DeferredHandle, ErrorCause, StopReason
from pi_stream.usage import Usage

__all__ = ["Assembler", "Part", "finish", "text", "thinking", "tool_call", "usage"]


@define(weakref_slot=False)
class _Text:
    delta: str


@define(weakref_slot=False)
class _Thinking:
    delta: str
    signature: str | None = None


@define(weakref_slot=False)
class _ToolCall:
    fragment: Fragment


Part: TypeAlias = "_Text | _Thinking | _ToolCall | Draft"
"""What a generator provider may yield."""


def text(delta: str) -> Part:
    """A piece of text. Consecutive pieces make one block."""
    return _Text(delta)


def thinking(delta: str, *, signature: str | None = None) -> Part:
    """A piece of thinking. Consecutive pieces make one block; ``signature`` is replay data for the block."""
    return _Thinking(delta, signature)


def tool_call(name: str, arguments: dict[str, Any] | str = "", *, id: str | None = None) -> Part:
    """A tool call, whole or in pieces.

    Args:
        name: The tool.
        arguments: The arguments, or a piece of their JSON text.
        id: Identity of the call; a call that comes in pieces repeats it. Made up when not given.
    """
    return _ToolCall(Fragment(name=name, arguments=arguments, id=id))


def usage(
    *,
    input: int = 0,
    output: int = 0,
    cache_read: int = 0,
    cache_write: int = 0,
    reasoning: int | None = None,
) -> Part:
    """Token counts so far; later ones replace earlier ones. The four counts are disjoint."""
    total = input + output + cache_read + cache_write
    return Metadata(
        usage=Usage(
            input=input,
            output=output,
            cache_read=cache_read,
            cache_write=cache_write,
            reasoning=reasoning,
            total_tokens=total,
        )
    )


def finish(
    reason: StopReason = "stop", *, error: str | None = None, deferred: DeferredHandle | None = None
) -> Part:
    """The answer is over. Nothing is read after it.

    Args:
        reason: ``stop``, ``length``, ``toolUse``, ``deferred`` or ``error``.
        error: What went wrong, with reason ``error``.
        deferred: The ticket, with reason ``deferred``.
    """
    if reason == "error":
        cause = ErrorCause(kind="provider_error", origin="provider", retryable=True)
        return Finish(reason, error or "the provider reported an error", cause)
    return Finish(reason, deferred=deferred)


class Assembler:
    """Opens, indexes and closes blocks for the parts of one generator, and gives drafts for the guard."""

    __slots__ = ("_blocks", "_calls")

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._calls = Calls(self._blocks, lambda position: f"call_{position}")

    def drafts(self, part: Any) -> list[Draft]:
        """What a yielded value means.

        Raises:
            ProtocolViolation: A piece of text is no text.
        """
        out: list[Draft] = []
        for one in part if isinstance(part, list) else [part]:
            self._add(one, out)
        return out

    def _add(self, part: Any, out: list[Draft]) -> None:
        match part:
            case _Text(delta=delta):
                if piece := _checked(delta):
                    self._calls.settle(out)
                    self._blocks.text(piece, out)
            case _Thinking(delta=delta, signature=signature):
                piece = _checked(delta)
                if piece or signature:
                    self._calls.settle(out)
                if piece:
                    self._blocks.thinking(piece, out)
                elif signature and self._blocks.kind != "thinking":
                    self._blocks.open_thinking(out)
                self._blocks.signature = signature or self._blocks.signature
            case _ToolCall(fragment=fragment):
                self._calls.add(fragment, out)
            case Finish():
                self._blocks.close(out)
                self._calls.close(out)
                out.append(part)
            case _:  # an event or a draft that the generator indexes itself, or what the guard will refuse
                out.append(part)


def _checked(delta: Any) -> str:
    if not isinstance(delta, str):
        raise ProtocolViolation(8, f"a delta must be str, not {type(delta).__name__}")
    return str(delta)  # plain str, also of a subclass
