"""Responses: tool calls, of functions with JSON arguments and of custom tools with free text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._toolcalls import free_text_properties, json_string_piece
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.openai_responses.items import Item
from pi_stream.apis.openai_responses.parts import argument_text
from pi_stream.events import BlockEnd, Draft, ToolCallDelta
from pi_stream.wire.json import is_complete

__all__ = ["CallItems"]

# What the content of a message says of a call; more than that is kept as provider data, such as the program that made it.
_TOLD = frozenset({"type", "id", "call_id", "name", "namespace", "arguments", "input", "status"})


class CallItems:
    """The calls of one answer: a call starts, as an event, when its name is known.

    Args:
        blocks: The answer's blocks.
        setup: With the tools that were sent.
        keep: Keeps provider data.
        note: Notes a diagnostic.

    Attributes:
        count: Calls so far.
        response_id: Id of the response, for the ids of calls that came without one.
    """

    TYPES: ClassVar[frozenset[str]] = frozenset({"function_call", "custom_tool_call"})

    def __init__(
        self,
        blocks: Blocks,
        setup: TranslatorSetup,
        keep: Callable[[Any, int, list[Draft]], None],
        note: Callable[[str, dict[str, Any], list[Draft]], None],
    ) -> None:
        self.count = 0
        self.response_id: str | None = None
        self._blocks = blocks
        self._free_text = free_text_properties(setup.tools)
        self._keep = keep
        self._note = note

    def announced(self, item: Item, out: list[Draft]) -> None:
        """A call was announced, perhaps with its first arguments."""
        if item.first is not None:
            return
        item.initial = argument_text(item.json.get("arguments"))
        self._name(item, item.json.get("name"), out)

    def arguments(self, item: Item, delta: str, out: list[Draft]) -> None:
        """A piece of JSON arguments."""
        if item.first is None:
            item.pieces.append(delta)
            return
        if item.initial:
            # Arguments of the announcement are a beginning, unless they are whole: then the deltas repeat them.
            if not is_complete(item.initial.encode("utf-8", "surrogatepass")):
                out.append(ToolCallDelta(item.first, item.initial))
            item.initial = ""
        out.append(ToolCallDelta(item.first, delta))

    def arguments_done(self, item: Item, chunk: dict[str, Any], out: list[Draft]) -> None:
        """The whole arguments, before the end of the item; some servers name the tool here."""
        item.final = argument_text(chunk.get("arguments"))
        self._name(item, chunk.get("name"), out)

    def input(self, item: Item, delta: str, out: list[Draft]) -> None:
        """A piece of the free text of a custom tool, wrapped as the one string property of its arguments."""
        first = not item.pieces
        item.pieces.append(delta)
        if item.first is not None:
            head = self._head(item) if first else ""
            out.append(ToolCallDelta(item.first, head + json_string_piece(delta)))

    def end(self, item: Item, final: dict[str, Any], out: list[Draft]) -> None:
        """A call is complete."""
        item.json = item.json or final
        self._name(item, final.get("name"), out)
        if item.first is None:
            self._start(item, out)
        block, namespace = item.first or 0, final.get("namespace")
        content: str | None = None
        if item.type == "function_call":
            content = argument_text(final.get("arguments")) or item.final or item.initial or None
        else:
            self._end_input(item, final.get("input"), block, out)
        out.append(
            BlockEnd(
                block,
                content,
                namespace=namespace if isinstance(namespace, str) and namespace else None,
                error=None if item.name else "the provider sent a tool call without a name",
            )
        )
        if final.keys() - _TOLD:
            untold = {
                key: value for key, value in final.items() if key not in ("arguments", "input", "status")
            }
            self._keep(untold, item.after, out)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _name(self, item: Item, name: Any, out: list[Draft]) -> None:
        if not item.name and isinstance(name, str) and name:
            item.name = name
            self._start(item, out)

    def _start(self, item: Item, out: list[Draft]) -> None:
        """Start a call, with what came before its name."""
        item.first = item.block = self._blocks.open_call(self._id(item), item.name, out)
        self.count += 1
        if item.pieces:
            text = "".join(item.pieces)
            if item.type == "custom_tool_call":
                text = self._head(item) + json_string_piece(text)
            out.append(ToolCallDelta(item.first, text))

    def _end_input(self, item: Item, final: Any, block: int, out: list[Draft]) -> None:
        text = "".join(item.pieces)
        rest = ""
        if isinstance(final, str) and final != text:
            if final.startswith(text):
                rest = final[len(text) :]
            else:
                self._note("final_text_differs", {"contentIndex": block, "content": final}, out)
        head = "" if item.pieces else self._head(item)
        out.append(ToolCallDelta(block, f'{head}{json_string_piece(rest)}"}}'))

    def _head(self, item: Item) -> str:
        return f'{{"{json_string_piece(self._free_text.get(item.name, "input"))}":"'

    def _id(self, item: Item) -> str:
        """Call id and item id, joined by a bar: both are sent back, and a message has one id."""
        call_id = item.json.get("call_id")
        if not isinstance(call_id, str) or not call_id:
            base = re.sub(r"[^A-Za-z0-9]", "", self.response_id or "")[-24:]
            call_id = f"call_{base}_{self.count}" if base else f"call_{self.count}"
        return f"{call_id}|{item.id}" if item.id else call_id
