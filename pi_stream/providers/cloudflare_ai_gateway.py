"""Cloudflare AI Gateway (https://developers.cloudflare.com/ai-gateway/usage/chat-completion).

Its own key has a header of its own: ``authorization`` is for a key of the vendor behind it (``api_key=``).

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers._header_key import HeaderKey
from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "cloudflare-ai-gateway",
    name="Cloudflare AI Gateway",
    base_url="https://gateway.ai.cloudflare.com/v1/{CLOUDFLARE_ACCOUNT_ID}/{CLOUDFLARE_GATEWAY_ID}/compat",
    credential=HeaderKey("cf-aig-authorization", "CLOUDFLARE_API_KEY"),
    quirks={"send_session_affinity_headers": True},
)
