"""Z.ai (https://docs.z.ai).

The coding plan has a base URL of its own, which pi-ai takes: ``base_urls={"zai": "https://api.z.ai/api/coding/paas/v4"}``.

Source: npm @earendil-works/pi-ai 1.6.0; the base URL from PyPI litellm 1.110.2.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "zai",
    name="Z.ai",
    base_url="https://api.z.ai/api/paas/v4",
    key_env="ZAI_API_KEY",
    quirks={
        "supports_strict_mode": True,
        "zai_tool_stream": True,
    },
)
