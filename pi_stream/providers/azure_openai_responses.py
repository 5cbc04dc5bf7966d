"""Azure OpenAI (https://learn.microsoft.com/azure/foundry/openai/how-to/responses): Responses."""

from __future__ import annotations

from attrs import evolve

from pi_stream.providers import azure

__all__ = ["provider"]

provider = evolve(
    azure.provider,
    id="azure-openai-responses",
    name="Azure OpenAI (Responses)",
    api="azure-openai-responses",
)
