r"""Tool-call arguments while they stream, and the one strict parse at their end.

Models send the arguments of a tool call as JSON text in pieces of a few characters. :class:`PartialJson`
shows the object as far as it can be known, :func:`parse_arguments` says what it finally is.

=========================================  ====================================================
text so far                                shown
=========================================  ====================================================
``{"a``, ``{"a":``                         ``{}``: a member appears when its value starts
``{"a":"``, ``{"a":[1,{"b":"c``            ``""``, ``[1, {"b": "c"}]``: what is open shows too
``{"a":t``, ``{"a":nul``                   ``True``, ``None``: each start of a literal is unique
``{"a":12``, ``{"a":1e``, ``{"a":1.``      ``12``, ``1``, ``1``: the number of its digits so far
``{"a":-``                                 nothing until there is more
an open number of over 64 characters       nothing until it ends
``{"a":"x\``, ``{"a":"x\u00``              ``"x"``: an unfinished escape is held back
``{"a":"x\ud83d``                          ``"x"``: so is half a pair, until it is settled
a raw newline or ``\d`` in a string        kept as they are, as the final parse keeps them
a missing comma or colon                   tolerated
a closing bracket of the wrong kind        closes the innermost container
``NaN``, ``tru,``, ``01,``, other words    dropped, together with the key before them
prose or a code fence before the object    skipped
a root that is no object                   ``{}``
text after the object                      ignored
=========================================  ====================================================

Two invariants hold for every text. What is shown depends on the text alone, never on how it was cut or when
it was looked at. And where :func:`parse_arguments` finds an object, the preview of the whole text equals it;
where it reports an error, the preview may show members that the final ``{}`` does not have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder
from typing import Any, NoReturn

__all__ = ["PartialJson", "parse_arguments"]

# An open number longer than this is hidden: reading it anew at each access would not be linear.
_LONGEST_OPEN_NUMBER = 64

# Colons are noise: they say nothing that the order of the tokens does not say.
_NOISE = re.compile(r"[ \t\r\n:]*+")
_PROSE = re.compile(r"[^{\[]*+")
_WORD = re.compile(r'[^ \t\r\n,:\[\]{}"]*+')
# What can be told of the next token at once: a string without escapes, a number or literal that ends before
# the text does, a bracket, a comma, an opening quote.
_TOKEN = re.compile(r"""[ \t\r\n:]*+(?:"([^"\\]*+)"|([^ \t\r\n,:\[\]{}"]++)(?!\Z)|([,\[\]{}"]))""")
# The rest of a string, up to its quote or to an escape that later text could still complete: a cut one, or
# the first half of a surrogate pair whose second half may be on its way.
_STRING_REST = re.compile(
    r"""(?: [^"\\]++
          | \\ [^u]
          | \\ u (?! (?: [0-9a-fA-F]{0,3}
                       | [dD][89abAB][0-9a-fA-F]{2} (?: \\ (?: u [0-9a-fA-F]{0,3} )? )? ) \Z )
        )*+""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_OPEN_FRACTION_OR_EXPONENT = re.compile(r"(?:\.|[eE][+-]?)\Z")
_KINDS: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
_LITERALS = (("true", True), ("false", False), ("null", None))

# Stands for "no value": a singleton that no JSON text can give.
_NOTHING: Any = ...


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    r"""Parse the finished argument text of a tool call.

    One strict parse with two repairs of what models get wrong inside strings: raw control characters are
    taken as they stand, and a backslash that starts no valid escape (``C:\users``, ``\d``) stands for itself.
    Nothing else is repaired: no trailing commas, missing brackets or code fences. Of equal keys the last
    wins; integers are exact; ``NaN``, ``Infinity`` and numbers too large for a float are errors, because no
    JSON could be written from them.

    Args:
        text: All pieces of the arguments, joined.

    Returns:
        The arguments and None; for blank text they are ``{}``. Where the text is not a JSON object, nests too
        deeply or has an integer with more digits than Python reads (4300): ``{}`` and an error, which is the
        parser's message, a blank line and the text.
    """
    if not text or text.isspace():
        return {}, None
    try:
        value = _decode_repaired(text)
    except RecursionError:
        error = "The arguments are nested too deeply"
    except ValueError as exc:
        error = str(exc)
    else:
        if isinstance(value, dict):
            return value, None
        error = f"The arguments must be a JSON object, not {_KINDS.get(type(value), 'a number')}"
    return {}, f"{error}\n\n{text}"


class PartialJson:
    """An incremental, tolerant parser of an argument object that arrives in pieces.

    The module docstring has the rules. :meth:`append` only stores; the text is parsed when :attr:`value` is
    read, each character once, so any mix of the two costs time linear in the text. No text makes it raise,
    and nesting is bounded by memory only: code that walks the value by recursion has its own limit.
    """

    __slots__ = (
        "_container",
        "_displaced",
        "_held",
        "_key",
        "_outer",
        "_pieces",
        "_shown",
        "_state",
        "_unread",
        "_value",
        "_word",
        "_word_size",
    )

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._unread: list[str] = []
        self._held = ""  # an unfinished escape at the end of what was read
        self._state: Callable[[PartialJson, str, int], int] = PartialJson._before_root
        self._value: dict[str, Any] = {}
        self._container: Any = self._value  # the innermost open one
        self._outer: list[Any] = []  # and those around it
        # Where the next value goes: a key in an object (None: a key must come first), -1 in a list.
        self._key: Any = None
        self._word: list[str] = []  # pieces of an open key, number or literal
        self._word_size = 0
        self._shown = False  # is an open number or literal in the container?
        self._displaced: Any = _NOTHING  # the value it took the place of

    def append(self, text: str) -> None:
        """Take the next piece of the text, of any length, without looking at it."""
        if text:
            self._pieces.append(text)
            self._unread.append(text)

    @property
    def text(self) -> str:
        """All the text so far."""
        pieces = self._pieces
        if len(pieces) > 1:
            self._pieces = pieces = ["".join(pieces)]
        return pieces[0] if pieces else ""

    @property
    def value(self) -> dict[str, Any]:
        """The arguments as far as the text so far tells them.

        This is the live object: later accesses update it, and the lists and objects inside, in place. Copy it
        to keep it, and never change it. A long string in it grows in place only while nobody else holds on to
        it; keeping a reference across accesses costs a copy of that string at the next one.
        """
        if self._unread:
            text = self._held + "".join(self._unread)
            self._held = ""
            self._unread.clear()
            at, end = 0, len(text)
            while at < end:
                at = self._state(self, text, at)
        return self._value

    # The states. Each reads `text` from `at` on and returns how far it came: to the end of the text, or to
    # where the next state, which it has set, goes on.

    def _before_root(self, text: str, at: int) -> int:
        at = _skip(_NOISE, text, at)
        if at < len(text):
            self._state = PartialJson._after_root if text[at] in '"0123456789' else PartialJson._in_prose
        return at

    def _in_prose(self, text: str, at: int) -> int:
        at = _skip(_PROSE, text, at)
        if at < len(text):
            self._state = PartialJson._between if text[at] == "{" else PartialJson._after_root
            at += 1
        return at

    def _after_root(self, text: str, at: int) -> int:
        return len(text)

    def _between(self, text: str, at: int) -> int:
        """Between two tokens of an open container. Tokens that are whole in the text are read here."""
        while token := _TOKEN.match(text, at):
            at = token.end()
            string, word, bracket = token.groups()
            if string is not None:
                if self._key is None:
                    self._key = string
                else:
                    self._put(string)
            elif word is not None:
                self._put(_word_value(word))
            elif bracket == ",":
                self._value_done()
            elif bracket == "{":
                self._open_container({}, None)
            elif bracket == "[":
                self._open_container([], -1)
            elif bracket == '"':
                self._open_string()
                return at
            else:
                self._close_container()
                if self._state is not PartialJson._between:
                    return at
        at = _skip(_NOISE, text, at)
        if at < len(text):
            self._state = PartialJson._in_word
        return at

    def _in_string(self, text: str, at: int) -> int:
        stop = _skip(_STRING_REST, text, at)
        piece = _unescape(text[at:stop])
        key = self._key
        if key is None:
            self._word.append(piece)
        elif piece:
            # CPython appends to a string in place, not copying it, if one local variable is all that
            # holds it.
            container = self._container
            string = container[key]
            container[key] = None
            string += piece
            container[key] = string
        if stop == len(text):
            return stop
        if text[stop] == "\\":
            self._held = text[stop:]
            return len(text)
        if key is None:
            self._key = "".join(self._word)
            self._word.clear()
        else:
            self._value_done()
        self._state = PartialJson._between
        return stop + 1

    def _in_word(self, text: str, at: int) -> int:
        """In a number or a literal, or something that is neither."""
        self._take_back()
        stop = _skip(_WORD, text, at)
        self._word.append(text[at:stop])
        self._word_size += stop - at
        if stop < len(text):
            self._put(_word_value("".join(self._word)))
            self._word.clear()
            self._word_size = 0
            self._state = PartialJson._between
        elif self._word_size <= _LONGEST_OPEN_NUMBER:
            self._show(_open_word_value("".join(self._word)))
        return stop

    # What the states do to the value.

    def _put(self, value: Any) -> None:
        """Store a finished value, unless there is nothing to store or no key to store it under."""
        key = self._key
        if key == -1:
            if value is not _NOTHING:
                self._container.append(value)
        elif key is not None:
            if value is not _NOTHING:
                self._container[key] = value
            self._key = None

    def _value_done(self) -> None:
        if self._key != -1:
            self._key = None

    def _open_string(self) -> None:
        if self._key == -1:
            self._container.append("")
        elif self._key is not None:
            self._container[self._key] = ""
        self._state = PartialJson._in_string

    def _open_container(self, container: Any, key: Any) -> None:
        self._put(container)
        self._outer.append(self._container)
        self._container = container
        self._key = key

    def _close_container(self) -> None:
        if self._outer:
            self._container = self._outer.pop()
            self._key = -1 if type(self._container) is list else None
        else:
            self._state = PartialJson._after_root

    def _show(self, value: Any) -> None:
        """Show what an open number or literal means so far, in a way that can be taken back."""
        key = self._key
        if value is _NOTHING or key is None:
            return
        self._shown = True
        if key == -1:
            self._container.append(value)
        else:
            self._displaced = self._container.get(key, _NOTHING)
            self._container[key] = value

    def _take_back(self) -> None:
        if not self._shown:
            return
        self._shown = False
        if self._displaced is _NOTHING:
            self._container.pop(self._key)
        else:
            self._container[self._key] = self._displaced
            self._displaced = _NOTHING


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where a run of `pattern` that starts at `at` ends."""
    match = pattern.match(text, at)
    return match.end() if match else at


def _word_value(word: str) -> Any:
    """The value of a finished number or literal, `_NOTHING` if it is neither."""
    try:
        value, end = _DECODER.raw_decode(word)
    except ValueError:
        return _NOTHING
    return value if end == len(word) else _NOTHING


def _open_word_value(word: str) -> Any:
    """The value of a number or literal of which more may come, `_NOTHING` if there is none to show yet."""
    for literal, value in _LITERALS:
        if literal.startswith(word):
            return value
    return _word_value(_OPEN_FRACTION_OR_EXPONENT.sub("", word))


def _unescape(piece: str) -> str:
    """Replace the escapes in a piece of a string that ends with a whole character."""
    if "\\" not in piece:
        return piece
    quoted = f'"{piece}"'
    string: str
    try:
        string, _ = _DECODER.raw_decode(quoted)
    except JSONDecodeError:
        string, _ = _DECODER.raw_decode(_double_stray(quoted))
    return string


def _double_stray(text: str) -> str:
    """Double the backslashes that start no valid escape."""
    return _ESCAPE.sub(lambda match: "\\\\" if match[0] == "\\" else match[0], text)


def _decode_repaired(text: str) -> Any:
    """Decode a JSON text, if need be with the backslashes doubled that start no valid escape.

    Raises:
        ValueError: It is not JSON. Positions in the message are those of `text`.
        RecursionError: It is nested too deeply for the decoder.
    """
    try:
        return _DECODER.decode(text)
    except JSONDecodeError:
        stray = [match.start() for match in _ESCAPE.finditer(text) if match[0] == "\\"]
        if not stray:
            raise
    try:
        return _DECODER.decode(_double_stray(text))
    except JSONDecodeError as exc:
        added = sum(start + already < exc.pos for already, start in enumerate(stray))
        raise JSONDecodeError(exc.msg, text, exc.pos - added) from None


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits:.40} is out of range for a number")
    return number


# Not strict means that control characters may stand raw in strings, nothing more.
_DECODER = JSONDecoder(strict=False, parse_float=_finite, parse_constant=_reject_constant)
