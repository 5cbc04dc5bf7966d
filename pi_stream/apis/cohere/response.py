"""Cohere's chat: chunks to events.

The delta of the open block is one short path (:meth:`CohereTranslator.translate`); everything else takes the long one.
"""

from __future__ import annotations

from typing import Any, Literal

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import error_object, excerpt, provider_error
from pi_stream.apis._notes import diagnostic, kept
from pi_stream.apis._usage import merge_usage
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.cohere.calls import CohereCalls
from pi_stream.apis.cohere.legacy import modern, modern_answer
from pi_stream.apis.cohere.stop import STOP_WORDS, failed
from pi_stream.apis.cohere.usage import cohere_usage
from pi_stream.events import Draft, Finish, Metadata, TextDelta, ThinkingDelta

__all__ = ["TOOL_PLAN", "CohereTranslator"]

TOOL_PLAN = "tool_plan"
"""The field that a tool plan comes in and goes back in: the signature of its thinking block says so."""

_NOTHING: dict[str, Any] = {}


class CohereTranslator:
    """Translates one answer of Cohere, version 2; events of version 1 are read as those of version 2.

    What the model plans to do with tools, ``tool_plan``, is thinking.
    """

    def __init__(self, setup: TranslatorSetup) -> None:
        self.complete = False
        self.ended = False
        self._setup = setup
        self._blocks = Blocks()
        self._place: Any = None  # where the open block comes from: an index of the content, or the plan
        self._calls = CohereCalls(self._blocks)
        self._response_id: str | None = None
        self._finish_reason: str | None = None
        self._failure: Finish | None = None
        self._usage_seen: dict[str, Any] = {}

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``; returns how many were taken."""
        blocks = self._blocks
        for position, chunk in enumerate(chunks, 1):
            kind = blocks.kind
            try:
                content = chunk["delta"]["message"]["content"]
                text = content[kind]
                plain = (
                    text.__class__ is str
                    and text
                    and (len(content) == 1 or (len(content) == 2 and "type" in content))
                    and chunk["index"] == self._place
                    and chunk["type"] == "content-delta"
                )
            except (KeyError, TypeError):
                text, plain = "", False
            if plain:
                out.append((TextDelta if kind == "text" else ThinkingDelta)(blocks.index, text))
            else:
                self._chunk(chunk, out)
                if self.ended:
                    return position
        return len(chunks)

    # --- the long path ------------------------------------------------------------------------------------------------

    def _chunk(self, chunk: Any, out: list[Draft]) -> None:
        if not isinstance(chunk, dict):
            self._unexpected(chunk, out)
            return
        if "type" not in chunk and "event_type" in chunk:
            for event in modern(chunk):
                self._chunk(event, out)
            return
        index = chunk.get("index")
        delta = _object(chunk.get("delta"))
        message = _object(delta.get("message"))
        match chunk.get("type"):
            case "content-delta":
                self._content(index, message.get("content"), out)
            case "content-start":
                self._blocks.close(out)
                self._content(index, message.get("content"), out)
            case "content-end":
                self._blocks.close(out)
            case "tool-plan-delta":
                self._say("thinking", TOOL_PLAN, message.get("tool_plan"), out)
            case "tool-call-start":
                self._start_calls(index, message.get("tool_calls"), out)
            case "tool-call-delta":
                self._calls.delta(index, message.get("tool_calls"), self._response_id, out)
            case "tool-call-end":
                self._calls.end(index, out)
            case "citation-start":
                self._cite(message.get("citations"), out)
            case "message-start":
                self._start(chunk.get("id"), message, out)
            case "message-end":
                self._end(delta, out)
            case "citation-end" | "debug":
                pass
            case _:
                self._unexpected(chunk, out)

    def _start(self, id: Any, message: dict[str, Any], out: list[Draft]) -> None:
        """The answer begins, and may hold something at once; a whole answer holds everything."""
        if self._response_id is None and isinstance(id, str) and id:
            self._response_id = id
            out.append(Metadata(response_id=id))
        content = message.get("content")
        for index, part in enumerate(content if isinstance(content, list) else [content]):
            self._content(index, part, out)
        self._say("thinking", TOOL_PLAN, message.get("tool_plan"), out)
        calls = message.get("tool_calls")
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            self._start_calls(index, call, out)
            self._calls.end(index, out)
        self._cite(message.get("citations"), out)

    def _content(self, index: Any, content: Any, out: list[Draft]) -> None:
        if isinstance(content, str):
            self._say("text", index, content, out)
        elif isinstance(content, dict):
            self._say("thinking", index, content.get("thinking"), out)
            self._say("text", index, content.get("text"), out)
            if not content.keys() & {"thinking", "text"}:
                out.append(kept(self._setup, self._blocks.count, {"content": [content]}))

    def _say(self, kind: Literal["text", "thinking"], place: Any, text: Any, out: list[Draft]) -> None:
        """Text of a block: another kind, or another place, is another block."""
        if not isinstance(text, str) or not text:
            return
        blocks = self._blocks
        if blocks.kind != kind or place != self._place:
            _ = blocks.open_text(out) if kind == "text" else blocks.open_thinking(out)
            self._place = place
            blocks.signature = TOOL_PLAN if place == TOOL_PLAN else None
        out.append((TextDelta if kind == "text" else ThinkingDelta)(blocks.index, text))

    def _start_calls(self, index: Any, calls: Any, out: list[Draft]) -> None:
        for call in calls if isinstance(calls, list) else [calls]:
            self._calls.start(index, call, self._response_id, out)

    def _cite(self, citations: Any, out: list[Draft]) -> None:
        """Citations have no block: they are kept as they come, in a list."""
        cited = citations if isinstance(citations, list) else [citations]
        if any(cited):
            out.append(kept(self._setup, self._blocks.count, {"citations": cited}))

    def _end(self, delta: dict[str, Any], out: list[Draft]) -> None:
        self.complete = self.ended = True
        usage = delta.get("usage")
        if isinstance(usage, dict) and usage:
            merge_usage(self._usage_seen, usage)
            out.append(Metadata(usage=cohere_usage(self._usage_seen, self._setup.model)))
        reason, words = delta.get("finish_reason"), delta.get("error")
        if isinstance(reason, str) and reason:
            self._finish_reason = reason
            out.append(Metadata(raw_stop_reason=reason))
        if isinstance(words, str) and words:
            self._failure = failed(reason, words, delta.get("error_type"))

    def _unexpected(self, chunk: Any, out: list[Draft]) -> None:
        """An error, content of a kind that nobody knows yet, or nonsense."""
        error = error_object(chunk)
        if error is None and isinstance(chunk, dict) and isinstance(chunk.get("message"), str):
            error = chunk  # Cohere's own errors: {"message", "id", "error_type"}
        if error is not None:
            self.ended = True
            self._blocks.close(out)
            out.append(provider_error(error))
        elif isinstance(chunk, dict):
            out.append(kept(self._setup, self._blocks.count, chunk))
        else:
            out.append(diagnostic(self._setup, "unexpected_chunk", {"chunk": excerpt(chunk)}))

    # --- the end ------------------------------------------------------------------------------------------------------

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """A whole JSON answer: its message, then its end."""
        message = answer.get("message") if isinstance(answer, dict) else None
        if isinstance(message, dict):
            self._start(answer.get("id"), message, out)
            if "finish_reason" in answer:
                self._end(answer, out)
        elif isinstance(answer, dict) and isinstance(answer.get("text"), str):
            for event in modern_answer(answer):
                self._chunk(event, out)
        else:
            self._chunk(answer, out)

    def sentinel(self, out: list[Draft]) -> None:
        """``[DONE]``, which some servers add: without the last event before it the answer is cut off."""
        self.ended = True

    def finish(self, out: list[Draft]) -> None:
        """Close what is open and say how it ended."""
        self._blocks.close(out)
        self._calls.close(out, cut=STOP_WORDS.is_cut(self._finish_reason))
        if self._failure is not None:
            out.append(self._failure)
            return
        finish, note = STOP_WORDS.finish(
            self._finish_reason,
            has_content=self._blocks.count > 0,
            has_calls=bool(self._calls),
            calls_usable=self._calls.usable,
            unknown=self._setup.options.unknown_stop,
        )
        if self._finish_reason is None:
            note = "stop_reason_inferred"
        if note is not None:
            out.append(diagnostic(self._setup, note, {"rawStopReason": self._finish_reason}))
        out.append(finish)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else _NOTHING
