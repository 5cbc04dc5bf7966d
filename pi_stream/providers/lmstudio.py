"""LM Studio (https://lmstudio.ai/docs/developer/openai-compat).

Source: its documentation: host, port, and the variable of the key; that of the base URL from PyPI litellm 1.110.2.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "lmstudio",
    name="LM Studio",
    base_url="http://localhost:1234/v1",
    base_url_env="LM_STUDIO_API_BASE",
    key_env=("LM_API_TOKEN", "LM_STUDIO_API_KEY"),
    key_required=False,
)
