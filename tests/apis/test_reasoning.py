"""Clamping of reasoning levels, and budgets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.apis._reasoning import clamp_level, effort_word, supported_levels, thinking_budget
from pi_stream.models import REASONING_LEVELS, Model, ReasoningLevel
from pi_stream.options import StreamOptions


def model(
    levels: dict[str, str | None] | None = None, *, reasoning: bool = True, max_tokens: int = 0
) -> Model:
    return Model(id="m", reasoning=reasoning, thinking_level_map=levels, max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("levels", "asked", "clamped"),
    [
        (None, "low", "low"),
        (None, "xhigh", "high"),
        (None, "max", "high"),
        ({"xhigh": "very"}, "xhigh", "xhigh"),
        ({"xhigh": "very"}, "max", "xhigh"),
        ({"minimal": None, "low": None, "medium": None}, "low", "high"),
        ({"off": None}, "off", "minimal"),
        ({"high": None, "medium": None}, "medium", "low"),
    ],
)
def test_a_level_is_itself_or_the_next_higher_or_the_next_lower(
    levels: Any, asked: Any, clamped: str
) -> None:
    assert clamp_level(model(levels), asked) == clamped


def test_a_model_that_cannot_think_knows_only_off() -> None:
    assert clamp_level(model({"high": "high"}, reasoning=False), "high") == "off"


@given(
    levels=st.dictionaries(st.sampled_from(REASONING_LEVELS), st.none() | st.just("word")),
    asked=st.sampled_from(REASONING_LEVELS),
)
def test_clamping_ends_at_a_known_level_and_stays_there(levels: Any, asked: ReasoningLevel) -> None:
    record = model(levels)
    clamped = clamp_level(record, asked)
    assert clamp_level(record, clamped) == clamped
    assert clamped in supported_levels(record) or not supported_levels(record)


def test_the_provider_s_word_is_the_map_s_or_the_level_but_off_has_none_of_its_own() -> None:
    record = model({"low": "slow", "off": "none"})
    assert [effort_word(record, level) for level in ("low", "high", "off")] == ["slow", "high", "none"]
    assert effort_word(model(), "off") is None


@pytest.mark.parametrize(
    ("level", "options", "most", "budget"),
    [
        ("minimal", {}, 0, 1024),
        ("high", {}, 0, 16384),
        ("max", {}, 0, 16384),
        ("low", {"thinking_budgets": {"low": 99}}, 0, 99),
        ("xhigh", {"thinking_budgets": {"high": 99}}, 0, 99),
        ("high", {}, 8000, 8000 - 1024),
        ("high", {"max_tokens": 2000}, 8000, 2000 - 1024),
        ("high", {"max_tokens": 500}, 8000, 500 - 1024),
    ],
)
def test_a_budget_leaves_room_for_the_answer_and_never_raises_the_cap(
    level: Any, options: Any, most: int, budget: int
) -> None:
    assert thinking_budget(model(max_tokens=most), StreamOptions(**options), level) == budget
