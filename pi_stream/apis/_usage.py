"""Reading token counts out of the providers' JSON."""

from __future__ import annotations

from typing import Any

from pi_stream.apis._request import is_host
from pi_stream.models import Model
from pi_stream.usage import Usage, price

__all__ = [
    "apply_tier",
    "bill",
    "billed",
    "chat_usage",
    "count",
    "first_count",
    "make_usage",
    "merge_usage",
]

_TICKS = 10_000_000_000  # of xAI to a dollar
_TIERS = {"flex": 0.5, "priority": 2.0, "fast": 2.0}
# Models whose fast tiers cost more than twice the price. Source: the price rules of pi-ai 1.6.0.
_FAST = {"gpt-5.5": 2.5}


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


def chat_usage(usage: dict[str, Any], model: Model) -> Usage:
    """What a usage object in the style of Chat Completions says.

    Args:
        usage: ``{"prompt_tokens", "completion_tokens", "total_tokens", ..._details}``, with the names that servers use.
        model: Whose rates apply, unless the server says what it bills.
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
    bill(read, usage, model)
    return read


def bill(usage: Usage, reported: dict[str, Any], model: Model) -> None:
    """Take the cost from a provider that says what it bills; the parts stay estimates by the model's rates.

    These are OpenRouter, xAI (https://docs.x.ai/developers/cost-tracking) and Perplexity, which bill searches too.

    Args:
        usage: Its cost is changed.
        reported: The usage object that the provider sent.
        model: Whom it was sent by.
    """
    amount: float | None = None
    if _is_of(model, "openrouter", "openrouter.ai"):
        amount = billed(reported)
    elif _is_of(model, "xai", "api.x.ai"):
        ticks = _amount(reported.get("cost_in_usd_ticks"))
        amount = None if ticks is None else ticks / _TICKS
    elif _is_of(model, "perplexity", "api.perplexity.ai"):
        cost = reported.get("cost")
        amount = _amount(cost.get("total_cost")) if isinstance(cost, dict) else None
    if amount is not None:
        usage.cost.total, usage.cost.total_from_provider = amount, True


def _is_of(model: Model, provider: str, host: str) -> bool:
    return model.provider == provider or is_host(model.base_url, host)


def apply_tier(usage: Usage, tier: Any, model: Model) -> None:
    """Multiply the cost with what a service tier of OpenAI costs more or less than the standard one.

    Args:
        usage: Its cost is changed.
        tier: The tier that answered, else the one that was asked for.
        model: Whose prices they are.
    """
    factor = _TIERS.get(tier, 1.0) if isinstance(tier, str) else 1.0
    if factor > 1:
        factor = _FAST.get(model.id, factor)
    if factor != 1:
        cost = usage.cost
        cost.input, cost.output = cost.input * factor, cost.output * factor
        cost.cache_read, cost.cache_write = cost.cache_read * factor, cost.cache_write * factor
        cost.total = cost.input + cost.output + cost.cache_read + cost.cache_write


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
