"""Anthropic Messages, and the servers that speak it; Claude on Vertex AI with the compat flag ``platform: "vertex"``.

Source: https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

from pi_stream.apis.anthropic_messages.request import build_request
from pi_stream.apis.anthropic_messages.response import MessagesTranslator
from pi_stream.apis.base import Api

__all__ = ["api"]

api = Api(
    id="anthropic-messages",
    sentinel=b"[DONE]",  # the api itself has none, some gateways add it
    build_request=build_request,
    translator=MessagesTranslator,
)
