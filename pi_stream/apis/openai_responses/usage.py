"""Responses: token counts of a final response, priced by the tier that served it."""

from __future__ import annotations

from typing import Any

from pi_stream.apis._usage import apply_tier, bill, count, first_count, make_usage
from pi_stream.apis.base import TranslatorSetup
from pi_stream.usage import Usage

__all__ = ["read_usage"]


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
    if setup.model.api != "azure-openai-responses":  # Azure prices its tiers otherwise
        apply_tier(read, response.get("service_tier") or setup.options.service_tier, setup.model)
    bill(read, usage, setup.model)
    return read


def _details(usage: dict[str, Any], name: str) -> dict[str, Any]:
    value = usage.get(name)
    return value if isinstance(value, dict) else {}
