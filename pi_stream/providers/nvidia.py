"""NVIDIA NIM (https://docs.api.nvidia.com/nim/reference).

The header keeps the connection open for a model that has to be started first.

Source: npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "nvidia",
    name="NVIDIA NIM",
    base_url="https://integrate.api.nvidia.com/v1",
    key_env="NVIDIA_API_KEY",
    headers={
        "NVCF-POLL-SECONDS": "3600",
    },
)
