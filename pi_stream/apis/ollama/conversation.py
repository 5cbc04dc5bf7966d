"""A transcript as the ``messages`` of Ollama: plain texts, images beside them, arguments as objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pi_stream.apis._history import is_same_model, system_text, text_of, update_text
from pi_stream.apis.ollama.quirks import Quirks
from pi_stream.apis.openai_completions.conversation import IMAGES_FOLLOW, NO_OUTPUT, SEE_IMAGE
from pi_stream.messages import (
    AssistantMessage,
    Content,
    ImageContent,
    JsonObject,
    Message,
    SystemMessage,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_stream.models import Model

__all__ = ["wire_messages"]


def wire_messages(transcript: Sequence[Message], model: Model, quirks: Quirks) -> list[JsonObject]:
    """The transcript on the wire. Messages that say nothing are left out.

    Args:
        transcript: Plain messages.
        model: The model they are sent to.
        quirks: Those of its server.
    """
    wire: list[JsonObject] = []
    images: list[str] = []  # of the run of tool results before: templates show those of users only
    for index, message in enumerate(transcript):
        if not isinstance(message, ToolResultMessage):
            wire += _attached(images)
            images = []
        match message:
            case SystemMessage():
                text = update_text(message) if index else system_text(message)
                wire += [{"role": "system", "content": text}] if text else []
            case UserMessage():
                wire += _user(message)
            case AssistantMessage():
                wire += _assistant(message, own=is_same_model(message, model, "ollama"))
            case ToolResultMessage():
                wire.append(_result(message, quirks))
                images += _images(message.content)
    return wire + _attached(images)


def _user(message: UserMessage) -> list[JsonObject]:
    if isinstance(message.content, str):
        return [{"role": "user", "content": message.content}]
    text, images = text_of(message.content), _images(message.content)
    if not text and not images:
        return []
    wire: JsonObject = {"role": "user", "content": text}
    return [wire | {"images": images}] if images else [wire]


def _assistant(message: AssistantMessage, *, own: bool) -> list[JsonObject]:
    text = message.text if message.text.strip() else ""
    calls = [_call(call) for call in message.tool_calls]
    if not text and not calls:
        return []
    wire: JsonObject = {"role": "assistant", "content": text}
    thinking = "".join(
        block.thinking
        for block in message.content
        if isinstance(block, ThinkingContent) and not block.redacted
    )
    if own and thinking.strip():
        wire["thinking"] = thinking
    if calls:
        wire["tool_calls"] = calls
    return [wire]


def _call(call: ToolCall) -> JsonObject:
    return {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}


def _result(result: ToolResultMessage, quirks: Quirks) -> JsonObject:
    text = text_of(result.content) or (SEE_IMAGE if _images(result.content) else NO_OUTPUT)
    if result.is_error:
        text = quirks.tool_error_prefix + text
    return {
        "role": "tool",
        "tool_call_id": result.tool_call_id,
        "tool_name": result.tool_name,
        "content": text,
    }


def _images(content: Iterable[Content]) -> list[str]:
    return [block.data for block in content if isinstance(block, ImageContent)]


def _attached(images: Sequence[str]) -> list[JsonObject]:
    """The user message that shows the images of tool results, if there are any."""
    return [{"role": "user", "content": IMAGES_FOLLOW, "images": list(images)}] if images else []
