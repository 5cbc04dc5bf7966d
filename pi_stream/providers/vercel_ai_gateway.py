"""Vercel AI Gateway (https://vercel.com/docs/ai-gateway/openai-compatible-api).

Source: PyPI litellm 1.110.2 (base URL) and npm @earendil-works/pi-ai 1.6.0 (variable of the key).
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "vercel-ai-gateway",
    name="Vercel AI Gateway",
    base_url="https://ai-gateway.vercel.sh/v1",
    key_env="AI_GATEWAY_API_KEY",
)
