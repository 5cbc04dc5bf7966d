"""Tool call ids as Mistral takes them: exactly nine letters and digits."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence

from pi_stream.messages import AssistantMessage, Message, ToolResultMessage

__all__ = ["hashed_id", "nine_character_ids"]

_LEGAL = re.compile(r"[A-Za-z0-9]{9}")
_OTHER = re.compile(r"[^A-Za-z0-9]")


def hashed_id(text: str, attempt: int = 0) -> str:
    """Nine letters and digits that stand for a text: the same each time, others for each attempt."""
    seed = f"{attempt}:{text}".encode("utf-8", "surrogatepass")
    return base64.b32encode(hashlib.blake2b(seed, digest_size=6).digest()).decode().lower()[:9]


def nine_character_ids(messages: Sequence[Message]) -> dict[str, str]:
    """New ids for the tool calls and results whose id Mistral refuses: old id to new id.

    An id that has nine letters and digits among other characters loses the others; every other one is replaced by a hash
    of it. Different ids stay different, and every request of a conversation finds the same new id.

    Args:
        messages: The transcript. Answers of all models count: an older session may hold any id.
    """
    taken = {id for id in _ids(messages) if _LEGAL.fullmatch(id)}
    renamed: dict[str, str] = {}
    for old in _ids(messages):
        if old in renamed or _LEGAL.fullmatch(old):
            continue
        new, attempt = _OTHER.sub("", old), 0
        while len(new) != 9 or new in taken:
            new = hashed_id(old, attempt)
            attempt += 1
        renamed[old] = new
        taken.add(new)
    return renamed


def _ids(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                yield call.id
        elif isinstance(message, ToolResultMessage):
            yield message.tool_call_id
