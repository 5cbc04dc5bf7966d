"""Questions to a transcript that every api asks: prompt, tools, texts, images, ids. Pure functions of messages."""

from __future__ import annotations

import base64
import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from attrs import evolve

from pi_stream.exceptions import ConfigError
from pi_stream.handover.history import RESULT_IMAGE_OMITTED, USER_IMAGE_OMITTED
from pi_stream.messages import (
    AssistantMessage,
    Content,
    ImageContent,
    Message,
    SystemMessage,
    TextContent,
    Tool,
    ToolResultMessage,
    UserContent,
    UserMessage,
)
from pi_stream.models import Model
from pi_stream.options import ToolChoice

__all__ = [
    "collapse",
    "copilot_headers",
    "current_prompt",
    "current_tools",
    "has_images",
    "has_tool_history",
    "is_same_model",
    "named_tool",
    "renamed_ids",
    "sees_images",
    "system_text",
    "text_of",
    "tool_additions",
    "update_text",
    "without_images",
]


# --- system messages --------------------------------------------------------------------------------------------------


def text_of(content: str | Sequence[Content], separator: str = "\n") -> str:
    """The text of a message's content: its text blocks joined."""
    if isinstance(content, str):
        return content
    return separator.join(block.text for block in content if isinstance(block, TextContent))


def _paragraphs(parts: Iterable[str | None]) -> str:
    return "\n\n".join(part for part in parts if part)


def system_text(message: SystemMessage) -> str:
    """The text of one system message: its content, then its sections."""
    return _paragraphs([text_of(message.content), *(message.sections or {}).values()])


def update_text(message: SystemMessage) -> str:
    """The text of a later system message that stays in its place: each section is announced as updated or removed."""
    notices = [
        f"[The section {name!r} of the system prompt was removed.]"
        if text is None
        else f"[The section {name!r} of the system prompt was updated. It now reads:]\n{text}"
        for name, text in (message.sections or {}).items()
    ]
    return _paragraphs([text_of(message.content), *notices])


def _system(messages: Iterable[Message]) -> Iterator[SystemMessage]:
    return (message for message in messages if isinstance(message, SystemMessage))


def current_prompt(messages: Iterable[Message]) -> str:
    """The prompt in force at the end: all system texts, then the sections as last set."""
    texts: list[str] = []
    sections: dict[str, str] = {}
    for message in _system(messages):
        texts.append(text_of(message.content))
        for name, text in (message.sections or {}).items():
            if text is None:
                sections.pop(name, None)
            else:
                sections[name] = text
    return _paragraphs([*texts, *sections.values()])


def _change_tools(tools: dict[str, Tool], message: SystemMessage) -> None:
    # A redefinition keeps the place of its name, unless the name was removed first.
    for removed in message.tools_removed or ():
        tools.pop(removed.get("name", ""), None)
    for tool in message.tools_added or ():
        tools[tool.name] = tool


def current_tools(messages: Iterable[Message]) -> list[Tool]:
    """The tools in force at the end of the transcript."""
    tools: dict[str, Tool] = {}
    for message in _system(messages):
        _change_tools(tools, message)
    return list(tools.values())


def tool_additions(messages: Sequence[Message]) -> tuple[list[Tool], dict[int, list[Tool]]]:
    """Split the tools for a model that can be given more of them in the middle of a conversation.

    Tools can be added in place only as long as nothing is taken back: everything up to the last removal or second
    declaration of a name goes to the top.

    Returns:
        The tools declared at the top, and by index of the system message those that it adds in place.
    """
    top: dict[str, Tool] = {}
    tools: dict[str, Tool] = {}
    declared: set[str] = set()
    in_place: dict[int, list[Tool]] = {}
    for index, message in enumerate(messages):
        if not isinstance(message, SystemMessage):
            continue
        names = [tool.name for tool in message.tools_added or ()]
        additive = index > 0 and not message.tools_removed and declared.isdisjoint(names)
        additive = additive and len(set(names)) == len(names)
        declared.update(names)
        _change_tools(tools, message)
        if not additive:
            top, in_place = dict(tools), {}
        elif message.tools_added:
            in_place[index] = message.tools_added
    return list(top.values()), in_place


def collapse(messages: Sequence[Message]) -> list[Message]:
    """The transcript with one leading system message that says what all of them said, and no other."""
    first = next(_system(messages), None)
    if first is None:
        return list(messages)
    head = SystemMessage(
        current_prompt(messages), tools_added=current_tools(messages) or None, timestamp=first.timestamp
    )
    return [head, *(message for message in messages if not isinstance(message, SystemMessage))]


# --- tools ------------------------------------------------------------------------------------------------------------


def has_tool_history(messages: Iterable[Message]) -> bool:
    """Whether a tool was called or gave a result."""
    return any(
        isinstance(message, ToolResultMessage)
        or (isinstance(message, AssistantMessage) and message.tool_calls)
        for message in messages
    )


