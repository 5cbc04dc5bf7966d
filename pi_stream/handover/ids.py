"""Ids of tool calls: what each protocol takes, and new ids where one cannot be sent.

An id names a call and its result to a provider, which may refuse ids that another one made: too long, or with characters
it does not know.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from string import ascii_lowercase, digits
from typing import Any
from urllib.parse import urlsplit

from attrs import Attribute, evolve, field, frozen

from pi_stream.exceptions import ConfigError
from pi_stream.models import Model

__all__ = ["ID_RULES", "IdRule", "id_rule", "unique_ids"]

_WORD = "A-Za-z0-9_-"
# No bar, which joins the two ids of Responses, no control characters, and nothing that cannot be encoded.
_ANY = r"^|\x00-\x1f\x7f-\x9f\ud800-\udfff"
_ITEM = re.compile(rf"[{_WORD}]{{1,64}}")

_MARK = 8  # characters of a hash
# Most characters of a new id: all protocols but Mistral's take as many, so an id is rarely changed twice.
_NEW_LENGTH = 40


def _alphabet(characters: str) -> str:
    """The lower case letters and digits that a rule takes."""
    return "".join(re.findall(f"[{characters}]", ascii_lowercase + digits))


def _characters(instance: Any, attribute: Attribute[str], value: Any) -> None:
    try:
        usable = len(_alphabet(value)) >= 10
    except re.error:
        usable = False
    if not usable:
        raise ConfigError(
            f"IdRule.characters must be the inside of a character class that allows ten lower case letters and digits "
            f"or more, not {value!r}"
        )


def _length(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and (type(value) is not int or value < _MARK):
        raise ConfigError(f"IdRule.{attribute.name} must be a whole number, {_MARK} or above, not {value!r}")


@frozen(kw_only=True)
class IdRule:
    """What ids of tool calls a protocol takes.

    Attributes:
        characters: Those it takes, as the inside of a regular expression's character class.
        longest: Most characters; None for any number.
        exact: Whether every id has as many.
        joined: Whether an id may be two, ``call|item``, of which the first names the call (Responses).
    """

    characters: str = field(default=_WORD, validator=_characters)
    longest: int | None = field(default=64, validator=_length)
    exact: bool = False
    joined: bool = False

    def __attrs_post_init__(self) -> None:
        if self.exact and self.longest is None:
            raise ConfigError("IdRule.exact needs a length in IdRule.longest")

    def allows(self, id: str) -> bool:
        """Whether an id can be sent as it is."""
        call, bar, item = id.partition("|") if self.joined else (id, "", "")
        if bar and not _ITEM.fullmatch(item):
            return False
        if self.longest is not None and not (self.longest if self.exact else 1) <= len(call) <= self.longest:
            return False
        return re.fullmatch(f"[{self.characters}]+", call) is not None

    def name(self, id: str) -> str:
        """The part of an id that must not be that of another call."""
        return id.partition("|")[0] if self.joined else id

    def cleaned(self, id: str) -> str:
        """The id without what cannot be sent: other characters become ``_``, or go where that is none either."""
        return re.sub(f"(?![{self.characters}])(?s:.)", self.separator, self.name(id))

    @property
    def separator(self) -> str:
        """What stands between words of an id."""
        return "_" if re.fullmatch(f"[{self.characters}]", "_") else ""


_WORDS = IdRule()
_ANYTHING = IdRule(characters=_ANY, longest=None)
_RESPONSES = IdRule(joined=True)

ID_RULES: dict[str, IdRule] = {
    # 64 word characters: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html
    "bedrock-converse-stream": _WORDS,
    # Anthropic: "String should match pattern '^[a-zA-Z0-9_-]+$'"
    "anthropic-messages": _WORDS,
    "bedrock-invoke": _WORDS,
    "google-generative-ai": _WORDS,
    "google-vertex": _WORDS,
    # Mistral: "Tool call id must be a-z, A-Z, 0-9, with a length of 9"
    "mistral-conversations": IdRule(characters="A-Za-z0-9", longest=9, exact=True),
    "openai-responses": _RESPONSES,
    "azure-openai-responses": _RESPONSES,
    # Servers of Chat Completions take what they made, such as ``functions.add:0``; OpenAI itself see below.
    "openai-completions": _ANYTHING,
    "azure-openai-completions": _ANYTHING,
    "cohere-chat": _ANYTHING,
    "ollama": _ANYTHING,
}
"""The rule of each protocol. One that is not here gets the strictest that suits all but Mistral: 64 word characters."""

_OPENAI_LONGEST = 40  # "string too long. Expected a string with maximum length 40"
_OPENAI_HOSTS = (".openai.com", ".openai.azure.com", ".azure-api.net", ".services.ai.azure.com")


def id_rule(model: Model) -> IdRule:
    """The rule for the ids that are sent to a model: that of its protocol, and of its host where that is stricter."""
    rule = ID_RULES.get(model.api, _WORDS)
    if rule is _ANYTHING and _is_openai(model):
        return evolve(rule, longest=_OPENAI_LONGEST)
    return rule


def _is_openai(model: Model) -> bool:
    """Whether OpenAI or Azure answers Chat Completions; the model's compat flag ``short_tool_call_ids`` decides first."""
    flags = {name.replace("_", "").lower(): flag for name, flag in (model.compat or {}).items()}
    if "shorttoolcallids" in flags:
        return bool(flags["shorttoolcallids"])
    if model.api in ("cohere-chat", "ollama"):
        return False
    try:
        host = urlsplit(model.base_url).hostname
    except ValueError:
        host = None
    if host:
        return f".{host}".endswith(_OPENAI_HOSTS)
    return model.provider in ("openai", "azure")


