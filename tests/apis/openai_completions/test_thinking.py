"""How servers are told to think: one row a format."""

from __future__ import annotations

from typing import Any

import pytest

from pi_stream.apis.openai_completions.quirks import Quirks
from pi_stream.apis.openai_completions.thinking import thinking_fields
from pi_stream.exceptions import ConfigError
from pi_stream.models import Model
from pi_stream.options import StreamOptions

TEMPLATE = {
    "keep": 1,
    "on": {"$var": "thinking.enabled"},
    "effort": {"$var": "thinking.effort", "omitWhenOff": True},
    "budget": {"$var": "thinking.budget"},
}


def asked(
    level: Any, *, levels: Any = None, reasoning: bool = True, options: Any = None, **quirks: Any
) -> dict[str, Any]:
    model = Model(id="m", reasoning=reasoning, thinking_level_map=levels)
    return thinking_fields(model, StreamOptions(reasoning=level, **(options or {})), Quirks(**quirks))


ROWS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("openai", {}, {"reasoning_effort": "high"}, {}),
    ("openrouter", {}, {"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "none"}}),
    (
        "deepseek",
        {},
        {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        {"thinking": {"type": "disabled"}},
    ),
    (
        "zai",
        {"supports_reasoning_effort": False},
        {"thinking": {"type": "enabled", "clear_thinking": False}},
        {"thinking": {"type": "disabled"}},
    ),
    ("qwen", {}, {"enable_thinking": True, "reasoning_effort": "high"}, {"enable_thinking": False}),
    (
        "qwen-chat-template",
        {},
        {"chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}},
        {"chat_template_kwargs": {"enable_thinking": False, "preserve_thinking": True}},
    ),
    (
        "chat-template",
        {"chat_template_kwargs": TEMPLATE},
        {"chat_template_kwargs": {"keep": 1, "on": True, "effort": "high", "budget": 16384}},
        {"chat_template_kwargs": {"keep": 1, "on": False}},
    ),
    (
        "baseten",
        {"chat_template_args": TEMPLATE},
        {
            "chat_template_args": {"keep": 1, "on": True, "effort": "high", "budget": 16384},
            "reasoning_effort": "high",
        },
        {"chat_template_args": {"keep": 1, "on": False}},
    ),
    (
        "together",
        {"supports_reasoning_effort": False},
        {"reasoning": {"enabled": True}},
        {"reasoning": {"enabled": False}},
    ),
    ("string-thinking", {}, {"thinking": "high"}, {"thinking": "none"}),
    ("ant-ling", {}, {}, {}),
]


@pytest.mark.parametrize(("name", "quirks", "on", "off"), ROWS, ids=[row[0] for row in ROWS])
def test_format_on_and_off(name: str, quirks: Any, on: Any, off: Any) -> None:
    assert asked("high", thinking_format=name, **quirks) == on
    assert asked("off", thinking_format=name, **quirks) == off


WORDS = {"high": "hard", "off": "nothing"}


@pytest.mark.parametrize(
    ("name", "on", "off"),
    [
        ("openai", {"reasoning_effort": "hard"}, {"reasoning_effort": "nothing"}),
        ("openrouter", {"reasoning": {"effort": "hard"}}, {"reasoning": {"effort": "nothing"}}),
        ("baseten", {"reasoning_effort": "hard"}, {"reasoning_effort": "nothing"}),
        ("string-thinking", {"thinking": "hard"}, {"thinking": "nothing"}),
        ("ant-ling", {"reasoning": {"effort": "hard"}}, {}),
    ],
)
def test_the_model_s_words_are_sent(name: str, on: Any, off: Any) -> None:
    assert asked("high", levels=WORDS, thinking_format=name) == on
    assert asked("off", levels=WORDS, thinking_format=name) == off


def test_effort_is_not_sent_where_the_server_does_not_take_it() -> None:
    assert asked("high", supports_reasoning_effort=False) == {}
    assert asked("high", thinking_format="deepseek", supports_reasoning_effort=False) == {
        "thinking": {"type": "enabled"}
    }


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_nothing_is_said_unasked_or_to_a_model_that_cannot_think(row: Any) -> None:
    """Fixed values of a chat template belong to the model and are sent all the same."""
    fixed = {
        "chat-template": {"chat_template_kwargs": {"keep": 1}},
        "baseten": {"chat_template_args": {"keep": 1}},
    }
    assert asked(None, thinking_format=row[0], **row[1]) == fixed.get(row[0], {})
    assert asked("high", reasoning=False, thinking_format=row[0], **row[1]) == {}


def test_a_level_the_model_lacks_is_clamped() -> None:
    assert asked("max") == {"reasoning_effort": "high"}
    assert asked("off", levels={"off": None}, thinking_format="openrouter") == {
        "reasoning": {"effort": "minimal"}
    }


def test_a_budget_is_sent_where_the_server_has_a_field_for_it() -> None:
    def budget(level: str, **options: Any) -> Any:
        made = asked(level, options=options, thinking_token_budget_field="thinking_budget")
        return made.get("thinking_budget")

    assert budget("low") == 2048
    assert budget("low", thinking_budgets={"low": 100}) == 100
    assert budget("low", max_tokens=1500) == 476
    assert budget("low", max_tokens=1000) is None
    assert budget("off") is None


def test_an_unknown_variable_of_a_template_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"thinking\.mood"):
        asked("high", thinking_format="chat-template", chat_template_kwargs={"a": {"$var": "thinking.mood"}})
