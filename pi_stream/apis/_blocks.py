"""Bookkeeping of content blocks: opens, indexes and ends them for translators and for generator providers.

Text and thinking are one block at a time: a block ends when another kind opens (guarantee 6). Tool calls stay open
until they are closed, beside each other and beside text.
"""

from __future__ import annotations

from typing import Literal

from pi_stream.events import (
    BlockEnd,
    Draft,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
)

__all__ = ["Blocks"]


class Blocks:
    """The blocks of one answer, as a translator sees them.

    Attributes:
        count: Blocks opened so far: the index of the next.
        kind: What the open text or thinking block is; None when neither is open.
        index: Its index.
        signature: What will be its signature when it ends.
    """

    __slots__ = ("count", "index", "kind", "signature")

    def __init__(self) -> None:
        self.count = 0
        self.kind: Literal["text", "thinking"] | None = None
        self.index = -1
        self.signature: str | None = None

    def text(self, delta: str, out: list[Draft]) -> None:
        """Text came: open a text block if none is open."""
        if self.kind != "text":
            self.open_text(out)
        out.append(TextDelta(self.index, delta))

    def thinking(self, delta: str, out: list[Draft]) -> None:
        """Thinking came: open a thinking block if none is open."""
        if self.kind != "thinking":
            self.open_thinking(out)
        out.append(ThinkingDelta(self.index, delta))

    def open_text(self, out: list[Draft]) -> int:
        """Open a text block; whatever text or thinking was open ends. Returns its index."""
        self.close(out)
        self.kind = "text"
        out.append(TextStart(self._next()))
        return self.index

    def open_thinking(self, out: list[Draft]) -> int:
        """Open a thinking block; whatever text or thinking was open ends. Returns its index."""
        self.close(out)
        self.kind = "thinking"
        out.append(ThinkingStart(self._next()))
        return self.index

    def open_call(self, id: str, name: str, out: list[Draft]) -> int:
        """Open a tool call; whatever text or thinking was open ends. Returns its index."""
        self.close(out)
        index = self.count
        self.count += 1
        out.append(ToolCallStart(index, id, name))
        return index

    def close(self, out: list[Draft], content: str | None = None, *, redacted: bool | None = None) -> None:
        """End the open text or thinking block, if there is one.

        Args:
            out: Where the end goes.
            content: The final text, where the provider repeats it.
            redacted: For thinking whose signature is the payload.
        """
        if self.kind is not None:
            out.append(BlockEnd(self.index, content, self.signature, redacted))
            self.kind = None
            self.signature = None

    def _next(self) -> int:
        self.index = self.count
        self.count += 1
        return self.index
