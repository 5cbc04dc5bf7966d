"""OpenAI (https://platform.openai.com/docs/api-reference)."""

from __future__ import annotations

from pi_stream.providers.base import Provider

provider = Provider(
    "openai",
    name="OpenAI",
    api="openai-completions",
    base_url="https://api.openai.com/v1",
    base_url_env="OPENAI_BASE_URL",
    key_env="OPENAI_API_KEY",
    default_model="gpt-4o-mini",
)
