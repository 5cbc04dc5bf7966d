"""Options: a mistake in them is noticed when they are made, not when the request fails."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pi_stream.exceptions import ConfigError
from pi_stream.options import Limits, RetryPolicy, StreamOptions


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (StreamOptions, "temperature", "0.5"),
        (StreamOptions, "temperature", float("nan")),
        (StreamOptions, "top_p", True),
        (StreamOptions, "max_tokens", 0),
        (StreamOptions, "max_tokens", 5.0),
        (StreamOptions, "tool_choice", "sometimes"),
        (StreamOptions, "tool_choice", 5),
        (StreamOptions, "reasoning", "very high"),
        (StreamOptions, "cache_retention", "forever"),
        (StreamOptions, "unknown_stop", "ignore"),
        (StreamOptions, "malformed", "ignore"),
        (StreamOptions, "handover", "drop"),
        (Limits, "connect", 0),
        (Limits, "head", -1),
        (Limits, "idle", "60"),
        (Limits, "total", float("inf")),
        (Limits, "first", True),
        (Limits, "event_bytes", 0),
        (Limits, "blocks", 1.5),
        (Limits, "error_bytes", True),
    ],
)
def test_a_value_that_cannot_work_is_refused(cls: type, name: str, value: Any) -> None:
    """The error names class, field and value."""
    with pytest.raises(ConfigError) as caught:
        cls(**{name: value})
    assert str(caught.value).startswith(f"{cls.__name__}.{name} must be ")
    assert str(caught.value).endswith(f"not {value!r}")


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0, "top_p": 0.5, "max_tokens": 1, "seed": -1},
        {"tool_choice": "required"},
        {"tool_choice": {"name": "add"}},
        {"reasoning": "off", "cache_retention": "none"},
        {"limits": Limits(connect=0.5, total=None, idle=None)},
    ],
)
def test_values_that_work_are_kept(given: dict[str, Any]) -> None:
    """What was given is what is there."""
    options = StreamOptions(**given)
    assert {name: getattr(options, name) for name in given} == given


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, None), ("END", ("END",)), (["a", "b"], ("a", "b")), (("a",), ("a",)), ([], ())],
)
def test_stop_takes_one_string_or_several(given: Any, kept: tuple[str, ...] | None) -> None:
    """A lone string is one stop sequence, not one for each of its letters."""
    assert StreamOptions(stop=given).stop == kept


def test_nothing_is_asked_for_by_default() -> None:
    """Only limits, retries and policies have values; what would be sent has none."""
    set_by_default = {
        attribute.name
        for attribute in attrs.fields(StreamOptions)
        if getattr(StreamOptions(), attribute.name) is not None
    }
    policies = {"check_context", "unknown_stop", "malformed", "fallback", "after_content", "notices"}
    assert set_by_default == {"limits", "retries"} | policies


def test_all_waiting_is_bounded_by_default_except_the_whole_stream() -> None:
    """A stalled provider is noticed without any setting; a long answer is not cut off."""
    limits = Limits()
    unlimited = [each.name for each in attrs.fields(Limits) if getattr(limits, each.name) is None]
    assert unlimited == ["total"]
    assert RetryPolicy().max_retries > 0


def test_options_cannot_be_changed() -> None:
    """They are shared between tasks; a changed copy is made with ``attrs.evolve``, and checked again."""
    options = StreamOptions(seed=1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        options.seed = 2  # type: ignore[misc]
    assert attrs.evolve(options, seed=2).seed == 2
    with pytest.raises(ConfigError):
        attrs.evolve(options, temperature="hot")  # type: ignore[arg-type]


def test_secrets_are_not_shown() -> None:
    """Neither the key nor headers, which may hold one, stand in a log of the options."""
    shown = repr(StreamOptions(api_key="secret-key", headers={"authorization": "secret-header"}))
    assert "secret" not in shown
