"""Reading token counts out of the providers' JSON."""

from __future__ import annotations

from typing import Any

from pi_stream.models import Model
from pi_stream.usage import Usage, price

__all__ = ["count", "first_count", "make_usage", "merge_usage"]


def count(value: Any) -> int:
    """A token count; anything that is none reads as 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        return 0
    return int(value)


def first_count(*values: Any) -> int | None:
    """The first value that is a number, as a count; None if none is."""
    for value in values:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return count(value)
    return None


def merge_usage(known: dict[str, Any], later: dict[str, Any]) -> None:
    """Fold a later usage object into what is known: the last value that is not null wins, per field.

    Running totals are replaced, never added up; a field that is missing later keeps its value; zero is a value.
    """
    for key, value in later.items():
        if isinstance(value, dict):
            inner = known.get(key)
            known[key] = inner = dict(inner) if isinstance(inner, dict) else {}
            merge_usage(inner, value)
        elif value is not None:
            known[key] = value


def make_usage(
    model: Model,
    *,
    prompt: int,
    output: int,
    cache_read: int = 0,
    cache_write: int = 0,
    reasoning: int | None = None,
    provider_total: int | None = None,
) -> Usage:
    """Usage with disjoint parts, their sum, and the cost by the model's rates.

    Args:
        model: Whose rates apply.
        prompt: All prompt tokens, cached ones included.
        output: All generated tokens, reasoning included.
        cache_read: Prompt tokens read from cache.
        cache_write: Prompt tokens written to cache.
        reasoning: Part of the output, where the provider tells.
        provider_total: The provider's own total.
    """
    uncached = max(0, prompt - cache_read - cache_write)
    usage = Usage(
        input=uncached,
        output=output,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
        total_tokens=uncached + output + cache_read + cache_write,
        provider_total_tokens=provider_total,
    )
    usage.cost = price(usage, model.cost)
    return usage
