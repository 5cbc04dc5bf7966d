"""The blocks of the wire, one class for each of three kinds: prose, tool calls, and what has no block of ours.

A part takes the pieces of its block and is told when the wire stops it. :mod:`content` finds the part of a piece.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Literal, TypeAlias

from pi_stream.apis._blocks import Blocks
from pi_stream.events import BlockEnd, Draft, Metadata, TextDelta, ThinkingDelta, ToolCallDelta
from pi_stream.exceptions import DecodeError
from pi_stream.wire import json

__all__ = ["REDACTED", "Call", "Kept", "Part", "Prose", "ProseKind"]

REDACTED = "[Reasoning redacted]"
"""What stands for thinking that only the provider can read."""

ProseKind: TypeAlias = Literal["text", "thinking", "redacted"]


class Prose:
    """Text, thinking, or thinking that cannot be read: our block opens with it.

    Attributes:
        wire: The number of its block on the wire.
        index: The index of ours.
        ended: Whether our block has ended.
        opaque: Pieces of the signature, or of what cannot be read.
    """

    __slots__ = ("_late", "ended", "index", "kind", "opaque", "wire")

    def __init__(self, wire: int | None, kind: ProseKind, blocks: Blocks, out: list[Draft]) -> None:
        self.wire = wire
        self.kind = kind
        self.index = blocks.open_text(out) if kind == "text" else blocks.open_thinking(out)
        self.ended = False
        self.opaque: list[str] = []
        self._late = False
        if kind == "redacted":
            out.append(ThinkingDelta(self.index, REDACTED))

    def take(self, text: str, out: list[Draft]) -> None:
        """The next piece of what is read."""
        out.append(TextDelta(self.index, text) if self.kind == "text" else ThinkingDelta(self.index, text))

    def sign(self, piece: str) -> None:
        """The next piece of what is only replayed."""
        self.opaque.append(piece)
        self._late = self.ended

    def end(self, blocks: Blocks, out: list[Draft]) -> None:
        """Our block is over: the wire stops it, or another one opens."""
        if not self.ended:
            self.ended = True
            blocks.signature = self._signature()
            blocks.close(out, redacted=True if self.kind == "redacted" else None)

    def settle(self, out: list[Draft]) -> None:
        """Nothing more comes for it: say what came after the end of our block."""
        if self._late:
            self._late = False
            out.append(Metadata(content_index=self.index, signature=self._signature()))

    def _signature(self) -> str | None:
        joined = _join_base64(self.opaque) if self.kind == "redacted" else "".join(self.opaque)
        return joined or None


class Call:
    """A tool call. Its input comes in pieces; gateways may send it whole with the start of the block.

    Attributes:
        ended: Whether the provider has ended it.
    """

    __slots__ = ("_input", "_name", "ended", "id", "index")

    def __init__(self, start: dict[str, Any], made_up_id: str, blocks: Blocks, out: list[Draft]) -> None:
        id, name, self._input = start.get("toolUseId"), start.get("name"), start.get("input")
        self.id = id if isinstance(id, str) and id else made_up_id
        self._name = name if isinstance(name, str) else ""
        self.ended = False
        self.index = blocks.open_call(self.id, self._name, out)

    def take(self, piece: Any, out: list[Draft]) -> None:
        """The next piece of the input."""
        text = piece if isinstance(piece, str) else _json_text(piece)
        if text:
            out.append(ToolCallDelta(self.index, text))

    def end(self, out: list[Draft]) -> None:
        """The wire's block is over. Input from its start that no piece repeated becomes the one piece."""
        if not self.ended:
            self.ended = True
            error = None if self._name else "the provider sent a tool call without a name"
            out.append(BlockEnd(self.index, _json_text(self._input) or None, error=error))


class Kept:
    """A block that we have no block for, such as a tool that the provider runs: put together as requests have it.

    Attributes:
        kind: The member of the content block that it is.
        after: How many of our blocks came before it.
    """

    __slots__ = ("_fields", "_pieces", "_values", "after", "kind", "stopped")

    def __init__(self, kind: str, start: dict[str, Any], after: int) -> None:
        self.kind = kind
        self.after = after
        self.stopped = False
        self._fields = dict(start)
        self._pieces: list[str] = []
        self._values: list[Any] = []

    def take(self, value: Any) -> None:
        """The next piece."""
        piece = _text_in(self.kind, value)
        if piece is not None:
            self._pieces.append(piece)
        elif isinstance(value, list):
            self._values += value
        else:
            self._values.append(value)

    def data(self) -> dict[str, Any]:
        """The block, as far as it came."""
        fields = dict(self._fields)
        if self._pieces and self.kind == "image":
            fields["source"] = {"bytes": _join_base64(self._pieces)}
        elif self._pieces:
            fields["input"] = _parsed("".join(self._pieces))
        if self._values:
            fields[_PLURALS.get(self.kind, "deltas")] = self._values
        return {self.kind: fields}


Part: TypeAlias = Prose | Call | Kept

_PLURALS = {"toolResult": "content", "citationsContent": "citations"}


def _text_in(kind: str, value: Any) -> str | None:
    """The text of a piece that continues the one before it."""
    if not isinstance(value, dict):
        return None
    source = value.get("source")
    found = value.get("input") if kind == "toolUse" else None
    if kind == "image" and isinstance(source, dict):
        found = source.get("bytes")
    return found if isinstance(found, str) else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except DecodeError:
        return text


def _json_text(value: Any) -> str:
    return json.dumps(value).decode() if value else ""


def _join_base64(pieces: list[str]) -> str:
    """One base64 text for the bytes of several."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        return b64encode(b"".join(b64decode(piece, validate=True) for piece in pieces)).decode()
    except ValueError:  # cut in the middle of four letters
        return "".join(pieces)
