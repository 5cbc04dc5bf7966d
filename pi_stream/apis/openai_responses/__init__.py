"""OpenAI Responses, and the servers that speak it: xAI, OpenRouter, llama.cpp, vLLM, LM Studio and others.

Source: https://platform.openai.com/docs/api-reference/responses-streaming, and the documentation of compatible servers.
"""

from __future__ import annotations

from pi_stream.apis.base import Api
from pi_stream.apis.openai_responses.request import build_request
from pi_stream.apis.openai_responses.response import ResponsesTranslator

__all__ = ["api"]

api = Api(
    id="openai-responses",
    sentinel=b"[DONE]",  # the protocol has none, but gateways send it
    build_request=build_request,
    translator=ResponsesTranslator,
)
