"""Whatever comes, an answer ends in exactly one terminal event and keeps the guarantees."""

from __future__ import annotations

import json
from typing import Any

from answer_checks import anything
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import decode
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.mistral import api
from pi_stream.models import Model
from pi_stream.testing import check_events

_NAMES = """id model choices index delta message finish_reason content type text thinking signature reference tool_calls
function name arguments null usage prompt_tokens prompt_tokens_details prompt_token_details cached_tokens
num_cached_tokens completion_tokens_details reasoning_tokens error object stop length tool_calls"""
NAMES = _NAMES.split()
json_values = anything(NAMES)
parts = st.one_of(
    st.builds(
        lambda inner, rest: {**rest, "type": "thinking", "thinking": inner},
        json_values,
        st.dictionaries(st.sampled_from(NAMES), json_values),
    ),
    json_values,
)
chunks = st.one_of(
    st.builds(
        lambda content, calls, finish: {
            "choices": [{"delta": {"content": content, "tool_calls": calls}, "finish_reason": finish}]
        },
        st.one_of(st.lists(parts, max_size=3), json_values),
        json_values,
        st.sampled_from([None, "stop", "tool_calls", "length", "odd"]),
    ),
    st.builds(lambda usage: {"choices": [], "usage": usage}, json_values),
    json_values,
)


@given(st.lists(chunks, max_size=10), st.integers(1, 200), st.booleans())
def test_hostile_chunks(given_chunks: list[Any], cut: int, done: bool) -> None:
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in given_chunks)
    body += b"data: [DONE]\n\n" if done else b""
    made = decode(body, api="mistral-conversations")
    check_events(made)
    assert decode(body, api="mistral-conversations", cut=cut) == made


@given(st.lists(chunks, max_size=10), chunks)
def test_the_translator_raises_nothing(given_chunks: list[Any], answer: Any) -> None:
    """The pipeline would catch it; the translator does not lean on that."""
    translator = api.translator(TranslatorSetup(model=Model(id="m")))
    out: list[Any] = []
    translator.translate(given_chunks, out)
    translator.whole(answer, out)
    translator.sentinel(out)
    translator.finish(out)


@given(st.binary(max_size=200), st.integers(1, 9))
def test_arbitrary_bytes(body: bytes, cut: int) -> None:
    made = decode(body, api="mistral-conversations")
    check_events(made)
    assert decode(body, api="mistral-conversations", cut=cut) == made
