"""A transcript as the ``messages`` of Cohere: those of Chat Completions, with thinking, plans and citations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from pi_stream.apis.cohere.response import TOOL_PLAN
from pi_stream.apis.openai_completions.conversation import Conversation
from pi_stream.messages import AssistantMessage, JsonObject, ThinkingContent
from pi_stream.models import Model

__all__ = ["CohereConversation"]


@frozen(kw_only=True)
class CohereConversation(Conversation):
    """Writes the messages of one request."""

    api: str = "cohere-chat"

    def _assistant(self, message: AssistantMessage, ids: Mapping[str, str]) -> list[JsonObject]:
        return [
            {key: value for key, value in wire.items() if value is not None}
            for wire in super()._assistant(message, ids)
        ]

    def _thinking(self, message: AssistantMessage, texts: Sequence[str]) -> JsonObject:
        """What gives the model its own thinking, plan and citations back."""
        blocks = [
            block
            for block in message.content
            if isinstance(block, ThinkingContent) and block.thinking.strip() and not block.redacted
        ]
        plans = [block.thinking for block in blocks if block.thinking_signature == TOOL_PLAN]
        content = [
            {"type": "thinking", "thinking": block.thinking}
            for block in blocks
            if block.thinking_signature != TOOL_PLAN
        ]
        wire: JsonObject = {}
        if content:
            wire["content"] = [*content, *({"type": "text", "text": text} for text in texts)]
        if plans:
            wire["tool_plan"] = "".join(plans)
        citations = _citations(message, self.model)
        if citations:
            wire["citations"] = citations
        return wire


def _citations(message: AssistantMessage, model: Model) -> list[JsonObject]:
    """The citations that were kept of an answer of this model."""
    found: list[JsonObject] = []
    for kept in message.provider_data or ():
        ours = (kept.api, kept.provider, kept.model) == ("cohere-chat", model.provider, model.id)
        cited = kept.data.get("citations") if ours and isinstance(kept.data, dict) else None
        found += cited if isinstance(cited, list) else ()
    return found
