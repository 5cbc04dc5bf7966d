"""Chat Completions: chunks to events.

The delta of the open text block is one short path (:meth:`ChatTranslator.translate`); everything else, such as starts,
tool calls, reasoning, usage and odd servers, takes the long one.
"""

from __future__ import annotations

import re
from typing import Any

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import error_object, excerpt, provider_error
from pi_stream.apis._toolcalls import Calls, Fragment, free_text_properties
from pi_stream.apis._usage import apply_tier, chat_usage, merge_usage
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.openai_completions.quirks import Quirks, is_host
from pi_stream.apis.openai_completions.reasoning import ReasoningDetails
from pi_stream.apis.openai_completions.stop import is_cut, stop_reason
from pi_stream.events import Draft, Finish, Metadata, TextDelta, ThinkingDelta
from pi_stream.messages import Diagnostic, ErrorCause, ProviderData
from pi_stream.usage import Usage

__all__ = ["ChatTranslator"]

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
# Content that the message model has no block for is kept as provider data: in deltas piece by piece, beside the
# choices as the last value sent.
_KEPT_IN_DELTA = ("annotations", "images", "audio", "executed_tools")
_KEPT_IN_CHUNK = ("citations", "search_results", "images", "related_questions", "prompt_filter_results")
_RARE = frozenset({*_KEPT_IN_CHUNK, "error", "x_groq"})
_RARE_IN_CHOICE = frozenset({"error", "message", "usage"})
_NOTHING: dict[str, Any] = {}


