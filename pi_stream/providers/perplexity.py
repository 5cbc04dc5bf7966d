"""Perplexity (https://docs.perplexity.ai).

It counts tokens in every chunk, unasked.

Source: Perplexity's own SDK, PyPI perplexityai 0.46.1, and PyPI litellm 1.110.2.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "perplexity",
    name="Perplexity",
    base_url="https://api.perplexity.ai",
    base_url_env="PERPLEXITY_BASE_URL",
    key_env="PERPLEXITY_API_KEY",
    quirks={
        "supports_store": False,
        "supports_usage_in_streaming": False,
        "max_tokens_field": "max_tokens",
    },
)
