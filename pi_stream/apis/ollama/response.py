"""Ollama's chat: lines to events.

The delta of the open block is one short path (:meth:`OllamaTranslator.translate`); everything else takes the long one.
"""

from __future__ import annotations

import re
from typing import Any

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import error_object, excerpt, provider_error
from pi_stream.apis._notes import diagnostic, kept
from pi_stream.apis._stop import StopWords
from pi_stream.apis._usage import first_count, make_usage
from pi_stream.apis.base import TranslatorSetup
from pi_stream.events import BlockEnd, Draft, Metadata, TextDelta, ThinkingDelta, ToolCallDelta
from pi_stream.partial_json import parse_arguments
from pi_stream.wire import json

__all__ = ["OllamaTranslator"]

STOP_WORDS = StopWords(
    "done_reason",
    good={
        "stop": "stop",
        "length": "length",
        "load": "stop",  # nothing was asked but to load the model
        "unload": "stop",
        "tool_calls": "toolUse",  # said by servers that imitate Ollama
    },
    bad={"error": ("provider_error", True)},
)
# Servers that imitate Ollama use the other names.
_THINKING_FIELDS = ("thinking", "reasoning_content", "reasoning")


class OllamaTranslator:
    """Translates one answer of Ollama. Its tool calls come whole, so they are ended at once."""

    def __init__(self, setup: TranslatorSetup) -> None:
        self.complete = False
        self.ended = False
        self._setup = setup
        self._blocks = Blocks()
        self._created: str | None = None
        self._model_seen = False
        self._done_reason: str | None = None
        self._calls: dict[str, tuple[str, str]] = {}  # name and arguments by id

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the lines say to ``out``; returns how many were taken."""
        blocks = self._blocks
        for position, chunk in enumerate(chunks, 1):
            kind = blocks.kind
            try:
                message = chunk["message"]
                if kind == "text":
                    text, said = message["content"], len(message) == 2
                else:
                    text, said = message["thinking"], len(message) == 3 and message["content"] == ""
                plain = (
                    said
                    and kind is not None
                    and text.__class__ is str
                    and text
                    and "role" in message
                    and chunk["done"] is False
                    and "error" not in chunk
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
        if isinstance(chunk, dict):
            self._identify(chunk, out)
            message = chunk.get("message")
            if isinstance(message, dict):
                self._message(message, out)
        error = error_object(chunk)
        if error is not None:
            self.ended = True
            out.append(provider_error(error))
        elif not isinstance(chunk, dict):
            out.append(diagnostic(self._setup, "unexpected_chunk", {"chunk": excerpt(chunk)}))
        elif chunk.get("done") is True:
            self._done(chunk, out)

    def _identify(self, chunk: dict[str, Any], out: list[Draft]) -> None:
        created, model = chunk.get("created_at"), chunk.get("model")
        if self._created is None and isinstance(created, str):
            self._created = re.sub(r"[^A-Za-z0-9]", "", created)[:32]
        if not self._model_seen and isinstance(model, str) and model:
            self._model_seen = True
            if model != self._setup.model.id:
                out.append(Metadata(response_model=model))

    def _message(self, message: dict[str, Any], out: list[Draft]) -> None:
        blocks = self._blocks
        for field in _THINKING_FIELDS:
            thinking = message.get(field)
            if isinstance(thinking, str) and thinking:
                blocks.thinking(thinking, out)
                break
        content = message.get("content")
        if isinstance(content, str) and content:
            blocks.text(content, out)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._call(call, out)
        if message.get("images"):
            out.append(kept(self._setup, blocks.count, {"images": message["images"]}))

    def _done(self, chunk: dict[str, Any], out: list[Draft]) -> None:
        self.complete = self.ended = True
        prompt, output = first_count(chunk.get("prompt_eval_count")), first_count(chunk.get("eval_count"))
        if prompt is not None or output is not None:
            out.append(Metadata(usage=make_usage(self._setup.model, prompt=prompt or 0, output=output or 0)))
        reason = chunk.get("done_reason")
        if isinstance(reason, str) and reason:
            self._done_reason = reason
            out.append(Metadata(raw_stop_reason=reason))

    # --- tool calls ---------------------------------------------------------------------------------------------------

    def _call(self, call: Any, out: list[Draft]) -> None:
        fields = call if isinstance(call, dict) else {}
        function = fields.get("function")
        function = function if isinstance(function, dict) else fields
        name, arguments = function.get("name"), function.get("arguments")
        name = name if isinstance(name, str) else ""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}).decode()
        id = fields.get("id")
        if not isinstance(id, str) or not id:
            id = self._made_up_id()
        elif id in self._calls:
            if self._calls[id] == (name, text):
                return  # the same call, sent again with the last line
            id = self._made_up_id()
        self._calls[id] = (name, text)
        block = self._blocks.open_call(id, name, out)
        if text:
            out.append(ToolCallDelta(block, text))
        out.append(BlockEnd(block, error=None if name else "the provider sent a tool call without a name"))

    def _made_up_id(self) -> str:
        """There is no id of the answer, but a time that is as good."""
        return "_".join(filter(None, ("call", self._created, str(len(self._calls)))))

    def _calls_usable(self) -> bool:
        return all(name and parse_arguments(text)[1] is None for name, text in self._calls.values())

    # --- the end ------------------------------------------------------------------------------------------------------

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """A whole JSON answer: a line that has everything."""
        self._chunk(answer, out)

    def sentinel(self, out: list[Draft]) -> None:
        """There is none."""

    def finish(self, out: list[Draft]) -> None:
        """Close what is open and say how it ended."""
        self._blocks.close(out)
        finish, note = STOP_WORDS.finish(
            self._done_reason,
            has_content=self._blocks.count > 0,
            has_calls=bool(self._calls),
            calls_usable=self._calls_usable,
            unknown=self._setup.options.unknown_stop,
        )
        if note is not None:
            out.append(diagnostic(self._setup, note, {"rawStopReason": self._done_reason}))
        out.append(finish)
