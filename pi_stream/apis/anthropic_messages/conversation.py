"""A transcript as the ``system`` prompt and the ``messages`` of the Messages api."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from pi_stream.apis._history import current_prompt, is_same_model, text_of, update_text
from pi_stream.apis.anthropic_messages.quirks import Quirks
from pi_stream.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    JsonObject,
    Message,
    ProviderData,
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

SEE_IMAGE = "(see attached image)"
SEE_BELOW = "(the attachment of this result follows below)"
ATTACHED = "Attachments of the failed results above:"

# Blocks of users that the message model does not know and the api does: they are sent as they stand.
_PASSED_ON = ("document", "search_result", "container_upload")
# Kept data about the block before it: citations of a text, the caller of a tool call.
_DETAILS = ("text", "tool_use")
# Kept data that only tells what happened: the api never reads the first, and takes the second elsewhere.
_NOT_REPLAYED = ("fallback", "message_delta")


@frozen(kw_only=True)
class Conversation:
    """Writes the messages of one request.

    Attributes:
        model: The model it is sent to.
        api: The protocol it is sent by.
        quirks: Those of its server.
        ids: New ids for tool calls whose own cannot be sent.
    """

    model: Model
    api: str
    quirks: Quirks
    ids: Mapping[str, str] = field(factory=dict)

    def system(self, transcript: Sequence[Message]) -> str:
        """The system prompt that stands before all messages."""
        return current_prompt(transcript[: _head(transcript)])

    def messages(self, transcript: Sequence[Message]) -> list[JsonObject]:
        """The transcript on the wire. Messages that say nothing are left out.

        Results of one turn share a message. A system message in the middle waits for the end of what the user says: it
        must stand right before an answer.
        """
        wire: list[JsonObject] = []
        updates: list[str] = []
        results: list[ToolResultMessage] = []
        for message in transcript[_head(transcript) :]:
            if results and not isinstance(message, (ToolResultMessage, SystemMessage)):
                wire.append(self._results(results))
                results = []
            match message:
                case SystemMessage():
                    if text := update_text(message):
                        updates.append(text)
                case UserMessage():
                    wire += self._user(message)
                case AssistantMessage():
                    wire += _update(updates)
                    updates = []
                    wire += self._assistant(message)
                case ToolResultMessage():
                    results.append(message)
        if results:
            wire.append(self._results(results))
        return wire + _update(updates)

    def container(self, transcript: Sequence[Message]) -> str | None:
        """The container that the provider's tools work in, while the turn that it belongs to goes on."""
        for message in reversed(transcript):
            if isinstance(message, AssistantMessage):
                for entry in self._replayable(message):
                    found = entry.data.get("delta") if entry.data.get("type") == "message_delta" else None
                    container = found.get("container") if isinstance(found, dict) else None
                    name = container.get("id") if isinstance(container, dict) else None
                    if isinstance(name, str):
                        return name
                return None
            if not isinstance(message, ToolResultMessage):
                return None
        return None

    def _id(self, id: str) -> str:
        return self.ids.get(id, id)

    # --- users and tools ----------------------------------------------------------------------------------------------

    def _user(self, message: UserMessage) -> list[JsonObject]:
        if isinstance(message.content, str):
            return [{"role": "user", "content": message.content}] if message.content.strip() else []
        parts = _parts(message.content)
        return [{"role": "user", "content": parts}] if parts else []

    def _results(self, results: Sequence[ToolResultMessage]) -> JsonObject:
        blocks: list[JsonObject] = []
        attached: list[JsonObject] = []  # to failed calls: their results can hold text only
        for result in results:
            content = self._result_content(result)
            if result.is_error and isinstance(content, list):
                attached += [part for part in content if part["type"] != "text"]
                content = "\n".join([text_of(result.content).strip(), SEE_BELOW]).strip()
            block: JsonObject = {"type": "tool_result", "tool_use_id": self._id(result.tool_call_id)}
            blocks.append({**block, "content": content, "is_error": result.is_error})
        if attached:
            blocks += [{"type": "text", "text": ATTACHED}, *attached]
        return {"role": "user", "content": blocks}

    def _result_content(self, result: ToolResultMessage) -> str | list[JsonObject]:
        parts = _parts(result.content)
        if all(part["type"] == "text" for part in parts):
            return text_of(result.content)
        if not any(part["type"] == "text" for part in parts):
            parts.insert(0, {"type": "text", "text": SEE_IMAGE})
        return parts

    # --- answers ------------------------------------------------------------------------------------------------------

    def _assistant(self, message: AssistantMessage) -> list[JsonObject]:
        same = is_same_model(message, self.model, self.api)
        kept = _placed(message, self._replayable(message)) if same else {}
        blocks: list[JsonObject] = []
        for index, block in enumerate(message.content):
            blocks += _blocks(kept.get(index, ()))
            wire = self._block(block, same)
            if wire is not None:
                blocks.append(_with_details(wire, kept.get(index + 1, ())))
        blocks += _blocks(kept.get(len(message.content), ()))
        return [{"role": "assistant", "content": blocks}] if blocks else []

    def _block(self, block: AssistantContent, same: bool) -> JsonObject | None:
        match block:
            case TextContent():
                return {"type": "text", "text": block.text} if block.text.strip() else None
            case ThinkingContent():
                return self._thinking(block) if same else None
            case ToolCall():
                return {
                    "type": "tool_use",
                    "id": self._id(block.id),
                    "name": block.name,
                    "input": block.arguments,
                }
            case _:
                return None

    def _thinking(self, block: ThinkingContent) -> JsonObject | None:
        if block.redacted:
            signature = block.thinking_signature
            return {"type": "redacted_thinking", "data": signature} if signature else None
        if block.thinking_signature or (self.quirks.allow_empty_signature and block.thinking.strip()):
            signature = block.thinking_signature or ""
            return {"type": "thinking", "thinking": block.thinking, "signature": signature}
        # The api takes no thinking without its signature.
        return {"type": "text", "text": block.thinking} if block.thinking.strip() else None

    def _replayable(self, message: AssistantMessage) -> list[ProviderData]:
        """Provider data of an answer that came to a good end; a broken one may lack the other half of a pair."""
        if message.stop_reason in ("error", "aborted"):
            return []
        own = (self.api, self.model.provider, self.model.id)
        return [
            entry
            for entry in message.provider_data or ()
            if (entry.api, entry.provider, entry.model) == own and isinstance(entry.data, dict)
        ]


