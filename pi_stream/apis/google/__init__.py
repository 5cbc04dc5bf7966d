"""Google's Gemini api, ``streamGenerateContent``: of the Gemini Developer API here, of Vertex AI in :mod:`.vertex`.

Source: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

from pi_stream.apis.base import Api
from pi_stream.apis.google.request import build_request
from pi_stream.apis.google.response import GeminiTranslator

__all__ = ["api"]

api = Api(
    id="google-generative-ai",
    sentinel=b"[DONE]",  # the api itself has none, some gateways add it
    raw_json=True,  # an error inside a stream comes as bare JSON (the package google-genai reads it so, too)
    build_request=build_request,
    translator=GeminiTranslator,
)
