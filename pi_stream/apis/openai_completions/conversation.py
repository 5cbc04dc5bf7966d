"""A transcript as the ``messages`` of Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from pi_stream.apis._history import (
    is_same_model,
    renamed_ids,
    system_text,
    text_of,
    update_text,
)
from pi_stream.apis._request import clean_json
from pi_stream.apis._schema import Grammar
from pi_stream.apis.openai_completions.quirks import Quirks
from pi_stream.messages import (
    AssistantMessage,
    ImageContent,
    JsonObject,
    Message,
    SystemMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserContent,
    UserMessage,
)
from pi_stream.models import Model

__all__ = ["IMAGES_FOLLOW", "NO_OUTPUT", "REASONING_FIELDS", "SEE_IMAGE", "Conversation", "data_url"]

REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
"""Fields that thinking came in and goes back in; a thinking block's signature says which."""

NO_OUTPUT = "(no tool output)"
SEE_IMAGE = "(see attached image)"
IMAGES_FOLLOW = "Attached image(s) from tool result:"
BRIDGE = "I have the results of the tools."

_ID_LIMIT = 40


@frozen(kw_only=True)
class Conversation:
    """Writes the messages of one request. Protocols that differ a little override what they say differently.

    Attributes:
        model: The model it is sent to.
        quirks: Those of its server.
        api: The protocol it is sent by.
        grammars: Grammar tools in force, by name.
        additions: Tools as they are sent that are added in the middle, by index of the system message that does it.
    """

    model: Model
    quirks: Quirks
    api: str = "openai-completions"
    grammars: Mapping[str, Grammar] = field(factory=dict)
    additions: Mapping[int, Sequence[JsonObject]] = field(factory=dict)

    def messages(self, transcript: Sequence[Message]) -> list[JsonObject]:
        """The transcript on the wire. Messages that say nothing are left out."""
        ids = self._new_ids(transcript)
        wire: list[JsonObject] = []
        images: list[ImageContent] = []  # of the run of tool results before: results can hold text only
        for index, message in enumerate(transcript):
            if not isinstance(message, ToolResultMessage):
                wire += self._attached(images)
                images = []
            match message:
                case SystemMessage():
                    wire += self._system(index, message)
                case UserMessage():
                    wire += self._user(message)
                case AssistantMessage():
                    wire += self._assistant(message, ids)
                case ToolResultMessage():
                    wire.append(self._result(message, ids))
                    images += [block for block in message.content if isinstance(block, ImageContent)]
        wire += self._attached(images)
        return _bridged(wire) if self.quirks.requires_assistant_after_tool_result else wire

    def _new_ids(self, transcript: Sequence[Message]) -> Mapping[str, str]:
        """New ids for the tool calls whose own cannot be sent: old id to new id."""
        limit = _ID_LIMIT if self.quirks.short_tool_call_ids else None
        return renamed_ids(transcript, self.model, self.api, limit)

    def _system(self, index: int, message: SystemMessage) -> list[JsonObject]:
        role = "developer" if self.model.reasoning and self.quirks.supports_developer_role else "system"
        text = update_text(message) if index else system_text(message)
        tools = self.additions.get(index)
        added: list[JsonObject] = [{"role": "system", "tools": list(tools)}] if tools else []
        return added + ([{"role": role, "content": text}] if text else [])

    def _user(self, message: UserMessage) -> list[JsonObject]:
        if isinstance(message.content, str):
            return [{"role": "user", "content": message.content}]
        parts = self._parts(message.content)
        return [{"role": "user", "content": parts}] if parts else []

    def _parts(self, content: Sequence[UserContent]) -> list[JsonObject]:
        """Text and images as parts of a message; empty texts are left out."""
        parts: list[JsonObject] = []
        for block in content:
            if isinstance(block, TextContent) and block.text:
                parts.append({"type": "text", "text": block.text})
            elif isinstance(block, ImageContent):
                parts.append(self._image(block))
        return parts

    def _image(self, block: ImageContent) -> JsonObject:
        return {"type": "image_url", "image_url": {"url": data_url(block)}}

    def _attached(self, images: Sequence[ImageContent]) -> list[JsonObject]:
        """The user message that shows the images of tool results, if there are any."""
        if not images:
            return []
        parts = [{"type": "text", "text": IMAGES_FOLLOW}, *map(self._image, images)]
        return [{"role": "user", "content": parts}]

    def _assistant(self, message: AssistantMessage, ids: Mapping[str, str]) -> list[JsonObject]:
        texts = [
            block.text for block in message.content if isinstance(block, TextContent) and block.text.strip()
        ]
        calls = message.tool_calls
        if not texts and not calls:
            return []
        # One plain string: some models imitate the parts of an array.
        content: Any = "".join(texts) or ("" if self._wants_content() else None)
        wire: JsonObject = {"role": "assistant", "content": content}
        if is_same_model(message, self.model, self.api):
            wire.update(self._thinking(message, texts))
        if calls:
            wire["tool_calls"] = [self._call(call, ids) for call in calls]
        if self.model.reasoning and self.quirks.requires_reasoning_content_on_assistant_messages:
            wire.setdefault("reasoning_content", "")
        return [wire]

    def _wants_content(self) -> bool:
        return (
            self.quirks.requires_non_null_assistant_content
            or self.quirks.requires_assistant_after_tool_result
        )

    def _thinking(self, message: AssistantMessage, texts: Sequence[str]) -> JsonObject:
        """What gives the model its own thinking back: details, a field, or text, else nothing."""
        blocks = [block for block in message.content if isinstance(block, ThinkingContent)]
        details = [entry for block in blocks for entry in _details(block.thinking_signature)]
        if details:
            return {"reasoning_details": details}
        shown = [block for block in blocks if block.thinking.strip() and not block.redacted]
        if not shown:
            return {}
        thinking = "\n".join(block.thinking for block in shown)
        if self.quirks.requires_thinking_as_text:
            return {"content": [{"type": "text", "text": text} for text in (thinking, *texts)]}
        signature = shown[0].thinking_signature
        return {signature: thinking} if signature in REASONING_FIELDS else {}

    def _call(self, call: ToolCall, ids: Mapping[str, str]) -> JsonObject:
        wire_id = ids.get(call.id, call.id)
        grammar = self.grammars.get(call.name)
        text = call.arguments.get(grammar.property) if grammar else None
        if isinstance(text, str):
            return {"id": wire_id, "type": "custom", "custom": {"name": call.name, "input": text}}
        function = {"name": call.name, "arguments": _json_text(call.arguments)}
        return {"id": wire_id, "type": "function", "function": function}

    def _result_text(self, result: ToolResultMessage) -> str:
        text = text_of(result.content)
        if not text:
            has_image = any(isinstance(block, ImageContent) for block in result.content)
            text = SEE_IMAGE if has_image else NO_OUTPUT
        return self.quirks.tool_error_prefix + text if result.is_error else text

    def _result(self, result: ToolResultMessage, ids: Mapping[str, str]) -> JsonObject:
        text = self._result_text(result)
        call_id = ids.get(result.tool_call_id, result.tool_call_id)
        wire: JsonObject = {"role": "tool", "tool_call_id": call_id, "content": text}
        if self.quirks.requires_tool_result_name:
            wire["name"] = result.tool_name
        return wire


def data_url(image: ImageContent) -> str:
    """An image as a URL that holds its data."""
    return f"data:{image.mime_type};base64,{image.data}"


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        return json.dumps(clean_json(value), ensure_ascii=False, separators=(",", ":"))


def _details(signature: str | None) -> list[JsonObject]:
    """The reasoning details in a signature; empty when it is something else."""
    if not signature or not signature.startswith("["):
        return []
    try:
        details = json.loads(signature)
    except (ValueError, RecursionError):
        return []
    valid = isinstance(details, list) and all(
        isinstance(entry, dict) and "type" in entry for entry in details
    )
    return details if valid else []


def _bridged(wire: Sequence[JsonObject]) -> list[JsonObject]:
    """With an assistant message between tool results and the user message that follows them."""
    bridged: list[JsonObject] = []
    for message in wire:
        if message["role"] == "user" and bridged and bridged[-1]["role"] == "tool":
            bridged.append({"role": "assistant", "content": BRIDGE})
        bridged.append(message)
    return bridged
