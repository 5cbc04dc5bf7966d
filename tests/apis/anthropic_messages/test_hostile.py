"""Whatever comes, an answer ends in exactly one terminal event and keeps the guarantees."""

from __future__ import annotations

import json
from typing import Any

from anthropic_bodies import STOP, begin, end, over, piece, start
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import decode
from pi_stream.apis.anthropic_messages import api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.models import Model
from pi_stream.testing import check_events

indexes = st.one_of(st.integers(0, 2), st.none(), st.just(True), st.just("0"), st.just([0]))
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False), st.text(max_size=3)
)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner)),
    max_leaves=4,
)
names = st.sampled_from(
    [
        "text",
        "thinking",
        "signature",
        "partial_json",
        "citation",
        "citations",
        "input",
        "id",
        "name",
        "type",
        "data",
        "content",
        "index",
        "delta",
    ]
)
objects = st.dictionaries(names, anything, max_size=4)
events = st.one_of(
    st.builds(
        begin,
        indexes,
        st.sampled_from(["text", "thinking", "tool_use", "redacted_thinking", "server_tool_use", "fallback"]),
    ),
    st.builds(
        begin,
        indexes,
        st.sampled_from(["text", "thinking"]),
        text=anything,
        thinking=anything,
        signature=anything,
    ),
    st.builds(
        begin, indexes, st.just("tool_use"), id=anything, name=anything, input=anything, caller=anything
    ),
    st.builds(piece, indexes, text=st.sampled_from(["", "a"])),
    st.builds(piece, indexes, thinking=st.sampled_from(["", "a"])),
    st.builds(piece, indexes, signature=st.sampled_from(["", "S"])),
    st.builds(piece, indexes, partial_json=st.sampled_from(["", "{", "}", '{"a":1}'])),
    st.builds(piece, indexes, citation=anything),
    st.builds(over, indexes),
    st.builds(start, usage=anything, id=anything, model=anything),
    st.builds(
        end,
        st.sampled_from([None, "end_turn", "tool_use", "refusal", "odd"]),
        usage=objects,
        stop_details=anything,
    ),
    st.just(STOP),
    st.builds(lambda fields: {"type": "error", **fields}, objects),
    st.builds(
        lambda kind, fields: {**fields, "type": kind},
        st.sampled_from(["content_block_delta", "message_delta", "message"]),
        objects,
    ),
    anything,
)


@given(st.lists(events, max_size=12), st.integers(1, 200))
def test_hostile_events(chunks: list[Any], cut: int) -> None:
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    made = decode(body, api="anthropic-messages")
    check_events(made)
    assert decode(body, api="anthropic-messages", cut=cut) == made


@given(st.lists(events, max_size=12))
def test_the_translator_raises_nothing(chunks: list[Any]) -> None:
    """The pipeline would catch it; the translator does not lean on that."""
    translator = api.translator(TranslatorSetup(model=Model(id="m")))
    out: list[Any] = []
    translator.translate(chunks, out)
    translator.finish(out)


@given(objects, st.lists(objects, max_size=3))
def test_hostile_whole_answers(fields: dict[str, Any], content: list[Any]) -> None:
    check_events(decode(json.dumps({**fields, "content": content}).encode(), api="anthropic-messages"))


@given(st.binary(max_size=200), st.integers(1, 9))
def test_arbitrary_bytes(body: bytes, cut: int) -> None:
    made = decode(body, api="anthropic-messages")
    check_events(made)
    assert decode(body, api="anthropic-messages", cut=cut) == made
