"""Chat Completions: what a ``finish_reason`` means. Data first, then the rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pi_stream.events import DoneReason, Finish
from pi_stream.messages import ErrorCause, ErrorKind

__all__ = ["is_cut", "stop_reason"]

_GOOD: dict[str, DoneReason] = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "tool_use": "toolUse",
}
_BAD: dict[str, tuple[ErrorKind, bool]] = {  # kind, retryable
    "content_filter": ("filtered", False),
    "safety": ("filtered", False),
    "image_safety": ("filtered", False),
    "recitation": ("filtered", False),
    "blocklist": ("filtered", False),
    "prohibited_content": ("filtered", False),
    "spii": ("filtered", False),
    "sensitive": ("filtered", False),
    "refusal": ("refusal", False),
    "error": ("provider_error", True),
    "abort": ("provider_error", True),
    "network_error": ("provider_error", True),
    "insufficient_system_resource": ("overloaded", True),
}


def is_cut(raw: str | None) -> bool:
    """Whether the answer was cut by a limit."""
    return _GOOD.get(_word(raw)) == "length"


def stop_reason(
    raw: str | None,
    *,
    has_content: bool,
    has_calls: bool,
    calls_usable: Callable[[], bool],
    unknown: Literal["stop", "error"] = "stop",
) -> tuple[Finish, str | None]:
    """How an answer ended.

    Args:
        raw: The provider's word; None when it was never sent (``[DONE]`` after content).
        has_content: Whether any block was opened.
        has_calls: Whether there are tool calls.
        calls_usable: Whether all of them are complete; asked only where it matters.
        unknown: What a word nobody knows means.

    Returns:
        The end, and the type of a diagnostic that belongs to it, if any.
    """
    word = _word(raw)
    if word in _BAD or word.startswith("malformed"):
        kind, retryable = _BAD.get(word, ("provider_error", True))
        return _failed(f"Provider finish_reason: {raw}", raw, kind, retryable), None
    diagnostic = None
    reason = _GOOD.get(word)
    if reason is None:
        if unknown == "error":
            return _failed(f"Unknown finish_reason: {raw}", raw), None
        reason, diagnostic = "stop", "unknown_stop_reason"
    if reason == "stop" and has_calls and calls_usable():
        return Finish("toolUse"), diagnostic
    if reason == "toolUse" and not has_calls:
        if not has_content:
            words = f"Provider finish_reason: {raw}, without a tool call or any content"
            return _failed(words, raw, retryable=True), None
        return Finish("stop"), "tool_use_without_call"
    return Finish(reason), diagnostic


def _word(raw: str | None) -> str:
    """Gateways differ in case and in dash or underscore."""
    return (raw or "stop").lower().replace("-", "_")


def _failed(
    message: str, raw: str | None, kind: ErrorKind = "provider_error", retryable: bool = False
) -> Finish:
    cause = ErrorCause(kind=kind, origin="provider", retryable=retryable, provider_code=raw)
    return Finish("error", message, cause)
