"""Responses: what the status of a final response means. Data first, then the rule."""

from __future__ import annotations

from typing import Any, Literal

from pi_stream.apis._errors import provider_error
from pi_stream.events import DoneReason, Finish
from pi_stream.messages import ErrorCause, ErrorKind

__all__ = ["TERMINAL", "raw_stop_reason", "stop_reason"]

TERMINAL = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
"""Events that end an answer, and the status they stand for."""

# Background states: a server that ends a stream with one has nothing more to say.
_GOOD = frozenset({"completed", "in_progress", "queued"})
_CUT_SHORT: dict[str, DoneReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "length": "length",
}
_BAD: dict[str, tuple[ErrorKind, bool]] = {  # kind, retryable
    "content_filter": ("filtered", False),
    "failed": ("provider_error", True),
    "cancelled": ("provider_error", True),
}


def _status(response: dict[str, Any], event: str) -> tuple[str, str | None]:
    """The status that applies and the reason given with it. vLLM completes with status ``incomplete``."""
    implied, status = TERMINAL[event], response.get("status")
    if implied == "failed" or (implied == "incomplete" and status not in ("failed", "cancelled")):
        status = implied
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    return (
        status if isinstance(status, str) and status else implied,
        reason if isinstance(reason, str) and reason else None,
    )


def raw_stop_reason(response: dict[str, Any], event: str) -> str:
    """The provider's word: the status, and after a dot the reason of an incomplete response."""
    status, reason = _status(response, event)
    return f"{status}.{reason}" if status == "incomplete" and reason else status


def stop_reason(
    response: dict[str, Any], event: str, *, has_calls: bool, unknown: Literal["stop", "error"] = "stop"
) -> tuple[Finish, str | None]:
    """How an answer ended.

    Args:
        response: The final response.
        event: Type of the event that brought it.
        has_calls: Whether there are tool calls.
        unknown: What a word nobody knows means.

    Returns:
        The end, and the type of a diagnostic that belongs to it, if any.
    """
    status, reason = _status(response, event)
    if status in _GOOD:
        return Finish("toolUse" if has_calls else "stop"), None
    if status == "incomplete" and reason in _CUT_SHORT:
        return Finish(_CUT_SHORT[reason]), None
    word = reason if status == "incomplete" and reason else status
    if word in _BAD:
        return _failed(response, word), None
    raw = raw_stop_reason(response, event)
    if unknown == "error":
        cause = ErrorCause(kind="provider_error", origin="provider", provider_code=raw)
        return Finish("error", f"Unknown response status: {raw}", cause), None
    if status == "incomplete":
        # No reason, or a new one: the answer is valid but not whole.
        return Finish("length"), "unknown_stop_reason"
    return Finish("toolUse" if has_calls else "stop"), "unknown_stop_reason"


def _failed(response: dict[str, Any], word: str) -> Finish:
    if response.get("error"):
        return provider_error(response["error"])
    kind, retryable = _BAD[word]
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    words = f"Response {word}" if not reason or reason == word else f"Response {word}: {reason}"
    return Finish(
        "error",
        f"Response incomplete: {word}" if kind == "filtered" else words,
        ErrorCause(kind=kind, origin="provider", retryable=retryable, provider_code=word),
    )
