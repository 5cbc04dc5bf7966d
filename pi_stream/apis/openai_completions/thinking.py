"""How servers of Chat Completions are told to think: one row a format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from pi_stream.apis._reasoning import clamp_level, effort_word, thinking_budget
from pi_stream.apis.openai_completions.quirks import Quirks, ThinkingFormat
from pi_stream.exceptions import ConfigError
from pi_stream.messages import JsonObject
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["thinking_fields"]


@frozen(kw_only=True)
class _Ask:
    """What is asked of the model: ``effort`` is the provider's word, also for off if the model's map has one."""

    on: bool
    effort: str | None
    budget: int | None
    quirks: Quirks

    @property
    def effort_field(self) -> JsonObject:
        """``reasoning_effort``, where the server takes it and there is a word to say."""
        supported = self.quirks.supports_reasoning_effort and self.effort is not None
        return {"reasoning_effort": self.effort} if supported else {}

    @property
    def effort_when_on(self) -> JsonObject:
        return self.effort_field if self.on else {}

    @property
    def switch(self) -> str:
        return "enabled" if self.on else "disabled"

    @property
    def word(self) -> str:
        return self.effort or "none"


def _zai(ask: _Ask) -> JsonObject:
    keep = {"clear_thinking": False} if ask.on else {}
    return {"thinking": {"type": ask.switch, **keep}, **ask.effort_when_on}


def _qwen_template(ask: _Ask) -> JsonObject:
    return {"chat_template_kwargs": {"enable_thinking": ask.on, "preserve_thinking": True}}


def _chat_template(ask: _Ask) -> JsonObject:
    return _filled("chat_template_kwargs", ask.quirks.chat_template_kwargs, ask)


def _baseten(ask: _Ask) -> JsonObject:
    return _filled("chat_template_args", ask.quirks.chat_template_args, ask) | ask.effort_field


def _ant_ling(ask: _Ask) -> JsonObject:
    return {"reasoning": {"effort": ask.effort}} if ask.on else {}


_FORMATS: dict[ThinkingFormat, Callable[[_Ask], JsonObject]] = {
    "openai": lambda ask: ask.effort_field,
    "openrouter": lambda ask: {"reasoning": {"effort": ask.word}},
    "deepseek": lambda ask: {"thinking": {"type": ask.switch}, **ask.effort_when_on},
    "zai": _zai,
    "qwen": lambda ask: {"enable_thinking": ask.on, **ask.effort_when_on},
    "qwen-chat-template": _qwen_template,
    "chat-template": _chat_template,
    "baseten": _baseten,
    "together": lambda ask: {"reasoning": {"enabled": ask.on}, **ask.effort_when_on},
    "string-thinking": lambda ask: {"thinking": ask.word},
    "ant-ling": _ant_ling,
}


def thinking_fields(model: Model, options: StreamOptions, quirks: Quirks) -> JsonObject:
    """The body fields that set how hard the model thinks.

    Without a level asked for, and for models that cannot think, there are none, save the fixed values of a chat
    template. Levels are clamped to what the model knows.

    Raises:
        ConfigError: A value of a chat template names an unknown variable.
    """
    if not model.reasoning:
        return {}
    if options.reasoning is None:
        return _fixed_template_values(quirks)
    level = clamp_level(model, options.reasoning)
    on = level != "off"
    budget = thinking_budget(model, options, level) if on else 0
    effort = effort_word(model, level)
    if quirks.thinking_format == "ant-ling" and level not in (model.thinking_level_map or {}):
        return {}
    ask = _Ask(on=on, effort=effort, budget=budget if budget > 0 else None, quirks=quirks)
    fields = _FORMATS[quirks.thinking_format](ask)
    if quirks.thinking_token_budget_field and ask.budget:
        fields[quirks.thinking_token_budget_field] = ask.budget
    return fields


# --- values of chat templates -----------------------------------------------------------------------------------------


def _fixed_template_values(quirks: Quirks) -> JsonObject:
    if quirks.thinking_format == "chat-template":
        return _filled("chat_template_kwargs", quirks.chat_template_kwargs, None)
    if quirks.thinking_format == "baseten":
        return _filled("chat_template_args", quirks.chat_template_args, None)
    return {}


def _filled(name: str, values: JsonObject | None, ask: _Ask | None) -> JsonObject:
    """The values with their variables filled in; those without a value are left out."""
    filled: JsonObject = {}
    for key, value in (values or {}).items():
        if isinstance(value, dict) and "$var" in value:
            value = _variable(value, ask)
            if value is None:
                continue
        filled[key] = value
    return {name: filled} if filled else {}


def _variable(reference: JsonObject, ask: _Ask | None) -> Any:
    if ask is None or (reference.get("omitWhenOff") and not ask.on):
        return None
    match reference["$var"]:
        case "thinking.enabled":
            return ask.on
        case "thinking.effort":
            return ask.effort
        case "thinking.budget":
            return ask.budget
        case unknown:
            raise ConfigError(
                f"unknown variable {unknown!r} of a chat template; there are thinking.enabled, thinking.effort and "
                "thinking.budget"
            )
