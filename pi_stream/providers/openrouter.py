"""OpenRouter (https://openrouter.ai/docs).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "openrouter",
    name="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    key_env="OPENROUTER_API_KEY",
    quirks={
        "supports_strict_mode": True,
    },
)
