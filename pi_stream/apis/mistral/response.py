"""Mistral: chunks to events. They are those of Chat Completions, save for what stands here."""

from __future__ import annotations

from typing import Any

from pi_stream.apis._toolcalls import Fragment
from pi_stream.apis._usage import chat_usage, count, first_count
from pi_stream.apis.mistral.ids import made_up_id
from pi_stream.apis.openai_completions.response import ChatTranslator
from pi_stream.events import Draft
from pi_stream.usage import Usage

__all__ = ["MistralTranslator"]


class MistralTranslator(ChatTranslator):
    """Translates one answer of Mistral."""

    def _add(self, fragment: Fragment, out: list[Draft]) -> None:
        if fragment.id == "null":  # the default of Mistral's own model of a call
            fragment.id = None
        super()._add(fragment, out)

    def _made_up_id(self, position: int) -> str:
        return made_up_id(self._response_id or "", position)

    def _part(self, part: dict[str, Any], out: list[Draft]) -> None:
        """A part of the content: thinking may be signed, and holds references beside text."""
        super()._part(part, out)
        if part.get("type") != "thinking":
            return
        inner = part.get("thinking")
        for piece in inner if isinstance(inner, list) else ():
            if isinstance(piece, dict) and not isinstance(piece.get("text"), str):
                self._keep(piece, out)
        signature = part.get("signature")
        if isinstance(signature, str) and signature:
            self._open_thinking(None, out)
            self._blocks.signature = signature

    def _read_usage(self, usage: dict[str, Any]) -> Usage:
        """What is cached stands in one of several places; how much was thought is not told."""
        details = usage.get("prompt_tokens_details") or usage.get("prompt_token_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        cached = first_count(cached, usage.get("num_cached_tokens")) or 0
        cached = min(cached, count(usage.get("prompt_tokens")))
        read = chat_usage({**usage, "prompt_tokens_details": {"cached_tokens": cached}}, self._setup.model)
        if not _tells_reasoning(usage):
            read.reasoning = None
        return read


def _tells_reasoning(usage: dict[str, Any]) -> bool:
    details = usage.get("completion_tokens_details")
    return "reasoning_tokens" in usage or (isinstance(details, dict) and "reasoning_tokens" in details)
