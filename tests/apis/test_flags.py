"""Compat flags: names in both spellings, checked values, near names for unknown ones."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from pi_stream.apis._flags import anything, choice, flag, optional_flag, read_flags
from pi_stream.exceptions import ConfigError


@frozen(kw_only=True)
class Flags:
    supports_ice_cream: bool = flag(True)
    maybe: bool | None = optional_flag()
    flavour: str = choice("vanilla", "lemon")
    ignored: Any = anything()


def test_defaults() -> None:
    assert read_flags(Flags, None) == Flags()
    assert read_flags(Flags, {}, {"flavour": "lemon"}).flavour == "lemon"


@pytest.mark.parametrize("name", ["supportsIceCream", "supports_ice_cream"])
def test_both_spellings(name: str) -> None:
    assert read_flags(Flags, {name: False}, {"supports_ice_cream": True}).supports_ice_cream is False


@pytest.mark.parametrize(
    ("compat", "message"),
    [
        ({"supportsIceCraem": True}, "did you mean supportsIceCream"),
        ({"flavor": "lemon"}, "did you mean flavour"),
        ({"supports_ice_cream": 1}, "true or false"),
        ({"maybe": "x"}, "true, false or null"),
        ({"flavour": "mint"}, "vanilla, lemon"),
    ],
)
def test_what_is_wrong_is_named(compat: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_flags(Flags, compat)
