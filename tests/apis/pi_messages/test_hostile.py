"""Whatever a proxy sends: nothing is raised, the stream ends once, and what came before a failure is kept."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pi_stream import decode
from pi_stream.testing import check_events

TYPES = [
    *(f"{kind}_{what}" for kind in ("text", "thinking", "toolcall") for what in ("start", "delta", "end")),
    *("start", "done", "error", "sparkle"),
]
KEYS = ["contentIndex", "delta", "content", "contentSignature", "redacted", "id", "toolName", "toolCall"]
KEYS += ["name", "arguments", "usage", "reason", "errorMessage", "rewrite", "cost", "input", "output"]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.just(2**70),
    st.floats(allow_nan=False),
    st.sampled_from(["", "a", "{}", "stop", "toolUse", "aborted", "\ud800"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def events(draw: st.DrawFn) -> Any:
    """An event, likely with a block that exists."""
    fields = draw(st.dictionaries(st.sampled_from(KEYS), values, max_size=4))
    index = draw(st.one_of(st.integers(0, 2), values))
    return {"type": draw(st.sampled_from(TYPES)), "contentIndex": index, "delta": "x", **fields}


@given(st.lists(events() | values, max_size=10))
def test_hostile_events_end_in_one_terminal_event(chunks: list[Any]) -> None:
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    found = decode(body, api="pi-messages", provider="p", model="m")
    check_events(found)
    assert decode(body, api="pi-messages", provider="p", model="m", cut=7) == found


@given(st.binary(max_size=200))
def test_arbitrary_bytes_end_in_one_terminal_event(body: bytes) -> None:
    check_events(decode(body, api="pi-messages", provider="p", model="m"))
