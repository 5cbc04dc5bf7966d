"""Responses: events of the wire to events of a stream.

The delta of the open block is one short path (:meth:`ResponsesTranslator.translate`); everything else, such as items
that begin and end, the first delta of a block and the final response, takes the long one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pi_stream.apis._blocks import Blocks
from pi_stream.apis._errors import error_object, excerpt, provider_error
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.openai_responses.calls import CallItems
from pi_stream.apis.openai_responses.items import Item, Items
from pi_stream.apis.openai_responses.parts import beside_text, message_text, text_signature, thinking_text
from pi_stream.apis.openai_responses.stop import raw_stop_reason, stop_reason
from pi_stream.apis.openai_responses.usage import read_usage
from pi_stream.events import Draft, Finish, Metadata, TextDelta, ThinkingDelta, ToolCallDelta
from pi_stream.messages import Diagnostic, ErrorCause, ProviderData
from pi_stream.wire import json

__all__ = ["ResponsesTranslator"]

_Delta: TypeAlias = type[TextDelta] | type[ThinkingDelta] | type[ToolCallDelta]
# What the next delta of the open block looks like: event, output_index, item_id (None where it does not matter), key
# and number of the part, and the event and the block it becomes.
_Hot: TypeAlias = tuple[Any, Any, str | None, str, Any, _Delta, int]
_COLD: _Hot = (object(), None, None, "", None, TextDelta, -1)  # equal to no JSON value

_THINKING = {  # delta event: field of the item, and key of the part's number
    "response.reasoning_summary_text": ("summary", "summary_index"),
    "response.reasoning_text": ("content", "content_index"),
}


class ResponsesTranslator:
    """Translates one answer of Responses, of OpenAI or of Azure."""

    def __init__(self, setup: TranslatorSetup) -> None:
        self.complete = False
        self.ended = False
        self._setup = setup
        self._blocks = Blocks()
        self._items = Items()
        self._calls = CallItems(self._blocks, setup, self._keep, self._note)
        self._hot = _COLD
        self._response_id: str | None = None
        self._response_model: str | None = None
        self._refusals: list[str] = []
        self._final: dict[str, Any] = {}
        self._final_event = ""
        self._events: dict[str, Callable[[str, dict[str, Any], list[Draft]], None]] = {
            "response.created": self._described,
            "response.in_progress": self._described,
            "response.output_item.added": self._added,
            "response.output_item.done": self._done,
            "response.output_text.delta": self._text_delta,
            "response.refusal.delta": self._text_delta,
            "response.output_text.annotation.added": self._annotation,
            "response.reasoning_summary_text.delta": self._thinking_delta,
            "response.reasoning_text.delta": self._thinking_delta,
            "response.reasoning_summary_text.done": self._thinking_done,
            "response.reasoning_text.done": self._thinking_done,
            "response.function_call_arguments.delta": self._arguments_delta,
            "response.function_call_arguments.done": self._arguments_done,
            "response.custom_tool_call_input.delta": self._input_delta,
            "response.completed": self._over,
            "response.incomplete": self._over,
            "response.failed": self._over,
            "error": self._error,
        }

    # --- the fast path ------------------------------------------------------------------------------------------------

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``; returns how many were taken."""
        for position, chunk in enumerate(chunks, 1):
            event, index, id, part_key, part, delta_class, block = self._hot
            try:
                delta = chunk["delta"]
                plain = (
                    delta.__class__ is str
                    and delta
                    and chunk["type"] == event
                    and chunk.get("output_index") == index
                    and chunk.get(part_key) == part
                    and (id is None or chunk.get("item_id") == id)
                )
            except (KeyError, TypeError):
                plain, delta = False, ""
            if plain:
                out.append(delta_class(block, delta))
            else:
                self._chunk(chunk, out)
                if self.ended:
                    return position
        return len(chunks)

    # --- the long path ------------------------------------------------------------------------------------------------

    def _chunk(self, chunk: Any, out: list[Draft]) -> None:
        self._hot = _COLD
        event = chunk.get("type") if isinstance(chunk, dict) else None
        if isinstance(event, str):
            # Keep-alives, progress of built-in tools, and what repeats an item that is still to come say nothing new.
            handle = self._events.get(event)
            if handle is not None:
                handle(event, chunk, out)
            return
        error = error_object(chunk)
        if error is not None:
            self._fail(provider_error(error), out)
        else:
            self._note("unexpected_chunk", {"chunk": excerpt(chunk)}, out)

    def _heat(
        self, event: str, chunk: dict[str, Any], item: Item, delta_class: _Delta, part_key: str = ""
    ) -> None:
        """From here on the item's deltas take the short path."""
        if item.block is not None:
            index, id = chunk.get("output_index"), chunk.get("item_id")
            keyed_by_id = (index is None or not self._items.trusted) and isinstance(id, str)
            part = chunk.get(part_key)
            self._hot = (event, index, id if keyed_by_id else None, part_key, part, delta_class, item.block)

    def _described(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        """Id and model of the response."""
        response = chunk.get("response")
        if not isinstance(response, dict):
            return
        id, model = response.get("id"), response.get("model")
        if self._response_id is None and isinstance(id, str) and id:
            self._response_id = self._calls.response_id = id
            out.append(Metadata(response_id=id))
        if (
            self._response_model is None
            and isinstance(model, str)
            and model
            and model != self._setup.model.id
        ):
            self._response_model = model
            out.append(Metadata(response_model=model))

    def _added(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        json_item = chunk.get("item")
        if not isinstance(json_item, dict):
            return
        item = self._items.announce(json_item, chunk.get("output_index"), self._blocks.count)
        if item.type == "reasoning" and item.first is None and not item.done:
            self._open(item, out)
        elif item.type in CallItems.TYPES:
            self._calls.announced(item, out)

    def _done(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        json_item = chunk.get("item")
        if not isinstance(json_item, dict):
            return
        index, type = chunk.get("output_index"), json_item.get("type")
        item = self._items.find(type, index, json_item.get("id")) if isinstance(type, str) else None
        if item is None:
            item = self._items.announce(json_item, index, self._blocks.count)
        self._end(item, json_item, out)

    def _end(self, item: Item, final: dict[str, Any], out: list[Draft]) -> None:
        """An item is complete: ``final`` is all of it."""
        if item.done:
            return
        item.done = True
        if item.type == "message":
            self._end_message(item, final, out)
        elif item.type == "reasoning":
            self._end_reasoning(item, final, out)
        elif item.type in CallItems.TYPES:
            self._calls.end(item, final, out)
        else:
            self._keep(final, item.after, out)

    # --- text ---------------------------------------------------------------------------------------------------------

    def _text_delta(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        item = self._items.of_event("message", chunk, self._blocks.count)
        delta = chunk.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        if event == "response.refusal.delta":
            item.refusal.append(delta)
        self._say(item, delta, out)
        if event == "response.output_text.delta":
            self._heat(event, chunk, item, TextDelta)

    def _annotation(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        if chunk.get("annotation"):
            item = self._items.of_event("message", chunk, self._blocks.count)
            item.annotations.append(chunk["annotation"])

    def _end_message(self, item: Item, final: dict[str, Any], out: list[Draft]) -> None:
        text, refusal = message_text(final)
        refusal = refusal or "".join(item.refusal)
        if refusal:
            self._refusals.append(refusal)
        if item.first is None and text:
            item.json = final
            self._say(item, text, out)
        self._close(item, text_signature(final), text, out)
        parts = beside_text(final)
        if item.annotations and not (parts and any("annotations" in part for part in parts)):
            parts = [*(parts or ()), {"type": "output_text", "annotations": item.annotations}]
        if parts is not None:
            kept = {"type": "message", "id": final.get("id") or item.id, "content": parts}
            self._keep(kept, self._blocks.count, out)

    # --- thinking -----------------------------------------------------------------------------------------------------

    def _thinking_delta(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        delta = chunk.get("delta")
        item = self._think(event.removesuffix(".delta"), chunk, delta, out)
        if item is not None:
            self._heat(event, chunk, item, ThinkingDelta, _THINKING[event.removesuffix(".delta")][1])

    def _thinking_done(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        """The text of a part, which counts where no delta brought it."""
        name = event.removesuffix(".done")
        field, part_key = _THINKING[name]
        item = self._items.of_event("reasoning", chunk, self._blocks.count)
        if item.part != (field, chunk.get(part_key)) and not item.done:
            self._think(name, chunk, chunk.get("text"), out)

    def _think(self, name: str, chunk: dict[str, Any], text: Any, out: list[Draft]) -> Item | None:
        item = self._items.of_event("reasoning", chunk, self._blocks.count)
        if not isinstance(text, str) or not text:
            return None
        field, part_key = _THINKING[name]
        part = (field, chunk.get(part_key))
        if item.part is not None and item.part != part:
            if item.part[0] != field:
                # Both summary and raw text: what came first is shown, all of it is in the signature.
                return None
            text = "\n\n" + text
        item.part = part
        self._say(item, text, out)
        return item

    def _end_reasoning(self, item: Item, final: dict[str, Any], out: list[Draft]) -> None:
        text = thinking_text(final, item.part[0] if item.part else None)
        if item.first is None and final:
            self._open(item, out)
            if text:
                out.append(ThinkingDelta(self._blocks.index, text))
        self._close(item, json.dumps(final).decode() if final else None, text, out)

    # --- blocks of text and thinking ----------------------------------------------------------------------------------

    def _say(self, item: Item, text: str, out: list[Draft]) -> None:
        """A piece for the block of a message or reasoning item, which opens if need be."""
        if not self._is_open(item):
            self._open(item, out)
        make = TextDelta if item.type == "message" else ThinkingDelta
        out.append(make(self._blocks.index, text))

    def _is_open(self, item: Item) -> bool:
        return self._blocks.kind is not None and self._blocks.index == item.block

    def _open(self, item: Item, out: list[Draft]) -> None:
        """Open a block for an item. The first one of an item carries its signature, also if another item cuts it off."""
        is_message = item.type == "message"
        item.block = self._blocks.open_text(out) if is_message else self._blocks.open_thinking(out)
        if item.first is None:
            item.first = item.block
            if item.json:
                item.signature = text_signature(item.json) if is_message else json.dumps(item.json).decode()
            self._blocks.signature = item.signature

    def _close(self, item: Item, signature: str | None, text: str, out: list[Draft]) -> None:
        """An item is complete: end its block, or sign the one that another item has cut off."""
        if item.first is None:
            return
        whole = item.first == item.block
        if self._is_open(item):
            if whole:
                self._blocks.signature = item.signature = signature
            self._blocks.close(out, (text or None) if whole else None)
        if signature is not None and signature != item.signature:
            item.signature = signature
            out.append(Metadata(content_index=item.first, signature=signature))

    # --- calls --------------------------------------------------------------------------------------------------------

    def _arguments_delta(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        item = self._items.of_event("function_call", chunk, self._blocks.count)
        delta = chunk.get("delta")
        if isinstance(delta, str) and delta and not item.done:
            self._calls.arguments(item, delta, out)
            self._heat(event, chunk, item, ToolCallDelta)

    def _arguments_done(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        item = self._items.of_event("function_call", chunk, self._blocks.count)
        if not item.done:
            self._calls.arguments_done(item, chunk, out)

    def _input_delta(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        item = self._items.of_event("custom_tool_call", chunk, self._blocks.count)
        delta = chunk.get("delta")
        if isinstance(delta, str) and delta and not item.done:
            self._calls.input(item, delta, out)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _over(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        """The final response: what of its items was never streamed is still to be said."""
        response = chunk.get("response")
        self._final = response if isinstance(response, dict) else {}
        self._final_event = event
        self.complete = self.ended = True
        self._described(event, chunk, out)
        output = self._final.get("output")
        for json_item, item in self._items.pair(output if isinstance(output, list) else []):
            if item is None:
                item = self._items.late(json_item, self._blocks.count)
            if item.done:
                self._complete_late(item, json_item, out)
            else:
                self._end(item, json_item, out)
        if event != "response.failed":
            for item in self._items.all:
                self._end(item, item.json, out)
        filters = self._final.get("content_filters")
        if filters:
            self._keep({"content_filters": filters}, self._blocks.count, out)
        usage = read_usage(self._final, self._setup)
        out.append(Metadata(usage=usage, raw_stop_reason=raw_stop_reason(self._final, event)))

    def _complete_late(self, item: Item, final: dict[str, Any], out: list[Draft]) -> None:
        """A finished item once more: encrypted reasoning that comes only now (Azure), or text that was missing."""
        if item.type == "reasoning" and final.get("encrypted_content"):
            if item.first is not None and not _has_encrypted(item):
                out.append(Metadata(content_index=item.first, signature=json.dumps(final).decode()))
        elif item.type == "message" and item.first is None and message_text(final)[0]:
            self._end_message(item, final, out)

    def _error(self, event: str, chunk: dict[str, Any], out: list[Draft]) -> None:
        """An error frame: flat as documented, or with an ``error`` object inside."""
        status = chunk.get("status")
        known = isinstance(status, int) and not isinstance(status, bool)
        self._fail(provider_error(error_object(chunk) or chunk, status=status if known else None), out)

    def _fail(self, finish: Finish, out: list[Draft]) -> None:
        self.ended = True
        out.append(finish)

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """A whole JSON answer: it is the final response, of which nothing was streamed."""
        if isinstance(answer, dict) and isinstance(answer.get("response"), dict):
            answer = answer["response"]
        if isinstance(answer, dict) and ("output" in answer or "status" in answer):
            self._over("response.completed", {"response": answer}, out)
        else:
            self._note("unexpected_chunk", {"chunk": excerpt(answer)}, out)

    def sentinel(self, out: list[Draft]) -> None:
        """``[DONE]``, which gateways send after the final response. Without that the answer is truncated."""
        self.ended = True

    def finish(self, out: list[Draft]) -> None:
        """Say how it ended."""
        if self._refusals:
            out.append(
                Finish("error", "\n".join(self._refusals), ErrorCause(kind="refusal", origin="provider"))
            )
            return
        finish, diagnostic = stop_reason(
            self._final,
            self._final_event or "response.completed",
            has_calls=self._calls.count > 0,
            unknown=self._setup.options.unknown_stop,
        )
        if diagnostic is not None:
            raw = raw_stop_reason(self._final, self._final_event)
            self._note(diagnostic, {"rawStopReason": raw}, out)
        out.append(finish)

    def _keep(self, data: Any, after: int, out: list[Draft]) -> None:
        model = self._setup.model
        kept = ProviderData(after=after, api=model.api, provider=model.provider, model=model.id, data=data)
        out.append(Metadata(provider_data=kept))

    def _note(self, kind: str, details: dict[str, Any], out: list[Draft]) -> None:
        out.append(
            Metadata(diagnostic=Diagnostic(type=kind, timestamp=self._setup.timestamp, details=details))
        )


def _has_encrypted(item: Item) -> bool:
    return '"encrypted_content":"' in (item.signature or "")
