"""LiteLLM (https://docs.litellm.ai/docs/simple_proxy).

Source: PyPI litellm 1.110.2 (provider ``litellm_proxy``).
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "litellm",
    name="LiteLLM",
    base_url="http://localhost:4000",
    base_url_env="LITELLM_PROXY_API_BASE",
    key_env="LITELLM_PROXY_API_KEY",
    key_required=False,
)
