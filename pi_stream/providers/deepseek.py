"""DeepSeek (https://api-docs.deepseek.com).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "deepseek",
    name="DeepSeek",
    base_url="https://api.deepseek.com",
    key_env="DEEPSEEK_API_KEY",
)
