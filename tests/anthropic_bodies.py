"""Answers of the Messages api as test input: events to bodies, bodies through the pipeline, however they are cut."""

from __future__ import annotations

import json
from typing import Any

from pi_stream import AssistantMessage, decode
from pi_stream.events import Event
from pi_stream.testing import check_events

CUTS = (1, 2, 3, 7, 64)


def sse(*events: dict[str, Any], names: bool = False) -> bytes:
    """Events as a body; their names stand in their data, and with ``names`` in lines of their own as well."""
    return b"".join(
        (f"event: {event.get('type')}\n".encode() if names else b"")
        + b"data: "
        + json.dumps(event).encode()
        + b"\n\n"
        for event in events
    )


def run(body: bytes, **arguments: Any) -> tuple[list[Event], AssistantMessage]:
    """The events of a body, the same for every cut, and the message they fold into."""
    arguments = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-x", **arguments}
    events = decode(body, **arguments)
    for cut in CUTS:
        assert decode(body, cut=cut, **arguments) == events, f"cut at {cut}"
    return events, check_events(events)


def answer(*events: dict[str, Any], reason: str = "end_turn", **delta: Any) -> bytes:
    """A body that begins and ends well, with these events between."""
    return sse(start(), *events, end(reason, **delta), STOP)


def start(**message: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 1}
    return {
        "type": "message_start",
        "message": {"id": "msg_1", "model": "claude-x", "usage": usage, **message},
    }


def end(
    reason: str | None = "end_turn", *, usage: dict[str, Any] | None = None, **delta: Any
) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, **delta},
        "usage": {"output_tokens": 7} if usage is None else usage,
    }


STOP = {"type": "message_stop"}


def begin(index: Any, type: str, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **block}}


def piece(index: Any, **delta: Any) -> dict[str, Any]:
    """A delta; its type follows from what it holds."""
    types = {"text": "text", "thinking": "thinking", "partial_json": "input_json", "signature": "signature"}
    types["citation"] = "citations"
    kind = next((f"{types[name]}_delta" for name in delta if name in types), "unknown_delta")
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


def over(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    """A whole text block."""
    return [begin(index, "text", text=""), *(piece(index, text=part) for part in pieces), over(index)]


def call(index: int, *pieces: str, id: str = "toolu_1", name: str = "look") -> list[dict[str, Any]]:
    """A whole tool call."""
    parts = (piece(index, partial_json=part) for part in pieces)
    return [begin(index, "tool_use", id=id, name=name, input={}), *parts, over(index)]
