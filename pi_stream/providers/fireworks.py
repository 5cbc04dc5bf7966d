"""Fireworks AI (https://docs.fireworks.ai/tools-sdks/openai-compatibility).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "fireworks",
    name="Fireworks AI",
    base_url="https://api.fireworks.ai/inference/v1",
    key_env="FIREWORKS_API_KEY",
    quirks={
        "supports_store": False,
        "supports_strict_mode": True,
        "supports_long_cache_retention": False,
        "send_session_affinity_headers": True,
    },
)
