"""What a hand-over may do, and the report of what it did."""

from __future__ import annotations

from typing import Any, Literal

from attrs import Attribute, field, frozen

from pi_stream.exceptions import ConfigError
from pi_stream.handover.ids import IdRule
from pi_stream.messages import Message

__all__ = ["Change", "ChangeKind", "Handover", "HandoverPolicy", "Report"]

ChangeKind = Literal[
    "call_dropped",
    "id_changed",
    "image_replaced",
    "message_moved",
    "provider_data_dropped",
    "result_added",
    "result_dropped",
    "result_renamed",
    "signature_dropped",
    "surrogates_replaced",
    "text_dropped",
    "thinking_dropped",
    "thinking_to_text",
    "turn_dropped",
]
"""What a hand-over may change: a closed list."""


def _choice(*allowed: str) -> Any:
    """One of some words, the first by default."""

    def check(instance: Any, attribute: Attribute[Any], value: Any) -> None:
        if value not in allowed:
            words = " or ".join(allowed)
            raise ConfigError(f"HandoverPolicy.{attribute.name} must be {words}, not {value!r}")

    return field(default=allowed[0], validator=check)


def _id_rule(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, IdRule):
        raise ConfigError(f"HandoverPolicy.{attribute.name} must be an IdRule or None, not {value!r}")


@frozen(kw_only=True)
class HandoverPolicy:
    """What a hand-over does where there is a choice. A *broken* turn was aborted or failed.

    Attributes:
        thinking: What becomes of another model's thinking: ``drop`` it, make it ``text`` of the answer, or text between
            ``<thinking>`` tags (``tag``). Models tend to imitate thinking that they are shown as text.
        broken_turns: ``keep`` the texts and finished calls of broken turns, or ``drop`` these whole, with the results of
            their calls.
        malformed_calls: Calls whose arguments are no JSON, in a turn that is not broken, are kept if they are
            ``answered``, since their result tells the model so; or ``drop`` them all. In a broken turn they are half,
            and always dropped.
        missing_results: ``add`` an error result that tells the cause to a call without one, or ``drop`` the call.
        ids: What ids of calls can be sent; None for what the target's protocol takes.
    """

    thinking: Literal["drop", "text", "tag"] = _choice("drop", "text", "tag")
    broken_turns: Literal["keep", "drop"] = _choice("keep", "drop")
    malformed_calls: Literal["answered", "drop"] = _choice("answered", "drop")
    missing_results: Literal["add", "drop"] = _choice("add", "drop")
    ids: IdRule | None = field(default=None, validator=_id_rule)


@frozen
class Change:
    """One thing that a hand-over changed.

    Attributes:
        what: Kind of the change.
        message: Index of the message in the history that was given. For a result that was added: that of its call.
        block: Index of the content block in it; None for the message as a whole.
        why: The reason, for people.
        before: The id or name that was replaced, where the change is about one.
        after: The id or name that replaces it.
    """

    what: ChangeKind
    message: int
    block: int | None
    why: str
    before: str | None = field(default=None, kw_only=True)
    after: str | None = field(default=None, kw_only=True)


@frozen
class Handover:
    """A history fit for a model.

    Attributes:
        messages: The new history. A message that needed no change is the one that was given.
        changes: What is different, in the order of the history that was given.
    """

    messages: list[Message]
    changes: list[Change]


@frozen
class Report:
    """Collects changes."""

    changes: list[Change] = field(factory=list)

    def note(self, what: ChangeKind, message: int, block: int | None, why: str, **names: str) -> None:
        """Add a change; the arguments are those of :class:`Change`."""
        self.changes.append(Change(what, message, block, why, **names))

    def in_order(self) -> list[Change]:
        """The changes by place, a message before its blocks."""
        return sorted(
            self.changes, key=lambda change: (change.message, -1 if change.block is None else change.block)
        )
