"""Gemini: what a ``finishReason`` and a blocked prompt mean. Data first, then the rules.

Source: https://ai.google.dev/api/generate-content#FinishReason and the enum of the same name in the Python package
google-genai 3.6.
"""

from __future__ import annotations

from typing import Literal

from pi_stream.events import DoneReason, Finish
from pi_stream.messages import ErrorCause, ErrorKind

__all__ = ["blocked", "is_cut", "stop_reason"]

_GOOD: dict[str, DoneReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
}
_BAD: dict[str, tuple[ErrorKind, bool]] = {  # kind, retryable
    "SAFETY": ("filtered", False),
    "RECITATION": ("filtered", False),
    "LANGUAGE": ("filtered", False),
    "BLOCKLIST": ("filtered", False),
    "PROHIBITED_CONTENT": ("filtered", False),
    "SPII": ("filtered", False),
    "ESCALATION": ("filtered", False),
    "PUP_LIMITED_DISABLED": ("filtered", False),
    "MODEL_ARMOR": ("filtered", False),
    "IMAGE_SAFETY": ("filtered", False),
    "IMAGE_PROHIBITED_CONTENT": ("filtered", False),
    "IMAGE_RECITATION": ("filtered", False),
    "MALFORMED_FUNCTION_CALL": ("provider_error", True),
    "MALFORMED_RESPONSE": ("provider_error", True),
    "UNEXPECTED_TOOL_CALL": ("provider_error", True),
    "NO_IMAGE": ("provider_error", True),
    "TOO_MANY_TOOL_CALLS": ("provider_error", False),
    "MISSING_THOUGHT_SIGNATURE": ("provider_error", False),
    "IMAGE_OTHER": ("provider_error", False),
    "OTHER": ("provider_error", False),
    "FINISH_REASON_UNSPECIFIED": ("provider_error", False),
}
_NOT_BLOCKED = frozenset({"BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})


def is_cut(raw: str | None) -> bool:
    """Whether an answer that ends for this reason may break off inside a tool call."""
    return raw in _BAD or _GOOD.get(raw or "") == "length"


def stop_reason(
    raw: str | None,
    words: str | None,
    *,
    has_calls: bool,
    complete_calls: bool,
    unknown: Literal["stop", "error"] = "stop",
) -> tuple[Finish, str | None]:
    """How an answer ended.

    Args:
        raw: The last ``finishReason``.
        words: The ``finishMessage`` beside it.
        has_calls: Whether there are tool calls.
        complete_calls: Whether all of them are complete.
        unknown: What a reason nobody knows means.

    Returns:
        The end, and the type of a diagnostic that belongs to it, if any.
    """
    diagnostic = None
    reason = _GOOD.get(raw or "")
    if reason is None:
        bad = _BAD.get(raw or "")
        if bad is not None:
            return _failed(raw, words, "Provider finishReason", *bad), None
        if unknown == "error":
            return _failed(raw, words, "Unknown finishReason", "provider_error", False), None
        reason, diagnostic = "stop", "unknown_stop_reason"
    if reason == "stop" and has_calls and complete_calls:
        reason = "toolUse"
    return Finish(reason), diagnostic


def blocked(reason: object, words: object) -> Finish | None:
    """The end that a ``promptFeedback`` brings; None where it blocks nothing.

    Args:
        reason: Its ``blockReason``.
        words: Its ``blockReasonMessage``.
    """
    if not isinstance(reason, str) or not reason or reason in _NOT_BLOCKED:
        return None
    return _failed(
        reason, words if isinstance(words, str) else None, "The prompt was blocked", "filtered", False
    )


def _failed(raw: str | None, words: str | None, what: str, kind: ErrorKind, retryable: bool) -> Finish:
    message = f"{what}: {raw} ({words})" if words else f"{what}: {raw}"
    return Finish(
        "error", message, ErrorCause(kind=kind, origin="provider", retryable=retryable, provider_code=raw)
    )
