"""Claude by Amazon Bedrock's invoke stream: events of the Messages api, each in a frame of AWS.

A chunk is ``{"chunk": {"bytes": base64}}``, a payload under the event type of its frame, or the payload alone. A frame that
says what went wrong is ``{"exception": {"type": ..., "message": ...}}``.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html
"""

from __future__ import annotations

from base64 import b64decode
from functools import partial
from typing import Any

from pi_stream.apis.anthropic_messages.request import build_request
from pi_stream.apis.anthropic_messages.response import MessagesTranslator
from pi_stream.apis.base import Api
from pi_stream.events import Draft
from pi_stream.exceptions import DecodeError
from pi_stream.wire import json

__all__ = ["InvokeTranslator", "api"]

# The HTTP status that stands for an exception, as the page above lists them: it says whether to try again.
_STATUS = {
    "internalserver": 500,
    "modelstreamerror": 424,
    "modeltimeout": 408,
    "serviceunavailable": 503,
    "throttling": 429,
    "validation": 400,
}


class InvokeTranslator(MessagesTranslator):
    """Translates one answer of the invoke stream."""

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``; returns how many were taken.

        Raises:
            DecodeError: The payload of a chunk is no base64 of JSON.
        """
        for position, chunk in enumerate(chunks, 1):
            super().translate([_event(chunk)], out)
            if self.ended:
                return position
        return len(chunks)


def _event(chunk: Any) -> Any:
    """The event inside a chunk."""
    if not isinstance(chunk, dict):
        return chunk
    payload = chunk.get("chunk", chunk)
    if isinstance(payload, dict) and isinstance(payload.get("bytes"), str):
        try:
            return json.loads(b64decode(payload["bytes"]))
        except ValueError as problem:
            raise DecodeError(f"a chunk of the invoke stream is no base64: {problem}") from None
    exception = chunk.get("exception")
    if isinstance(exception, dict):
        name = str(exception.get("type")).lower().removesuffix("exception")
        status = {"status": _STATUS[name]} if name in _STATUS else {}
        return {"type": "error", "error": {**status, **exception}}
    return payload


api = Api(
    id="bedrock-invoke",
    framing="eventstream",
    build_request=partial(build_request, platform="bedrock"),
    translator=InvokeTranslator,
)
