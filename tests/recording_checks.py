"""Recorded answers as test input: loading them, cutting them, comparing them with what the forerunner made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from pi_stream import AssistantMessage, decode
from pi_stream.events import Event
from pi_stream.testing import check_events

CUTS = (1, 7, 64)


@frozen
class Recording:
    """One recorded answer: its name, its body, how to decode it, and the forerunner's message if there is one."""

    name: str
    body: bytes
    arguments: dict[str, Any]
    case: dict[str, Any]
    forerunner: dict[str, Any] | None

    def decode(self, body: bytes | None = None, cut: int | None = None) -> list[Event]:
        """Decode the body, or another one in its place."""
        return decode(self.body if body is None else body, cut=cut, **self.arguments)


def recordings(shared: Path, folder: str, api: str) -> Iterator[Recording]:
    """All recordings of a folder whose ``api`` matches, in order of their names."""
    for place in sorted((shared / "recordings" / folder).iterdir()):
        if not place.is_dir():
            continue
        case = json.loads((place / "case.json").read_text())
        body = next(place.glob("body.*")).read_bytes()
        arguments = {
            "api": api,
            "provider": case["provider"],
            "model": case["model"],
            "status": case["status"],
            "content_type": case["contentType"],
        }
        theirs = place / "pi-ai.json"
        message = json.loads(theirs.read_text())["message"] if theirs.exists() else None
        yield Recording(place.name, body, arguments, case, message)


def check_whole_and_cut(recording: Recording) -> AssistantMessage:
    """The answer keeps the guarantees and is the same however it is cut; returns the final message."""
    events = recording.decode()
    message = check_events(events)
    for cut in CUTS:
        assert recording.decode(cut=cut) == events, f"{recording.name} differs when cut at {cut}"
    return message


def differences(recording: Recording, message: AssistantMessage) -> dict[str, tuple[Any, Any]]:
    """What of text, thinking, calls, stop reason and usage differs from the forerunner's message: ours, theirs."""
    theirs = recording.forerunner
    assert theirs is not None
    blocks = theirs["content"]
    usage = theirs["usage"]
    pairs = {
        "text": (message.text, "".join(b["text"] for b in blocks if b["type"] == "text")),
        "thinking": (message.thinking, "".join(b["thinking"] for b in blocks if b["type"] == "thinking")),
        "calls": (
            [(call.name, call.arguments, call.arguments_error is not None) for call in message.tool_calls],
            [
                (b["name"], b["arguments"], b.get("argumentsError") is not None)
                for b in blocks
                if b["type"] == "toolCall"
            ],
        ),
        "stop": (message.stop_reason, theirs["stopReason"]),
        "usage": (
            (message.usage.input, message.usage.output, message.usage.cache_read, message.usage.cache_write),
            (usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"]),
        ),
        "reasoning": (message.usage.reasoning, usage.get("reasoning")),
        "cacheWrite1h": (message.usage.cache_write_1h, usage.get("cacheWrite1h")),
        "totalTokens": (message.usage.total_tokens, usage["totalTokens"]),
    }
    return {aspect: pair for aspect, pair in pairs.items() if pair[0] != pair[1]}


def event_borders(body: bytes) -> list[int]:
    """Offsets right after each event of a text stream."""
    borders, position = [], 0
    for line in body.splitlines(keepends=True):
        position += len(line)
        if not line.strip():
            borders.append(position)
    return borders


def check_prefixes(recording: Recording, complete_at: int, offsets: list[int]) -> None:
    """Every prefix that ends before the stop reason (at ``complete_at``) is an error that keeps its content."""
    whole = recording.decode()
    for offset in offsets:
        if not 0 <= offset < complete_at:
            continue
        events = recording.decode(recording.body[:offset])
        message = check_events(events)
        assert message.stop_reason == "error", f"{recording.name} cut at {offset} looks finished"
        streamed = [event for event in events if event.type.endswith("_delta")]
        expected = [event for event in whole if event.type.endswith("_delta")]
        assert streamed == expected[: len(streamed)], f"{recording.name} cut at {offset} lost content"
