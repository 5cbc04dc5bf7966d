"""OpenAI Responses on Azure: the answers are OpenAI's; address, key and deployment are Azure's.

Source: https://learn.microsoft.com/azure/foundry/openai/how-to/responses
"""

from __future__ import annotations

from attrs import evolve

from pi_stream.apis._azure import Azure
from pi_stream.apis.base import Api
from pi_stream.apis.openai_responses.quirks import Quirks
from pi_stream.apis.openai_responses.request import write_body, write_headers
from pi_stream.apis.openai_responses.response import ResponsesTranslator
from pi_stream.http import HttpRequest
from pi_stream.messages import Message
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["api", "build_request"]

_API = "azure-openai-responses"


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of Responses on Azure for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in; see :class:`~pi_stream.apis._azure.Azure`.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved; without one there is no ``api-key`` header.

    Raises:
        ConfigError: As for OpenAI's own.
    """
    azure = Azure.of(evolve(model, api=_API))
    quirks = Quirks.of(azure.model)
    headers = write_headers(azure.model, messages, options, quirks, None)
    body = write_body(_API, azure.model, messages, options, quirks)
    return HttpRequest(
        url=azure.url("responses"), headers=azure.headers(headers, options), body=azure.body(body)
    )


api = Api(id=_API, sentinel=b"[DONE]", build_request=build_request, translator=ResponsesTranslator)
