"""The public names: there, listed, and explained."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import pi_stream


def members(cls: type) -> dict[str, Any]:
    """Public methods and properties that the class itself defines."""
    kinds = (staticmethod, classmethod, property)
    return {
        name: value
        for name, value in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
    }


def test_no_name_is_listed_twice() -> None:
    """``__all__`` has each name once (its order is the linter's business)."""
    assert len(pi_stream.__all__) == len(set(pi_stream.__all__))


@pytest.mark.parametrize("name", pi_stream.__all__)
def test_name_is_importable(name: str) -> None:
    """Each name of ``__all__`` is there, though it is loaded on first use only."""
    assert getattr(pi_stream, name) is not None


def test_dir_lists_the_public_names() -> None:
    """``dir(pi_stream)``, and so every completion, shows them before they are loaded."""
    assert set(pi_stream.__all__) <= set(dir(pi_stream))


def test_unknown_name_is_an_attribute_error() -> None:
    """A typing mistake is reported as with any module."""
    with pytest.raises(AttributeError, match="no_such_name"):
        pi_stream.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", pi_stream.__all__)
def test_public_object_has_a_docstring(name: str) -> None:
    """Each public class, its public methods, and each public function say what they do."""
    value = getattr(pi_stream, name)
    if not (inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value)):
        return  # a type alias or a constant: documented where it stands
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        silent = [member for member in members(value) if not inspect.getdoc(getattr(value, member))]
        assert not silent, f"{name} has members without a docstring"
