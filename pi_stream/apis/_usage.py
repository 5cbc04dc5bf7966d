"""Reading token counts out of the providers' JSON."""

from __future__ import annotations

from typing import Any

from pi_stream.models import Model
from pi_stream.usage import Usage, price

__all__ = ["billed", "chat_usage", "count", "first_count", "make_usage", "merge_usage"]


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
    cache_write_1h: int | None = None,
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
        cache_write_1h: Part of those with a lifetime of one hour, where the provider tells.
        reasoning: Part of the output, where the provider tells.
        provider_total: The provider's own total.
    """
    uncached = max(0, prompt - cache_read - cache_write)
    usage = Usage(
        input=uncached,
        output=output,
        cache_read=cache_read,
        cache_write=cache_write,
        cache_write_1h=cache_write_1h,
        reasoning=reasoning,
        total_tokens=uncached + output + cache_read + cache_write,
        provider_total_tokens=provider_total,
    )
    usage.cost = price(usage, model.cost)
    return usage


def chat_usage(usage: dict[str, Any], model: Model, *, billing: bool = False) -> Usage:
    """What a usage object in the style of Chat Completions says.

    Args:
        usage: ``{"prompt_tokens", "completion_tokens", "total_tokens", ..._details}``, with the names that servers use.
        model: Whose rates apply.
        billing: Whether the server says in ``cost`` what it bills (OpenRouter).
    """
    prompt = usage.get("prompt_tokens_details")
    completion = usage.get("completion_tokens_details")
    prompt = prompt if isinstance(prompt, dict) else {}
    completion = completion if isinstance(completion, dict) else {}
    cached = first_count(
        prompt.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens")
    )
    reasoning = first_count(completion.get("reasoning_tokens"), usage.get("reasoning_tokens")) or 0
    sent, generated = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    total = first_count(usage.get("total_tokens"))
    if reasoning and total == sent + generated + reasoning:
        generated += reasoning  # xAI counts it beside the completion; our output has it inside
    read = make_usage(
        model,
        prompt=sent,
        output=generated,
        cache_read=cached or 0,
        cache_write=count(prompt.get("cache_write_tokens")),
        reasoning=reasoning,
        provider_total=total,
    )
    amount = billed(usage) if billing else None
    if amount is not None:
        read.cost.total = amount
        read.cost.total_from_provider = True
    return read


def billed(usage: dict[str, Any]) -> float | None:
    """The USD that OpenRouter bills for an answer; None where it does not say.

    With a key of the caller's own (``is_byok``) the upstream provider bills as well, in one sum or in two.
    Source: https://openrouter.ai/docs/use-cases/usage-accounting
    """
    amount, own_key, details = _amount(usage.get("cost")), usage.get("is_byok"), usage.get("cost_details")
    if amount is None or own_key is False:
        return amount
    if own_key is not True or not isinstance(details, dict):
        return None
    upstream = [details.get("upstream_inference_cost")]
    if upstream[0] is None:
        upstream = [details.get(f"upstream_inference_{part}_cost") for part in ("prompt", "completions")]
    amounts = [_amount(value) for value in upstream]
    return None if None in amounts else amount + sum(value for value in amounts if value is not None)


def _amount(value: Any) -> float | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**53
    return float(value) if usable else None
