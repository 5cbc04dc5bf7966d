"""Claude by Amazon Bedrock's invoke stream: events of the Messages api, each in a frame of AWS.

A chunk is ``{"chunk": {"bytes": base64}}``, as the decoder of AWS frames names a payload by its event type, or the payload
alone. A frame of an exception, ``{"throttlingException": {"message": ...}}``, is an error.

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
    for name, value in chunk.items():
        if name.endswith("Exception") and isinstance(value, dict):
            return {"type": "error", "error": {"type": name, "message": value.get("message") or name}}
    return chunk


api = Api(
    id="bedrock-invoke",
    framing="eventstream",
    build_request=partial(build_request, platform="bedrock"),
    translator=InvokeTranslator,
)
