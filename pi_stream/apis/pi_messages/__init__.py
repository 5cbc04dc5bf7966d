"""The protocol of pi's proxies: a backend that speaks events like ours over SSE, with the model behind it.

``Provider("backend", api="pi-messages", base_url="https://...", key_env="...")`` makes one usable. What differs from our
own events: a tool call starts with a ``toolName``, signatures are called ``contentSignature``, and the terminal event holds
the usage instead of the message.
"""

from __future__ import annotations

from pi_stream.apis.base import Api
from pi_stream.apis.pi_messages.request import build_request
from pi_stream.apis.pi_messages.response import EventTranslator

__all__ = ["api"]

api = Api(
    id="pi-messages",
    sentinel=b"[DONE]",
    build_request=build_request,
    translator=EventTranslator,
    handover=False,
)
