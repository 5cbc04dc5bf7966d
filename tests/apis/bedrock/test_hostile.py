"""Whatever Bedrock, or somebody in its place, sends: nothing is raised, and the stream ends once."""

from __future__ import annotations

import json
from typing import Any

from bedrock_bodies import answer, frame
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import decode
from pi_stream.testing import check_events
from pi_stream.wire.eventstream import encode_frame

KEYS = [
    *("contentBlockIndex", "delta", "start", "text", "toolUse", "toolUseId", "name", "input", "type", "p"),
    *("reasoningContent", "reasoningText", "signature", "redactedContent", "toolResult", "citation", "image"),
    *(
        "source",
        "bytes",
        "stopReason",
        "usage",
        "inputTokens",
        "cacheDetails",
        "ttl",
        "trace",
        "promptRouter",
    ),
    *(
        "invokedModelId",
        "message",
        "originalStatusCode",
        "output",
        "content",
        "citationsContent",
        "citations",
    ),
]
EVENTS = [
    *(
        "messageStart",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
    ),
    *("throttlingException", "somethingNew", ""),
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.just(2**70),
    st.floats(allow_nan=False),
    st.sampled_from(["", "a", "AAAA", "tool_use", "end_turn", "{}", "server_tool_use", "\ud800"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
events = st.dictionaries(st.sampled_from(KEYS), values, max_size=5) | values


def ends_once(body: bytes) -> None:
    found = decode(body, api="bedrock-converse-stream", provider="amazon-bedrock", model="m")
    check_events(found)
    assert decode(body, api="bedrock-converse-stream", provider="amazon-bedrock", model="m", cut=5) == found


@given(st.lists(st.tuples(st.sampled_from(EVENTS), events), max_size=8))
def test_hostile_events_end_in_one_terminal_event(chunks: list[tuple[str, Any]]) -> None:
    ends_once(answer(*(frame(kind, payload) for kind, payload in chunks)))
    ends_once(b"".join(frame(kind, payload) for kind, payload in chunks))


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from([":event-type", ":message-type", ":exception-type"]),
       st.sampled_from(["event", "exception", "error", "contentBlockDelta", "messageStop"]) | st.integers(0, 9)),
       st.binary(max_size=20)), max_size=4))  # fmt: skip
def test_hostile_frames_end_in_one_terminal_event(frames: list[tuple[dict[str, Any], bytes]]) -> None:
    ends_once(answer(*(encode_frame(headers, payload) for headers, payload in frames)))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_end_in_one_terminal_event(body: bytes) -> None:
    ends_once(body)
    ends_once(frame("messageStart", {}) + body)


@given(values)
def test_hostile_whole_answers_end_in_one_terminal_event(value: Any) -> None:
    ends_once(json.dumps({"output": {"message": {"content": value}}, "stopReason": "end_turn"}).encode())
    ends_once(json.dumps([value]).encode())
