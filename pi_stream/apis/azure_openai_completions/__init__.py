"""Chat Completions on Azure: the protocol is OpenAI's; address, key, deployment and filter results are Azure's.

Its id is that of Chat Completions, for its answers are: the provider ``azure`` brings it in place of the usual one.
Source: https://learn.microsoft.com/azure/foundry/openai/reference
"""

from __future__ import annotations

from attrs import evolve

from pi_stream.apis._azure import Azure
from pi_stream.apis.azure_openai_completions.response import AzureChatTranslator
from pi_stream.apis.base import Api
from pi_stream.apis.openai_completions.request import build_request as build_chat_request
from pi_stream.http import HttpRequest
from pi_stream.messages import Message
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["api", "build_request"]

# Servers of OpenAI's own software, whose `store` is a product of its own on Azure.
_QUIRKS = {"profile": "openai", "supports_store": False}


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of Chat Completions on Azure for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in; see :class:`~pi_stream.apis._azure.Azure`.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved; without one there is no ``api-key`` header.

    Raises:
        ConfigError: As for OpenAI's own.
    """
    azure = Azure.of(model)
    chat = evolve(azure.model, compat={**_QUIRKS, **(azure.model.compat or {})})
    request = build_chat_request(chat, messages, evolve(options, api_key=None))
    return HttpRequest(
        url=azure.url("chat/completions"),
        headers=azure.headers(request.headers, options),
        body=azure.body(request.body or {}),
    )


api = Api(
    id="openai-completions",
    sentinel=b"[DONE]",
    build_request=build_request,
    translator=AzureChatTranslator,
)
