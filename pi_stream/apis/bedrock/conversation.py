"""A transcript as the ``messages`` of Converse."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from pi_stream.apis._history import is_same_model
from pi_stream.apis.bedrock.quirks import Quirks
from pi_stream.exceptions import ConfigError
from pi_stream.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    JsonObject,
    Message,
    SystemMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UnknownContent,
    UserContent,
    UserMessage,
)
from pi_stream.models import Model

__all__ = ["Conversation"]

EMPTY = "<empty>"
IMAGE_MOVED = "(the image of this result is attached below)"

_IMAGE_FORMATS = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
# Blocks of users that the message model does not know and Converse does: ``{"type": "document", "document": {...}}``.
_PASSED_ON = ("document", "video", "audio", "searchResult", "guardContent", "cachePoint")
# Blocks of answers that go back to the model they came from: tools that run at the provider.
_REPLAYED = ("toolUse", "toolResult")


@frozen(kw_only=True)
class Conversation:
    """Writes the messages of one request.

    Attributes:
        model: The model it is sent to.
        quirks: Those of the model.
        ids: New ids for tool calls whose own cannot be sent.
    """

    model: Model
    quirks: Quirks
    ids: Mapping[str, str] = field(factory=dict)

    def messages(self, transcript: Sequence[Message]) -> list[JsonObject]:
        """The transcript on the wire, without system messages.

        Users and the model must take turns: what one says in several messages is one on the wire. Texts without a letter
        are left out, unless nothing else is said.
        """
        wire: list[JsonObject] = []
        results: list[ToolResultMessage] = []
        for message in transcript:
            if isinstance(message, ToolResultMessage):
                results.append(message)
                continue
            _say(wire, "user", self._results(results))
            results = []
            match message:
                case UserMessage():
                    _say(wire, "user", self._user(message), even_if_empty=True)
                case AssistantMessage():
                    _say(wire, "assistant", list(self._assistant(message)))
                case SystemMessage():
                    pass
        _say(wire, "user", self._results(results))
        for turn in wire:
            turn["content"] = turn["content"] or [{"text": EMPTY}]
        return wire

    # --- users and tools ----------------------------------------------------------------------------------------------

    def _user(self, message: UserMessage) -> list[JsonObject]:
        content = message.content
        return _parts([TextContent(content)] if isinstance(content, str) else content)

    def _results(self, results: Sequence[ToolResultMessage]) -> list[JsonObject]:
        blocks: list[JsonObject] = []
        images: list[JsonObject] = []  # of failed calls: for Claude their results can hold text only
        for result in results:
            parts = _parts(result.content)
            if result.is_error and self.quirks.family == "claude":
                moved = [part for part in parts if "image" in part]
                if moved:
                    images += moved
                    parts = [part for part in parts if "image" not in part] or [{"text": IMAGE_MOVED}]
            block = {
                "toolUseId": self.ids.get(result.tool_call_id, result.tool_call_id),
                "content": parts or [{"text": EMPTY}],
                "status": "error" if result.is_error else "success",
            }
            blocks.append({"toolResult": block})
        return blocks + images

    # --- answers ------------------------------------------------------------------------------------------------------

    def _assistant(self, message: AssistantMessage) -> Iterator[JsonObject]:
        same = is_same_model(message, self.model, self.model.api)
        kept = _placed(message, self.model) if same else {}
        for index, block in enumerate(message.content):
            yield from kept.get(index, ())
            wire = self._block(block, same=same)
            if wire is not None:
                yield wire
        yield from kept.get(len(message.content), ())

    def _block(self, block: AssistantContent, *, same: bool) -> JsonObject | None:
        match block:
            case TextContent():
                return {"text": block.text} if block.text.strip() else None
            case ThinkingContent():
                return self._thinking(block) if same else None
            case ToolCall():
                use = {"toolUseId": self.ids.get(block.id, block.id), "name": block.name}
                return {"toolUse": {**use, "input": _without_unnamed(block.arguments)}}
            case _:
                return None

    def _thinking(self, block: ThinkingContent) -> JsonObject | None:
        if block.redacted:
            data = _base64(block.thinking_signature or "")
            return {"reasoningContent": {"redactedContent": data}} if data else None
        if not block.thinking_signature and not block.thinking.strip():
            return None
        if block.thinking_signature is None and self.quirks.family == "claude":
            return {"text": block.thinking}  # Claude takes no thinking without its signature
        signature = {"signature": block.thinking_signature} if block.thinking_signature else {}
        return {"reasoningContent": {"reasoningText": {"text": block.thinking, **signature}}}


def _say(wire: list[JsonObject], role: str, blocks: list[JsonObject], *, even_if_empty: bool = False) -> None:
    if blocks or even_if_empty:
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"] += blocks
        else:
            wire.append({"role": role, "content": blocks})


def _parts(content: Sequence[UserContent]) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for block in content:
        if isinstance(block, TextContent):
            if block.text.strip():
                parts.append({"text": block.text})
        elif isinstance(block, ImageContent):
            parts.append(_image(block))
        elif isinstance(block, UnknownContent) and block.type in _PASSED_ON:
            if isinstance(block.data.get(block.type), dict):
                parts.append({block.type: block.data[block.type]})
    return parts


def _image(block: ImageContent) -> JsonObject:
    image_format = _IMAGE_FORMATS.get(block.mime_type.lower())
    if image_format is None:
        known = ", ".join(sorted(_IMAGE_FORMATS))
        raise ConfigError(f"Bedrock takes no images of the type {block.mime_type!r}; it takes {known}")
    return {"image": {"format": image_format, "source": {"bytes": block.data}}}


def _placed(message: AssistantMessage, model: Model) -> dict[int, list[JsonObject]]:
    """Kept blocks by their place: the number of blocks before them. A broken answer may lack the half of a pair."""
    placed: dict[int, list[JsonObject]] = {}
    if message.stop_reason in ("error", "aborted"):
        return placed
    for entry in message.provider_data or ():
        if (entry.api, entry.provider, entry.model) != (model.api, model.provider, model.id):
            continue
        if isinstance(entry.data, dict) and any(kind in entry.data for kind in _REPLAYED):
            place = min(max(entry.after, 0), len(message.content))
            placed.setdefault(place, []).append(entry.data)
    return placed


def _without_unnamed(value: Any) -> Any:
    """Arguments without members whose name is empty: Bedrock refuses them."""
    if isinstance(value, dict):
        return {name: _without_unnamed(item) for name, item in value.items() if name}
    return [_without_unnamed(item) for item in value] if isinstance(value, list) else value


def _base64(text: str) -> str:
    """The text as base64 that a strict reader takes; empty if it is none."""
    try:
        return b64encode(b64decode(text + "=" * (-len(text) % 4), validate=True)).decode()
    except (binascii.Error, ValueError):
        return ""
