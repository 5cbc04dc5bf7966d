"""Reading and writing the items of Responses: what the answer, its signatures and the next request share."""

from __future__ import annotations

from typing import Any

from pi_stream.exceptions import DecodeError
from pi_stream.wire import json

__all__ = [
    "argument_text",
    "beside_text",
    "message_text",
    "read_reasoning",
    "read_text_signature",
    "text_signature",
    "thinking_text",
]

_SHOWN = frozenset({"type", "text", "refusal"})


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


# --- the text of items ------------------------------------------------------------------------------------------------


def message_text(item: dict[str, Any]) -> tuple[str, str]:
    """The text of a message item, refusals included, and the refusals alone."""
    texts: list[str] = []
    refusals: list[str] = []
    for part in _objects(item.get("content")):
        if isinstance(text := part.get("text"), str):
            texts.append(text)
        elif isinstance(refusal := part.get("refusal"), str):
            texts.append(refusal)
            refusals.append(refusal)
    return "".join(texts), "".join(refusals)


def beside_text(item: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The parts of a message item without their text, if they hold more than that: citations, log probabilities."""
    parts = [
        {key: value for key, value in part.items() if key == "type" or (key not in _SHOWN and value)}
        for part in _objects(item.get("content"))
    ]
    return parts if any(len(part) > 1 for part in parts) else None


def thinking_text(item: dict[str, Any], field: str | None = None) -> str:
    """The readable text of a reasoning item: its summaries, else the raw text of an open model.

    Args:
        item: The reasoning item.
        field: ``summary`` or ``content``, where one of them was streamed: then the other is left out.
    """
    for name in (field,) if field else ("summary", "content"):
        texts = [text for part in _objects(item.get(name)) if isinstance(text := part.get("text"), str)]
        if any(texts):
            return "\n\n".join(filter(None, texts))
    return ""


def argument_text(value: Any) -> str:
    """The arguments of a call as text; some servers send the object itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value).decode()


# --- signatures: what replays an item to the same model ---------------------------------------------------------------


def text_signature(item: dict[str, Any]) -> str | None:
    """What a text block keeps of its message item: id and phase, as JSON text."""
    id, phase = item.get("id"), item.get("phase")
    if not isinstance(id, str) or not id:
        return None
    kept: dict[str, Any] = {"v": 1, "id": id}
    if isinstance(phase, str) and phase:
        kept["phase"] = phase
    return json.dumps(kept).decode()


def read_text_signature(signature: str | None) -> tuple[str | None, str | None]:
    """Id and phase of a text block's message item; old sessions hold the bare id."""
    if not signature:
        return None, None
    if not signature.startswith("{"):
        return signature, None
    kept = _object(signature)
    id, phase = kept.get("id"), kept.get("phase")
    return (
        id if isinstance(id, str) and id else None,
        phase if isinstance(phase, str) and phase else None,
    )


def read_reasoning(signature: str | None) -> dict[str, Any] | None:
    """The reasoning item in a thinking block's signature, fit to be sent; None when it is something else."""
    item = _object(signature) if signature else {}
    if item.get("type") != "reasoning":
        return None
    # A request must have `summary`, and may not have null where the answer had it.
    return {"summary": [], **{key: value for key, value in item.items() if value is not None}}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
