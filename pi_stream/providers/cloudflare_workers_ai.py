"""Cloudflare Workers AI (https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "cloudflare-workers-ai",
    name="Cloudflare Workers AI",
    base_url="https://api.cloudflare.com/client/v4/accounts/{CLOUDFLARE_ACCOUNT_ID}/ai/v1",
    key_env="CLOUDFLARE_API_KEY",
    quirks={
        "supports_strict_mode": True,
        "send_session_affinity_headers": True,
    },
)
