"""The content blocks of one answer: from the wire's numbering and kinds to ours.

On the wire blocks have an index, may stay open beside each other, and may be of kinds we have no block for. Here text
and thinking open with their first piece and end when another block opens; text that comes later for a block that has
ended opens a new one. What has no block of ours is kept as provider data, in its place.
"""

from __future__ import annotations

import re
from typing import Any

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import excerpt
from pi_stream.apis.anthropic_messages.parts import Call, Kept, Part, Prose
from pi_stream.apis.base import TranslatorSetup
from pi_stream.events import Draft, Metadata, ThinkingDelta
from pi_stream.messages import Diagnostic, ProviderData

__all__ = ["REDACTED", "Content"]

REDACTED = "[Reasoning redacted]"
"""What stands for thinking that only the provider can read."""

# What a piece is for: the kind of block, by the type of the delta, and where that says nothing by what it holds.
_BY_TYPE = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
_BY_FIELD = {
    "text": "text",
    "thinking": "thinking",
    "partial_json": "tool_use",
    "signature": "thinking",
    "citation": "text",
}
_FIELD = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}


class Content:
    """The content blocks of one answer.

    Attributes:
        blocks: Ours.
        prose: Whose text or thinking block is open.
        current: Whose block took the last piece: the next one is likely for it too.
        calls: The tool calls.
        kept: How many provider blocks were kept.
        response_id: Where made-up ids come from.
    """

    def __init__(self, setup: TranslatorSetup) -> None:
        self._setup = setup
        # Parts by their index on the wire: one, unless pieces come that are not of its kind.
        self._parts: dict[int | None, list[Part]] = {}
        self._last: int | None = None
        self._noted: set[str] = set()
        self.blocks = Blocks()
        self.prose: Prose | None = None
        self.current: Prose | Call | None = None
        self.calls: list[Call] = []
        self.kept = 0
        self.response_id = ""

    def start(self, index: Any, block: Any, out: list[Draft]) -> None:
        """A block starts; what it holds already is its first piece. An older one with the same index is over."""
        if not isinstance(block, dict):
            self.note("unexpected_chunk", {"contentBlock": excerpt(block)}, out)
            return
        wire = _number(index)
        for older in self._parts.pop(wire, ()):
            older.stop(out)
        self._last = wire
        if block.get("type") == "redacted_thinking":
            self._redacted(block, out)
            return
        part = self._part(wire, block, out)
        self._parts[wire] = [part]
        if isinstance(part, Prose):
            part.take(block, out)

    def delta(self, index: Any, delta: Any, out: list[Draft]) -> None:
        """A piece of a block. Without a block that can take it, one of its own kind opens."""
        if not isinstance(delta, dict):
            self.note("unexpected_chunk", {"delta": excerpt(delta)}, out)
            return
        wire = self._last if index is None else _number(index)
        parts = self._parts.get(wire, [])
        kind = _kind(delta)
        field = _FIELD.get(kind or "")
        part = next((part for part in parts if part.kept or part.field == field), None)
        if part is None:
            if kind is None:
                self.note("unexpected_chunk", {"index": wire, "delta": excerpt(delta)}, out)
                return
            self.note("block_not_started", {"index": wire, "delta": excerpt(delta)}, out)
            part = self._part(wire, {"type": kind}, out)
            self._parts.setdefault(wire, []).append(part)
            self._last = wire
        part.take(delta, out)

    def stop(self, index: Any, out: list[Draft]) -> None:
        """A block is over. One that has ended before says nothing more."""
        for part in self._parts.get(self._last if index is None else _number(index), ()):
            part.stop(out)

    def close(self, out: list[Draft]) -> None:
        """The answer is over: end everything, in the order it started."""
        for parts in self._parts.values():
            for part in parts:
                part.stop(out)

    # --- for the parts ------------------------------------------------------------------------------------------------

    def end_prose(self, out: list[Draft]) -> None:
        """End the open text or thinking block, if there is one."""
        if self.prose is not None:
            self.prose.end(out)

    def keep(self, data: Any, after: int, out: list[Draft]) -> None:
        """Keep the provider's JSON, behind ``after`` content blocks."""
        self.kept += 1
        model = self._setup.model
        entry = ProviderData(after=after, api=model.api, provider=model.provider, model=model.id, data=data)
        out.append(Metadata(provider_data=entry))

    def note(self, kind: str, details: dict[str, Any], out: list[Draft]) -> None:
        """Note something odd, the first time it happens."""
        if kind not in self._noted:
            self._noted.add(kind)
            diagnostic = Diagnostic(type=kind, timestamp=self._setup.timestamp, details=details)
            out.append(Metadata(diagnostic=diagnostic))

    # --- what kind of block -------------------------------------------------------------------------------------------

    def _part(self, wire: int | None, block: dict[str, Any], out: list[Draft]) -> Part:
        match block.get("type"):
            case "text" | "thinking" as field:
                return Prose(self, wire, field)
            case "tool_use":
                id = block.get("id")
                call = Call(self, wire, block, id if isinstance(id, str) and id else self._made_up_id(), out)
                self.calls.append(call)
                return call
            case _:
                return Kept(self, block)

    def _made_up_id(self) -> str:
        base = re.sub(r"[^A-Za-z0-9]", "", self.response_id)[-24:]
        return "_".join(filter(None, ("toolu", base, str(len(self.calls)))))

    def _redacted(self, block: dict[str, Any], out: list[Draft]) -> None:
        data = block.get("data")
        self.end_prose(out)
        index = self.blocks.open_thinking(out)
        out.append(ThinkingDelta(index, REDACTED))
        self.blocks.signature = data if isinstance(data, str) and data else None
        self.blocks.close(out, redacted=True)


def _number(index: Any) -> int | None:
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _kind(delta: dict[str, Any]) -> str | None:
    """The kind of block that a piece is for; None where nobody knows."""
    type = delta.get("type")
    if isinstance(type, str) and type in _BY_TYPE:
        return _BY_TYPE[type]
    return next((kind for field, kind in _BY_FIELD.items() if delta.get(field)), None)