def unique_ids(ids: Sequence[str], rule: IdRule) -> list[str]:
    """An id for each call of a transcript: its own where that can be sent and no call before has it, else a new one.

    A new id reads like the old one as far as that goes. Where that would meet another id, cuts something off, or is the
    second of its kind, it ends with a hash of the old one: different calls stay different, and every request of a
    conversation finds the same new ids.

    Args:
        ids: Those of all calls, in order.
        rule: What ids can be sent.

    Returns:
        As many, all of them different.
    """
    made: dict[int, str] = {}
    taken: set[str] = set()
    for place, id in enumerate(ids):
        if rule.allows(id) and rule.name(id) not in taken:
            made[place] = id
            taken.add(rule.name(id))
    for place, id in enumerate(ids):
        if place not in made:
            made[place] = _new_id(id, rule, taken)
            taken.add(made[place])
    return [made[place] for place in range(len(ids))]


def _new_id(old: str, rule: IdRule, taken: set[str]) -> str:
    plain = rule.cleaned(old)
    if len(plain) <= _NEW_LENGTH and rule.allows(plain) and plain not in taken:
        return plain
    attempt = 0
    while (new := _marked(old, f"{attempt}:{old}", rule)) in taken:
        attempt += 1
    return new


def _marked(old: str, seed: str, rule: IdRule) -> str:
    """The beginning of an id, and a hash."""
    room = min(rule.longest or _NEW_LENGTH, _NEW_LENGTH)
    if rule.exact or room < 2 * _MARK:
        return _hash(seed, room, rule)
    head = rule.cleaned(old.partition("|")[0])[: room - _MARK - 1].rstrip("_") or "call"
    return f"{head}{rule.separator}{_hash(seed, _MARK, rule)}"


def _hash(seed: str, length: int, rule: IdRule) -> str:
    """Letters and digits that stand for a text, the same each time."""
    number = int.from_bytes(
        hashlib.blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=64).digest(), "big"
    )
    letters = _alphabet(rule.characters)
    made = ""
    for _ in range(length):
        number, digit = divmod(number, len(letters))
        made += letters[digit]
    return made
