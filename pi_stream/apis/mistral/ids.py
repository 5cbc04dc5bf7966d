"""Tool call ids as Mistral takes them: exactly nine letters and digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pi_stream.handover import ID_RULES, unique_ids
from pi_stream.messages import AssistantMessage, Message, ToolResultMessage

__all__ = ["made_up_id", "nine_character_ids"]

_RULE = ID_RULES["mistral-conversations"]


def made_up_id(response_id: str, position: int) -> str:
    """An id for the call at a position of an answer that came without one: the same each time."""
    return unique_ids([f"{response_id}:{position}"], _RULE)[0]


def nine_character_ids(messages: Sequence[Message]) -> dict[str, str]:
    """The id that each id of a transcript is sent as: itself where Mistral takes it.

    Different ids stay different, and every request of a conversation finds the same new id.

    Args:
        messages: The transcript. Answers of all models count: an older session may hold any id.
    """
    ids = list(dict.fromkeys(_ids(messages)))
    return dict(zip(ids, unique_ids(ids, _RULE), strict=True))


def _ids(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                yield call.id
        elif isinstance(message, ToolResultMessage):
            yield message.tool_call_id
