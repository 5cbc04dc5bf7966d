"""Tool call ids on their way to a provider: legal, short, different from each other, and always the same."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pi_stream.apis._ids import legal_ids
from pi_stream.messages import AssistantMessage, Message, ToolCall, ToolResultMessage


def transcript(*ids: str) -> list[Message]:
    return [AssistantMessage([ToolCall(id, "f") for id in ids])]


def test_legal_ids_stay() -> None:
    assert legal_ids(transcript("call_1", "toolu-ABC")) == {}


def test_other_characters_become_underscores() -> None:
    assert legal_ids(transcript("call:1 x")) == {"call:1 x": "call_1_x"}


def test_an_id_that_would_meet_another_gets_a_mark() -> None:
    ids = legal_ids(transcript("a|b", "a_b", "a:b"))
    assert "a_b" not in ids.values()
    assert len(set(ids.values())) == 2


def test_a_long_id_is_cut_and_marked() -> None:
    ids = legal_ids(transcript("x" * 70, "x" * 71))
    assert len(set(ids.values())) == 2
    assert all(len(new) == 64 and new.startswith("xxx") for new in ids.values())


def test_results_without_a_call_have_ids_too() -> None:
    assert legal_ids([ToolResultMessage("a.b", "f")]) == {"a.b": "a_b"}


@given(st.lists(st.text(max_size=80), max_size=6), st.lists(st.text(max_size=5), max_size=3))
def test_every_transcript(ids: list[str], more: list[str]) -> None:
    renamed = legal_ids(transcript(*ids))
    sent = {id: renamed.get(id, id) for id in ids}
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", id) for id in sent.values())
    assert len(set(sent.values())) == len(sent)
    assert legal_ids(transcript(*ids)) == renamed
    taken = set(renamed.values())
    if taken.isdisjoint(more):
        longer = legal_ids(transcript(*ids, *more))
        assert {id: longer.get(id) for id in renamed} == renamed, "a longer transcript changes no id"
