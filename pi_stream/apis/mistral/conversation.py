"""A transcript as the ``messages`` of Mistral: content is a list, thinking stands in it, results hold images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from pi_stream.apis._history import is_same_model
from pi_stream.apis.mistral.ids import nine_character_ids
from pi_stream.apis.openai_completions.conversation import Conversation, data_url
from pi_stream.messages import (
    AssistantMessage,
    ImageContent,
    JsonObject,
    Message,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
)

__all__ = ["MistralConversation"]


@frozen(kw_only=True)
class MistralConversation(Conversation):
    """Writes the messages of one request."""

    api: str = "mistral-conversations"

    def _new_ids(self, transcript: Sequence[Message]) -> Mapping[str, str]:
        return nine_character_ids(transcript)

    def _image(self, block: ImageContent) -> JsonObject:
        return {"type": "image_url", "image_url": data_url(block)}

    def _assistant(self, message: AssistantMessage, ids: Mapping[str, str]) -> list[JsonObject]:
        own = is_same_model(message, self.model, self.api)
        content: list[JsonObject] = []
        for block in message.content:
            if isinstance(block, TextContent) and block.text.strip():
                content.append({"type": "text", "text": block.text})
            elif isinstance(block, ThinkingContent) and own and not block.redacted:
                content += _thinking(block)
        calls = [self._call(call, ids) for call in message.tool_calls]
        if not content and not calls:
            return []
        wire: JsonObject = {"role": "assistant"}
        if content:
            wire["content"] = content
        if calls:
            wire["tool_calls"] = calls
        return [wire]

    def _result(self, result: ToolResultMessage, ids: Mapping[str, str]) -> JsonObject:
        images = [block for block in result.content if isinstance(block, ImageContent)]
        return {
            "role": "tool",
            "tool_call_id": ids.get(result.tool_call_id, result.tool_call_id),
            "name": result.tool_name,
            "content": [{"type": "text", "text": self._result_text(result)}, *map(self._image, images)],
        }

    def _attached(self, images: Sequence[ImageContent]) -> list[JsonObject]:
        return []  # they are in the results


def _thinking(block: ThinkingContent) -> list[JsonObject]:
    """The model's own thinking; without text only if it is signed."""
    text = block.thinking.strip()
    if not text and not block.thinking_signature:
        return []
    part: JsonObject = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": block.thinking}] if text else [],
    }
    if block.thinking_signature:
        part["signature"] = block.thinking_signature
    return [part]
