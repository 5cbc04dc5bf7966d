"""OpenRouter's ``reasoning_details``: kept whole for replay, their text shown where nothing else shows it.

Source: https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

from __future__ import annotations

from typing import Any

from pi_stream.wire import json

__all__ = ["ReasoningDetails"]

# What comes in pieces, by type. The text of encrypted entries is opaque, and never shown.
_PIECES = {"reasoning.text": "text", "reasoning.summary": "summary", "reasoning.encrypted": "data"}
_ENCRYPTED = "reasoning.encrypted"


class _Entry:
    """One entry: its fields as they came last, and the pieces of its text."""

    __slots__ = ("fields", "pieces")

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.pieces: list[str] = []

    def merge(self, entry: dict[str, Any], key: str | None) -> str:
        """Take a piece in; returns its text."""
        text = entry.get(key) if key is not None else None
        piece = text if isinstance(text, str) else ""
        self.pieces.append(piece)
        known = self.fields
        for name, value in entry.items():
            if value is not None or name not in known:
                known[name] = value
        return piece

    def merged(self) -> dict[str, Any]:
        """The entry as if it had come in one piece."""
        key = _PIECES.get(self.fields["type"])
        text = "".join(self.pieces)
        return {**self.fields, key: text} if key is not None and text else self.fields


class ReasoningDetails:
    """Merges the entries of an answer: pieces of one entry share type and index, or follow each other.

    Attributes:
        changed: Whether entries came since the last :meth:`signature`.
    """

    __slots__ = ("_by_index", "_entries", "changed")

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._by_index: dict[tuple[str, int], _Entry] = {}
        self.changed = False

    def __bool__(self) -> bool:
        """Whether there are entries."""
        return bool(self._entries)

    def add(self, details: list[Any]) -> str:
        """Take entries in, those of types nobody knows yet too; returns the readable text they add."""
        shown: list[str] = []
        for entry in details:
            kind = entry.get("type") if isinstance(entry, dict) else None
            if not isinstance(kind, str) or not kind.startswith("reasoning."):
                continue
            self.changed = True
            piece = self._place(entry, kind).merge(entry, _PIECES.get(kind))
            if kind != _ENCRYPTED:
                shown.append(piece)
        return "".join(shown)

    def signature(self) -> str:
        """The merged list as JSON text: what is replayed to the same model."""
        self.changed = False
        return json.dumps([entry.merged() for entry in self._entries]).decode()

    def _place(self, entry: dict[str, Any], kind: str) -> _Entry:
        """The entry this one is a piece of, or a new one."""
        index, known = entry.get("index"), None
        if kind in _PIECES:
            if isinstance(index, int):
                known = self._by_index.get((kind, index))
            elif kind != _ENCRYPTED and self._entries and self._entries[-1].fields["type"] == kind:
                known = self._entries[-1]
        if known is None or not _may_be_same(known.fields.get("id"), entry.get("id")):
            known = _Entry()
            self._entries.append(known)
            if isinstance(index, int):
                self._by_index[kind, index] = known
        return known


def _may_be_same(known: Any, id: Any) -> bool:
    return known is None or id is None or known == id
