"""Chat Completions answers through the whole pipeline: whole and cut, with every guarantee checked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pi_stream.apis import get_api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.engine.pipeline import Pipeline
from pi_stream.events import Event
from pi_stream.guard import Guard
from pi_stream.http import ResponseHead
from pi_stream.messages import AssistantMessage, Tool
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.testing import check_events

API = "openai-completions"
MODEL = Model(id="m", api=API, provider="p")
CUTS = (1, 2, 3, 7, 64)
DONE = b"data: [DONE]\n\n"


def frame(chunk: Any) -> bytes:
    """One chunk as an SSE event."""
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk with one choice; further keys stand beside the choices."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "r1", "model": "m", "choices": [choice], **more}


def says(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of text."""
    return chunk({"content": text}, finish, **more)


def calls(*fragments: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A chunk with pieces of tool calls."""
    return chunk({"tool_calls": list(fragments)}, finish)


def piece(arguments: Any = None, *, name: Any = None, **keys: Any) -> dict[str, Any]:
    """A piece of a tool call, with only what is given."""
    function = {"name": name, "arguments": arguments}
    return {**keys, "function": {key: value for key, value in function.items() if value is not None}}


def stream(*chunks: Any, done: bool = True) -> bytes:
    """A body of chunks; what is bytes already stands as it is."""
    return b"".join(each if isinstance(each, bytes) else frame(each) for each in chunks) + (
        DONE if done else b""
    )


def pipeline_of(
    *,
    model: Model = MODEL,
    tools: Iterable[Tool] = (),
    status: int = 200,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> Pipeline:
    """The pipeline of one answer, with these options of the caller."""
    setup = TranslatorSetup(model=model, tools=tuple(tools), options=StreamOptions(**options))
    limits = setup.options.limits
    head = AssistantMessage(api=API, provider=model.provider, model=model.id, timestamp=0)
    guard = Guard(head, max_blocks=limits.blocks, max_argument_bytes=limits.argument_bytes)
    return Pipeline(get_api(API), setup, ResponseHead(status=status, headers=headers or {}), guard)


def events_of(body: bytes, cut: int | None = None, **setup: Any) -> list[Event]:
    """All events of a body, fed whole or ``cut`` bytes at a time."""
    pipeline = pipeline_of(**setup)
    events: list[Event] = []
    for start in range(0, len(body), cut or len(body) or 1):
        events += pipeline.feed(body[start : start + (cut or len(body))])
    return events + pipeline.end()


def checked(body: bytes, **setup: Any) -> list[Event]:
    """All events of a body: they keep the guarantees, and are the same however the body is cut."""
    events = events_of(body, **setup)
    check_events(events)
    for cut in CUTS:
        assert events_of(body, cut, **setup) == events, f"other events when cut at {cut}"
    return events


def message_of(body: bytes, **setup: Any) -> AssistantMessage:
    """The final message of a body, checked as :func:`checked` does."""
    return check_events(checked(body, **setup))


def answer(*chunks: Any, done: bool = True, **setup: Any) -> AssistantMessage:
    """The final message of a stream of chunks, checked as :func:`checked` does."""
    return message_of(stream(*chunks, done=done), **setup)


def deltas(events: Iterable[Event]) -> list[Event]:
    """What was streamed: the pieces of text, thinking and arguments."""
    return [event for event in events if event.type.endswith("_delta")]


def check_every_prefix(body: bytes, complete_at: int, **setup: Any) -> None:
    """Cut off before ``complete_at`` the answer is an error that keeps its content; from there on it is a success."""
    whole = events_of(body, **setup)
    for end in range(len(body)):
        events = events_of(body[:end], **setup)
        message = check_events(events)
        streamed = deltas(events)
        assert streamed == deltas(whole)[: len(streamed)], f"other content when cut off at {end}"
        if end < complete_at:
            assert message.stop_reason == "error", f"cut off at {end}, it looks finished"
            assert message.error_cause is not None
            assert (message.error_cause.kind, message.error_cause.retryable) == ("truncated", True)
        else:
            assert streamed == deltas(whole)
            assert message.stop_reason == check_events(whole).stop_reason
