"""Whatever comes, an answer ends in exactly one terminal event and keeps the guarantees."""

from __future__ import annotations

import json
from typing import Any

from answer_checks import anything
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import decode
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.ollama import api
from pi_stream.models import Model
from pi_stream.testing import check_events

_NAMES = """model created_at message role content thinking tool_calls id function name arguments index images done
done_reason stop length error prompt_eval_count eval_count"""
NAMES = _NAMES.split()
json_values = anything(NAMES)
messages = st.dictionaries(
    st.sampled_from(["content", "thinking", "tool_calls", "images", "role"]), json_values
)
calls = st.builds(lambda call: {"message": {"tool_calls": [call]}, "done": False}, json_values)
lines = st.one_of(
    st.builds(
        lambda message, rest: {**rest, "message": message},
        messages,
        st.dictionaries(st.sampled_from(NAMES), json_values),
    ),
    calls,
    json_values,
)


@given(st.lists(lines, max_size=12), st.integers(1, 200))
def test_hostile_lines(chunks: list[Any], cut: int) -> None:
    body = b"".join(json.dumps(chunk).encode() + b"\n" for chunk in chunks)
    made = decode(body, api="ollama")
    check_events(made)
    assert decode(body, api="ollama", cut=cut) == made


@given(st.lists(lines, max_size=12), lines)
def test_the_translator_raises_nothing(chunks: list[Any], answer: Any) -> None:
    """The pipeline would catch it; the translator does not lean on that."""
    translator = api.translator(TranslatorSetup(model=Model(id="m")))
    out: list[Any] = []
    translator.translate(chunks, out)
    translator.whole(answer, out)
    translator.sentinel(out)
    translator.finish(out)


@given(st.binary(max_size=200), st.integers(1, 9))
def test_arbitrary_bytes(body: bytes, cut: int) -> None:
    made = decode(body, api="ollama")
    check_events(made)
    assert decode(body, api="ollama", cut=cut) == made
