"""Gemini on Google Cloud Vertex AI: the same answers, and requests that differ in address and in a few fields.

Source: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
"""

from __future__ import annotations

from pi_stream.apis.base import Api
from pi_stream.apis.google.request import build_vertex_request
from pi_stream.apis.google.response import GeminiTranslator

__all__ = ["api"]

api = Api(
    id="google-vertex",
    sentinel=b"[DONE]",  # the api itself has none, some gateways add it
    raw_json=True,  # an error inside a stream comes as bare JSON (the package google-genai reads it so, too)
    build_request=build_vertex_request,
    translator=GeminiTranslator,
)
