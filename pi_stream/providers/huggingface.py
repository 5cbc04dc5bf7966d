"""Hugging Face (https://huggingface.co/docs/inference-providers).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "huggingface",
    name="Hugging Face",
    base_url="https://router.huggingface.co/v1",
    key_env="HF_TOKEN",
    quirks={
        "supports_strict_mode": True,
    },
)
