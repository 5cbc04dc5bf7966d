"""Groq (https://console.groq.com/docs/openai).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "groq",
    name="Groq",
    base_url="https://api.groq.com/openai/v1",
    key_env="GROQ_API_KEY",
    quirks={
        "supports_strict_mode": True,
    },
)
