"""Cohere: what a ``finish_reason`` means.

Source: https://docs.cohere.com/reference/chat-stream, and for the words of version 1 its page beside it.
"""

from __future__ import annotations

from typing import Any

from pi_stream.apis._errors import provider_error
from pi_stream.apis._stop import StopWords
from pi_stream.events import Finish

__all__ = ["STOP_WORDS", "failed"]

STOP_WORDS = StopWords(
    "finish_reason",
    good={
        "complete": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "tool_call": "toolUse",
    },
    bad={
        "error": ("provider_error", True),
        "error_toxic": ("filtered", False),
        "error_limit": ("overflow", False),
        "timeout": ("provider_error", True),
        "user_cancel": ("provider_error", True),
    },
)


def failed(raw: Any, words: str, code: Any) -> Finish:
    """The end that an answer with an error text in its last event has.

    Args:
        raw: The ``finish_reason``.
        words: The error text.
        code: The ``error_type`` beside it, such as ``INVALID_TOOL_GENERATION``.
    """
    code = code if isinstance(code, str) and code else raw
    finish = provider_error({"message": words, "code": code})
    cause = finish.error_cause
    assert cause is not None
    if cause.kind == "provider_error":  # what the words do not tell, the reason may
        word = raw.lower() if isinstance(raw, str) else "error"
        cause.kind, cause.retryable = STOP_WORDS.bad.get(word, STOP_WORDS.bad["error"])
    return finish
