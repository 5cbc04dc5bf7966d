"""How models on Bedrock are told to think: each family has fields of its own among the additional ones.

=========================  =========================================================================================
Claude 4.6 and later       ``thinking: {type: adaptive}``, ``output_config: {effort}``
earlier Claude             ``thinking: {type: enabled, budget_tokens}``, ``anthropic_beta`` for thinking between calls
Nova 2                     ``reasoningConfig: {type: enabled, maxReasoningEffort}``
GPT OSS                    ``reasoning_effort``
GPT                        ``reasoning: {effort}``
=========================  =========================================================================================

Without a level, or at ``off``, nothing is sent: none of them thinks unasked, or what does cannot be stopped.

Source: https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html and
https://docs.aws.amazon.com/nova/latest/nova2-userguide/using-converse-api.html
"""

from __future__ import annotations

from pi_stream.apis._reasoning import ANSWER_RESERVE, clamp_level, effort_word, thinking_budget
from pi_stream.apis.bedrock.quirks import Quirks
from pi_stream.messages import JsonObject
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["DEFAULT_ANSWER", "thinking_fields"]

DEFAULT_ANSWER = 8192
"""Tokens of the answer beside a thinking budget, where nothing is known of the model's limit."""

_LEAST_BUDGET = 1024
_INTERLEAVED = "interleaved-thinking-2025-05-14"
# Words of our scale that a family lacks.
_WORDS = {
    "claude": {"minimal": "low"},
    "nova-2": {"minimal": "low", "xhigh": "high", "max": "high"},
    "gpt-oss": {"minimal": "low", "xhigh": "high", "max": "high"},
    "gpt": {"minimal": "low"},
}


def thinking_fields(model: Model, options: StreamOptions, quirks: Quirks) -> JsonObject:
    """The additional fields that set how hard the model thinks.

    Levels are clamped to what the model knows. A budget leaves room for the answer below ``max_tokens``, which is a hard
    cap; where the least budget does not fit, the model does not think.
    """
    if not model.reasoning or options.reasoning is None:
        return {}
    level = clamp_level(model, options.reasoning)
    if level == "off" or quirks.family not in _WORDS:
        return {}
    word = effort_word(model, level)
    word = _WORDS[quirks.family].get(word or level, word)
    match quirks.family:
        case "nova-2":
            return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": word}}
        case "gpt-oss":
            return {"reasoning_effort": word}
        case "gpt":
            return {"reasoning": {"effort": word}}
        case _:
            pass
    # Newer models show nothing of what they think unless asked.
    shown = {"display": "summarized"} if quirks.supports_thinking_display else {}
    if quirks.force_adaptive_thinking:
        return {"thinking": {"type": "adaptive", **shown}, "output_config": {"effort": word}}
    most = options.max_tokens or model.max_tokens
    if most and most - ANSWER_RESERVE < _LEAST_BUDGET:
        return {}
    budget = max(_LEAST_BUDGET, thinking_budget(model, options, level))
    fields: JsonObject = {"thinking": {"type": "enabled", "budget_tokens": budget, **shown}}
    if quirks.interleaved_thinking:
        fields["anthropic_beta"] = [_INTERLEAVED]
    return fields
