"""Chat Completions: what a ``finish_reason`` means. Data first, then the rule."""

from __future__ import annotations

from typing import Literal

from pi_stream.events import DoneReason, Finish
from pi_stream.messages import ErrorCause, ErrorKind

__all__ = ["stop_reason"]

_GOOD: dict[str, DoneReason] = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "tool_use": "toolUse",
}
_BAD: dict[str, tuple[ErrorKind, bool]] = {  # kind, retryable
    "content_filter": ("filtered", False),
    "safety": ("filtered", False),
    "recitation": ("filtered", False),
    "blocklist": ("filtered", False),
    "prohibited_content": ("filtered", False),
    "spii": ("filtered", False),
    "refusal": ("refusal", False),
    "error": ("provider_error", True),
    "network_error": ("provider_error", True),
    "insufficient_system_resource": ("overloaded", True),
}


def stop_reason(
    raw: str | None,
    *,
    has_content: bool,
    has_calls: bool,
    complete_calls: bool,
    unknown: Literal["stop", "error"] = "stop",
) -> tuple[Finish, str | None]:
    """How an answer ended.

    Args:
        raw: The provider's word; None when it was never sent (``[DONE]`` after content).
        has_content: Whether any block was opened.
        has_calls: Whether there are tool calls.
        complete_calls: Whether all of them are complete.
        unknown: What a word nobody knows means.

    Returns:
        The end, and the type of a diagnostic that belongs to it, if any.
    """
    word = (raw or "stop").lower()
    if word in _BAD or word.startswith("malformed"):
        kind, retryable = _BAD.get(word, ("provider_error", True))
        cause = ErrorCause(kind=kind, origin="provider", retryable=retryable, provider_code=raw)
        return Finish("error", f"Provider finish_reason: {raw}", cause), None
    diagnostic = None
    reason = _GOOD.get(word)
    if reason is None:
        if unknown == "error":
            cause = ErrorCause(kind="provider_error", origin="provider", provider_code=raw)
            return Finish("error", f"Unknown finish_reason: {raw}", cause), None
        reason, diagnostic = "stop", "unknown_stop_reason"
    if reason == "stop" and has_calls and complete_calls:
        return Finish("toolUse"), diagnostic
    if reason == "toolUse" and not has_calls:
        if not has_content:
            cause = ErrorCause(kind="provider_error", origin="provider", retryable=True, provider_code=raw)
            return Finish("error", f"Provider finish_reason: {raw}, without a tool call or any content", cause), None
        return Finish("stop"), "tool_use_without_call"
    return Finish(reason), diagnostic
