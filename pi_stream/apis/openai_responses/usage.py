"""Responses: token counts of a final response, priced by the tier that served it."""

from __future__ import annotations

from typing import Any

from pi_stream.apis._request import is_host
from pi_stream.apis._usage import billed, count, first_count, make_usage
from pi_stream.apis.base import TranslatorSetup
from pi_stream.usage import Cost, Usage

__all__ = ["read_usage"]

_TIERS = {"flex": 0.5, "priority": 2.0, "fast": 2.0}
# Models whose fast tiers cost more than twice the price. Source: the price rules of pi-ai 1.6.0.
_FAST = {"gpt-5.5": 2.5}


def read_usage(response: dict[str, Any], setup: TranslatorSetup) -> Usage | None:
    """Usage of a final response; None when it has none."""
    usage = response.get("usage")
    if not isinstance(usage, dict) or not usage:
        return None
    prompt, completion = _details(usage, "input_tokens_details"), _details(usage, "output_tokens_details")
    read = make_usage(
        setup.model,
        prompt=count(usage.get("input_tokens")),
        output=count(usage.get("output_tokens")),
        cache_read=count(prompt.get("cached_tokens")),
        cache_write=count(prompt.get("cache_write_tokens")),
        reasoning=count(completion.get("reasoning_tokens")),
        provider_total=first_count(usage.get("total_tokens")),
    )
    factor = _tier_factor(response.get("service_tier"), setup)
    if factor != 1:
        _multiply(read.cost, factor)
    model = setup.model
    if model.provider == "openrouter" or is_host(model.base_url, "openrouter.ai"):
        amount = billed(usage)
        if amount is not None:
            read.cost.total, read.cost.total_from_provider = amount, True
    return read


def _tier_factor(reported: Any, setup: TranslatorSetup) -> float:
    """What the service tier multiplies the price with: the tier that answered, else the one asked for."""
    if setup.model.api == "azure-openai-responses":
        return 1  # Azure prices its tiers otherwise
    tier = reported if isinstance(reported, str) and reported else setup.options.service_tier
    factor = _TIERS.get(tier or "", 1.0)
    return _FAST.get(setup.model.id, factor) if factor > 1 else factor


def _multiply(cost: Cost, factor: float) -> None:
    cost.input *= factor
    cost.output *= factor
    cost.cache_read *= factor
    cost.cache_write *= factor
    cost.total = cost.input + cost.output + cost.cache_read + cost.cache_write


def _details(usage: dict[str, Any], name: str) -> dict[str, Any]:
    value = usage.get(name)
    return value if isinstance(value, dict) else {}
