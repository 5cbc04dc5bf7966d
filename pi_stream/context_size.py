"""How many tokens a history takes, and how many a model has left for it.

Providers report what the prompt of an answer took. What came after the last such report is estimated from its length:
3.5 characters to a token, an image as 4,800 characters, tools and arguments as JSON. That is about right for English prose
and code, too much for images, too little for Chinese, and no replacement for the provider's own count.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from pi_stream.messages import (
    AgentMessage,
    AssistantMessage,
    Content,
    Context,
    ImageContent,
    Message,
    SystemMessage,
    TextContent,
    ThinkingContent,
    Tool,
    ToolCall,
    convert_to_llm,
)
from pi_stream.models import Model

__all__ = ["ContextSize", "context_tokens"]

_CHARACTERS_PER_TOKEN = 3.5
_IMAGE_CHARACTERS = 4800
# How far an estimate may be off, either way, before it is called wrong.
_TOLERANCE = 2


@frozen(kw_only=True)
class ContextSize:
    """Size of a history in tokens.

    Attributes:
        tokens: All of it, as far as can be known: ``reported`` and ``estimated``.
        reported: Prompt and answer of the last answer whose usage still counts; 0 when there is none.
        estimated: What follows that answer, else everything.
        least: What it takes even if the estimate is too high by half and no image counts.
        window: The model's context window; 0 when unknown.
    """

    tokens: int
    reported: int
    estimated: int
    least: int
    window: int = 0

    @property
    def left(self) -> int | None:
        """Tokens left for the answer; None when the window is unknown."""
        return max(0, self.window - self.tokens) if self.window else None

    @property
    def is_full(self) -> bool:
        """Whether not even one token of an answer can fit, however wrong the estimate is."""
        return self.window > 0 and self.least >= self.window


def context_tokens(messages: Context | Iterable[AgentMessage], model: Model | None = None) -> ContextSize:
    """Say how many tokens a history takes.

    The usage of the last answer counts if that answer did not fail and no message before it is newer: a summary that was
    put in the place of older messages is.

    Args:
        messages: A context, or messages; those of an application's own roles are left out.
        model: Whose window it should fit; its own reports are trusted more than those of other models.

    Returns:
        The size in tokens.
    """
    plain = convert_to_llm(messages.transcript() if isinstance(messages, Context) else messages)
    counted = _last_report(plain)
    answer = plain[counted] if counted is not None else None
    reported = _reported(answer) if isinstance(answer, AssistantMessage) else 0
    estimated = sum(map(_tokens, plain if counted is None else plain[counted + 1 :]))
    return ContextSize(
        tokens=reported + estimated,
        reported=reported,
        estimated=estimated,
        least=_least(plain, counted, model),
        window=model.context_window if model is not None else 0,
    )


def _last_report(messages: Sequence[Message]) -> int | None:
    """Index of the last answer whose usage says how much all up to it takes."""
    newest = 0
    last = None
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted"):
            if _reported(message) > 0 and message.timestamp >= newest:
                last = index
        newest = max(newest, message.timestamp)
    return last


def _reported(message: AssistantMessage) -> int:
    usage = message.usage
    return usage.total_tokens or usage.prompt_tokens + usage.output


def _least(messages: Sequence[Message], counted: int | None, model: Model | None) -> int:
    """A count that is hardly too high.

    A report counts as far as the length of the texts bears it out: it is too high when messages were taken out since, and
    an answer's thinking is not sent again, so only its prompt is taken. One of another model counts in other tokens.
    """
    estimate = sum(_tokens(message, with_images=False) for message in messages)
    least = estimate // _TOLERANCE
    answer = messages[counted] if counted is not None else None
    if counted is None or not isinstance(answer, AssistantMessage) or model is None:
        return least
    if (answer.provider, answer.model) != (model.provider, model.id):
        return least
    after = sum(_tokens(message, with_images=False) for message in messages[counted:]) // _TOLERANCE
    return max(least, min(answer.usage.prompt_tokens + after, _TOLERANCE * estimate))


# --- estimates --------------------------------------------------------------------------------------------------------


def _tokens(message: Message, *, with_images: bool = True) -> int:
    """Estimated size of a message."""
    content = message.content or ()
    blocks: Sequence[Content] = [TextContent(content)] if isinstance(content, str) else content
    characters = sum(_characters(block, _IMAGE_CHARACTERS if with_images else 0) for block in blocks)
    if isinstance(message, SystemMessage):
        characters += sum(len(text or "") for text in (message.sections or {}).values())
        characters += sum(len(_json(_declaration(tool))) for tool in message.tools_added or ())
        characters += sum(len(_json(removed)) for removed in message.tools_removed or ())
    return math.ceil(characters / _CHARACTERS_PER_TOKEN)


def _characters(block: Content, image: int) -> int:
    match block:
        case TextContent():
            return len(block.text)
        case ThinkingContent():
            return len(block.thinking)
        case ImageContent():
            return image
        case ToolCall():
            return len(block.name) + len(_json(block.arguments))
        case _:
            return len(_json(block.data))


def _declaration(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):  # no JSON: the request says so, with the place
        return ""