def _head(transcript: Sequence[Message]) -> int:
    """How many system messages stand before all others."""
    others = (index for index, message in enumerate(transcript) if not isinstance(message, SystemMessage))
    return next(others, len(transcript))


def _parts(content: Sequence[UserContent]) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for block in content:
        if isinstance(block, TextContent):
            if block.text.strip():
                parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageContent):
            source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
            parts.append({"type": "image", "source": source})
        elif isinstance(block, UnknownContent) and block.type in _PASSED_ON:
            parts.append(block.data)
    return parts


def _update(texts: Sequence[str]) -> list[JsonObject]:
    return [{"role": "system", "content": "\n\n".join(texts)}] if texts else []


def _placed(message: AssistantMessage, entries: Sequence[ProviderData]) -> dict[int, list[JsonObject]]:
    """Kept data by its place: the number of blocks before it."""
    placed: dict[int, list[JsonObject]] = {}
    for entry in entries:
        place = min(max(entry.after, 0), len(message.content))
        # Requests may have neither the nulls that answers have nor, in citations, the id of the file.
        data = {name: value for name, value in entry.data.items() if value is not None}
        if isinstance(data.get("citations"), list):
            data["citations"] = [_without_file(citation) for citation in data["citations"]]
        placed.setdefault(place, []).append(data)
    return placed


def _without_file(citation: Any) -> Any:
    if not isinstance(citation, dict):
        return citation
    return {name: value for name, value in citation.items() if name != "file_id"}


def _blocks(kept: Sequence[JsonObject]) -> Iterator[JsonObject]:
    return (data for data in kept if "type" in data and data["type"] not in (*_DETAILS, *_NOT_REPLAYED))


def _with_details(wire: JsonObject, kept: Sequence[JsonObject]) -> JsonObject:
    """Our block with what was kept about it."""
    for data in kept:
        if data.get("type") == wire["type"] and "text" not in data:
            wire = {**wire, **data}
    return wire
