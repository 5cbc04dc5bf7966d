"""Whatever a server of Gemini sends: nothing is raised, and the stream ends in exactly one terminal event."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pi_stream import decode
from pi_stream.apis.base import TranslatorSetup
from pi_stream.apis.google.response import GeminiTranslator
from pi_stream.models import Model
from pi_stream.testing import check_events

API = "google-generative-ai"

odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "STOP", "a", "$.a", "S1=="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def fields(**usual: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of these fields, each as usual or odd."""
    return st.fixed_dictionaries({}, optional={name: value | odd for name, value in usual.items()})


words = st.text(max_size=4)
updates = fields(
    jsonPath=st.sampled_from(["$.a", "$.a.b", "$.a[1]", "$.a[0].b", "$['x']", "$", "$.a["]),
    stringValue=words,
    numberValue=st.floats() | st.integers(),
    boolValue=st.booleans(),
    nullValue=st.just("NULL_VALUE"),
    willContinue=st.booleans(),
)
calls = fields(
    name=st.sampled_from(["f", "g", ""]),
    id=st.sampled_from(["1", "2", ""]),
    args=odd,
    partialArgs=st.lists(updates, max_size=3),
    willContinue=st.booleans(),
)
parts = fields(
    text=words,
    thought=st.booleans(),
    thoughtSignature=st.sampled_from(["S1==", "S2==", ""]),
    functionCall=calls,
    executableCode=odd,
)
candidates = fields(
    index=st.just(0),
    content=fields(parts=st.lists(parts | odd, max_size=3)),
    finishReason=st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY", "ODD", ""]),
    finishMessage=words,
    groundingMetadata=odd,
)
chunks = fields(
    candidates=st.lists(candidates | odd, max_size=2),
    usageMetadata=fields(promptTokenCount=st.integers(), cachedContentTokenCount=st.integers(0, 9)),
    promptFeedback=fields(blockReason=st.sampled_from(["SAFETY", ""])),
    responseId=words,
    modelVersion=words,
    error=odd,
)
answers = st.lists(chunks | odd | st.lists(chunks, max_size=2), max_size=5)


@given(answers)
def test_odd_chunks_never_raise_in_the_translator(values: list[Any]) -> None:
    translator = GeminiTranslator(TranslatorSetup(model=Model(id="m", api=API, provider="p")))
    out: list[Any] = []
    assert 0 <= translator.translate(values, out) <= len(values)
    if translator.complete and not any(type(draft).__name__ == "Finish" for draft in out):
        translator.finish(out)


@given(answers, st.sampled_from([None, 1, 3, 17]))
def test_odd_chunks_keep_the_guarantees(values: list[Any], cut: int | None) -> None:
    body = b"".join(b"data: " + json.dumps(value).encode() + b"\r\n\r\n" for value in values)
    events = decode(body, api=API)
    check_events(events)
    assert decode(body, api=API, cut=cut) == events


@given(answers)
def test_odd_arrays_keep_the_guarantees(values: list[Any]) -> None:
    check_events(decode(json.dumps(values).encode(), api=API))


@given(
    st.lists(
        st.sampled_from([b"data: ", b"{", b"}", b'{"error":', b"\n", b"\r\n", b'"a"', b"1", b"["])
        | st.binary(max_size=5)
    )
)
def test_arbitrary_bytes_keep_the_guarantees(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    events = decode(body, api=API)
    check_events(events)
    assert decode(body, api=API, cut=1) == events
