"""Compat flags: what servers of a protocol do differently, as an attrs class read from a model's ``compat``.

An api writes its flags as a frozen attrs class whose fields are made by :func:`flag`, :func:`choice` and their kind;
:func:`read_flags` fills it. Names may be camelCase or snake_case.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attrs import Attribute, field, fields

from pi_stream.exceptions import ConfigError

__all__ = ["anything", "choice", "flag", "optional_flag", "read_flags", "words"]

T = TypeVar("T")


def _checked(default: Any, expected: str, allowed: Callable[[Any], bool]) -> Any:
    """A flag with a default and a check of what ``compat`` says instead."""

    def check(instance: Any, attribute: Attribute[Any], value: Any) -> None:
        if not allowed(value):
            raise ConfigError(f"compat flag `{attribute.name}` must be {expected}, not {value!r}")

    return field(default=default, validator=check)


def flag(default: bool = False) -> Any:
    """A switch."""
    return _checked(default, "true or false", lambda value: isinstance(value, bool))


def optional_flag() -> Any:
    """A switch that is neither on nor off when nobody says so."""
    return _checked(None, "true, false or null", lambda value: value is None or isinstance(value, bool))


def choice(*allowed: str | None) -> Any:
    """One of some words, the first by default."""
    return _checked(allowed[0], "one of " + ", ".join(map(str, allowed)), lambda value: value in allowed)


def words(default: str = "") -> Any:
    """A text."""
    return _checked(default, "a string", lambda value: isinstance(value, str))


def anything() -> Any:
    """A flag of pi-ai's catalog that is read and means nothing here."""
    return field(default=None)


def read_flags(
    cls: type[T], compat: Mapping[str, Any] | None, defaults: Mapping[str, Any] | None = None
) -> T:
    """The flags of a model.

    Args:
        cls: The attrs class of the flags.
        compat: What the model says, by names in camelCase or snake_case.
        defaults: What holds where the model says nothing, by attribute names.

    Raises:
        ConfigError: ``compat`` has an unknown flag, or a value of the wrong kind. The message lists near names.
    """
    names = [attribute.name for attribute in fields(cls)]  # type: ignore[arg-type]
    by_spelling = {name.replace("_", ""): name for name in names}
    given: dict[str, Any] = dict(defaults or {})
    for key, value in (compat or {}).items():
        name = by_spelling.get(key.replace("_", "").lower())
        if name is None:
            raise ConfigError(f"unknown compat flag {key!r}{_hint(key, names)}")
        given[name] = value
    return cls(**given)


def _hint(key: str, names: list[str]) -> str:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()
    near = difflib.get_close_matches(snake, names, n=3)
    if snake != key:
        near = [re.sub(r"_([a-z])", lambda match: match[1].upper(), name) for name in near]
    return f"; did you mean {' or '.join(near)}?" if near else ""
