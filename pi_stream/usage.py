"""Token counts and money: what an answer used, and what that costs.

All counts are tokens; money is USD; rates are USD per million tokens.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import Attribute, define, field, frozen

__all__ = ["Cost", "CostTier", "ModelCost", "Usage", "UsageQuality", "price"]

UsageQuality = Literal["reported", "partial", "estimated"]
"""``reported`` by the provider at the end, ``partial`` when the stream broke before that, ``estimated`` by us."""


def _mark_set(instance: Any, attribute: Attribute[Any], value: Any) -> Any:
    # A part that was absent on load is written again once somebody sets it.
    instance._absent.discard(attribute.name)
    return value


@define(kw_only=True, on_setattr=_mark_set)
class Cost:
    """What an answer cost, in USD.

    ``total_from_provider`` is true when ``total`` is what the provider billed; the parts are then estimates.
    """

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0
    total_from_provider: bool | None = None
    extra: dict[str, Any] = field(factory=dict, repr=False)
    _absent: set[str] = field(factory=set, init=False, repr=False, eq=False)


@define(kw_only=True, on_setattr=_mark_set)
class Usage:
    """Token counts of one answer. The prompt took ``input + cache_read + cache_write``: the three are disjoint.

    Attributes:
        input: Prompt tokens that were neither read from nor written to a cache.
        output: Generated tokens, reasoning included.
        cache_read: Prompt tokens served from the provider's cache.
        cache_write: Prompt tokens written to the provider's cache, all lifetimes.
        cache_write_1h: Part of ``cache_write`` with a lifetime of one hour.
        reasoning: Part of ``output`` spent on thinking; None where the provider has no breakdown.
        total_tokens: Sum of the four counts in usage we produce; loading keeps any number as it stands.
        provider_total_tokens: The provider's own total, where it sent one.
        quality: How far the numbers can be trusted.
        cost: Money, in USD.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int | None = None
    reasoning: int | None = None
    total_tokens: int = 0
    provider_total_tokens: int | None = None
    quality: UsageQuality | None = None
    cost: Cost = field(factory=Cost)
    extra: dict[str, Any] = field(factory=dict, repr=False)
    _absent: set[str] = field(factory=set, init=False, repr=False, eq=False)

    @property
    def prompt_tokens(self) -> int:
        """Size of the whole prompt in tokens."""
        return self.input + self.cache_read + self.cache_write


@frozen(kw_only=True)
class CostTier:
    """Rates that replace the base rates when the prompt is larger than ``input_tokens_above`` tokens."""

    input_tokens_above: int
    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    extra: dict[str, Any] = field(factory=dict, repr=False)
    _absent: set[str] = field(factory=set, init=False, repr=False, eq=False)


@frozen(kw_only=True)
class ModelCost:
    """Rates of a model in USD per million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    tiers: tuple[CostTier, ...] | None = None
    extra: dict[str, Any] = field(factory=dict, repr=False)
    _absent: set[str] = field(factory=set, init=False, repr=False, eq=False)


def price(usage: Usage, rates: ModelCost) -> Cost:
    """Price an answer.

    The tier with the greatest threshold strictly below the prompt size replaces all four rates for the whole request.
    Cache writes that live for an hour cost twice the input rate (Anthropic's price list).

    Args:
        usage: Disjoint token counts.
        rates: USD per million tokens.

    Returns:
        The cost in USD; ``total`` is the sum of the four parts.
    """
    prompt = usage.prompt_tokens
    tiers = [tier for tier in rates.tiers or () if prompt > tier.input_tokens_above]
    rate = max(tiers, key=lambda tier: tier.input_tokens_above) if tiers else rates
    long_writes = min(usage.cache_write_1h or 0, usage.cache_write)
    short_writes = usage.cache_write - long_writes
    cost = Cost(
        input=usage.input * rate.input / 1e6,
        output=usage.output * rate.output / 1e6,
        cache_read=usage.cache_read * rate.cache_read / 1e6,
        cache_write=(short_writes * rate.cache_write + long_writes * 2 * rate.input) / 1e6,
        total_from_provider=False,
    )
    cost.total = cost.input + cost.output + cost.cache_read + cost.cache_write
    return cost
