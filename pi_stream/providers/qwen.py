"""Qwen (https://www.alibabacloud.com/help/en/model-studio/compatibility-of-openai-with-dashscope).

By Alibaba Cloud Model Studio, outside China.

Source: PyPI litellm 1.110.2 (provider ``dashscope``); the thinking format from npm @earendil-works/pi-ai 1.6.0.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "qwen",
    name="Qwen",
    base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    key_env="DASHSCOPE_API_KEY",
    quirks={
        "supports_store": False,
        "thinking_format": "qwen",
    },
)
