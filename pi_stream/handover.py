"""Hand-over: any history made fit for any model, as a pure function with a report of what it changed.

A conversation may go through several providers, be aborted, cut off, or saved amid a crash. What one provider made means
nothing to another, and most refuse a history whose calls and results do not pair up. :func:`hand_over` makes one that
every protocol takes:

- every tool call has exactly one result, right behind its turn and in the order of the calls;
- ids of calls are legal for the target and different from each other;
- thinking, signatures and provider data go back only to the very model (provider, api and id) that made them;
- there is nothing half: calls that never finished and answers that say nothing are gone.

Every request of a client goes through it. Handing over what was handed over changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from attrs import Attribute, evolve, field, frozen

from pi_stream._text import clean_strings, clean_text
from pi_stream.call_ids import IdRule, id_rule, unique_ids
from pi_stream.exceptions import ConfigError
from pi_stream.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    Message,
    ProviderData,
    SystemMessage,
    TextContent,
    ThinkingContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserContent,
    UserMessage,
)
from pi_stream.models import Model

__all__ = ["Change", "ChangeKind", "Handover", "HandoverPolicy", "hand_over"]

USER_IMAGE_OMITTED = "(image omitted: model does not support images)"
RESULT_IMAGE_OMITTED = "(tool image omitted: model does not support images)"

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

_BROKEN = frozenset({"aborted", "error", "pending"})
"""How a turn ends that the model did not end."""
_CUT = _BROKEN | {"length"}

_INTERRUPTED = {
    "aborted": "the answer was aborted",
    "error": "the answer ended with an error",
    "pending": "the answer was never finished",
    "length": "the answer was cut off at its length limit",
}


def _one_of(*allowed: str) -> Any:
    def check(instance: Any, attribute: Attribute[Any], value: Any) -> None:
        if value not in allowed:
            words = " or ".join(allowed)
            raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be {words}, not {value!r}")

    return field(default=allowed[0], validator=check)


def _id_rule(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, IdRule):
        raise ConfigError(f"HandoverPolicy.ids must be an IdRule or None, not {value!r}")


@frozen(kw_only=True)
class HandoverPolicy:
    """What a hand-over does where there is a choice.

    Attributes:
        thinking: What becomes of thinking that another model did: ``drop`` it, make it ``text`` of the answer, or text
            between ``<thinking>`` tags (``tag``). Models tend to imitate thinking that they are shown as text.
        broken_turns: Of answers that were aborted, failed or never finished, ``keep`` texts and finished calls, or
            ``drop`` them whole, with the results of their calls.
        malformed_calls: Calls whose arguments were no JSON, in a turn that the model ended itself, are kept when they are
            ``answered``, so that the model learns of it from the result; or ``drop`` them all. Elsewhere they are half
            and always dropped.
        missing_results: For a call without a result, ``add`` an error result that says why, or ``drop`` the call.
        ids: Which ids of calls can be sent; None for what the target's protocol takes.
    """

    thinking: Literal["drop", "text", "tag"] = _one_of("drop", "text", "tag")
    broken_turns: Literal["keep", "drop"] = _one_of("keep", "drop")
    malformed_calls: Literal["answered", "drop"] = _one_of("answered", "drop")
    missing_results: Literal["add", "drop"] = _one_of("add", "drop")
    ids: IdRule | None = field(default=None, validator=_id_rule)


DEFAULT_POLICY = HandoverPolicy()


@frozen
class Change:
    """One thing that a hand-over changed.

    Attributes:
        what: Kind of the change.
        message: Index of the message in the history that was given. A result that was added has that of its call.
        block: Index of the content block; None for the message as a whole.
        why: The reason, for people.
        before: The id or name before, where the change is one of those.
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
        messages: The new history. Messages that needed no change are the ones that were given.
        changes: What is different, by place.
    """

    messages: list[Message]
    changes: list[Change]


def hand_over(
    messages: Sequence[Message], target: Model, policy: HandoverPolicy = DEFAULT_POLICY
) -> Handover:
    """Make a history fit for a model.

    Args:
        messages: Plain messages, system prompt and tools in system messages. They are not changed.
        target: The model they will be sent to: provider, api and id tell what it made itself, ``input`` whether it sees
            images.
        policy: What to do where there is a choice.

    Returns:
        The new history and the report of all changes. The same arguments give the same result.
    """
    return _Work(messages, target, policy).done()


# --- calls and results ------------------------------------------------------------------------------------------------

Place = tuple[int, int]
"""Index of a message and of a block in it."""


def _paired(messages: Sequence[Message]) -> tuple[dict[Place, int], dict[int, str]]:
    """Find the result of each call: the first behind it with its id, before or after the next call with that id.

    Returns:
        Indices of results by the places of their calls, and why each of the other results belongs to none.
    """
    results: dict[Place, int] = {}
    strays: dict[int, str] = {}
    waiting: dict[str, deque[Place]] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            calls: dict[str, deque[Place]] = {}
            for number, block in enumerate(message.content or ()):
                if isinstance(block, ToolCall):
                    calls.setdefault(block.id, deque()).append((index, number))
            waiting |= calls
        elif isinstance(message, ToolResultMessage):
            open_calls = waiting.get(message.tool_call_id)
            if open_calls:
                results[open_calls.popleft()] = index
            elif open_calls is None:
                strays[index] = "no call before it has this id"
            else:
                strays[index] = "its call has a result already"
    return results, strays


def _is_half(call: ToolCall, message: AssistantMessage, *, last: bool, answered: bool) -> bool:
    """Whether a call never finished. Without arguments, the last block of a cut turn may not even have begun."""
    if call.arguments_error is not None:
        return message.stop_reason in _BROKEN
    return last and not answered and not call.arguments and message.stop_reason in _CUT


def _missing_result(call: ToolCall, message: AssistantMessage) -> ToolResultMessage:
    reason = _INTERRUPTED.get(message.stop_reason)
    why = f"the call was interrupted: {reason}" if reason else "the call was interrupted before it gave one"
    return ToolResultMessage(
        call.id, call.name, [TextContent(f"No result: {why}.")], is_error=True, timestamp=message.timestamp
    )


# --- one history ------------------------------------------------------------------------------------------------------

M = TypeVar("M", bound=Message)


class _Work:
    """The hand-over of one history, step by step."""

    def __init__(self, messages: Sequence[Message], target: Model, policy: HandoverPolicy) -> None:
        self._given = messages
        self._target = target
        self._origin = (target.provider, target.api, target.id)
        self._policy = policy
        self._sees_images = "image" in target.input
        self._results, self._strays = _paired(messages)
        self._changes: list[Change] = []

    def done(self) -> Handover:
        """All steps in order."""
        # What an index is missing for is not sent. Answers hold their blocks by their old indices until they are written.
        answers: dict[int, dict[int, AssistantContent]] = {}
        for index, message in enumerate(self._given):
            if isinstance(message, AssistantMessage):
                blocks = self._blocks(index, message)
                if blocks:
                    answers[index] = blocks
        self._drop_broken_end(answers)
        self._rename_calls(answers)
        made = self._in_order(answers)
        self._changes.sort(key=lambda change: (change.message, -1 if change.block is None else change.block))
        return Handover(made, self._changes)

    def _note(self, what: ChangeKind, message: int, block: int | None, why: str, **ids: str) -> None:
        self._changes.append(Change(what, message, block, why, **ids))

    # --- blocks of an answer ----------------------------------------------------------------------------------------

    def _is_own(self, message: AssistantMessage) -> bool:
        """Whether the target made this answer itself."""
        return (message.provider, message.api, message.model) == self._origin

    def _blocks(self, index: int, message: AssistantMessage) -> dict[int, AssistantContent]:
        """The blocks to be sent, by their old indices."""
        if message.stop_reason in _BROKEN and self._policy.broken_turns == "drop":
            self._note("turn_dropped", index, None, f"its stop reason is {message.stop_reason}")
            return {}
        content = message.content or ()
        kept: dict[int, AssistantContent] = {}
        for number, block in enumerate(content):
            new = self._block(index, number, block, message)
            if new is not None:
                kept[number] = new
        if message.stop_reason in _CUT:
            # Providers refuse an answer that ends with thinking: what it led to is missing.
            while kept and isinstance(content[last := max(kept)], ThinkingContent):
                del kept[last]
                self._changes = [
                    change for change in self._changes if (change.message, change.block) != (index, last)
                ]
                self._note("thinking_dropped", index, last, "what it led to never came")
        if not kept and not self._provider_data(index, message, kept):
            self._note("turn_dropped", index, None, "nothing of it is left" if content else "it is empty")
        return kept

    def _block(
        self, index: int, number: int, block: AssistantContent, message: AssistantMessage
    ) -> AssistantContent | None:
        match block:
            case TextContent():
                return self._text(index, number, block, own=self._is_own(message))
            case ThinkingContent():
                return self._thinking(index, number, block, message)
            case ToolCall():
                return self._call(index, number, block, message)
            case _:
                return block
