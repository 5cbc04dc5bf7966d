"""Cohere's chat, version 2: thinking and tool plans, citations, tool calls that are ended one by one.

Source: https://docs.cohere.com/reference/chat-stream and the Python package cohere 7.3.
"""

from __future__ import annotations

from pi_stream.apis.base import Api
from pi_stream.apis.cohere.request import build_request
from pi_stream.apis.cohere.response import CohereTranslator

__all__ = ["api"]

api = Api(
    id="cohere-chat",
    sentinel=b"[DONE]",  # sent after the end by some of its servers
    build_request=build_request,
    translator=CohereTranslator,
)
