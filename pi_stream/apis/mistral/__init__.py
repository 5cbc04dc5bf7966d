"""Mistral's chat completions: the wire of OpenAI's, with thinking among the content and ids of nine characters.

The id of the protocol is pi-ai's and says ``conversations``; the endpoint is ``chat/completions``.
Source: https://docs.mistral.ai/api/endpoint/chat and the Python package mistralai 3.7.
"""

from __future__ import annotations

from pi_stream.apis.base import Api
from pi_stream.apis.mistral.request import build_request
from pi_stream.apis.mistral.response import MistralTranslator

__all__ = ["api"]

api = Api(
    id="mistral-conversations",
    sentinel=b"[DONE]",
    build_request=build_request,
    translator=MistralTranslator,
)
