"""A transcript as the ``input`` items of Responses."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from pi_stream.apis._history import is_same_model, system_text, text_of, update_text
from pi_stream.apis._request import clean_json
from pi_stream.apis._schema import Grammar
from pi_stream.apis.openai_responses.parts import read_reasoning, read_text_signature
from pi_stream.apis.openai_responses.quirks import Quirks
from pi_stream.messages import (
    AssistantMessage,
    Content,
    ImageContent,
    JsonObject,
    Message,
    ProviderData,
    SystemMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_stream.models import Model

__all__ = ["Conversation", "call_ids"]

NO_OUTPUT = "(no tool output)"

_ID_LIMIT = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_ITEM_ID = {
    kind: re.compile(rf"{prefix}_[A-Za-z0-9_-]{{1,60}}")
    for kind, prefix in (("function_call", "fc"), ("custom_tool_call", "ctc"))
}
# Items whose content is in blocks of the message; what is kept of them beside that is not sent as an item of its own.
_IN_BLOCKS = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})


@frozen(kw_only=True)
class Conversation:
    """Writes the input of one request.

    Attributes:
        api: The protocol it is sent by: answers of the same model over another one have ids of no use here.
        model: The model it is sent to.
        quirks: Those of its server.
        grammars: Grammar tools in force, by name.
        stored: Whether the server keeps answers, so that an item may be named by its id alone.
    """

    api: str
    model: Model
    quirks: Quirks
    grammars: Mapping[str, Grammar] = field(factory=dict)
    stored: bool = False

    def items(self, transcript: Sequence[Message]) -> list[JsonObject]:
        """The transcript on the wire. Messages that say nothing are left out."""
        ids = call_ids(transcript)
        custom: set[str] = set()  # calls sent as free text, whose results are sent so as well
        wire: list[JsonObject] = []
        sent = 0
        for index, message in enumerate(transcript):
            match message:
                case SystemMessage():
                    wire += self._system(index, message)
                    continue
                case UserMessage():
                    items = _user(message)
                case AssistantMessage():
                    items = self._assistant(message, sent, ids, custom)
                case ToolResultMessage():
                    items = [self._result(message, ids, custom)]
            wire += items
            sent += bool(items)
        return wire

    def _system(self, index: int, message: SystemMessage) -> list[JsonObject]:
        role = "developer" if self.model.reasoning and self.quirks.supports_developer_role else "system"
        text = update_text(message) if index else system_text(message)
        return [{"role": role, "content": text}] if text else []

    # --- answers ------------------------------------------------------------------------------------------------------

    def _assistant(
        self, message: AssistantMessage, number: int, ids: Mapping[str, str], custom: set[str]
    ) -> list[JsonObject]:
        same = is_same_model(message, self.model, self.api)
        kept = [entry for entry in message.provider_data or () if same and _is_ours(entry, message)]
        beside = {entry.data["call_id"]: entry.data for entry in kept if _is_call(entry.data)}
        linked = same and self._reasoning_is_whole(message)
        waiting = deque(entry for entry in kept if entry.data.get("type") not in (None, *_IN_BLOCKS))
        wire: list[JsonObject] = []
        texts = 0
        for place, block in enumerate(message.content):
            wire += _until(waiting, place)
            if isinstance(block, TextContent):
                name = f"msg_pi_{number}_{texts}" if texts else f"msg_pi_{number}"
                texts += 1
                wire.append(_text(block, name, same=same, linked=linked))
            elif isinstance(block, ThinkingContent):
                item = self._reasoning(block) if same else None
                wire += [item] if item is not None else []
            elif isinstance(block, ToolCall):
                wire.append(self._call(block, ids, custom, beside, same=same, linked=linked))
        wire += _until(waiting, len(message.content))
        while wire and wire[-1]["type"] == "reasoning":
            wire.pop()  # OpenAI refuses reasoning that nothing follows, as of an answer that was cut while thinking
        return wire

    def _reasoning(self, block: ThinkingContent) -> JsonObject | None:
        """The reasoning item of a block, if the server can read it: an id alone means nothing where nothing is stored."""
        item = None if block.redacted else read_reasoning(block.thinking_signature)
        readable = item is not None and (self.stored or item.get("encrypted_content") or item.get("content"))
        return item if readable else None

    def _reasoning_is_whole(self, message: AssistantMessage) -> bool:
        """Whether all reasoning of an answer is sent back. Else its items go without ids, which would point at it."""
        return all(
            self._reasoning(block) is not None
            for block in message.content
            if isinstance(block, ThinkingContent) and read_reasoning(block.thinking_signature)
        )

    def _call(
        self,
        call: ToolCall,
        ids: Mapping[str, str],
        custom: set[str],
        beside: Mapping[str, JsonObject],
        *,
        same: bool,
        linked: bool,
    ) -> JsonObject:
        call_id, _, item_id = call.id.partition("|")
        grammar = self.grammars.get(call.name)
        text = call.arguments.get(grammar.property) if grammar else None
        kind = "custom_tool_call" if isinstance(text, str) else "function_call"
        wire: JsonObject = dict(beside.get(call_id, ())) | {"type": kind}
        wire.pop("id", None)
        if linked and _ITEM_ID[kind].fullmatch(item_id):
            wire["id"] = item_id
        wire |= {"call_id": ids.get(call.id, call.id), "name": call.name}
        if same and call.namespace:
            wire["namespace"] = call.namespace
        if isinstance(text, str):
            custom.add(call.id)
            return wire | {"input": text}
        return wire | {"arguments": _json_text(call.arguments)}

    def _result(self, result: ToolResultMessage, ids: Mapping[str, str], custom: set[str]) -> JsonObject:
        is_custom = result.tool_call_id in custom
        return {
            "type": "custom_tool_call_output" if is_custom else "function_call_output",
            "call_id": ids.get(result.tool_call_id, result.tool_call_id),
            "output": self._output(result),
        }

    def _output(self, result: ToolResultMessage) -> str | list[JsonObject]:
        text = text_of(result.content)
        prefix = self.quirks.tool_error_prefix if result.is_error else ""
        if not any(isinstance(block, ImageContent) for block in result.content):
            return prefix + (text or NO_OUTPUT)
        parts = [{"type": "input_text", "text": prefix + text}] if prefix + text else []
        return parts + [_image(block) for block in result.content if isinstance(block, ImageContent)]


def call_ids(messages: Sequence[Message]) -> dict[str, str]:
    """The ``call_id`` on the wire for every tool call and result: what stands before the bar of its id, made legal.

    Other characters than letters, digits, ``_`` and ``-`` become ``_``, and what is too long is cut. What loses something
    that way, or would meet the call id of another call, ends with a hash of the whole id: different calls stay different.
    """
    made: dict[str, str] = {}
    taken: set[str] = set()
    for id in _call_ids(messages):
        if id in made:
            continue
        call_id = id.partition("|")[0]
        legal = _ILLEGAL.sub("_", call_id)
        if not legal or legal != call_id or len(legal) > _ID_LIMIT or legal in taken:
            digest = hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=5).digest()
            legal = f"{legal[: _ID_LIMIT - 9].rstrip('_')}_{base64.b32encode(digest).decode().lower()}"
        made[id] = legal
        taken.add(legal)
    return made


def _call_ids(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                yield call.id
        elif isinstance(message, ToolResultMessage):
            yield message.tool_call_id


# --- parts of items ---------------------------------------------------------------------------------------------------


def _user(message: UserMessage) -> list[JsonObject]:
    if isinstance(message.content, str):
        return [{"role": "user", "content": [{"type": "input_text", "text": message.content}]}]
    parts = _parts(message.content)
    return [{"role": "user", "content": parts}] if parts else []


def _parts(content: Sequence[Content]) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for block in content:
        if isinstance(block, TextContent):
            parts.append({"type": "input_text", "text": block.text})
        elif isinstance(block, ImageContent):
            parts.append(_image(block))
    return parts


def _image(block: ImageContent) -> JsonObject:
    url = f"data:{block.mime_type};base64,{block.data}"
    return {"type": "input_image", "detail": "auto", "image_url": url}


def _text(block: TextContent, name: str, *, same: bool, linked: bool) -> JsonObject:
    id, phase = read_text_signature(block.text_signature) if same else (None, None)
    if id is not None and len(id) > _ID_LIMIT:
        id = f"msg_{hashlib.blake2b(id.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
    wire: JsonObject = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": block.text, "annotations": []}],
        "status": "completed",
        "id": id if id is not None and linked else name,
    }
    return wire | ({"phase": phase} if phase else {})


def _is_ours(entry: ProviderData, message: AssistantMessage) -> bool:
    of_message = (entry.provider, entry.api, entry.model) == (message.provider, message.api, message.model)
    return of_message and isinstance(entry.data, dict)


def _is_call(data: JsonObject) -> bool:
    return data.get("type") in ("function_call", "custom_tool_call") and isinstance(data.get("call_id"), str)


def _until(waiting: deque[ProviderData], place: int) -> list[JsonObject]:
    """Take off the kept items that stood before a block."""
    before: list[JsonObject] = []
    while waiting and waiting[0].after <= place:
        before.append(dict(waiting.popleft().data))
    return before


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        return json.dumps(clean_json(value), ensure_ascii=False, separators=(",", ":"))
