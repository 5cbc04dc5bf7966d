"""Chat Completions: chunks to events.

The delta of the open block is one short path (:meth:`ChatTranslator.translate`); everything else, such as starts, tool
calls, reasoning details, usage and odd servers, takes the long one.
"""

from __future__ import annotations

import re
from typing import Any

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import error_object, provider_error
from pi_stream.apis._toolcalls import Calls, Fragment
from pi_stream.apis._usage import count, first_count, make_usage, merge_usage
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.openai_completions.reasoning import ReasoningDetails
from pi_stream.apis.openai_completions.stop import stop_reason
from pi_stream.events import Draft, Finish, Metadata, TextDelta, ThinkingDelta
from pi_stream.messages import Diagnostic, ErrorCause, ProviderData
from pi_stream.usage import Usage

__all__ = ["ChatTranslator"]

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
# Content that the message model has no block for is kept as provider data: in deltas piece by piece, beside the
# choices as the last value sent.
_KEPT_IN_DELTA = ("annotations", "images", "audio", "executed_tools")
_KEPT_IN_CHUNK = ("citations", "search_results", "images", "related_questions")
_NOTHING: dict[str, Any] = {}


class ChatTranslator:
    """Translates one Chat Completions answer."""

    def __init__(self, setup: TranslatorSetup) -> None:
        self.complete = False
        self.ended = False
        self._setup = setup
        self._blocks = Blocks()
        self._calls = Calls(self._blocks, self._made_up_id, _free_text_properties(setup))
        self._details = ReasoningDetails()
        self._reasoning_block: int | None = None  # the thinking block that carries the reasoning details
        self._plain_reasoning = False
        self._response_id: str | None = None
        self._response_model: str | None = None
        self._finish_reason: str | None = None
        self._usage_seen: dict[str, Any] = {}
        self._usage: Usage | None = None
        self._kept: dict[str, Any] = {}
        self._refusal: list[str] = []
        self._model: Any = None  # of the last chunk

    # --- the fast path ------------------------------------------------------------------------------------------------

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``; returns how many were taken."""
        blocks = self._blocks
        for position, chunk in enumerate(chunks, 1):
            # One choice whose delta is nothing but the next piece of the open block.
            try:
                (choice,) = chunk["choices"]
                delta = choice["delta"]
                text = delta["content"]
                plain = (
                    text.__class__ is str
                    and text
                    and blocks.kind == "text"
                    and (len(delta) == 1 or (len(delta) == 2 and "role" in delta))
                    and chunk["model"] == self._model
                    and not choice["finish_reason"]
                    and not choice["index"]
                    and not chunk.get("usage")
                    and not self.complete
                    and "error" not in chunk
                )
            except (KeyError, TypeError, ValueError):
                plain = False
            if plain:
                out.append(TextDelta(blocks.index, text))
            else:
                self._chunk(chunk, out)
                if self.ended:
                    return position
        return len(chunks)

    # --- the long path ------------------------------------------------------------------------------------------------

    def _chunk(self, chunk: Any, out: list[Draft]) -> None:
        if not isinstance(chunk, dict):
            error = error_object(chunk)
            if error is not None:
                self._fail(provider_error(error), out)
            else:
                self._note("unexpected_chunk", {"chunk": chunk}, out)
            return
        self._identify(chunk, out)
        choice = _first_choice(chunk)
        if choice is not None:
            self._choice(choice, out)
        for key in _KEPT_IN_CHUNK:
            if chunk.get(key):
                self._kept[key] = chunk[key]
        self._count(chunk, choice or _NOTHING, out)
        error = error_object(chunk) or (error_object(choice) if choice is not None else None)
        if error is not None:
            self._fail(provider_error(error), out)

    def _identify(self, chunk: dict[str, Any], out: list[Draft]) -> None:
        id, self._model = chunk.get("id"), chunk.get("model")
        model = self._model
        if self._response_id is None and isinstance(id, str) and id:
            self._response_id = id
            out.append(Metadata(response_id=id))
        if self._response_model is None and isinstance(model, str) and model and model != self._setup.model.id:
            self._response_model = model
            out.append(Metadata(response_model=model))

    def _choice(self, choice: dict[str, Any], out: list[Draft]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta, out)
        message = choice.get("message")
        if isinstance(message, dict):
            self._message(message, out)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason and not (self.complete and reason == self._finish_reason):
            self._finish_reason = reason
            self.complete = True
            out.append(Metadata(raw_stop_reason=reason))

    def _delta(self, delta: dict[str, Any], out: list[Draft]) -> None:
        self._reasoning(delta, out)
        content = delta.get("content")
        if isinstance(content, str):
            if content:
                self._text(content, out)
        elif isinstance(content, list):
            for part in content:
                self._part(part, out)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refusal.append(refusal)
            self._text(refusal, out)
        calls = delta.get("tool_calls")
        if isinstance(calls, list) and calls:
            self._close_thinking(out)
            for position, call in enumerate(calls):
                self._tool_call(call, position if len(calls) > 1 else None, out)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict):
            self._close_thinking(out)
            self._calls.add(Fragment(index=0, name=legacy.get("name"), arguments=legacy.get("arguments")), out)
        for key in _KEPT_IN_DELTA:
            if delta.get(key):
                self._keep({key: delta[key]}, out)

    def _text(self, text: str, out: list[Draft]) -> None:
        self._close_thinking(out)
        self._blocks.text(text, out)

    def _part(self, part: Any, out: list[Draft]) -> None:
        """One part of list-valued content."""
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        if not isinstance(part, dict):
            self._keep(part, out)
        elif isinstance(text := part.get("text"), str):
            if text:
                self._text(text, out)
        elif part.get("type") == "thinking":
            inner = part.get("thinking")
            for piece in inner if isinstance(inner, list) else [inner]:
                text = piece.get("text") if isinstance(piece, dict) else piece
                if isinstance(text, str) and text:
                    self._think(text, None, out)
        else:
            self._keep(part, out)

    def _message(self, message: dict[str, Any], out: list[Draft]) -> None:
        """A whole message beside or after deltas is a snapshot: only what it continues is added."""
        content = message.get("content")
        if self._blocks.count == 0 and not self._calls.calls:
            self._delta(message, out)
        elif isinstance(content, str) and content and self._blocks.kind == "text":
            self._blocks.close(out, content)

    def _tool_call(self, call: Any, position: int | None, out: list[Draft]) -> None:
        if not isinstance(call, dict):
            self._note("unexpected_tool_call", {"toolCall": call}, out)
            return
        function, custom = call.get("function"), call.get("custom")
        index = call.get("index")
        if isinstance(custom, dict):
            text = custom.get("input")
            fragment = Fragment(index=index, id=call.get("id"), name=custom.get("name"), input=text)
        else:
            fields = function if isinstance(function, dict) else _NOTHING
            fragment = Fragment(
                index=index, id=call.get("id"), name=fields.get("name"), arguments=fields.get("arguments")
            )
        if fragment.index is None:
            fragment.index = position  # several index-less pieces in one chunk come in their order
        self._calls.add(fragment, out)

    # --- reasoning ----------------------------------------------------------------------------------------------------

    def _reasoning(self, delta: dict[str, Any], out: list[Draft]) -> None:
        shown = False
        for name in _REASONING_FIELDS:
            text = delta.get(name)
            if isinstance(text, str) and text:
                self._plain_reasoning = shown = True
                self._think(text, name, out)
                break
        details = delta.get("reasoning_details")
        if isinstance(details, list) and details:
            text = self._details.add(details)
            if self._reasoning_block is None:
                self._open_details(out)
            if text and not shown and not self._plain_reasoning:
                self._think(text, None, out)

    def _think(self, text: str, field: str | None, out: list[Draft]) -> None:
        blocks = self._blocks
        if blocks.kind != "thinking":
            blocks.open_thinking(out)
            blocks.signature = field
        out.append(ThinkingDelta(blocks.index, text))

    def _open_details(self, out: list[Draft]) -> None:
        """The details belong to the open thinking block, or to one that is opened for them."""
        if self._blocks.kind != "thinking":
            self._blocks.open_thinking(out)
        self._reasoning_block = self._blocks.index

    def _close_thinking(self, out: list[Draft]) -> None:
        if self._blocks.kind == "thinking":
            if self._blocks.index == self._reasoning_block:
                self._blocks.signature = self._details.signature()
            self._blocks.close(out)

    # --- usage, ids, rest -------------------------------------------------------------------------------------------

    def _count(self, chunk: dict[str, Any], choice: dict[str, Any], out: list[Draft]) -> None:
        groq = chunk.get("x_groq")
        places = (chunk.get("usage"), choice.get("usage"), groq.get("usage") if isinstance(groq, dict) else None)
        found = next((usage for usage in places if isinstance(usage, dict) and usage), None)
        if found is None:
            return
        merge_usage(self._usage_seen, found)
        usage = _read_usage(self._usage_seen, self._setup)
        if usage != self._usage:
            self._usage = usage
            out.append(Metadata(usage=usage))
        if self.complete and choice.get("finish_reason") is None:
            self.ended = True  # stop reason and, in a later chunk, usage: nothing can follow

    def _keep(self, data: Any, out: list[Draft]) -> None:
        model = self._setup.model
        out.append(
            Metadata(
                provider_data=ProviderData(
                    after=self._blocks.count, api=model.api, provider=model.provider, model=model.id, data=data
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
        """A whole JSON answer: its message is one large delta."""
        self._chunk(answer, out)
        self.ended = self.ended or self.complete

    def sentinel(self, out: list[Draft]) -> None:
        """``[DONE]``: nothing can follow. After content it also stands for a stop reason that was never sent."""
        self.ended = True
        if not self.complete and (self._blocks.count or self._calls.calls):
            self.complete = True
            self._note("stop_reason_inferred", {"because": "[DONE] without finish_reason"}, out)

    def finish(self, out: list[Draft]) -> None:
        """Close what is open and say how it ended."""
        self._close_thinking(out)
        if self._reasoning_block is not None and self._details.changed:
            out.append(Metadata(content_index=self._reasoning_block, signature=self._details.signature()))
        self._blocks.close(out)
        complete_calls = self._calls.complete()
        self._calls.close(out)
        for key, value in self._kept.items():
            self._keep({key: value}, out)
        if self._refusal:
            cause = ErrorCause(kind="refusal", origin="provider")
            out.append(Finish("error", "".join(self._refusal), cause))
            return
        finish, diagnostic = stop_reason(
            self._finish_reason,
            has_content=self._blocks.count > 0,
            has_calls=bool(self._calls.calls),
            complete_calls=complete_calls,
            unknown=self._setup.options.unknown_stop,
        )
        if diagnostic is not None:
            self._note(diagnostic, {"rawStopReason": self._finish_reason}, out)
        out.append(finish)

    def _fail(self, finish: Finish, out: list[Draft]) -> None:
        self.ended = True
        self._close_thinking(out)
        out.append(finish)


def _first_choice(chunk: dict[str, Any]) -> dict[str, Any] | None:
    """The choice with index 0; others belong to answers nobody asked for."""
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return None
    for choice in choices:
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return None


def _free_text_properties(setup: TranslatorSetup) -> dict[str, str]:
    """For each custom (grammar) tool the one string property that its free text goes into."""
    found: dict[str, str] = {}
    for tool in setup.tools:
        if tool.constrained_sampling and tool.constrained_sampling.get("type") == "grammar":
            names = list(tool.parameters.get("properties") or ())
            if len(names) == 1:
                found[tool.name] = names[0]
    return found


def _read_usage(usage: dict[str, Any], setup: TranslatorSetup) -> Usage:
    def details(name: str) -> dict[str, Any]:
        value = usage.get(name)
        return value if isinstance(value, dict) else _NOTHING

    prompt, completion = details("prompt_tokens_details"), details("completion_tokens_details")
    cached = first_count(
        prompt.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens")
    )
    reasoning = first_count(completion.get("reasoning_tokens"), usage.get("reasoning_tokens"))
    return make_usage(
        setup.model,
        prompt=count(usage.get("prompt_tokens")),
        output=count(usage.get("completion_tokens")),
        cache_read=cached or 0,
        cache_write=count(prompt.get("cache_write_tokens")),
        reasoning=reasoning or 0,
        provider_total=first_count(usage.get("total_tokens")),
    )
