"""The output items of one answer: which item an event belongs to.

Items are keyed by ``output_index``: item ids differ from event to event behind some gateways. Servers that send no
index (llama.cpp) are told apart by item id, and where there is neither, by kind: the item of that kind that is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["Item", "Items"]


class Item:
    """One output item being received.

    Attributes:
        type: Type of the item on the wire.
        json: The item as last described by the server; empty for one that was never announced.
        index: Its ``output_index``; None where the server sends none.
        id: Its id when it was announced.
        after: Content blocks before it, when it was announced.
        first: Content index of its first block; None as long as it has none.
        block: Content index of the block its deltas go to now.
        signature: What its first block was signed with.
        part: The part that deltas came for last: field and number, for the blank line between the parts of a summary.
        name: Name of the tool that a call is for; empty until known.
        pieces: Text of a call that waits for its name, or all input of a custom tool.
        initial: Arguments that came with the announcement of a call.
        final: Arguments that a call's own end event gave.
        refusal: Pieces of a refusal.
        annotations: Citations that came as events.
        done: The item is complete.
        matched: It was found in the output of the final response.
    """

    __slots__ = (
        *(
            "after",
            "annotations",
            "block",
            "done",
            "final",
            "first",
            "id",
            "index",
            "initial",
            "json",
            "matched",
        ),
        *("name", "part", "pieces", "refusal", "signature", "type"),
    )

    def __init__(
        self, type: str, json: dict[str, Any], index: int | None, id: str | None, after: int
    ) -> None:
        self.type = type
        self.json = json
        self.index = index
        self.id = id
        self.after = after
        self.first: int | None = None
        self.block: int | None = None
        self.signature: str | None = None
        self.part: tuple[str, Any] | None = None
        self.name = ""
        self.pieces: list[str] = []
        self.initial = ""
        self.final = ""
        self.refusal: list[str] = []
        self.annotations: list[Any] = []
        self.done = False
        self.matched = False


class Items:
    """All items of an answer, in the order they were announced."""

    __slots__ = ("_by_id", "_by_index", "_latest", "all", "trusted")

    def __init__(self) -> None:
        self.all: list[Item] = []
        #: Whether ``output_index`` tells items apart; not so once two items shared one.
        self.trusted = True
        self._by_index: dict[int, Item] = {}
        self._by_id: dict[str, Item] = {}
        self._latest: dict[str, Item] = {}  # by type, the one announced last

    def announce(self, json: dict[str, Any], index: Any, after: int) -> Item:
        """The item that a server describes: a new one, unless it was announced or opened by a delta before."""
        type, id = _text(json.get("type")) or "", _text(json.get("id"))
        number = _number(index)
        known = self._known(type, number, id) or self._unannounced(type)
        if known is not None and (not known.json or known.id == id):
            known.json, known.id = json, id
            self._register(known, known.index if number is None else number, id)
            return known
        if number is not None and number in self._by_index:
            self.trusted = False
        return self.add(type, json, number, id, after)

    def add(self, type: str, json: dict[str, Any], index: int | None, id: str | None, after: int) -> Item:
        """A new item."""
        item = Item(type, json, index, id, after)
        self.all.append(item)
        self._latest[type] = item
        self._register(item, index, id)
        return item

    def _register(self, item: Item, index: int | None, id: str | None) -> None:
        item.index = index
        if index is not None:
            self._by_index[index] = item
        if id is not None:
            self._by_id[id] = item

    def find(self, type: str, index: Any, id: Any) -> Item | None:
        """The item that an event with this ``output_index`` and ``item_id`` belongs to, if it is known."""
        number = _number(index)
        known = self._known(type, number, _text(id))
        if known is None and number is None:
            latest = self._latest.get(type)
            return None if latest is None or latest.done else latest
        return known

    def of_event(self, type: str, chunk: dict[str, Any], after: int) -> Item:
        """The item that a delta belongs to; one that was never announced opens with it."""
        index, id = chunk.get("output_index"), chunk.get("item_id")
        return self.find(type, index, id) or self.add(type, {}, _number(index), _text(id), after)

    def late(self, json: dict[str, Any], after: int) -> Item:
        """An item that only the final response has."""
        item = self.add(_text(json.get("type")) or "", json, None, _text(json.get("id")), after)
        item.matched = True
        return item

    def pair(self, output: list[Any]) -> Iterator[tuple[dict[str, Any], Item | None]]:
        """The items of a final response, each with the one that was streamed for it: by id, place, or order of type."""
        waiting: dict[str, Iterator[Item]] = {}
        for place, json in enumerate(output):
            if not isinstance(json, dict):
                continue
            type = _text(json.get("type")) or ""
            item = self._by_id.get(_text(json.get("id")) or "")
            if item is None or item.type != type or item.matched:
                item = self._by_index.get(place)
            if item is None or item.type != type or item.matched:
                of_type = waiting.setdefault(type, iter([item for item in self.all if item.type == type]))
                item = next((item for item in of_type if not item.matched), None)
            if item is not None:
                item.matched = True
            yield json, item

    def _unannounced(self, type: str) -> Item | None:
        latest = self._latest.get(type)
        return (
            latest
            if latest is not None and not (latest.json or latest.done) and latest.index is None
            else None
        )

    def _known(self, type: str, index: int | None, id: str | None) -> Item | None:
        by_id = self._by_id.get(id) if id is not None else None
        by_index = self._by_index.get(index) if index is not None else None
        for item in (by_index, by_id) if self.trusted else (by_id, by_index):
            if item is not None and item.type == type:
                return item
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
