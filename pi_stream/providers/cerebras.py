"""Cerebras (https://inference-docs.cerebras.ai).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "cerebras",
    name="Cerebras",
    base_url="https://api.cerebras.ai/v1",
    key_env="CEREBRAS_API_KEY",
)
