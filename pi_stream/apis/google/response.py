"""Gemini: chunks to events.

A chunk holds parts, and every part is whole: text, thinking, a function call. Parts of one kind follow each other as
pieces of one block, save signed ones: a signature belongs to its part alone, so a signed part is a block of its own
(https://ai.google.dev/gemini-api/docs/thought-signatures: parts with signatures must not be merged).

The text of the open block is one short path (:meth:`GeminiTranslator.translate`); everything else takes the long one.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import error_object, excerpt, provider_error
from pi_stream.apis._usage import first_count, make_usage
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.google.calls import FunctionCalls
from pi_stream.apis.google.stop import blocked, is_cut, stop_reason
from pi_stream.events import Draft, Finish, Metadata, TextDelta, ThinkingDelta
from pi_stream.messages import Diagnostic, ProviderData

__all__ = ["GeminiTranslator"]

_PLAIN_CANDIDATE = frozenset({"content", "index", "finishReason", "safetyRatings"})
# What a candidate says beside its parts and the message model has no block for.
_KEPT_IN_CANDIDATE = ("citationMetadata", "groundingMetadata", "urlContextMetadata", "logprobsResult")
_MARKS = frozenset(
    {"text", "thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"}
)
_COUNTS = (
    *("promptTokenCount", "toolUsePromptTokenCount", "cachedContentTokenCount"),
    *("candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"),
)


class GeminiTranslator:
    """Translates one answer of ``streamGenerateContent``, of the Gemini api or of Vertex AI."""

    def __init__(self, setup: TranslatorSetup) -> None:
        self.complete = False
        self.ended = False
        self._setup = setup
        self._blocks = Blocks()
        self._calls = FunctionCalls(self._blocks, self._made_up_id)
        self._response_id: str | None = None
        self._response_model: str | None = None
        self._finish_reason: str | None = None
        self._finish_message: str | None = None
        self._counts: dict[str, int] = {}
        self._last_usage: Any = None  # as the last chunk had it
        self._kept: dict[str, Any] = {}
        self._head: tuple[Any, Any] = (None, None)  # id and model of the last chunk

    # --- the fast path ------------------------------------------------------------------------------------------------

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``; returns how many were taken."""
        blocks = self._blocks
        for position, chunk in enumerate(chunks, 1):
            # One part of unsigned text that goes on with the open block, and perhaps new token counts.
            try:
                (candidate,) = chunk["candidates"]
                (part,) = candidate["content"]["parts"]
                text = part["text"]
                thought = part.get("thought") is True
                plain = (
                    text.__class__ is str
                    and text
                    and blocks.kind == ("thinking" if thought else "text")
                    and blocks.signature is None
                    and len(part) == 1 + thought
                    and candidate.keys() <= _PLAIN_CANDIDATE
                    and not candidate.get("finishReason")
                    and not candidate.get("index")
                    and (chunk.get("responseId"), chunk.get("modelVersion")) == self._head
                    and "promptFeedback" not in chunk
                    and "error" not in chunk
                )
            except (AttributeError, KeyError, TypeError, ValueError):
                plain, text, thought = False, "", False
            if plain:
                out.append((ThinkingDelta if thought else TextDelta)(blocks.index, text))
                usage = chunk.get("usageMetadata")
                if usage is not None and usage != self._last_usage:
                    self._count(usage, out)
            else:
                self._chunk(chunk, out)
                if self.ended:
                    return position
        return len(chunks)

    # --- the long path ------------------------------------------------------------------------------------------------

    def _chunk(self, chunk: Any, out: list[Draft]) -> None:
        if isinstance(chunk, list):
            for inner in chunk:
                if isinstance(inner, list):
                    self._note("unexpected_chunk", {"chunk": excerpt(inner)}, out)
                elif not self.ended:
                    self._chunk(inner, out)
            return
        if not isinstance(chunk, dict):
            self._note("unexpected_chunk", {"chunk": excerpt(chunk)}, out)
            return
        self._identify(chunk, out)
        candidate = _first_candidate(chunk)
        if candidate is not None:
            self._candidate(candidate, out)
        self._count(chunk.get("usageMetadata"), out)
        feedback = chunk.get("promptFeedback")
        if isinstance(feedback, dict):
            finish = blocked(feedback.get("blockReason"), feedback.get("blockReasonMessage"))
            if finish is not None:
                out.append(Metadata(raw_stop_reason=feedback["blockReason"]))
                self._fail(finish, out)
                return
        error = error_object(chunk)
        if error is not None:
            self._fail(provider_error(error), out)

    def _identify(self, chunk: dict[str, Any], out: list[Draft]) -> None:
        id, model = self._head = chunk.get("responseId"), chunk.get("modelVersion")
        if self._response_id is None and isinstance(id, str) and id:
            self._response_id = id
            out.append(Metadata(response_id=id))
        if self._response_model is None and isinstance(model, str) and model:
            asked = self._setup.model.id
            if model not in (asked, asked.rpartition("/")[2]):
                self._response_model = model
                out.append(Metadata(response_model=model))

    def _candidate(self, candidate: dict[str, Any], out: list[Draft]) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._part(part, out)
            else:
                self._note("unexpected_part", {"part": excerpt(part)}, out)
        for key in _KEPT_IN_CANDIDATE:
            value = candidate.get(key)
            if value and value != self._kept.get(key):
                self._kept[key] = value
                self._keep({key: value}, out)
        reason, words = candidate.get("finishReason"), candidate.get("finishMessage")
        if isinstance(reason, str) and reason:
            self.complete = True
            self._finish_message = words if isinstance(words, str) else None
            if reason != self._finish_reason:
                self._finish_reason = reason
                out.append(Metadata(raw_stop_reason=reason))

    def _part(self, part: dict[str, Any], out: list[Draft]) -> None:
        signature = part.get("thoughtSignature")
        if not isinstance(signature, str) or not signature:
            signature = None
        call, text = part.get("functionCall"), part.get("text")
        kind: Literal["text", "thinking"] = "thinking" if part.get("thought") is True else "text"
        other = {key: value for key, value in part.items() if key not in _MARKS and value is not None}
        if isinstance(call, dict):
            if not self._calls.add(call, signature, out):
                self._note("unexpected_tool_call", {"functionCall": excerpt(call)}, out)
        elif isinstance(text, str) and text:
            self._say(kind, text, signature, out)
            if other:
                self._keep(other, out)
        elif other:
            self._blocks.close(out)
            self._keep(part, out)
        elif signature is not None:
            self._say(kind, "", signature, out)

    def _say(
        self, kind: Literal["text", "thinking"], text: str, signature: str | None, out: list[Draft]
    ) -> None:
        blocks = self._blocks
        if blocks.kind != kind or blocks.signature != signature:
            if kind == "text":
                blocks.open_text(out)
            else:
                blocks.open_thinking(out)
            blocks.signature = signature
        if text:
            out.append((ThinkingDelta if kind == "thinking" else TextDelta)(blocks.index, text))

    # --- usage, ids, rest -------------------------------------------------------------------------------------------

    def _count(self, usage: Any, out: list[Draft]) -> None:
        """Running totals: per field the last number counts."""
        if not isinstance(usage, dict) or usage == self._last_usage:
            return
        self._last_usage = usage
        counts = self._counts
        changed = False
        for key in _COUNTS:
            value: Any = usage.get(key)
            number: int | None = (
                value if value.__class__ is int and 0 <= value < 2**53 else first_count(value)
            )
            if number is not None and number != counts.get(key):
                counts[key] = number
                changed = True
        if not changed:
            return
        thoughts = counts.get("thoughtsTokenCount", 0)
        read = make_usage(
            self._setup.model,
            prompt=counts.get("promptTokenCount", 0) + counts.get("toolUsePromptTokenCount", 0),
            output=counts.get("candidatesTokenCount", 0) + thoughts,
            cache_read=counts.get("cachedContentTokenCount", 0),
            reasoning=thoughts,
            provider_total=counts.get("totalTokenCount"),
        )
        out.append(Metadata(usage=read))

    def _keep(self, data: dict[str, Any], out: list[Draft]) -> None:
        model = self._setup.model
        out.append(
            Metadata(
                provider_data=ProviderData(
                    after=self._blocks.count,
                    api=model.api,
                    provider=model.provider,
                    model=model.id,
                    data=data,
                )
            )
        )

    def _note(self, kind: str, details: dict[str, Any], out: list[Draft]) -> None:
        out.append(
            Metadata(diagnostic=Diagnostic(type=kind, timestamp=self._setup.timestamp, details=details))
        )

    def _made_up_id(self, position: int) -> str:
        base = re.sub(r"[^A-Za-z0-9]", "", self._response_id or "")[-24:]
        return f"call_{base}_{position}" if base else f"call_{position}"

    # --- the end ------------------------------------------------------------------------------------------------------

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """A whole JSON answer: one chunk, or, where ``alt=sse`` was lost, the array of all chunks."""
        self._chunk(answer, out)
        self.ended = self.ended or self.complete

    def sentinel(self, out: list[Draft]) -> None:
        """``[DONE]``, which some gateways add: nothing can follow."""
        self.ended = True

    def finish(self, out: list[Draft]) -> None:
        """Close what is open and say how it ended."""
        raw = self._finish_reason
        self._calls.close(out, cut=is_cut(raw))
        self._blocks.close(out)
        finish, diagnostic = stop_reason(
            raw,
            self._finish_message,
            has_calls=self._calls.count > 0,
            complete_calls=self._calls.usable,
            unknown=self._setup.options.unknown_stop,
        )
        if diagnostic is not None:
            self._note(diagnostic, {"rawStopReason": raw}, out)
        out.append(finish)

    def _fail(self, finish: Finish, out: list[Draft]) -> None:
        self.ended = True
        self._calls.close(out, cut=True)
        self._blocks.close(out)
        out.append(finish)


def _first_candidate(chunk: dict[str, Any]) -> dict[str, Any] | None:
    """The candidate with index 0; others are answers nobody asked for."""
    candidates = chunk.get("candidates")
    if not isinstance(candidates, list):
        return None
    for candidate in candidates:
        if isinstance(candidate, dict) and not candidate.get("index"):
            return candidate
    return None
