"""Model records: what is known of a model, as plain data."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from pi_stream.usage import ModelCost

__all__ = ["REASONING_LEVELS", "Model", "ReasoningLevel", "supported_levels"]

ReasoningLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How hard a model should think: one scale for all vendors."""

REASONING_LEVELS: tuple[ReasoningLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")


@frozen(kw_only=True)
class Model:
    """A model of a provider.

    Attributes:
        id: The provider's own id, sent untouched.
        name: For people; the id when not given.
        api: Wire protocol, such as ``openai-completions``.
        provider: Vendor id.
        base_url: Where requests go; empty means the provider's.
        reasoning: Whether it can think.
        thinking_level_map: Reasoning level to the provider's word; None marks a level it lacks.
        input: Kinds of content it accepts: ``text``, ``image``.
        cost: Rates in USD per million tokens.
        context_window: Tokens of prompt and answer together; 0 when unknown.
        max_tokens: Most tokens of one answer; 0 when unknown.
        headers: Headers for every request with this model.
        compat: Quirks of the server, by the names that the api's request module lists.
    """

    id: str
    name: str = ""
    api: str = ""
    provider: str = ""
    base_url: str = ""
    type: Literal["chat", "image", "classifier"] | None = None
    reasoning: bool = False
    thinking_level_map: dict[str, str | None] | None = None
    input: tuple[str, ...] = ("text",)
    input_limits: dict[str, Any] | None = None
    cost: ModelCost = field(factory=ModelCost)
    context_window: int = 0
    max_tokens: int = 0
    prompt_cache: dict[str, Any] | None = None
    headers: dict[str, str] | None = field(default=None, repr=False)  # may hold a key
    compat: dict[str, Any] | None = None
    sampling_params: dict[str, Any] | None = None
    sampling_params_by_thinking_level: dict[str, Any] | None = None
    extra: dict[str, Any] = field(factory=dict, repr=False)
    _absent: set[str] = field(factory=set, init=False, repr=False, eq=False)


def supported_levels(model: Model) -> tuple[ReasoningLevel, ...]:
    """The levels a model knows, in rising order.

    A level is lacking when ``thinking_level_map`` says None; ``xhigh`` and ``max`` must be mapped to be there.
    """
    if not model.reasoning:
        return ("off",)
    levels = model.thinking_level_map or {}
    return tuple(
        level
        for level in REASONING_LEVELS
        if (levels[level] is not None if level in levels else level not in ("xhigh", "max"))
    )
