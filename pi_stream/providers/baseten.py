"""Baseten (https://docs.baseten.co/inference/model-apis/overview).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "baseten",
    name="Baseten",
    base_url="https://inference.baseten.co/v1",
    key_env="BASETEN_API_KEY",
    quirks={
        "supports_store": False,
        "supports_strict_mode": True,
        "supports_long_cache_retention": False,
        "send_session_affinity_headers": True,
        "max_tokens_field": "max_tokens",
    },
)
