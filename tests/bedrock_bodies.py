"""Answers of Bedrock as bytes: frames with checksums, as a server writes them."""

from __future__ import annotations

import json
from typing import Any

from pi_stream.wire.eventstream import encode_frame

START = {"role": "assistant"}
USAGE = {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13}


def frame(kind: str, payload: Any) -> bytes:
    """An event."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, json.dumps(payload).encode())


def exception(kind: str, payload: Any) -> bytes:
    """An exception of the protocol."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return encode_frame(headers, json.dumps(payload).encode())


def start(index: int, start: Any) -> bytes:
    return frame("contentBlockStart", {"contentBlockIndex": index, "start": start})


def call(index: int, name: str = "look", id: str = "tooluse_1") -> bytes:
    return start(index, {"toolUse": {"toolUseId": id, "name": name}})


def delta(index: int, delta: Any) -> bytes:
    return frame("contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abc"})


def text(index: int, words: str) -> bytes:
    return delta(index, {"text": words})


def thinking(index: int, **piece: Any) -> bytes:
    return delta(index, {"reasoningContent": piece})


def arguments(index: int, words: str) -> bytes:
    return delta(index, {"toolUse": {"input": words}})


def stop(index: int) -> bytes:
    return frame("contentBlockStop", {"contentBlockIndex": index})


def end(reason: str = "end_turn", **more: Any) -> bytes:
    return frame("messageStop", {"stopReason": reason, **more})


def metadata(usage: Any = None, **more: Any) -> bytes:
    return frame(
        "metadata", {"usage": USAGE if usage is None else usage, "metrics": {"latencyMs": 7}, **more}
    )


def answer(*frames: bytes, reason: str = "end_turn") -> bytes:
    """A whole answer: start, the frames, stop reason and usage."""
    return b"".join([frame("messageStart", START), *frames, end(reason), metadata()])
