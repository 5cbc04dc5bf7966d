"""MiniMax, by its copy of Anthropic's api (https://platform.minimax.io/docs/api-reference/text-anthropic-api)."""

from __future__ import annotations

from pi_stream.providers.base import Provider

provider = Provider(
    "minimax",
    name="MiniMax",
    api="anthropic-messages",
    base_url="https://api.minimax.io/anthropic",
    key_env="MINIMAX_API_KEY",
    default_model="MiniMax-M2.7",
)
