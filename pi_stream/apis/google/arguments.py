"""Arguments of a Gemini function call: whole, or as updates by path (``partialArgs``).

Source: https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling (streaming of arguments);
paths are JSON Paths (RFC 9535) that name one place, such as ``$.recipe.steps[0]``.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any, TypeAlias

from pi_stream.apis._errors import excerpt
from pi_stream.wire import json

__all__ = ["Arguments"]

_MAX_DEPTH = 64
_STEP = re.compile(
    r"""\.([^.\[\]'"\s]+) | \[(\d{1,9})\] | \['((?:[^'\\]|\\.)*)'\] | \["((?:[^"\\]|\\.)*)"\]""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_Key: TypeAlias = str | int


class _Array(dict[_Key, Any]):
    """An array being received, by index: an index far beyond the others costs nothing."""


class _Text(list[str]):
    """A string being received in pieces."""

    going_on = False


class Arguments:
    """The arguments of one call, merged from everything that came. Linear in what came.

    Attributes:
        problem: Why they cannot be used, if something in them could not be read.
    """

    __slots__ = ("_raw", "_root", "problem")

    def __init__(self) -> None:
        self.problem: str | None = None
        self._root: dict[_Key, Any] | None = None
        self._raw: Any = None

    def give(self, args: Any) -> None:
        """Take in ``args``: the object with all arguments. What is no object is kept as it came."""
        if isinstance(args, dict):
            if self._root is None:
                self._root = {}
            self._root.update(args)
        elif args is not None and args != []:  # PHP writes an empty object as []
            self._raw = args

    def update(self, updates: Any) -> None:
        """Take in ``partialArgs``: a list of values with their paths."""
        if not isinstance(updates, list):
            self.problem = "the provider sent argument updates that are no list"
            return
        for update in updates:
            path = _path(update.get("jsonPath")) if isinstance(update, dict) else None
            if path is None:
                self.problem = f"the provider sent an argument update that cannot be read: {excerpt(update)}"
            else:
                self._set(path, update)

    def text(self) -> str:
        """The arguments as JSON text; empty when none came."""
        value = self._raw if self._root is None else _plain(self._root, 0)
        if value is None or isinstance(value, str):
            return value or ""
        try:
            return json.dumps(value).decode()
        except RecursionError:
            self.problem = "the provider sent arguments that are nested too deeply"
            return ""

    def _set(self, path: list[_Key], update: dict[str, Any]) -> None:
        if self._root is None:
            self._root = {}
        node = self._root
        for key, following in pairwise(path):
            node = _child(node, key, _Array if isinstance(following, int) else dict)
        key = path[-1]
        text = update.get("stringValue")
        if isinstance(text, str):
            known = node.get(key)
            if not isinstance(known, _Text) or not known.going_on:
                known = node[key] = _Text()
            known.append(text)
            known.going_on = update.get("willContinue") is True
        elif "numberValue" in update or "boolValue" in update or "nullValue" in update:
            node[key] = _scalar(update.get("numberValue", update.get("boolValue")))


def _child(node: dict[_Key, Any], key: _Key, kind: type[dict[_Key, Any]]) -> dict[_Key, Any]:
    """The object or array at a key; it is made, or replaces something else, where need be."""
    child: Any = node.get(key)
    if child.__class__ is not kind:
        child = _Array(enumerate(child)) if kind is _Array and isinstance(child, list) else kind()
        node[key] = child
    found: dict[_Key, Any] = child
    return found


def _path(path: Any) -> list[_Key] | None:
    """The keys of a path; None when it is none, or does not name a place inside an object."""
    if not isinstance(path, str) or path[:1] != "$":
        return None
    keys: list[_Key] = []
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None or len(keys) == _MAX_DEPTH:
            return None
        name, index, single, double = step.groups()
        quoted = single if single is not None else double
        if index is not None:
            keys.append(int(index))
        else:
            keys.append(name if quoted is None else _ESCAPED.sub(r"\1", quoted))
        position = step.end()
    return keys if keys and isinstance(keys[0], str) else None


def _scalar(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (int, float)) else None


def _plain(value: Any, depth: int) -> Any:
    """A value without the classes of this module, which stand no deeper than a path can reach."""
    if isinstance(value, _Text):
        return "".join(value)
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, _Array):
        return [_plain(value[index], depth + 1) for index in sorted(value)]
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    return value
