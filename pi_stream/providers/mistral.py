"""Mistral (https://docs.mistral.ai)."""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "mistral",
    name="Mistral",
    api="mistral-conversations",
    base_url="https://api.mistral.ai",
    key_env="MISTRAL_API_KEY",
    default_model="mistral-small-latest",
)
