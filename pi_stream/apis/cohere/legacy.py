"""Events of version 1 of Cohere's chat, which answers in lines of JSON, as those of version 2.

Source: https://docs.cohere.com/v1/reference/chat-stream
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pi_stream.wire import json

__all__ = ["modern", "modern_answer"]

Event = dict[str, Any]


def modern(event: Event) -> Iterator[Event]:
    """What an event of version 1 says, as events of version 2."""
    match event.get("event_type"):
        case "stream-start":
            yield {"type": "message-start", "id": event.get("generation_id")}
        case "text-generation":
            yield _message("content-delta", content={"text": event.get("text")})
        case "tool-calls-chunk":
            # The plan comes in pieces; the calls come again, whole, in an event of their own.
            yield _message("tool-plan-delta", tool_plan=event.get("text"))
        case "tool-calls-generation":
            yield from _calls(event.get("tool_calls"))
        case "citation-generation":
            yield _message("citation-start", citations=event.get("citations"))
        case "stream-end":
            response = event.get("response")
            meta = response.get("meta") if isinstance(response, dict) else None
            reason = event.get("finish_reason")
            yield {"type": "message-end", "delta": {"finish_reason": reason, "usage": meta}}
        case "debug":
            pass
        case _:
            yield {"type": "unknown", **event}


def modern_answer(answer: Event) -> Iterator[Event]:
    """What a whole answer of version 1 says, as events of version 2."""
    calls = answer.get("tool_calls")
    yield {"type": "message-start", "id": answer.get("generation_id")}
    text = answer.get("text")
    if calls:  # then the text is the plan
        yield _message("tool-plan-delta", tool_plan=text)
    else:
        yield _message("content-delta", content={"text": text})
    yield from _calls(calls)
    yield _message("citation-start", citations=answer.get("citations"))
    usage, reason = answer.get("meta"), answer.get("finish_reason")
    yield {"type": "message-end", "delta": {"finish_reason": reason, "usage": usage}}


def _message(kind: str, **fields: Any) -> Event:
    return {"type": kind, "delta": {"message": fields}}


def _calls(calls: Any) -> Iterator[Event]:
    """Calls of version 1: a name and the parameters as an object, without ids."""
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        fields = call if isinstance(call, dict) else {}
        arguments = json.dumps(fields.get("parameters") or {}).decode()
        function = {"name": fields.get("name"), "arguments": arguments}
        start = _message("tool-call-start", tool_calls={"function": function})
        yield {**start, "index": index}
        yield {"type": "tool-call-end", "index": index}
