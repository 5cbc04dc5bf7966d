"""Hand-over: any history made fit for any model, as a pure function with a report of what it changed.

A conversation may go through several providers, be aborted, cut off, or saved amid a crash. What one provider made means
nothing to another, and most refuse a history whose calls and results do not pair up. :func:`hand_over` makes one that
every protocol takes:

- every tool call has exactly one result, right behind its turn and in the order of the calls;
- ids of calls are legal for the target, and no two are the same;
- thinking, signatures and provider data go back only to the very model (provider, api and id) that made them;
- nothing is half: calls that never finished and answers that say nothing are gone.

Every request of a client goes through it. Handing over once more changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from pi_stream.handover.history import History
from pi_stream.handover.ids import ID_RULES, IdRule, id_rule, unique_ids
from pi_stream.handover.policy import Change, ChangeKind, Handover, HandoverPolicy
from pi_stream.messages import Message
from pi_stream.models import Model

__all__ = [
    "ID_RULES",
    "Change",
    "ChangeKind",
    "Handover",
    "HandoverPolicy",
    "IdRule",
    "hand_over",
    "id_rule",
    "unique_ids",
]

_DEFAULT = HandoverPolicy()


def hand_over(messages: Sequence[Message], target: Model, policy: HandoverPolicy = _DEFAULT) -> Handover:
    """Make a history fit for a model.

    Args:
        messages: Plain messages, with system prompt and tools in system messages. They are not changed.
        target: The model they will be sent to. Its provider, api and id tell which answers it made itself; ``input``
            tells whether it sees images.
        policy: What to do where there is a choice.

    Returns:
        The new history, and a report of everything that is different. The same arguments give the same result.
    """
    history = History(messages, target, policy)
    made = history.made()
    return Handover(made, history.report.in_order())
