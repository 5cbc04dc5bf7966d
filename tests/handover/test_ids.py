"""Ids of tool calls: legal, different, readable, and the same in every request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.exceptions import ConfigError
from pi_stream.handover import ID_RULES, IdRule, id_rule, unique_ids
from pi_stream.models import Model

WORDS = IdRule()
CHAT = ID_RULES["openai-completions"]
MISTRAL = ID_RULES["mistral-conversations"]
RESPONSES = ID_RULES["openai-responses"]
OPENAI = id_rule(Model(id="m", provider="openai", api="openai-completions"))

ODD_IDS = st.sampled_from(
    ["", "|", "a|b", "a|c", "a", "call:1", "call;1", "call_1", "é", "\ud800", "x" * 70, "x" * 71]
)
IDS = st.lists(
    ODD_IDS | st.text(max_size=12) | st.text("abc|_:", max_size=4) | st.text("ab1", min_size=9, max_size=9)
)
RULES = st.sampled_from([WORDS, CHAT, OPENAI, MISTRAL, RESPONSES, IdRule(characters="a-z", longest=8)])


@given(IDS, RULES)
def test_new_ids_are_legal_and_all_different(ids: list[str], rule: IdRule) -> None:
    """Whatever the old ids are; for Responses the part before the bar alone must be different."""
    made = unique_ids(ids, rule)
    assert len(made) == len(ids)
    assert all(map(rule.allows, made))
    assert len({rule.name(id) for id in made}) == len(made)


@given(IDS, RULES)
def test_legal_ids_stay_and_naming_twice_changes_nothing(ids: list[str], rule: IdRule) -> None:
    """Only what must be changed is changed."""
    made = unique_ids(ids, rule)
    for place, id in enumerate(ids):
        if rule.allows(id) and rule.name(id) not in map(rule.name, filter(rule.allows, ids[:place])):
            assert made[place] == id
    assert unique_ids(made, rule) == made


@given(IDS, RULES, st.data())
def test_a_longer_conversation_finds_the_same_ids(ids: list[str], rule: IdRule, data: st.DataObject) -> None:
    """What was sent once is sent so again, as long as no later call brings that very id: prompt caches stay valid."""
    made = unique_ids(ids, rule)
    more = data.draw(st.lists(ODD_IDS, max_size=3))
    if not {rule.name(id) for id in more if rule.allows(id)} & {rule.name(id) for id in made}:
        assert unique_ids([*ids, *more], rule)[: len(made)] == made


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        (WORDS, "call:bad id!", "call_bad_id_"),
        (WORDS, "call_1|fc_1", "call_1_fc_1"),
        (WORDS, "x" * 64, "x" * 64),
        (CHAT, "functions.add:0", "functions.add:0"),
        (CHAT, "x" * 500, "x" * 500),
        (CHAT, "call_1|fc_1", "call_1_fc_1"),
        (CHAT, "a\nb", "a_b"),
        (RESPONSES, "call_1|fc_1", "call_1|fc_1"),
        (RESPONSES, "call_1|fc+/=", "call_1"),
        (RESPONSES, "toolu_1", "toolu_1"),
        (MISTRAL, "abcdefgh9", "abcdefgh9"),
        (MISTRAL, "abc-def-gh9", "abcdefgh9"),
    ],
)
def test_new_ids_read_like_the_old_ones(rule: IdRule, old: str, new: str) -> None:
    """Other characters become ``_`` or go; Responses keeps the id of the call."""
    assert unique_ids([old], rule) == [new]


def test_what_is_cut_or_meets_another_id_ends_with_a_hash() -> None:
    """Two long ids with the same beginning stay two; the hash is of the whole id."""
    long = "call_" + "x" * 60
    first, second, plain, clash = unique_ids([long + "a", long + "b", "a_b", "a:b"], WORDS)
    assert first != second and {len(first), len(second)} == {40}
    assert first[:31] == second[:31] == long[:31]
    assert plain == "a_b" and clash.startswith("a_b_")
    assert unique_ids([long + "b"], WORDS) == [second]


def test_a_second_call_with_an_id_gets_another_one() -> None:
    """Servers that count from 0 in every answer use the same ids again and again."""
    first, second, third = unique_ids(["call_0", "call_0", "call_0"], CHAT)
    assert first == "call_0" and len({first, second, third}) == 3


@pytest.mark.parametrize(
    ("fields", "longest"),
    [
        ({"provider": "openai"}, 40),
        ({"provider": "mine", "base_url": "https://api.openai.com/v1"}, 40),
        ({"provider": "azure", "api": "azure-openai-completions"}, 40),
        ({"provider": "x", "base_url": "https://me.openai.azure.com/openai/v1"}, 40),
        ({"provider": "openai", "base_url": "http://localhost:8080/v1"}, None),
        ({"provider": "openai", "base_url": "http://[broken"}, 40),
        ({"provider": "deepseek"}, None),
        ({"provider": "deepseek", "compat": {"shortToolCallIds": True}}, 40),
        ({"provider": "openai", "compat": {"short_tool_call_ids": False}}, None),
        ({"provider": "openai", "api": "ollama"}, None),
        ({"provider": "x", "api": "unheard-of"}, 64),
    ],
)
def test_the_host_decides_how_long_ids_of_chat_completions_are(
    fields: dict[str, Any], longest: int | None
) -> None:
    """OpenAI takes 40 characters; servers that only speak its protocol take what they make."""
    assert id_rule(Model(id="m", **{"api": "openai-completions", **fields})).longest == longest


@pytest.mark.parametrize(
    "fields",
    [
        {"characters": "z-a"},
        {"characters": "A-Z"},
        {"characters": "]"},
        {"longest": 7},
        {"longest": True},
        {"longest": None, "exact": True},
    ],
)
def test_a_rule_that_leaves_no_room_for_a_hash_is_refused(fields: dict[str, Any]) -> None:
    """It could not keep ids different."""
    with pytest.raises(ConfigError, match="IdRule"):
        IdRule(**fields)
