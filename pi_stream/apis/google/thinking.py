"""Gemini: how hard to think, as a level or as a budget of tokens.

Source: https://ai.google.dev/gemini-api/docs/thinking (levels, ranges of budgets, which models cannot stop thinking).
"""

from __future__ import annotations

from attrs import frozen

from pi_stream.apis._reasoning import ANSWER_RESERVE, clamp_level, effort_word, supported_levels
from pi_stream.apis.google.quirks import Quirks, family
from pi_stream.messages import JsonObject
from pi_stream.models import Model, ReasoningLevel
from pi_stream.options import StreamOptions

__all__ = ["thinking_config"]

_DYNAMIC = -1


@frozen
class _Budgets:
    """Tokens by level, and the least that the model takes for ``off`` and for thinking."""

    by_level: dict[str, int]
    off: int = 0
    least: int = 1


_BY_NAME = {
    "2.5-pro": _Budgets({"minimal": 128, "low": 2048, "medium": 8192, "high": 32768}, off=128, least=128),
    "2.5-flash-lite": _Budgets({"minimal": 512, "low": 2048, "medium": 8192, "high": 24576}, least=512),
    "2.5-flash": _Budgets({"minimal": 128, "low": 2048, "medium": 8192, "high": 24576}),
}
_UNKNOWN = _Budgets({})


def thinking_config(model: Model, options: StreamOptions, quirks: Quirks) -> JsonObject | None:
    """The ``thinkingConfig`` of a request; None when nothing was asked for, or the model does not think."""
    if options.reasoning is None or not model.reasoning:
        return None
    level = clamp_level(model, options.reasoning)
    if quirks.thinking == "level":
        return _level_config(model, level)
    return _budget_config(model, options, level)


def _level_config(model: Model, level: ReasoningLevel) -> JsonObject:
    if level != "off":
        return {"includeThoughts": True, "thinkingLevel": _word(model, level)}
    # These models cannot be told to stop thinking (a budget of 0 is refused): they think as little as they can.
    mapped = effort_word(model, "off")
    return {"thinkingLevel": mapped.upper() if mapped else _word(model, _least(model))}


def _least(model: Model) -> ReasoningLevel:
    if model.thinking_level_map:
        for known in supported_levels(model):
            if known != "off":
                return known
    return "low" if "pro" in family(model.id) else "minimal"


def _word(model: Model, level: ReasoningLevel) -> str:
    return (effort_word(model, level) or level).upper()


def _budget_config(model: Model, options: StreamOptions, level: ReasoningLevel) -> JsonObject:
    name = family(model.id)
    known = next((budgets for part, budgets in _BY_NAME.items() if part in name), _UNKNOWN)
    if level == "off":
        return {"thinkingBudget": known.off}
    custom = options.thinking_budgets or {}
    shared = "high" if level in ("xhigh", "max") else level
    budget = custom.get(level, custom.get(shared, known.by_level.get(shared, _DYNAMIC)))
    most = options.max_tokens or model.max_tokens
    if most and budget > 0:
        # Thoughts count as output, whose limit is never raised: some of it is left for the answer.
        budget = min(budget, most - ANSWER_RESERVE)
    if budget == _DYNAMIC or budget >= known.least:
        return {"includeThoughts": True, "thinkingBudget": budget}
    return {"thinkingBudget": known.off}
