"""The blocks of the wire, one class for each of the three kinds: prose, tool calls, and what has no block of ours.

A part takes the pieces of its block and is told when the wire stops it. :mod:`content` finds the part of a piece.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import excerpt
from pi_stream.events import BlockEnd, Draft, Metadata, TextDelta, ThinkingDelta, ToolCallDelta
from pi_stream.exceptions import DecodeError
from pi_stream.wire import json

__all__ = ["Answer", "Call", "Kept", "Part", "Prose"]


class Answer(Protocol):
    """What parts know of the answer they belong to.

    Attributes:
        blocks: Our blocks.
        prose: Whose text or thinking block is open.
        current: Whose block took the last piece: the next one is likely for it too.
    """

    blocks: Blocks
    prose: Prose | None
    current: Prose | Call | None

    def end_prose(self, out: list[Draft]) -> None:
        """End the open text or thinking block, if there is one."""
        ...

    def keep(self, data: Any, after: int, out: list[Draft]) -> None:
        """Keep the provider's JSON, behind ``after`` content blocks."""
        ...

    def note(self, kind: str, details: dict[str, Any], out: list[Draft]) -> None:
        """Note something odd."""
        ...


class Prose:
    """Text or thinking. Our block opens with the first piece; ``index`` is that of the open block, or of the last."""

    kept = False
    __slots__ = (
        "answer",
        "citations",
        "delta_type",
        "draft",
        "ended",
        "field",
        "index",
        "late",
        "signature",
        "wire",
    )

    def __init__(self, answer: Answer, wire: int | None, field: Literal["text", "thinking"]) -> None:
        self.answer = answer
        self.wire = wire
        self.field: str = field
        self.delta_type = f"{field}_delta"
        self.draft: Any = TextDelta if field == "text" else ThinkingDelta
        self.index = -1
        self.ended = False
        self.late = False  # a signature came after the end of our block
        self.signature: list[str] = []
        self.citations: list[Any] = []

    def take(self, piece: dict[str, Any], out: list[Draft]) -> None:
        """A delta, or what the start of the block holds."""
        text = piece.get(self.field)
        if isinstance(text, str) and text:
            if self.answer.prose is not self:
                self._open(out)
            out.append(self.draft(self.index, text))
            self.answer.current = self
        signature = piece.get("signature")
        if isinstance(signature, str) and signature:
            self.signature.append(signature)
            self.late = self.ended
        if piece.get("citation"):
            self.citations.append(piece["citation"])
        if isinstance(piece.get("citations"), list):
            self.citations += piece["citations"]

    def _open(self, out: list[Draft]) -> None:
        if self.ended:
            self.answer.note("block_reopened", {"index": self.wire}, out)
            self.signature.clear()
        self.answer.end_prose(out)
        blocks = self.answer.blocks
        self.index = blocks.open_text(out) if self.field == "text" else blocks.open_thinking(out)
        self.answer.prose = self
        self.ended = self.late = False

    def end(self, out: list[Draft]) -> None:
        """Our block is over: the wire stops it, or another one opens."""
        self.ended = True
        self.answer.prose = self.answer.current = None
        self.answer.blocks.signature = "".join(self.signature) or None
        self.answer.blocks.close(out)

    def stop(self, out: list[Draft]) -> None:
        """The wire's block is over."""
        if self.index < 0 and self.signature:
            self._open(out)  # thinking that is not shown: its signature must go back all the same
        if self.answer.prose is self:
            self.end(out)
        elif self.late:
            self.late = False
            out.append(Metadata(content_index=self.index, signature="".join(self.signature)))
        if self.citations:
            # They belong to the block before them, or to a text that never came.
            nowhere = {} if self.index >= 0 else {"text": ""}
            after = self.index + 1 if self.index >= 0 else self.answer.blocks.count
            self.answer.keep({"type": "text", **nowhere, "citations": self.citations}, after, out)
            self.citations = []


class Call:
    """A tool call. Its input comes in pieces, or whole with the start of the block."""

    kept = False
    field = "partial_json"
    delta_type = "input_json_delta"
    draft: Any = ToolCallDelta
    __slots__ = ("answer", "ended", "index", "input", "name", "wire")

    def __init__(
        self, answer: Answer, wire: int | None, block: dict[str, Any], id: str, out: list[Draft]
    ) -> None:
        self.answer = answer
        self.wire = wire
        self.ended = False
        name, self.input = block.get("name"), block.get("input")
        self.name = name if isinstance(name, str) else ""
        answer.end_prose(out)
        self.index = answer.blocks.open_call(id, self.name, out)
        answer.current = self
        caller = block.get("caller")
        if isinstance(caller, dict) and caller.get("type") != "direct":
            answer.keep({"type": "tool_use", "caller": caller}, self.index + 1, out)

    def take(self, piece: dict[str, Any], out: list[Draft]) -> None:
        """A delta."""
        text = piece.get("partial_json")
        if not isinstance(text, str) or not text:
            return
        if self.ended:
            self.answer.note("input_after_block_stop", {"index": self.wire, "input": excerpt(text)}, out)
            return
        out.append(ToolCallDelta(self.index, text))
        self.answer.current = self

    def stop(self, out: list[Draft]) -> None:
        """The wire's block is over. Input from its start that no piece repeated becomes the one piece."""
        if self.ended:
            return
        self.ended = True
        if self.answer.current is self:
            self.answer.current = None
        whole = self.input if isinstance(self.input, str) else ""
        if self.input and not whole:
            whole = json.dumps(self.input).decode()
        error = None if self.name else "the provider sent a tool call without a name"
        out.append(BlockEnd(self.index, whole or None, error=error))


class Kept:
    """A block that we have no block for, such as a tool that the provider runs: put together as the wire says."""

    kept = True
    field = ""
    __slots__ = ("after", "answer", "block", "pieces")

    def __init__(self, answer: Answer, block: dict[str, Any]) -> None:
        self.answer = answer
        self.after = answer.blocks.count
        self.block: dict[str, Any] | None = dict(block)
        self.pieces: dict[str, list[str]] = {}

    def take(self, piece: dict[str, Any], out: list[Draft]) -> None:
        """A delta of whatever kind: texts continue each other, other values replace each other."""
        for key, value in piece.items():
            if isinstance(value, str):
                if key != "type":
                    self.pieces.setdefault(key, []).append(value)
            elif value is not None and self.block is not None:
                self.block[key] = value

    def stop(self, out: list[Draft]) -> None:
        """The wire's block is over: keep it."""
        if self.block is None:
            return
        block, self.block = self.block, None
        for key, pieces in self.pieces.items():
            text = "".join(pieces)
            if key == "partial_json":
                block |= _input(text)
            else:
                first = block.get(key)
                block[key] = first + text if isinstance(first, str) else text
        self.answer.keep(block, self.after, out)


def _input(text: str) -> dict[str, Any]:
    try:
        return {"input": json.loads(text)} if text else {}
    except DecodeError:
        return {"partial_json": text}


Part: TypeAlias = Prose | Call | Kept
