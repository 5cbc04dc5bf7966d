"""vLLM (https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html).

Source: its documentation: host, port, and the variable of the key; that of the base URL from PyPI litellm 1.110.2.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "vllm",
    name="vLLM",
    base_url="http://localhost:8000/v1",
    base_url_env="HOSTED_VLLM_API_BASE",
    key_env=("VLLM_API_KEY", "HOSTED_VLLM_API_KEY"),
    key_required=False,
)
