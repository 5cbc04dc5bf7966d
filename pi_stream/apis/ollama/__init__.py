"""Ollama's own chat: lines of JSON, thinking, whole tool calls.

Source: https://docs.ollama.com/api/chat and the Python package ollama 0.6.
"""

from __future__ import annotations

from pi_stream.apis.base import Api
from pi_stream.apis.ollama.request import build_request
from pi_stream.apis.ollama.response import OllamaTranslator

__all__ = ["api"]

api = Api(id="ollama", framing="ndjson", build_request=build_request, translator=OllamaTranslator)
