"""A transcript as the ``contents`` of Gemini.

Source: https://ai.google.dev/api/caching#Content
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from pi_stream.apis._history import is_same_model, text_of
from pi_stream.apis._ids import legal_ids
from pi_stream.apis.google.quirks import Quirks
from pi_stream.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    JsonObject,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_stream.models import Model

__all__ = ["Conversation"]

SEE_IMAGE = "(see attached image)"
IMAGE_FOLLOWS = "Tool result image:"
# Google's documented stand-in for calls that another model made: https://ai.google.dev/gemini-api/docs/thought-signatures
UNSIGNED = "skip_thought_signature_validator"

# Parts of an answer without a block of ours that the model wants to see again.
_REPLAYED = frozenset(
    {"executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData", "fileData"}
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@frozen(kw_only=True)
class Conversation:
    """Writes the contents of one request.

    Attributes:
        model: The model it is sent to.
        quirks: Its quirks.
    """

    model: Model
    quirks: Quirks

    def contents(self, transcript: Sequence[Message]) -> list[JsonObject]:
        """The transcript on the wire, without its system messages. Messages that say nothing are left out."""
        ids = legal_ids(transcript) if self.quirks.supports_tool_call_ids else None
        wire: list[JsonObject] = []
        results: list[JsonObject] = []  # of the run of tool results before: they belong into one content
        images: list[JsonObject] = []
        for message in transcript:
            if isinstance(message, ToolResultMessage):
                results.append(self._result(message, ids, images))
                continue
            wire += [_content("user", run) for run in (results, images) if run]
            results, images = [], []
            if isinstance(message, UserMessage):
                parts = _user_parts(message)
                wire += [_content("user", parts)] if parts else []
            elif isinstance(message, AssistantMessage):
                parts = list(self._answer_parts(message, ids))
                wire += [_content("model", parts)] if parts else []
        return wire + [_content("user", run) for run in (results, images) if run]

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answer_parts(self, message: AssistantMessage, ids: Mapping[str, str] | None) -> Iterator[JsonObject]:
        own = is_same_model(message, self.model, self.model.api)
        kept = self._kept_parts(message) if own else {}
        unsigned = self.quirks.requires_signed_calls
        for index, block in enumerate(message.content):
            yield from kept.pop(index, ())
            part = _block_part(block, own)
            if part is None:
                continue
            if isinstance(block, ToolCall):
                if ids is not None:
                    part["functionCall"]["id"] = ids.get(block.id, block.id)
                if unsigned:
                    # Only the first of parallel calls has to be signed.
                    part.setdefault("thoughtSignature", UNSIGNED)
                    unsigned = False
            yield part
        for parts in kept.values():
            yield from parts

    def _kept_parts(self, message: AssistantMessage) -> dict[int, list[JsonObject]]:
        """Parts to be replayed, by the number of blocks before them."""
        kept: dict[int, list[JsonObject]] = {}
        for entry in message.provider_data or ():
            origin = (entry.provider, entry.api, entry.model)
            if origin == (self.model.provider, self.model.api, self.model.id) and _is_replayed(entry.data):
                kept.setdefault(entry.after, []).append(entry.data)
        return dict(sorted(kept.items()))

    # --- tool results -------------------------------------------------------------------------------------------------

    def _result(
        self, result: ToolResultMessage, ids: Mapping[str, str] | None, images: list[JsonObject]
    ) -> JsonObject:
        """A function response; images that cannot be in it are added to ``images``."""
        shown = [_image(block) for block in result.content if isinstance(block, ImageContent)]
        text = text_of(result.content) or (SEE_IMAGE if shown else "")
        response: JsonObject = {
            "name": result.tool_name,
            "response": {"error" if result.is_error else "output": text},
        }
        if shown and self.quirks.supports_images_in_tool_results:
            response["parts"] = shown
        elif shown:
            images += [{"text": IMAGE_FOLLOWS}, *shown]
        if ids is not None:
            response["id"] = ids.get(result.tool_call_id, result.tool_call_id)
        return {"functionResponse": response}


def _content(role: str, parts: list[JsonObject]) -> JsonObject:
    return {"role": role, "parts": parts}


def _user_parts(message: UserMessage) -> list[JsonObject]:
    if isinstance(message.content, str):
        return [{"text": message.content}]
    parts: list[JsonObject] = []
    for block in message.content:
        if isinstance(block, TextContent):
            parts.append({"text": block.text})
        elif isinstance(block, ImageContent):
            parts.append(_image(block))
    return parts


def _image(block: ImageContent) -> JsonObject:
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}


def _block_part(block: AssistantContent, own: bool) -> JsonObject | None:
    """A block of an answer as a part; None when it says nothing, or means nothing to this model."""
    match block:
        case TextContent(text=text):
            signed = _signed(block.text_signature, own)
            return {"text": text, **signed} if text.strip() or signed else None
        case ThinkingContent(thinking=text) if own and not block.redacted:
            signed = _signed(block.thinking_signature, own)
            return {"text": text, "thought": True, **signed} if text.strip() or signed else None
        case ToolCall():
            call = {"name": block.name, "args": block.arguments}
            return {"functionCall": call, **_signed(block.thought_signature, own)}
        case _:
            return None


def _signed(signature: str | None, own: bool) -> JsonObject:
    """The signature as a field, where it is one of this model: base64."""
    valid = own and signature and len(signature) % 4 == 0 and _BASE64.fullmatch(signature)
    return {"thoughtSignature": signature} if valid else {}


def _is_replayed(data: Any) -> bool:
    return isinstance(data, dict) and not _REPLAYED.isdisjoint(data)
