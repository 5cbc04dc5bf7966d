"""Tool call ids that a provider takes: letters, digits, ``_`` and ``-``, and not too long."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence

from pi_stream.messages import AssistantMessage, Message, ToolResultMessage

__all__ = ["legal_ids"]

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


def legal_ids(messages: Sequence[Message], limit: int = 64) -> dict[str, str]:
    """New ids for the tool calls and results whose id cannot be sent: old id to new id.

    Other characters become ``_`` and what is too long is cut. Where that would meet another id of the transcript, or cuts
    something off, the new id ends with a hash of the whole old one: different ids stay different, and every request
    finds the same new id.

    Args:
        messages: The transcript.
        limit: Longest id the provider takes.
    """
    taken = set(_ids(messages))
    renamed: dict[str, str] = {}
    for old in _ids(messages):
        if old in renamed or (old and len(old) <= limit and not _ILLEGAL.search(old)):
            continue
        new = _ILLEGAL.sub("_", old)
        if not new or len(new) > limit or new in taken:
            digest = hashlib.blake2b(old.encode("utf-8", "surrogatepass"), digest_size=5).digest()
            mark = base64.b32encode(digest).decode().lower()
            new = f"{new[: limit - 9]}_{mark}"
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
