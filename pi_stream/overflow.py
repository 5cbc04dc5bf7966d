"""Whether a prompt did not fit the context window: how providers say so, and how some do not.

There is no common code, so the words count: the table holds those that providers document or were seen to send.
"""

from __future__ import annotations

import re

from pi_stream.messages import AssistantMessage

__all__ = ["is_context_overflow", "says_overflow"]

_N = r"\(?[\d,]+\)?"
_PHRASES = (
    r"prompt (is )?too long",  # Anthropic, Z.ai, Ollama
    r"prompt exceeds max length",  # Z.ai in China
    r"request_too_large",  # Anthropic, of bytes
    r"input is too long for requested model",  # Bedrock
    r"exceeds the context window",  # OpenAI
    rf"maximum context length (is |of )?{_N}",  # OpenAI, vLLM, LiteLLM, OpenRouter
    r"context window exceeded",  # LiteLLM
    r"input token count.{0,80}exceeds the maximum",  # Google
    rf"maximum prompt length is {_N}",  # xAI
    r"reduce the length of the (messages|prompt)",  # Groq, vLLM
    rf"maximum allowed input length of {_N}",  # OpenRouter
    rf"input \({_N} tokens?\) is longer than the model's context length",  # Together
    rf"(prompt|token|input|context).{{0,80}}exceeds the limit of {_N}",  # GitHub Copilot
    r"exceeds the available context size",  # llama.cpp
    r"greater than the context length",  # LM Studio
    r"context window exceeds limit",  # MiniMax
    r"exceeded model token limit",  # Kimi
    rf"too large for model with {_N} maximum context length",  # Mistral
    rf"prompt has {_N} tokens?, but the configured context size is {_N}",  # DS4
    r"model_context_window_exceeded",  # Z.ai, Anthropic: a stop reason
    r"exceeded (max )?context length",  # Ollama
    r"range of input length should be",  # Qwen
    r"length of all messages is too long",  # Perplexity
    r"context[_ ]length[_ ]exceeded",
    r"too many tokens",
    r"token limit exceeded",
)
_OVERFLOW = re.compile("|".join(_PHRASES), re.IGNORECASE | re.DOTALL)
# Too much at once is not too long: Bedrock's throttling speaks of too many tokens as well.
_TOO_FAST = re.compile(
    r"^\s*(\d{3}\s+)?(throttling|service ?unavailable)|rate.?limit|too many requests", re.IGNORECASE
)
# HTTP 413 at the beginning, as clients write it.
_STATUS_413 = re.compile(r"413\b|[\w .-]+ api error \(413\):", re.IGNORECASE)
# Cerebras sends no body; other vendors send none for other reasons too.
_NO_BODY = re.compile(r"(400|413)\s*(status code)?\s*\(no body\)", re.IGNORECASE)


def says_overflow(words: str) -> bool:
    """Whether a provider's error message says that the prompt does not fit."""
    return _OVERFLOW.search(words) is not None and _TOO_FAST.search(words) is None


def is_context_overflow(message: AssistantMessage, context_window: int | None = None) -> bool:
    """Whether an answer failed, or is worthless, because the prompt did not fit the context window.

    Some servers say nothing. They cut the prompt, which shows when the provider counted more tokens than there is room
    for; or they have no room to answer. These two need the window, and the usage that the provider reported.

    Args:
        message: The final message.
        context_window: Tokens of the model's context window; without it only what the provider says counts.
    """
    if message.stop_reason == "error":
        cause = message.error_cause
        if cause is not None and cause.kind not in ("http_status", "provider_error"):
            return cause.kind == "overflow"
        return _is_overflow_text(message.error_message or "", message.provider)
    if message.raw_stop_reason == "model_context_window_exceeded":
        return True
    if not context_window:
        return False
    prompt = message.usage.input + message.usage.cache_read
    if message.stop_reason == "stop":  # seen at Z.ai
        return prompt > context_window
    # Seen at Xiaomi: cut to the window, which leaves no room.
    return message.stop_reason == "length" and not message.usage.output and prompt >= 0.99 * context_window


def _is_overflow_text(words: str, provider: str) -> bool:
    """The same for messages that have no cause: those of other libraries."""
    if _TOO_FAST.search(words):
        return False
    no_body = provider == "cerebras" and _NO_BODY.match(words) is not None
    return no_body or _STATUS_413.match(words) is not None or says_overflow(words)
