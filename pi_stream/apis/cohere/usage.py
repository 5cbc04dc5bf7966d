"""Cohere: what an answer used, and what is billed for it."""

from __future__ import annotations

from typing import Any

from pi_stream.apis._usage import count, first_count, make_usage
from pi_stream.models import Model
from pi_stream.usage import Usage, price

__all__ = ["cohere_usage"]


def cohere_usage(usage: dict[str, Any], model: Model) -> Usage:
    """What a usage object says.

    The counts are those of ``tokens``: what the model read and wrote, the template around the messages included. The cost
    is that of ``billed_units``, for that is what Cohere charges; where one of the two is missing, the other stands for it.

    Args:
        usage: ``{"tokens": {"input_tokens", "output_tokens"}, "billed_units": {...}, "cached_tokens"}``.
        model: Whose rates apply.
    """
    tokens, billed = _object(usage.get("tokens")), _object(usage.get("billed_units"))
    prompt = first_count(tokens.get("input_tokens"), billed.get("input_tokens")) or 0
    read = make_usage(
        model,
        prompt=prompt,
        output=first_count(tokens.get("output_tokens"), billed.get("output_tokens")) or 0,
        cache_read=min(prompt, count(usage.get("cached_tokens"))),
        reasoning=first_count(tokens.get("reasoning_tokens")),
    )
    if billed:
        paid = Usage(input=count(billed.get("input_tokens")), output=count(billed.get("output_tokens")))
        read.cost = price(paid, model.cost)
    return read


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
