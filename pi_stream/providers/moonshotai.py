"""Moonshot AI (https://platform.moonshot.ai/docs).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "moonshotai",
    name="Moonshot AI",
    base_url="https://api.moonshot.ai/v1",
    key_env="MOONSHOT_API_KEY",
)