def named_tool(choice: ToolChoice | None, tools: Sequence[Tool]) -> Tool | None:
    """The tool that a choice ``{"name": ...}`` means; None for every other choice.

    Raises:
        ConfigError: There is no such tool, or a call is required and there are no tools.
    """
    if choice == "required" and not tools:
        raise ConfigError("tool_choice is `required`, but the request has no tools")
    if not isinstance(choice, dict) or choice.keys() != {"name"}:
        return None
    by_name = {tool.name: tool for tool in tools}
    if choice["name"] not in by_name:
        near = difflib.get_close_matches(str(choice["name"]), by_name, n=3) or sorted(by_name)[:10]
        known = f"; there are: {', '.join(near)}" if near else ""
        raise ConfigError(
            f"tool_choice names the tool {choice['name']!r}, which the request does not have{known}"
        )
    return by_name[choice["name"]]


# --- answers of models ------------------------------------------------------------------------------------------------


def is_same_model(message: AssistantMessage, model: Model, api: str) -> bool:
    """Whether an answer came from the very model it is sent to: only then its thinking and ids mean something."""
    return (message.provider, message.api, message.model) == (model.provider, api, model.id)


def renamed_ids(messages: Sequence[Message], model: Model, api: str, limit: int | None) -> dict[str, str]:
    """New ids for tool calls of other models where theirs cannot be sent: old id to new id.

    An id of two parts (``call|item``) becomes one of at most 40 characters out of ``[A-Za-z0-9_-]``; an id longer than
    ``limit`` is cut. What loses something, or would meet another id of the transcript, ends with a hash of the whole
    old id, so that different ids stay different and every request finds the same new id.

    Args:
        messages: The transcript.
        model: The model it is sent to.
        api: The protocol it is sent by.
        limit: Longest id the provider takes; None for any.
    """
    taken = {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    renamed: dict[str, str] = {}
    for message in messages:
        if not isinstance(message, AssistantMessage) or is_same_model(message, model, api):
            continue
        for call in message.tool_calls:
            if call.id not in renamed and ("|" in call.id or (limit and len(call.id) > limit)):
                renamed[call.id] = _portable_id(call.id, taken, limit)
                taken.add(renamed[call.id])
    return renamed


def _portable_id(old: str, taken: set[str], limit: int | None) -> str:
    readable = old.replace("|", "_", 1)
    if (
        "|" in old
        and len(readable) <= 40
        and re.fullmatch(r"[A-Za-z0-9_-]+", readable)
        and readable not in taken
    ):
        return readable
    digest = hashlib.blake2b(old.encode("utf-8", "surrogatepass"), digest_size=5).digest()
    mark = base64.b32encode(digest).decode().lower()
    head = old.partition("|")[0]
    if "|" in old:
        head = re.sub(r"[^A-Za-z0-9_-]", "_", head)
    return f"{head[: (limit or 40) - 9].rstrip('_')}_{mark}"


# --- images -----------------------------------------------------------------------------------------------------------


def sees_images(model: Model) -> bool:
    """Whether the model accepts images."""
    return "image" in model.input


def has_images(messages: Iterable[Message]) -> bool:
    """Whether a user message or a tool result holds an image."""
    return any(
        isinstance(block, ImageContent)
        for message in messages
        if isinstance(message, (UserMessage, ToolResultMessage)) and not isinstance(message.content, str)
        for block in message.content
    )


def without_images(messages: Sequence[Message]) -> list[Message]:
    """The transcript with a line of text where images were, for a model that cannot see them.

    A run of images becomes one line; text next to it stays as it is.
    """
    made: list[Message] = []
    for message in messages:
        if isinstance(message, UserMessage) and not isinstance(message.content, str):
            message = evolve(message, content=_omit_images(message.content, USER_IMAGE_OMITTED))
        elif isinstance(message, ToolResultMessage):
            message = evolve(message, content=_omit_images(message.content, RESULT_IMAGE_OMITTED))
        made.append(message)
    return made


def _omit_images(content: Sequence[UserContent], placeholder: str) -> list[UserContent]:
    kept: list[UserContent] = []
    for is_image, run in groupby(content, lambda block: isinstance(block, ImageContent)):
        kept.extend([TextContent(placeholder)] if is_image else run)
    return kept


def copilot_headers(messages: Sequence[Message]) -> dict[str, str]:
    """What GitHub Copilot wants to know of a request: who began the turn, and whether there are images."""
    by_user = bool(messages) and isinstance(messages[-1], UserMessage)
    headers = {"x-initiator": "user" if by_user else "agent", "openai-intent": "conversation-edits"}
    return headers | ({"copilot-vision-request": "true"} if has_images(messages) else {})