class ChatTranslator:
    """Translates one Chat Completions answer."""

    def __init__(self, setup: TranslatorSetup) -> None:
        model = setup.model
        self.complete = False
        self.ended = False
        self.ends_at_eof = bool(model.compat) and not Quirks.of(model).supports_finish_reason
        self._setup = setup
        self._has_tiers = model.provider == "openai" or is_host(model.base_url, "api.openai.com")
        self._blocks = Blocks()
        self._calls = Calls(self._blocks, self._made_up_id, free_text_properties(setup.tools))
        self._text_blocks = 0
        self._snapshot: str | None = None  # what a whole message says the open text block is
        self._details = ReasoningDetails()
        self._details_block: int | None = None  # the thinking block that carries the details
        self._plain_reasoning = False
        self._response_id: str | None = None
        self._response_model: str | None = None
        self._finish_reason: str | None = None
        self._usage_seen: dict[str, Any] = {}
        self._usage: Usage | None = None
        self._kept: dict[str, Any] = {}
        self._refusal: list[str] = []
        # Of the last chunk that took the long path: its model, and how many keys it and its choice had if none of them
        # was rare. A chunk that looks the same holds nothing to look for beside its text.
        self._model: Any = None
        self._chunk_size = self._choice_size = -1

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
                if (
                    text.__class__ is str
                    and text
                    and blocks.kind == "text"
                    and (len(delta) == 1 or (len(delta) == 2 and "role" in delta))
                    and len(chunk) == self._chunk_size
                    and len(choice) == self._choice_size
                    and chunk.get("model") == self._model
                    and not choice.get("finish_reason")
                    and not choice.get("index")
                    and not chunk.get("usage")
                    and "error" not in chunk
                    and "error" not in choice
                ):
                    out.append(TextDelta(blocks.index, text))
                    continue
            except (KeyError, TypeError, ValueError, AttributeError):
                pass
            self._chunk(chunk, out)
            if self.ended:
                return position
        return len(chunks)

    # --- the long path ------------------------------------------------------------------------------------------------

    def _chunk(self, chunk: Any, out: list[Draft]) -> None:
        if not isinstance(chunk, dict):
            error = error_object(chunk)
            if error is not None:
                self._fail(error, out)
            else:
                self._note("unexpected_chunk", {"chunk": excerpt(chunk)}, out)
            return
        was_complete = self.complete
        self._identify(chunk, out)
        choice = _first_choice(chunk)
        if choice is not None:
            self._choice(choice, out)
        counted = self._count(chunk, choice or _NOTHING, out)
        if counted and was_complete and not _speaks(choice):
            self.ended = True  # the stop reason and, in a later chunk, the usage: nothing can follow
        rare = choice is None or not (_RARE_IN_CHOICE.isdisjoint(choice) and _RARE.isdisjoint(chunk))
        if rare:
            self._beside(chunk, choice or _NOTHING, out)
        identified = self._response_id is not None or "id" not in chunk
        self._chunk_size = len(chunk) if identified and not rare and self._snapshot is None else -1
        self._choice_size = len(choice or ())

    def _identify(self, chunk: dict[str, Any], out: list[Draft]) -> None:
        id, model = chunk.get("id"), chunk.get("model")
        self._model = model
        if self._response_id is None and isinstance(id, str) and id:
            self._response_id = id
            out.append(Metadata(response_id=id))
        if (
            self._response_model is None
            and isinstance(model, str)
            and model
            and model != self._setup.model.id
        ):
            self._response_model = model
            out.append(Metadata(response_model=model))

    def _beside(self, chunk: dict[str, Any], choice: dict[str, Any], out: list[Draft]) -> None:
        """What stands beside the choice: data to keep, and errors."""
        for key in _KEPT_IN_CHUNK:
            if chunk.get(key):
                self._kept[key] = chunk[key]
        error = next(filter(None, map(error_object, (chunk, choice, chunk.get("x_groq")))), None)
        if error is not None:
            self._fail(error, out)

    def _choice(self, choice: dict[str, Any], out: list[Draft]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta, out)
        message = choice.get("message")
        if isinstance(message, dict):
            self._message(message, out)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason and reason != self._finish_reason:
            self._finish_reason = reason
            self.complete = True
            out.append(Metadata(raw_stop_reason=reason))

    def _delta(self, delta: dict[str, Any], out: list[Draft]) -> None:
        self._reasoning(delta, out)
        content = delta.get("content")
        if content:
            self._content(content, out)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refuse(refusal, out)
        calls = delta.get("tool_calls")
        if calls:
            self._tool_calls(calls, out)
        elif "function_call" in delta:
            legacy = delta["function_call"]
            if isinstance(legacy, dict):
                self._add(Fragment(index=0, name=legacy.get("name"), arguments=legacy.get("arguments")), out)
        for key in _KEPT_IN_DELTA:
            if delta.get(key):
                self._keep({key: delta[key]}, out)

    def _message(self, message: dict[str, Any], out: list[Draft]) -> None:
        """A whole message beside or after deltas is a snapshot: only what it continues is added."""
        if not self._blocks.count and not self._calls.calls:
            self._delta(message, out)
            return
        content = message.get("content")
        if not self._text_blocks:
            self._content(content, out)
        elif isinstance(content, str) and content and self._text_blocks == 1 and self._blocks.kind == "text":
            self._snapshot = content
        if not self._calls.calls:
            self._tool_calls(message.get("tool_calls"), out)

    # --- text ---------------------------------------------------------------------------------------------------------

    def _text(self, text: str, out: list[Draft]) -> None:
        blocks = self._blocks
        if blocks.kind != "text":
            self._close(out)
            self._calls.settle(out)
            blocks.open_text(out)
            self._text_blocks += 1
        self._snapshot = None
        out.append(TextDelta(blocks.index, text))

    def _refuse(self, words: str, out: list[Draft]) -> None:
        self._refusal.append(words)
        self._text(words, out)

    def _content(self, content: Any, out: list[Draft]) -> None:
        """Content: a text, a list of parts (Mistral, and those who imitate requests), or one part."""
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                if part:
                    self._text(part, out)
            elif isinstance(part, dict):
                self._part(part, out)
            elif part is not None:
                self._keep(part, out)

    def _part(self, part: dict[str, Any], out: list[Draft]) -> None:
        kind, text = part.get("type"), part.get("text")
        if kind == "thinking" or kind == "reasoning":
            inner = part.get(kind, text)
            for piece in inner if isinstance(inner, list) else [inner]:
                words = piece.get("text") if isinstance(piece, dict) else piece
                if isinstance(words, str) and words:
                    self._think(words, None, out)
        elif kind == "refusal" and isinstance(part.get("refusal"), str):
            self._refuse(part["refusal"], out)
        elif isinstance(text, str):
            if text:
                self._text(text, out)
        else:
            self._keep(part, out)

    # --- tool calls ---------------------------------------------------------------------------------------------------

    def _tool_calls(self, calls: Any, out: list[Draft]) -> None:
        if isinstance(calls, dict):
            calls = [calls]
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if not isinstance(call, dict):
                self._note("unexpected_tool_call", {"toolCall": excerpt(call)}, out)
                continue
            custom, function = call.get("custom"), call.get("function")
            fields = custom if isinstance(custom, dict) else function if isinstance(function, dict) else call
            index = call.get("index")
            if index is None and len(calls) > 1:
                index = position  # several pieces without an index come in their order
            fragment = Fragment(
                index=index,
                id=call.get("id"),
                name=fields.get("name"),
                arguments=fields.get("arguments"),
                input=fields.get("input") if fields is custom else None,
            )
            self._add(fragment, out)

    def _add(self, fragment: Fragment, out: list[Draft]) -> None:
        if not fragment.empty:
            self._close(out)
            self._calls.add(fragment, out)

    def _made_up_id(self, position: int) -> str:
        base = re.sub(r"[^A-Za-z0-9]", "", self._response_id or "")[-24:]
        return f"call_{base}_{position}" if base else f"call_{position}"

    # --- reasoning ----------------------------------------------------------------------------------------------------

    def _reasoning(self, delta: dict[str, Any], out: list[Draft]) -> None:
        shown = False
        for name in _REASONING_FIELDS:
            text = delta.get(name)
            if isinstance(text, str) and text:
                self._plain_reasoning = shown = True
                self._think(text, name, out)
                break
        entries = delta.get("reasoning_details")
        if isinstance(entries, list) and entries:
            text = self._details.add(entries)
            if self._details and self._details_block is None:
                self._open_thinking(None, out)  # the details belong to it
                self._details_block = self._blocks.index
            if text and not shown and not self._plain_reasoning:
                self._think(text, None, out)

    def _think(self, text: str, field: str | None, out: list[Draft]) -> None:
        self._open_thinking(field, out)
        out.append(ThinkingDelta(self._blocks.index, text))

    def _open_thinking(self, field: str | None, out: list[Draft]) -> None:
        """Make sure that thinking is open; the field it comes in is its signature, for it goes back in there."""
        blocks = self._blocks
        if blocks.kind != "thinking":
            self._close(out)
            self._calls.settle(out)
            blocks.open_thinking(out)
            blocks.signature = field

    def _close(self, out: list[Draft]) -> None:
        """End the text or thinking that is open."""
        blocks = self._blocks
        if blocks.kind == "thinking" and blocks.index == self._details_block:
            blocks.signature = self._details.signature()
        blocks.close(out, self._snapshot)
        self._snapshot = None

    # --- usage, rest --------------------------------------------------------------------------------------------------

    def _count(self, chunk: dict[str, Any], choice: dict[str, Any], out: list[Draft]) -> bool:
        """Read the usage, wherever it stands; returns whether there was one."""
        found = chunk.get("usage") or choice.get("usage")
        if not found and isinstance(groq := chunk.get("x_groq"), dict):
            found = groq.get("usage")
        if not found or not isinstance(found, dict):
            return False
        merge_usage(self._usage_seen, found)
        usage = self._read_usage(self._usage_seen)
        if self._has_tiers:
            apply_tier(
                usage, chunk.get("service_tier") or self._setup.options.service_tier, self._setup.model
            )
        if usage != self._usage:
            self._usage = usage
            out.append(Metadata(usage=usage))
        return True

    def _read_usage(self, usage: dict[str, Any]) -> Usage:
        return chat_usage(usage, self._setup.model)

    def _keep(self, data: Any, out: list[Draft]) -> None:
        model = self._setup.model
        after = self._blocks.count
        kept = ProviderData(after=after, api=model.api, provider=model.provider, model=model.id, data=data)
        out.append(Metadata(provider_data=kept))

    def _note(self, kind: str, details: dict[str, Any], out: list[Draft]) -> None:
        out.append(
            Metadata(diagnostic=Diagnostic(type=kind, timestamp=self._setup.timestamp, details=details))
        )

    # --- the end ------------------------------------------------------------------------------------------------------

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """A whole JSON answer: its message is one large delta, and nothing can follow."""
        self._chunk(answer, out)
        if not self.ended:
            self.sentinel(out)

    def sentinel(self, out: list[Draft]) -> None:
        """``[DONE]``: nothing can follow. After content it also stands for a stop reason that was never sent."""
        self.ended = True
        if not self.complete and (self._blocks.count or self._calls.calls):
            self.complete = True
            self._note("stop_reason_inferred", {"because": "the end came without finish_reason"}, out)

    def finish(self, out: list[Draft]) -> None:
        """Close what is open and say how it ended."""
        self._end_blocks(out)
        self._calls.close(out, cut=is_cut(self._finish_reason))
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
            calls_usable=self._calls.usable,
            unknown=self._setup.options.unknown_stop,
        )
        if diagnostic is not None:
            self._note(diagnostic, {"rawStopReason": self._finish_reason}, out)
        out.append(finish)

    def _end_blocks(self, out: list[Draft]) -> None:
        """End text and thinking, and sign the block of the details anew if more of them came after its end."""
        self._close(out)
        if self._details_block is not None and self._details.changed:
            out.append(Metadata(content_index=self._details_block, signature=self._details.signature()))

    def _fail(self, error: Any, out: list[Draft]) -> None:
        self.ended = True
        self._end_blocks(out)
        out.append(provider_error(error))


def _first_choice(chunk: dict[str, Any]) -> dict[str, Any] | None:
    """The choice with index 0; others belong to answers nobody asked for."""
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return None
    for choice in choices:
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return None


def _speaks(choice: dict[str, Any] | None) -> bool:
    """Whether the delta of a choice says anything."""
    delta = (choice or _NOTHING).get("delta")
    return isinstance(delta, dict) and any(value for key, value in delta.items() if key != "role")
