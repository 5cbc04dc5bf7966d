"""OpenRouter's ``reasoning_details``: kept whole for replay, their text shown where nothing else shows it.

Source: https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

from __future__ import annotations

from typing import Any

from pi_stream.wire import json

__all__ = ["ReasoningDetails"]

_TEXT_KEY = {"reasoning.text": "text", "reasoning.summary": "summary", "reasoning.encrypted": "data"}


class ReasoningDetails:
    """Merges the entries of an answer: pieces of one entry share type and index, or type and place.

    Attributes:
        changed: Whether entries came since the last :meth:`signature`.
    """

    __slots__ = ("_entries", "_pieces", "changed")

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._pieces: list[list[str]] = []
        self.changed = False

    def add(self, details: list[Any]) -> str:
        """Take entries in; returns the readable text they add."""
        shown: list[str] = []
        for entry in details:
            key = _TEXT_KEY.get(entry.get("type")) if isinstance(entry, dict) else None
            if key is None:
                continue
            self.changed = True
            text = entry.get(key)
            piece = text if isinstance(text, str) else ""
            place = self._find(entry, key)
            if place is None:
                self._entries.append({name: value for name, value in entry.items() if name != key})
                self._pieces.append([piece])
            else:
                known = self._entries[place]
                known.update((name, value) for name, value in entry.items() if name != key and value is not None)
                self._pieces[place].append(piece)
            if key != "data":
                shown.append(piece)
        return "".join(shown)

    def signature(self) -> str:
        """The merged list as JSON text: what is replayed to the same model."""
        self.changed = False
        merged: list[dict[str, Any]] = []
        for entry, pieces in zip(self._entries, self._pieces, strict=True):
            key = _TEXT_KEY[entry["type"]]
            text = "".join(pieces)
            merged.append({"type": entry["type"], key: text, **entry} if text else entry)
        return json.dumps(merged).decode()

    def _find(self, entry: dict[str, Any], key: str) -> int | None:
        index = entry.get("index")
        if isinstance(index, int):
            for place, known in enumerate(self._entries):
                if known.get("type") == entry["type"] and known.get("index") == index and known.get("id") in (
                    None,
                    entry.get("id"),
                ):
                    return place
            return None
        last = len(self._entries) - 1
        if last >= 0 and self._entries[last].get("type") == entry["type"] and key != "data":
            return last
        return None
