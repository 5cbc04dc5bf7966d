"""The tool calls of one answer of Cohere: each is announced, filled and ended under an index of its own."""

from __future__ import annotations

import re
from typing import Any

from pi_stream.apis._blocks import Blocks
from pi_stream.events import BlockEnd, Draft, ToolCallDelta
from pi_stream.partial_json import parse_arguments
from pi_stream.wire import json

__all__ = ["CohereCalls"]


class _Call:
    """A tool call being received: its index on the wire, its block, id and name, and the pieces of its arguments."""

    __slots__ = ("block", "id", "index", "name", "pieces")

    def __init__(self, index: int | None, block: int, id: str, name: str) -> None:
        self.index = index
        self.block = block
        self.id = id
        self.name = name
        self.pieces: list[str] = []


class CohereCalls:
    """Opens, fills and ends calls.

    Args:
        blocks: The answer's blocks.
    """

    __slots__ = ("_blocks", "_calls", "_ids", "_open")

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._calls: list[_Call] = []
        self._open: dict[int | None, _Call] = {}
        self._ids: set[str] = set()

    def __bool__(self) -> bool:
        """Whether there are calls."""
        return bool(self._calls)

    def start(self, index: Any, call: Any, response_id: str | None, out: list[Draft]) -> None:
        """A call begins: ``{"id", "function": {"name", "arguments"}}``. The same id again goes on with the open call."""
        fields = call if isinstance(call, dict) else {}
        function = fields.get("function")
        function = function if isinstance(function, dict) else {}
        id, name = fields.get("id"), function.get("name")
        key = _key(index)
        known = self._open.get(key)
        if known is None or id != known.id:
            if known is not None:
                self._end(known, out)
            id = self._usable_id(id, response_id)
            name = name if isinstance(name, str) else ""
            known = self._open[key] = _Call(key, self._blocks.open_call(id, name, out), id, name)
            self._calls.append(known)
        self._fill(known, function.get("arguments"), out)

    def delta(self, index: Any, call: Any, response_id: str | None, out: list[Draft]) -> None:
        """A piece of the arguments; for a call that was never announced, of one without a name."""
        known = self._at(index)
        if known is None:
            self.start(index, call, response_id, out)
            return
        function = call.get("function") if isinstance(call, dict) else None
        self._fill(known, function.get("arguments") if isinstance(function, dict) else None, out)

    def end(self, index: Any, out: list[Draft]) -> None:
        """A call is complete."""
        known = self._at(index)
        if known is not None:
            self._end(known, out)

    def close(self, out: list[Draft], *, cut: bool = False) -> None:
        """The answer is over: end the calls that still are open; with ``cut`` a limit broke it off."""
        for call in list(self._open.values()):
            self._end(call, out, cut=cut)

    def usable(self) -> bool:
        """Whether every call can be made as it stands."""
        return all(call.name and parse_arguments("".join(call.pieces))[1] is None for call in self._calls)

    def _at(self, index: Any) -> _Call | None:
        """The open call of an index; without an index the last."""
        key = _key(index)
        return self._open.get(key) or (next(reversed(self._open.values()), None) if key is None else None)

    def _usable_id(self, id: Any, response_id: str | None) -> str:
        """The provider's id, unless it is missing or that of another call; then one that is made up."""
        usable = id if isinstance(id, str) and id not in self._ids else ""
        if not usable:
            base = re.sub(r"[^A-Za-z0-9]", "", response_id or "")[-24:]
            usable = "_".join(filter(None, ("call", base, str(len(self._calls)))))
        self._ids.add(usable)
        return usable

    def _fill(self, call: _Call, arguments: Any, out: list[Draft]) -> None:
        text = (
            arguments if isinstance(arguments, str) else json.dumps(arguments).decode() if arguments else ""
        )
        if text:
            call.pieces.append(text)
            out.append(ToolCallDelta(call.block, text))

    def _end(self, call: _Call, out: list[Draft], *, cut: bool = False) -> None:
        del self._open[call.index]
        error = None
        if not call.name:
            error = "the provider sent a tool call without a name"
        elif cut and not call.pieces:
            error = "the answer was cut before the arguments came"
        out.append(BlockEnd(call.block, error=error))


def _key(index: Any) -> int | None:
    return index if isinstance(index, int) else None
