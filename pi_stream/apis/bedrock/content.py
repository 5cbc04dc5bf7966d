"""The content blocks of one answer: from the wire's numbering and kinds to ours.

The wire announces tool calls; text and thinking begin with their first piece. Blocks may miss their start or their stop,
and one number may carry several kinds. What has no block of ours is kept as provider data, in its place.
"""

from __future__ import annotations

from typing import Any

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import excerpt
from pi_stream.apis._notes import diagnostic, kept
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.bedrock.parts import Call, Kept, Part, Prose, ProseKind
from pi_stream.events import Draft

__all__ = ["Content"]

_CALL = "call"
_KEPT = "kept"
_KINDS = ("thinking", "redacted", "text", _CALL, _KEPT)


class Content:
    """The content blocks of one answer.

    Attributes:
        blocks: Ours.
        prose: Whose text or thinking is open.
        calls: The tool calls.
        kept: How many provider blocks were kept.
    """

    def __init__(self, setup: TranslatorSetup) -> None:
        self._setup = setup
        self._parts: dict[tuple[int | None, str], Part] = {}
        self._last: int | None = None
        self._noted: set[str] = set()
        self.blocks = Blocks()
        self.prose: Prose | None = None
        self.calls: list[Call] = []
        self.kept = 0

    def start(self, index: Any, start: Any, out: list[Draft]) -> None:
        """A block starts; what it holds already is its first piece. An older one with the same number is over."""
        wire = self._last = _number(index)
        if not isinstance(start, dict):
            start = {}
        call = self._parts.get((wire, _CALL))
        use = start.get("toolUse")
        if isinstance(call, Call) and isinstance(use, dict) and use.get("toolUseId") == call.id:
            return  # said again
        self.stop(wire, out)
        for kind in _KINDS:
            part = self._parts.pop((wire, kind), None)
            if isinstance(part, Prose):
                part.settle(out)
        for kind, value in start.items():
            if kind in ("text", "reasoningContent"):
                self.delta(wire, {kind: value}, out)
            elif isinstance(value, dict):
                self._announced(wire, kind, value, out)

    def delta(self, index: Any, delta: Any, out: list[Draft]) -> None:
        """A piece of a block. Without a block that can take it, one of its own kind opens."""
        if not isinstance(delta, dict):
            self.note("unexpected_chunk", {"delta": excerpt(delta)}, out)
            return
        wire = self._last = self._last if index is None else _number(index)
        for kind, value in delta.items():
            if kind == "text":
                self._say(wire, "text", value, out)
            elif kind == "reasoningContent":
                self._reason(wire, value, out)
            elif kind == "toolUse":
                self._input(wire, value, out)
            else:
                self._keep_piece(wire, "citationsContent" if kind == "citation" else kind, value, out)

    def stop(self, index: Any, out: list[Draft]) -> None:
        """A block is over. One that has ended before says nothing more."""
        wire = self._last if index is None else _number(index)
        for kind in _KINDS:
            part = self._parts.get((wire, kind))
            if part is not None:
                self._stop(wire, part, out)

    def close(self, out: list[Draft], *, failed: bool = False) -> None:
        """The answer is over: end everything, in the order it started.

        Args:
            out: Where the ends go.
            failed: It broke off: tool calls are left open, for they are not what they were to become.
        """
        for (wire, _), part in self._parts.items():
            if not (failed and isinstance(part, Call)):
                self._stop(wire, part, out)
            if isinstance(part, Prose):
                part.settle(out)

    def note(self, kind: str, details: dict[str, Any], out: list[Draft]) -> None:
        """Note something odd, the first time it happens."""
        if kind not in self._noted:
            self._noted.add(kind)
            out.append(diagnostic(self._setup, kind, details))

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _say(self, wire: int | None, kind: ProseKind, text: Any, out: list[Draft]) -> None:
        if isinstance(text, str) and text:
            self._open(wire, kind, out).take(text, out)

    def _reason(self, wire: int | None, piece: Any, out: list[Draft]) -> None:
        if not isinstance(piece, dict):
            self.note("unexpected_chunk", {"reasoningContent": excerpt(piece)}, out)
            return
        whole = piece.get("reasoningText")  # as answers have it that are not streamed
        read = whole if isinstance(whole, dict) else piece
        self._say(wire, "thinking", read.get("text"), out)
        signature, redacted = read.get("signature"), piece.get("redactedContent")
        if isinstance(signature, str) and signature:
            known = self._parts.get((wire, "thinking"))
            prose = known if isinstance(known, Prose) else self._open(wire, "thinking", out)
            prose.sign(signature)
        if isinstance(redacted, str) and redacted:
            known = self._parts.get((wire, "redacted"))
            prose = known if isinstance(known, Prose) else self._open(wire, "redacted", out)
            prose.sign(redacted)

    def _input(self, wire: int | None, piece: Any, out: list[Draft]) -> None:
        fields = piece if isinstance(piece, dict) else {"input": piece}
        known = self._parts.get((wire, _KEPT))
        if isinstance(known, Kept) and known.kind == "toolUse":
            known.take(piece)
            return
        call = self._parts.get((wire, _CALL))
        if not isinstance(call, Call):
            self.note("block_not_started", {"index": wire, "toolUse": excerpt(piece)}, out)
            call = self._call(wire, {**fields, "input": None}, out)
        if call.ended:
            self.note("input_after_block_stop", {"index": wire, "toolUse": excerpt(piece)}, out)
        else:
            call.take(fields.get("input"), out)

    def _keep_piece(self, wire: int | None, kind: str, value: Any, out: list[Draft]) -> None:
        part = self._parts.get((wire, _KEPT))
        if isinstance(part, Kept) and part.kind != kind:
            self._stop(wire, part, out)
        if not isinstance(part, Kept) or part.stopped:
            part = self._parts[wire, _KEPT] = Kept(kind, {}, self.blocks.count)
        part.take(value)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _open(self, wire: int | None, kind: ProseKind, out: list[Draft]) -> Prose:
        """The open block of this kind and number; another one that is open ends."""
        prose = self.prose
        if prose is not None and prose.wire == wire and prose.kind == kind:
            return prose
        before = self._parts.get((wire, kind))
        if isinstance(before, Prose):
            self.note("block_reopened", {"index": wire}, out)
            before.settle(out)
        self._end_prose(out)
        prose = self.prose = Prose(wire, kind, self.blocks, out)
        self._parts[wire, kind] = prose
        return prose

    def _announced(self, wire: int | None, kind: str, value: dict[str, Any], out: list[Draft]) -> None:
        if kind == "toolUse" and value.get("type") in (None, "tool_use"):
            self._call(wire, value, out)
        else:
            self._parts[wire, _KEPT] = Kept(kind, value, self.blocks.count)

    def _call(self, wire: int | None, start: dict[str, Any], out: list[Draft]) -> Call:
        self._end_prose(out)
        call = Call(start, f"tooluse_{len(self.calls)}", self.blocks, out)
        self.calls.append(call)
        self._parts[wire, _CALL] = call
        return call

    def _end_prose(self, out: list[Draft]) -> None:
        if self.prose is not None:
            self.prose.end(self.blocks, out)
            self.prose = None

    def _stop(self, wire: int | None, part: Part, out: list[Draft]) -> None:
        if isinstance(part, Prose):
            part.end(self.blocks, out)
            if part is self.prose:
                self.prose = None
        elif isinstance(part, Call):
            part.end(out)
        elif not part.stopped:
            part.stopped = True
            text = self._parts.get((wire, "text"))
            after = (
                text.index + 1 if isinstance(text, Prose) and part.kind == "citationsContent" else part.after
            )
            self.kept += 1
            out.append(kept(self._setup, after, part.data()))


def _number(index: Any) -> int | None:
    return index if isinstance(index, int) and not isinstance(index, bool) else None
