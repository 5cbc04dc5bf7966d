"""Whatever comes, an answer ends in exactly one terminal event and keeps the guarantees."""

from __future__ import annotations

import json
from typing import Any

from answer_checks import anything
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import decode
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.cohere import api
from pi_stream.models import Model
from pi_stream.testing import check_events

_NAMES = """type event_type index delta message content text thinking tool_plan tool_calls id function name arguments
citations finish_reason usage error error_type tokens billed_units input_tokens cached_tokens response meta parameters
message-start content-start content-delta content-end tool-plan-delta tool-call-start tool-call-delta tool-call-end
citation-start message-end stream-start stream-end text-generation tool-calls-generation COMPLETE TOOL_CALL ERROR
MAX_TOKENS"""
NAMES = _NAMES.split()
json_values = anything(NAMES)
kinds = st.sampled_from([name for name in NAMES if "-" in name])
messages = st.dictionaries(st.sampled_from(["content", "tool_plan", "tool_calls", "citations"]), json_values)
events = st.one_of(
    st.builds(
        lambda kind, index, message: {"type": kind, "index": index, "delta": {"message": message}},
        kinds,
        st.one_of(st.integers(0, 2), json_values),
        messages,
    ),
    st.builds(
        lambda kind, rest: {**rest, "event_type": kind},
        kinds,
        st.dictionaries(st.sampled_from(NAMES), json_values),
    ),
    st.builds(lambda delta: {"type": "message-end", "delta": delta}, json_values),
    json_values,
)


@given(st.lists(events, max_size=12), st.integers(1, 200), st.sampled_from([b"data: %b\n\n", b"%b\n"]))
def test_hostile_events(chunks: list[Any], cut: int, frame: bytes) -> None:
    body = b"".join(frame % json.dumps(chunk).encode() for chunk in chunks)
    made = decode(body, api="cohere-chat")
    check_events(made)
    assert decode(body, api="cohere-chat", cut=cut) == made


@given(st.lists(events, max_size=12), events)
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
    made = decode(body, api="cohere-chat")
    check_events(made)
    assert decode(body, api="cohere-chat", cut=cut) == made
