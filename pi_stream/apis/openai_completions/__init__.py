"""OpenAI Chat Completions, and the many servers that speak it.

Source: https://platform.openai.com/docs/api-reference/chat-streaming, and the documentation of compatible servers.
"""

from __future__ import annotations

from pi_stream.apis.base import Api
from pi_stream.apis.openai_completions.request import build_request
from pi_stream.apis.openai_completions.response import ChatTranslator

__all__ = ["api"]

api = Api(
    id="openai-completions",
    sentinel=b"[DONE]",
    build_request=build_request,
    translator=ChatTranslator,
)
