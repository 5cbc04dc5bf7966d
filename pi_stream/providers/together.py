"""Together AI (https://docs.together.ai/docs/openai-api-compatibility).

Source: npm @earendil-works/pi-ai 1.6.0; the variable of the base URL from Together's own SDK, PyPI together 3.1.1.
"""

from __future__ import annotations

from pi_stream.providers.base import Provider

__all__ = ["provider"]

provider = Provider(
    "together",
    name="Together AI",
    base_url="https://api.together.ai/v1",
    base_url_env="TOGETHER_BASE_URL",
    key_env="TOGETHER_API_KEY",
)
