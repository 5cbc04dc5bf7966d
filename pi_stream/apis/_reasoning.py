"""Reasoning levels: one scale for all vendors, clamped to what a model knows."""

from __future__ import annotations

from typing import Any

from pi_stream.messages import JsonObject
from pi_stream.models import REASONING_LEVELS, Model, ReasoningLevel, supported_levels
from pi_stream.options import StreamOptions

__all__ = [
    "ANSWER_RESERVE",
    "clamp_level",
    "effort_word",
    "sampling_defaults",
    "supported_levels",
    "thinking_budget",
]

ANSWER_RESERVE = 1024
"""Tokens of the answer that thinking may not use up."""

_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}


def clamp_level(model: Model, level: ReasoningLevel) -> ReasoningLevel:
    """The level itself where the model knows it, else the next higher one it knows, else the next lower one."""
    known = supported_levels(model)
    rank = REASONING_LEVELS.index(level)
    for other in known:
        if REASONING_LEVELS.index(other) >= rank:
            return other
    return known[-1] if known else REASONING_LEVELS[0]


def effort_word(model: Model, level: ReasoningLevel) -> str | None:
    """The provider's word for a level the model knows; for ``off`` only where the model's map has one."""
    return (model.thinking_level_map or {}).get(level, None if level == "off" else level)


def thinking_budget(model: Model, options: StreamOptions, level: ReasoningLevel) -> int:
    """How many tokens the model may think, at a level above ``off``.

    The caller's budget for the level, else a default; ``xhigh`` and ``max`` share that of ``high``. It leaves
    :data:`ANSWER_RESERVE` tokens of the most that may be answered: that number is a hard cap and never raised.

    Returns:
        Tokens; 0 or less when there is no room to think.
    """
    custom = options.thinking_budgets or {}
    shared: str = "high" if level in ("xhigh", "max") else level
    budget = custom.get(level, custom.get(shared, _BUDGETS.get(shared, 0)))
    most = options.max_tokens or model.max_tokens
    return min(budget, most - ANSWER_RESERVE) if most else budget


def sampling_defaults(model: Model, options: StreamOptions) -> JsonObject:
    """Sampling that the model's record gives, over it that of the reasoning level; the caller's options win over both."""
    by_level: Any = None
    if options.reasoning is not None:
        level = clamp_level(model, options.reasoning)
        by_level = (model.sampling_params_by_thinking_level or {}).get(level)
    return {**(model.sampling_params or {}), **(by_level or {})}
