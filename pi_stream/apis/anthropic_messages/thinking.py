"""How Claude is told to think: an effort for models that decide themselves how much, a budget of tokens for others.

Source: https://platform.claude.com/docs/en/build-with-claude/extended-thinking and .../adaptive-thinking
"""

from __future__ import annotations

from attrs import evolve

from pi_stream.apis._reasoning import ANSWER_RESERVE, clamp_level, effort_word, thinking_budget
from pi_stream.apis.anthropic_messages.quirks import Quirks
from pi_stream.messages import JsonObject
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["DEFAULT_MAX_TOKENS", "max_tokens", "thinking_fields"]

DEFAULT_MAX_TOKENS = 8192
"""The limit on the answer for models of which nothing is known: the api wants one."""

_LEAST_BUDGET = 1024


def max_tokens(model: Model, options: StreamOptions) -> int:
    """The limit on the answer, thinking included: the caller's, else the model's."""
    return options.max_tokens or model.max_tokens or DEFAULT_MAX_TOKENS


def thinking_fields(model: Model, options: StreamOptions, quirks: Quirks) -> JsonObject:
    """The body fields that set how hard the model thinks.

    Without a level asked for, and for models that cannot think, there are none. Levels are clamped to what the model
    knows. A budget leaves room for the answer below ``max_tokens``; where the least budget does not fit, the model does
    not think.
    """
    if not model.reasoning or options.reasoning is None:
        return {}
    level = clamp_level(model, options.reasoning)
    if level == "off":
        return {"thinking": {"type": "disabled"}}
    # Newer models show nothing of what they think unless asked.
    shown = {"display": "summarized"}
    if quirks.adaptive:
        word = effort_word(model, level)
        effort = {"effort": "low" if word == "minimal" else word}
        return {"thinking": {"type": "adaptive", **shown}, "output_config": effort}
    room = max_tokens(model, options) - ANSWER_RESERVE
    if room < _LEAST_BUDGET:
        return {}
    known = evolve(model, max_tokens=model.max_tokens or DEFAULT_MAX_TOKENS)
    budget = max(_LEAST_BUDGET, thinking_budget(known, options, level))
    return {"thinking": {"type": "enabled", "budget_tokens": budget, **shown}}
