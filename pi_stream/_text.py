"""Text that can be encoded: JavaScript strings, and so old sessions and some providers, may hold half a character."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["clean_strings", "clean_text"]


def clean_text(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD and split pairs joined, so that it can be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_strings(value: Any) -> Any:
    """A JSON value with all its strings clean, keys included: the very same object where nothing was to be done.

    A value that is nested too deeply to be walked is given back as it is: nobody can write it either.
    """
    try:
        return _clean(value)
    except RecursionError:
        return value


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        made: Any = {_clean(key): _clean(item) for key, item in value.items()}
        kept = all(new is old for new, old in zip(made, value, strict=False)) and all(
            new is old for new, old in zip(made.values(), value.values(), strict=False)
        )
        return value if kept else made
    if isinstance(value, (list, tuple)):
        made = [_clean(item) for item in value]
        return value if all(new is old for new, old in zip(made, value, strict=True)) else made
    return value
