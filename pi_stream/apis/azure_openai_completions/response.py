"""Chat Completions on Azure: what its content filter says of an answer is kept."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from pi_stream.apis._azure import Azure
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.openai_completions.response import ChatTranslator
from pi_stream.events import Draft

__all__ = ["AzureChatTranslator"]


class AzureChatTranslator(ChatTranslator):
    """Translates one Chat Completions answer of Azure: that of OpenAI, and the filter results of its choice."""

    def __init__(self, setup: TranslatorSetup) -> None:
        super().__init__(evolve(setup, model=Azure.of(setup.model).model))
        self._filters: dict[str, Any] = {}

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``; returns how many were taken."""
        taken = super().translate(chunks, out)
        for chunk in chunks[:taken]:
            self._note_filters(chunk)
        return taken

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """A whole JSON answer."""
        super().whole(answer, out)
        self._note_filters(answer)

    def finish(self, out: list[Draft]) -> None:
        """Keep the filter results, close what is open and say how it ended."""
        if self._filters:
            self._keep({"content_filter_results": self._filters}, out)
        super().finish(out)

    def _note_filters(self, chunk: Any) -> None:
        """Each chunk has results for the text so far, by category: the last of each is for all of it."""
        choices = chunk.get("choices") if isinstance(chunk, dict) else None
        choice = choices[0] if isinstance(choices, list) and choices else None
        results = choice.get("content_filter_results") if isinstance(choice, dict) else None
        if isinstance(results, dict):
            self._filters.update(results)
