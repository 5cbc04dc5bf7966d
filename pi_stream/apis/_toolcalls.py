"""Which tool call a fragment belongs to: the rule for servers that stream calls in pieces.

A named fragment with a new id opens a new call; an unnamed fragment continues by index, else by id, else the last open
call; an equal id always continues. A call starts, as an event, when its name is settled: with the first piece of its
arguments, or at the end.
"""

from __future__ import annotations

from typing import Any

from pi_stream.apis._blocks import Blocks
from pi_stream.events import BlockEnd, Draft, ToolCallDelta
from pi_stream.exceptions import DecodeError
from pi_stream.wire import json

__all__ = ["Call", "Calls", "Fragment", "json_string_piece"]


def json_string_piece(text: str) -> str:
    """Text as a piece of the inside of a JSON string."""
    return json.dumps(text)[1:-1].decode()


class Fragment:
    """One piece of a tool call as a chunk carries it: empty values are absent."""

    __slots__ = ("arguments", "id", "index", "input", "name")

    def __init__(
        self, *, index: Any = None, id: Any = None, name: Any = None, arguments: Any = None, input: Any = None
    ) -> None:
        self.index: int | None = index if isinstance(index, int) and not isinstance(index, bool) else None
        self.id: str | None = id if isinstance(id, str) and id else None
        self.name: str | None = name if isinstance(name, str) and name else None
        self.input: str | None = input if isinstance(input, str) else None  # free text of a custom tool
        if isinstance(arguments, str):
            self.arguments = arguments
        else:
            # Some servers send the whole object instead of its text (llama.cpp, Ollama).
            self.arguments = "" if arguments is None else json.dumps(arguments).decode()


class Call:
    """A tool call being received. ``block`` is its content index once it has started."""

    __slots__ = ("block", "custom", "id", "name", "pieces", "signature")

    def __init__(self, id: str | None, name: str) -> None:
        self.id = id
        self.name = name
        self.pieces: list[str] = []
        self.block: int | None = None
        self.custom: str | None = None
        self.signature: str | None = None

    def text(self) -> str:
        """The argument text so far."""
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def is_complete(self) -> bool:
        """Whether the argument text is complete JSON."""
        return _is_json(self.text())


class Calls:
    """The tool calls of one answer.

    Args:
        blocks: The answer's blocks.
        made_up_id: Gives an id to a call that came without one, by its position.
        free_text: Name of a custom tool to the property its free text goes into.
    """

    __slots__ = ("_blocks", "_by_id", "_by_index", "_free_text", "_last", "_made_up_id", "calls")

    def __init__(self, blocks: Blocks, made_up_id: Any, free_text: dict[str, str] | None = None) -> None:
        self._blocks = blocks
        self._made_up_id = made_up_id
        self._free_text = free_text or {}
        self._by_id: dict[str, Call] = {}
        self._by_index: dict[int, Call] = {}
        self._last: Call | None = None
        self.calls: list[Call] = []

    def add(self, fragment: Fragment, out: list[Draft]) -> Call:
        """Take a fragment in: route it, and append what it says."""
        call = self._route(fragment)
        if call is None:
            call = Call(fragment.id, "")
            self.calls.append(call)
        self._last = call
        if call.id is None and fragment.id is not None and call.block is None:
            call.id = fragment.id
        if fragment.id is not None:
            self._by_id.setdefault(fragment.id, call)
        if fragment.index is not None:
            self._by_index[fragment.index] = call
        if fragment.name is not None and fragment.name != call.name and not call.pieces and call.block is None:
            call.name += fragment.name
        if fragment.input is not None:
            self._add_text(call, fragment.input, out)
        elif fragment.arguments and not self._repeats(call, fragment.arguments):
            call.pieces.append(fragment.arguments)
            out.append(ToolCallDelta(self._started(call, out), fragment.arguments))
        return call

    def complete(self) -> bool:
        """Whether there is a call, and every call's arguments are complete JSON or blank."""
        return bool(self.calls) and all(not (text := call.text()).strip() or _is_json(text) for call in self.calls)

    def close(self, out: list[Draft]) -> None:
        """End all calls, in the order they came."""
        for call in self.calls:
            block = self._started(call, out)
            if call.custom is not None:
                out.append(ToolCallDelta(block, '"}'))
            error = None if call.name else "the provider sent a tool call without a name"
            out.append(BlockEnd(block, signature=call.signature, error=error))

    def _route(self, fragment: Fragment) -> Call | None:
        if fragment.id is not None and fragment.id in self._by_id:
            return self._by_id[fragment.id]
        by_index = self._by_index.get(fragment.index) if fragment.index is not None else None
        if fragment.name is None:
            if by_index is not None:
                return by_index
            # An index and an id that are both new announce a call whose name comes later.
            return None if fragment.index is not None and fragment.id is not None else self._last
        if by_index is None:
            return None
        if fragment.id is not None:
            return by_index if by_index.id is None and not by_index.pieces else None
        if not by_index.pieces:
            return by_index
        whole = fragment.arguments.lstrip().startswith("{") and by_index.pieces[-1].rstrip().endswith("}")
        if fragment.name != by_index.name or (whole and by_index.is_complete()):
            return None
        return by_index

    def _started(self, call: Call, out: list[Draft]) -> int:
        if call.block is None:
            if call.id is None:
                call.id = self._made_up_id(self.calls.index(call))
            call.block = self._blocks.open_call(call.id or "", call.name, out)
        return call.block

    def _add_text(self, call: Call, text: str, out: list[Draft]) -> None:
        """Free text of a custom tool, wrapped as the one string property of its arguments."""
        piece = json_string_piece(text)
        if call.custom is None:
            call.custom = self._free_text.get(call.name, "input")
            piece = f'{{"{json_string_piece(call.custom)}":"{piece}'
        if piece:
            out.append(ToolCallDelta(self._started(call, out), piece))

    @staticmethod
    def _repeats(call: Call, arguments: str) -> bool:
        """Whether the fragment is the whole of the finished arguments again, plain or encoded once more."""
        if not call.pieces or not call.pieces[-1].rstrip().endswith("}"):
            return False
        text = call.text()
        if len(arguments) < len(text) or not call.is_complete():
            return False
        if arguments == text:
            return True
        try:
            return bool(json.loads(arguments) == text)
        except DecodeError:
            return False


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except DecodeError:
        return False
    return True
