"""Messages: what a ``stop_reason`` means. Data first, then the rule.

Source: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
"""

from __future__ import annotations

from typing import Literal

from pi_stream.events import DoneReason, Finish
from pi_stream.messages import ErrorCause, ErrorKind

__all__ = ["refused", "stop_reason"]

_GOOD: dict[str, DoneReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",  # sent back as it is, the answer goes on
    "compaction": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
    # Words of other protocols that gateways forget to translate.
    "stop": "stop",
    "length": "length",
    "tool_calls": "toolUse",
}
_BAD: dict[str, tuple[ErrorKind, bool]] = {  # kind, retryable
    "refusal": ("refusal", False),
    "sensitive": ("filtered", False),
    "content_filter": ("filtered", False),
    "content_filtered": ("filtered", False),
    "guardrail_intervened": ("filtered", False),
    "error": ("provider_error", True),
}


def refused(explanation: str | None, category: str | None) -> Finish:
    """The end of an answer that a safety system stopped.

    Args:
        explanation: The provider's words.
        category: The provider's name for what was touched.
    """
    message = (
        explanation or "The provider stopped the answer: the request or the answer touches its usage policy."
    )
    return Finish(
        "error", message, ErrorCause(kind="refusal", origin="provider", provider_code=category or "refusal")
    )


def stop_reason(
    raw: str,
    *,
    has_content: bool,
    has_calls: bool,
    complete_calls: bool,
    unknown: Literal["stop", "error"] = "stop",
) -> tuple[Finish, str | None]:
    """How an answer ended.

    Args:
        raw: The provider's word.
        has_content: Whether anything came, content without a block of ours included.
        has_calls: Whether there are tool calls.
        complete_calls: Whether all of them were ended by the provider.
        unknown: What a word nobody knows means.

    Returns:
        The end, and the type of a diagnostic that belongs to it, if any.
    """
    word = raw.lower()
    if word in _BAD or word.startswith("malformed"):
        kind, retryable = _BAD.get(word, ("provider_error", True))
        return _error(f"Provider stop_reason: {raw}", raw, kind, retryable), None
    diagnostic = None
    reason = _GOOD.get(word)
    if reason is None:
        if unknown == "error":
            return _error(f"Unknown stop_reason: {raw}", raw), None
        reason, diagnostic = "stop", "unknown_stop_reason"
    if reason == "stop" and has_calls and complete_calls:
        return Finish("toolUse"), diagnostic
    if reason == "toolUse" and not has_calls:
        if not has_content:
            message = f"Provider stop_reason: {raw}, without a tool call or any content"
            return _error(message, raw, retryable=True), None
        return Finish("stop"), "tool_use_without_call"
    return Finish(reason), diagnostic


def _error(message: str, raw: str, kind: ErrorKind = "provider_error", retryable: bool = False) -> Finish:
    cause = ErrorCause(kind=kind, origin="provider", retryable=retryable, provider_code=raw)
    return Finish("error", message, cause)
