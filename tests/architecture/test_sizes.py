"""Modules stay small enough to read in one go."""

from __future__ import annotations

from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "pi_stream"
LIMIT = 500

# Modules that may be longer, each with the reason. Path below pi_stream/.
LONGER: dict[str, str] = {}

FILES = {file.relative_to(PACKAGE).as_posix(): file for file in sorted(PACKAGE.rglob("*.py"))}


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("name", FILES)
def test_module_is_not_too_long(name: str) -> None:
    """A module over the limit is split, or gets a line with its reason in LONGER."""
    if name not in LONGER:
        assert lines(FILES[name]) <= LIMIT


def test_exceptions_are_needed() -> None:
    """An exception whose module is gone or short again is removed."""
    assert [name for name in LONGER if name not in FILES or lines(FILES[name]) <= LIMIT] == []
