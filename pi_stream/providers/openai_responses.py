"""OpenAI (https://platform.openai.com/docs/api-reference/responses) through Responses.

The provider ``openai`` speaks Chat Completions by default; ``Model(provider="openai", api="openai-responses")`` is the
same as this, with the provider id that sessions of pi-ai have.
"""

from __future__ import annotations

from attrs import evolve

from pi_stream.providers import openai

__all__ = ["provider"]

provider = evolve(openai.provider, id="openai-responses", name="OpenAI (Responses)", api="openai-responses")
