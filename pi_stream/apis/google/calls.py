"""Function calls of a Gemini answer: whole ones, repeated ones, and ones that are streamed by path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pi_stream.apis._blocks import Blocks
from pi_stream.apis.google.arguments import Arguments
from pi_stream.events import BlockEnd, Draft, Metadata, ToolCallDelta
from pi_stream.partial_json import parse_arguments

__all__ = ["FunctionCalls"]


class _Call:
    """A call being received."""

    __slots__ = ("arguments", "block", "id", "name", "signature", "text")

    def __init__(self, block: int, id: str | None, name: str) -> None:
        self.block = block
        self.id = id  # the provider's own
        self.name = name
        self.signature: str | None = None
        self.arguments = Arguments()
        self.text = ""


class FunctionCalls:
    """The calls of one answer.

    A call without ``willContinue`` is whole. One with it is continued by calls without a name, up to the first that no
    longer says it. Calls rarely have ids: two equal calls without one are two calls; with the same id they are one.

    Args:
        blocks: The answer's blocks.
        made_up_id: Gives an id to a call that came without one of its own, by its position.

    Attributes:
        count: How many calls there are.
        usable: Whether every ended call can be made as it stands.
    """

    __slots__ = ("_blocks", "_by_id", "_made_up_id", "_open", "count", "usable")

    def __init__(self, blocks: Blocks, made_up_id: Callable[[int], str]) -> None:
        self.count = 0
        self.usable = True
        self._blocks = blocks
        self._made_up_id = made_up_id
        self._open: _Call | None = None
        self._by_id: dict[str, _Call] = {}

    def add(self, fields: dict[str, Any], signature: str | None, out: list[Draft]) -> bool:
        """Take a ``functionCall`` in, and append what it says.

        Returns:
            Whether it says anything: not so an empty one that continues no call.
        """
        name, id = _text(fields.get("name")), _text(fields.get("id"))
        args, updates = fields.get("args"), fields.get("partialArgs")
        more = fields.get("willContinue") is True
        call = self._open
        if call is None or not _continues(call, id, name, updates):
            self.close(out)
            if name is None and args is None and updates is None:
                return False
            if updates is None and not more and self._is_repeated(id, name, args, signature, out):
                return True
            call = self._begin(id, name or "", out)
        call.signature = signature or call.signature
        call.arguments.give(args)
        if updates is not None:
            call.arguments.update(updates)
        if not more:
            self.close(out)
        return True

    def close(self, out: list[Draft], *, cut: bool = False) -> None:
        """End the call that is open, if there is one.

        Args:
            out: Where its arguments and its end go.
            cut: Whether the answer broke off inside it.
        """
        call, self._open = self._open, None
        if call is None:
            return
        call.text = call.arguments.text()
        if call.text:
            out.append(ToolCallDelta(call.block, call.text))
        problem = call.arguments.problem
        if cut:
            problem = "the answer ended inside this tool call"
        elif not call.name:
            problem = "the provider sent a tool call without a name"
        self.usable = self.usable and problem is None and parse_arguments(call.text)[1] is None
        out.append(BlockEnd(call.block, signature=call.signature, error=problem))

    def _begin(self, id: str | None, name: str, out: list[Draft]) -> _Call:
        own = id if id is not None and id not in self._by_id else None
        block = self._blocks.open_call(own or self._made_up_id(self.count), name, out)
        self._open = call = _Call(block, own, name)
        self.count += 1
        if own is not None:
            self._by_id[own] = call
        return call

    def _is_repeated(
        self, id: str | None, name: str | None, args: Any, signature: str | None, out: list[Draft]
    ) -> bool:
        """Whether this is an ended call again, known by its id; what it adds is its signature."""
        known = self._by_id.get(id or "")
        if known is None or known.name != name:
            return False
        again = Arguments()
        again.give(args)
        if again.text() != known.text:
            return False
        if signature is not None and signature != known.signature:
            known.signature = signature
            out.append(Metadata(content_index=known.block, signature=signature))
        return True


def _continues(call: _Call, id: str | None, name: str | None, updates: Any) -> bool:
    """Whether a piece belongs to the open call: an unnamed one does, and one that names it again with its id or updates."""
    if name is None:
        return True
    return name == call.name and (id == call.id if id is not None else updates is not None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
