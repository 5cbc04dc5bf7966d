"""What a provider's word for the end of an answer means: the rule that apis with a table of words share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from attrs import frozen

from pi_stream.events import DoneReason, Finish
from pi_stream.messages import ErrorCause, ErrorKind

__all__ = ["StopWords"]


@frozen
class StopWords:
    """The words of a protocol, in lower case.

    Attributes:
        field: The field they stand in, for messages.
        good: Words for an answer that is valid.
        bad: Words for one that failed: its kind, and whether the same request may work later.
    """

    field: str
    good: Mapping[str, DoneReason]
    bad: Mapping[str, tuple[ErrorKind, bool]]

    def is_cut(self, raw: str | None) -> bool:
        """Whether an answer that ends so was cut by a limit."""
        return self.good.get((raw or "").lower()) == "length"

    def finish(
        self,
        raw: str | None,
        *,
        has_content: bool,
        has_calls: bool,
        calls_usable: Callable[[], bool],
        unknown: Literal["stop", "error"] = "stop",
    ) -> tuple[Finish, str | None]:
        """How an answer ended.

        Args:
            raw: The provider's word; None where it sent none, which means a natural end.
            has_content: Whether anything came.
            has_calls: Whether there are tool calls.
            calls_usable: Whether all of them are complete; asked only where it matters.
            unknown: What a word nobody knows means.

        Returns:
            The end, and the type of a diagnostic that belongs to it, if any.
        """
        if raw is None:
            return Finish("toolUse" if has_calls and calls_usable() else "stop"), None
        word = raw.lower()
        if word in self.bad:
            return _failed(f"Provider {self.field}: {raw}", raw, *self.bad[word]), None
        reason, diagnostic = self.good.get(word), None
        if reason is None:
            if unknown == "error":
                return _failed(f"Unknown {self.field}: {raw}", raw), None
            reason, diagnostic = "stop", "unknown_stop_reason"
        if reason == "stop" and has_calls and calls_usable():
            return Finish("toolUse"), diagnostic
        if reason == "toolUse" and not has_calls:
            if not has_content:
                words = f"Provider {self.field}: {raw}, without a tool call or any content"
                return _failed(words, raw, retryable=True), None
            return Finish("stop"), "tool_use_without_call"
        return Finish(reason), diagnostic


def _failed(message: str, raw: str, kind: ErrorKind = "provider_error", retryable: bool = False) -> Finish:
    return Finish(
        "error", message, ErrorCause(kind=kind, origin="provider", retryable=retryable, provider_code=raw)
    )
