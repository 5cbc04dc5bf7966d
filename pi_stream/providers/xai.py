"""xAI (https://docs.x.ai/developers/model-capabilities/text/comparison).

Responses, for xAI calls Chat Completions deprecated: it has no place for the reasoning that later requests give back.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "xai",
    name="xAI",
    api="openai-responses",
    base_url="https://api.x.ai/v1",
    key_env="XAI_API_KEY",
)
