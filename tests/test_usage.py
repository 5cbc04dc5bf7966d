"""Token counts and prices."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import strategies as gen

from pi_stream.usage import Cost, CostTier, ModelCost, Usage, price

RATES = ModelCost(input=3, output=15, cache_read=0.3, cache_write=3.75)
TIERED = attrs.evolve(
    RATES,
    tiers=(
        CostTier(input_tokens_above=1000, input=6, output=30),
        CostTier(input_tokens_above=500, input=4, output=20),
    ),
)


def test_the_prompt_is_the_sum_of_its_disjoint_parts() -> None:
    """Uncached, read and written tokens together are the prompt; the subset written for an hour is not added."""
    assert Usage(input=1, cache_read=20, cache_write=300, cache_write_1h=100, output=7).prompt_tokens == 321


def test_price_of_each_part() -> None:
    """Rates are USD per million tokens, one for each part; the total is their sum."""
    usage = Usage(input=1_000_000, output=100_000, cache_read=1_000_000, cache_write=1_000_000)
    assert price(usage, RATES) == Cost(
        input=3, output=1.5, cache_read=0.3, cache_write=3.75, total=8.55, total_from_provider=False
    )


def test_reasoning_costs_nothing_extra() -> None:
    """Thinking is part of the output, so it is paid once."""
    assert price(Usage(output=10, reasoning=10), RATES).total == price(Usage(output=10), RATES).total


def test_writes_for_an_hour_cost_twice_the_input_rate() -> None:
    """Anthropic's price list: the part with the long lifetime at twice the input rate, the rest at the write rate."""
    cost = price(Usage(cache_write=1_000_000, cache_write_1h=400_000), RATES)
    assert cost.cache_write == pytest.approx(0.6 * 3.75 + 0.4 * 6)


def test_more_long_writes_than_writes_are_all_writes() -> None:
    """A subset larger than its whole, as some proxies report, never gives a negative price."""
    assert price(Usage(cache_write=1_000_000, cache_write_1h=2_000_000), RATES).cache_write == 6


@pytest.mark.parametrize(("prompt", "rate"), [(0, 3), (500, 3), (501, 4), (1000, 4), (1001, 6), (10_000, 6)])
def test_tiers_begin_above_their_threshold(prompt: int, rate: float) -> None:
    """The tier with the greatest threshold below the prompt size holds for the whole request, whatever the order."""
    for tiers in (TIERED.tiers, (TIERED.tiers or ())[::-1]):
        cost = price(Usage(input=prompt), attrs.evolve(TIERED, tiers=tiers))
        assert cost.input == pytest.approx(prompt * rate / 1e6)


def test_a_tier_is_chosen_by_the_whole_prompt() -> None:
    """Cached tokens make a prompt long too, and the tier's rates replace all four."""
    cost = price(Usage(cache_read=501, output=1_000_000), TIERED)
    assert cost.output == 20
    assert cost.cache_read == 0


def test_a_model_without_prices_costs_nothing() -> None:
    """Unknown rates are 0, not an error."""
    assert price(Usage(input=5, output=5), ModelCost()).total == 0


@given(gen.usages, gen.model_costs)
def test_prices_are_never_negative_and_add_up(usage: Usage, rates: ModelCost) -> None:
    """For counts and rates that are not negative, no part of the price is, and the total is the sum of the parts."""
    cost = price(usage, rates)
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write)
    assert min(parts) >= 0
    assert cost.total == pytest.approx(sum(parts))
    assert cost.total_from_provider is False


@given(gen.usages, st.sampled_from(["input", "output", "cache_read", "cache_write"]))
def test_usage_is_a_plain_value(usage: Usage, part: str) -> None:
    """A count is stored, not computed: setting one changes no other."""
    before = attrs.asdict(usage)
    setattr(usage, part, 77)
    assert attrs.asdict(usage) == {**before, part: 77}
