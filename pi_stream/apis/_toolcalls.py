"""Which tool call a fragment belongs to: the rule for servers that stream calls in pieces.

A named fragment with a new id opens a new call; an unnamed fragment continues by index, else by id, else the last open
call; an equal id always continues. A call starts, as an event, when its name is settled: with the first piece of its
arguments, or when something else follows it, or at the end.

Servers that send no ids leave the rest to be told from the text: a fragment that names the same tool again opens a new
call only if the arguments so far are complete and it begins an object of its own.

All work is linear in what the provider sent, however it is cut into fragments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from pi_stream.apis._blocks import Blocks
from pi_stream.events import BlockEnd, Draft, ToolCallDelta
from pi_stream.exceptions import DecodeError
from pi_stream.messages import Tool
from pi_stream.partial_json import parse_arguments
from pi_stream.wire import json

__all__ = ["Call", "Calls", "Fragment", "free_text_properties", "json_string_piece"]


def json_string_piece(text: str) -> str:
    """Text as a piece of the inside of a JSON string."""
    return json.dumps(text)[1:-1].decode()


def free_text_properties(tools: Iterable[Tool]) -> dict[str, str]:
    """For each tool whose input is free text of a grammar the property that takes it."""
    found: dict[str, str] = {}
    for tool in tools:
        wanted = tool.constrained_sampling
        required = tool.parameters.get("required") or tool.parameters.get("properties")
        if wanted and wanted.get("type") == "grammar" and required and len(required) == 1:
            (found[tool.name],) = required
    return found


class Fragment:
    """One piece of a tool call as a chunk carries it: empty values are absent.

    Attributes:
        index: Which call of the answer it belongs to.
        id: The provider's id of the call.
        name: The tool, or a piece of its name.
        text: A piece of the arguments, or of the free text of a custom tool.
        custom: Whether it is free text.
    """

    __slots__ = ("custom", "id", "index", "name", "text")

    def __init__(
        self, *, index: Any = None, id: Any = None, name: Any = None, arguments: Any = None, input: Any = None
    ) -> None:
        self.index: int | None = index if isinstance(index, int) and not isinstance(index, bool) else None
        self.id: str | None = id if isinstance(id, str) and id else None
        self.name: str | None = name if isinstance(name, str) and name else None
        self.custom = isinstance(input, str)
        self.text: str = input if isinstance(input, str) else _argument_text(arguments)

    @property
    def empty(self) -> bool:
        """Whether it says nothing about any call."""
        return not (self.id or self.name or self.text)


def _argument_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    # Some servers send the object itself (llama.cpp, Ollama), and PHP writes an empty one as [].
    return "" if arguments is None or arguments == [] else json.dumps(arguments).decode()


class Call:
    """A tool call being received.

    Attributes:
        position: How many calls came before it.
        id: The provider's id; once it has started, the id of its event.
        block: Its content index once it has started.
        custom: Whether its text is the free text of a custom tool.
        size: Characters of text so far.
        signature: What will be its signature when it ends.
    """

    __slots__ = (
        *("block", "custom", "id", "position", "signature", "size"),
        *("_incomplete", "_name", "_name_size", "_text", "_wrapped"),
    )

    def __init__(self, position: int, id: str | None) -> None:
        self.position = position
        self.id = id
        self.block: int | None = None
        self.custom = False
        self.size = 0
        self.signature: str | None = None
        self._name: list[str] = []
        self._name_size = 0
        self._text: list[str] = []
        self._incomplete = 0  # the size at which it was last found to be incomplete
        self._wrapped = False

    @property
    def name(self) -> str:
        """The name so far."""
        return _joined(self._name)

    @property
    def named(self) -> bool:
        """Whether a name came."""
        return self._name_size > 0

    @property
    def text(self) -> str:
        """The text so far."""
        return _joined(self._text)

    def is_named(self, name: str) -> bool:
        """Whether this is the whole name so far."""
        return len(name) == self._name_size and name == self.name

    def add_name(self, piece: str) -> None:
        """Append to the name."""
        self._name.append(piece)
        self._name_size += len(piece)

    def add_text(self, piece: str) -> None:
        """Append to the text."""
        self._text.append(piece)
        self.size += len(piece)

    def is_usable(self) -> bool:
        """Whether the call can be made as it stands: it has a name, and its arguments parse."""
        return self.named and (self.custom or parse_arguments(self.text)[1] is None)

    def is_whole(self) -> bool:
        """Whether the arguments are a complete object.

        Only for texts that end like one, and only when they have doubled since they last were none: linear in all.
        """
        if not self._text or not self._text[-1].rstrip().endswith("}") or self.size < 2 * self._incomplete:
            return False
        if parse_arguments(self.text)[1] is None:
            return True
        self._incomplete = self.size
        return False

    def is_repeated_by(self, text: str) -> bool:
        """Whether this text is the whole of the finished arguments again, plain or encoded once more."""
        if self.custom or 2 * len(text) < self.size or not self.is_whole():
            return False
        again, error = parse_arguments(text)
        if error is not None:
            try:
                inner = json.loads(text)
            except DecodeError:
                return False
            again, error = parse_arguments(inner) if isinstance(inner, str) else ({}, "not a string")
        return error is None and again == parse_arguments(self.text)[0]

    def wrap(self, text: str, property: str) -> str:
        """Free text as a piece of the JSON object that has it as its one property."""
        piece = json_string_piece(text)
        if not self._wrapped:
            self._wrapped = True
            piece = f'{{"{json_string_piece(property)}":"{piece}'
        return piece


class Calls:
    """The tool calls of one answer.

    Args:
        blocks: The answer's blocks.
        made_up_id: Gives an id to a call that came without one, by its position.
        free_text: Name of a custom tool to the property its free text goes into.

    Attributes:
        calls: All of them, in the order they came.
    """

    __slots__ = (
        *("_blocks", "_by_id", "_by_index", "_followed", "_free_text", "_last", "_made_up_id", "_waiting"),
        "calls",
    )

    def __init__(
        self, blocks: Blocks, made_up_id: Callable[[int], str], free_text: dict[str, str] | None = None
    ) -> None:
        self.calls: list[Call] = []
        self._blocks = blocks
        self._made_up_id = made_up_id
        self._free_text = free_text or {}
        self._by_id: dict[str, Call] = {}
        self._by_index: dict[int, Call] = {}
        self._last: Call | None = None
        self._followed = False  # something else came after the last fragment
        self._waiting: deque[Call] = deque()  # calls that may not have started yet

    def add(self, fragment: Fragment, out: list[Draft]) -> Call:
        """Take a fragment in: route it, and append what it says."""
        call = self._route(fragment)
        if call is None:
            call = Call(len(self.calls), fragment.id)
            self.calls.append(call)
            self._waiting.append(call)
        self._last = call
        self._followed = False
        if fragment.id is not None:
            self._by_id.setdefault(fragment.id, call)
            if call.block is None:
                call.id = call.id or fragment.id
        if fragment.index is not None:
            self._by_index[fragment.index] = call
        if fragment.custom and not call.size:
            call.custom = True
        if fragment.name is not None:
            self._add_name(call, fragment.name, out)
        if fragment.text and not call.is_repeated_by(fragment.text):
            call.add_text(fragment.text)
            if call.named:  # else it waits for the name
                self._say(call, fragment.text, out)
        return call

    def settle(self, out: list[Draft]) -> None:
        """Something else follows: start the calls whose names have come, so that the order stays that of the provider."""
        self._followed = True
        self._settle(None, out)

    def usable(self) -> bool:
        """Whether there is a call, and every call can be made as it stands."""
        return bool(self.calls) and all(call.is_usable() for call in self.calls)

    def close(self, out: list[Draft], *, cut: bool = False) -> None:
        """End all calls, in the order they came.

        Args:
            out: Where the ends go.
            cut: The answer was cut by a limit. If a call was the last thing that came, it is marked where its text does
                not show that: free text stays open, and without any arguments it gets an error.
        """
        for call in self.calls:
            if call.block is None:
                self._start(call, out)
                if call.size:  # in vain it waited for a name
                    self._say(call, call.text, out)
            cut_off = cut and call is self._last and not self._followed
            if call.custom:
                rest = self._wrap(call, "") + ("" if cut_off else '"}')
                if rest:
                    out.append(ToolCallDelta(self._index(call), rest))
            error = None
            if not call.named:
                error = "the provider sent a tool call without a name"
            elif cut_off and not call.size:
                error = "the answer was cut before the arguments came"
            out.append(BlockEnd(self._index(call), signature=call.signature, error=error))

    def _route(self, fragment: Fragment) -> Call | None:
        """The call that a fragment continues; None for a new one."""
        if fragment.id is not None and fragment.id in self._by_id:
            return self._by_id[fragment.id]
        at_index = self._by_index.get(fragment.index) if fragment.index is not None else None
        if fragment.name is not None:
            known = at_index if fragment.index is not None else self._last
            return known if known is not None and self._goes_on(known, fragment) else None
        if at_index is not None:
            return at_index
        # An index and an id that are both new announce a call whose name comes later.
        return None if fragment.index is not None and fragment.id is not None else self._last

    def _goes_on(self, call: Call, fragment: Fragment) -> bool:
        """Whether a fragment with a name belongs to a call with its index, or without an index to the last call."""
        name = fragment.name or ""
        if fragment.id is not None:
            # A new id is that of a new call, unless it comes late for one that was begun without it.
            begun = fragment.index is not None and not call.size and call.is_named(name)
            return call.id is None and (begun or not call.named)
        if not call.named:
            return True  # here is its name
        if not call.size:
            return fragment.index is not None  # the rest of its name
        return call.is_named(name) and not self._begins(fragment, call)

    @staticmethod
    def _begins(fragment: Fragment, call: Call) -> bool:
        """Whether a fragment begins arguments of its own after those of a finished call."""
        return fragment.text.lstrip().startswith("{") and call.is_whole()

    def _add_name(self, call: Call, name: str, out: list[Draft]) -> None:
        if call.block is not None or call.is_named(name) or (call.named and call.size):
            return
        call.add_name(name)
        if call.size:  # the arguments were waiting for it
            self._say(call, call.text, out)

    def _say(self, call: Call, text: str, out: list[Draft]) -> None:
        if call.block is None:
            self._settle(call, out)
            self._start(call, out)
        if call.custom:
            text = self._wrap(call, text)
        out.append(ToolCallDelta(self._index(call), text))

    def _wrap(self, call: Call, text: str) -> str:
        return call.wrap(text, self._free_text.get(call.name, "input"))

    def _settle(self, until: Call | None, out: list[Draft]) -> None:
        """Start the named calls before one; a call that still lacks its name keeps those behind it waiting."""
        waiting = self._waiting
        while waiting and waiting[0] is not until:
            if waiting[0].block is None:
                if not waiting[0].named:
                    return
                self._start(waiting[0], out)
            waiting.popleft()

    def _start(self, call: Call, out: list[Draft]) -> None:
        call.id = call.id or self._made_up_id(call.position)
        call.block = self._blocks.open_call(call.id, call.name, out)

    @staticmethod
    def _index(call: Call) -> int:
        assert call.block is not None
        return call.block


def _joined(pieces: list[str]) -> str:
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    return pieces[0] if pieces else ""
