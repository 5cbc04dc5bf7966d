"""Cohere (https://docs.cohere.com). The variables are those that the Python package cohere 7.3 reads."""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "cohere",
    name="Cohere",
    api="cohere-chat",
    base_url="https://api.cohere.com",
    base_url_env="CO_API_URL",
    key_env=("CO_API_KEY", "COHERE_API_KEY"),
    default_model="command-a-03-2025",
)
