"""Falling back to other models: invisibly before content, by choice after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pi_stream import Client, fold
from pi_stream.providers.scripted import Reply, scripted
from pi_stream.testing import check_events, without_waits

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_waits() -> Iterator[None]:
    with without_waits():
        yield


def client_with(**replies: Any) -> Client:
    return Client(providers=[scripted(*answers, id=name) for name, answers in replies.items()])


async def test_a_model_that_fails_before_content_is_replaced_invisibly() -> None:
    """The stream is the second model's; the message says so and keeps what happened in a diagnostic."""
    client = client_with(one=[Reply(error="down", fail_after=0)], two=["fine"])
    events = [event async for event in client.stream("one/a", "hi", fallback="two/b")]
    message = check_events(events)
    assert (message.provider, message.model, message.text) == ("two", "b", "fine")
    (diagnostic,) = [entry for entry in message.diagnostics or () if entry.type == "fallback"]
    assert diagnostic.details is not None
    assert (diagnostic.details["provider"], diagnostic.details["model"]) == ("one", "a")
    assert "down" in diagnostic.details["errorMessage"]


async def test_unknown_providers_and_missing_keys_fall_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keeps the first model from answering."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    client = client_with(two=["fine"])
    message = await client.complete("nobody/x", "hi", fallback=("openai/gpt", "two/b"))
    assert message.text == "fine"
    assert [entry.type for entry in message.diagnostics or ()][:2] == ["fallback", "fallback"]


async def test_the_last_failure_stands() -> None:
    """When every model fails, the error is the last one's."""
    client = client_with(one=[Reply(error="a", fail_after=0)], two=[Reply(error="b", fail_after=0)])
    (event,) = [event async for event in client.stream("one/a", "hi", fallback="two/b")]
    assert event.type == "error"
    assert event.error.provider == "two"


async def test_notices_tell_who_is_asked_now() -> None:
    """Who asks for notices sees a `fallback` event."""
    client = client_with(one=[Reply(error="down", fail_after=0)], two=["fine"])
    events = [event async for event in client.stream("one/a", "hi", fallback="two/b", notices=True)]
    assert events[0].type == "fallback"
    assert (events[0].provider, events[0].model) == ("two", "b")
    check_events(events[1:])


async def test_after_content_the_stream_fails_by_default() -> None:
    """What was handed out is not replayed by another model in silence."""
    client = client_with(one=[Reply("some long text here", error="down", fail_after=1)], two=["fine"])
    message = await client.complete("one/a", "hi", fallback="two/b")
    assert message.stop_reason == "error"
    assert message.provider == "one"
    assert message.text


async def test_restart_begins_the_message_anew() -> None:
    """With `restart` the reader is told, the message begins anew, and what was given up is kept."""
    client = client_with(one=[Reply("some long text here", error="down", fail_after=1)], two=["fine"])
    events = []
    async with client.stream("one/a", "hi", fallback="two/b", after_content="restart") as stream:
        async for event in stream:
            events.append(event)
            assert fold(events) == stream.message
    types = [event.type for event in events]
    assert types.count("restart") == 1
    assert types.count("error") == 0
    after = events[types.index("restart") + 1 :]
    message = check_events(after)
    assert (message.text, message.provider) == ("fine", "two")
    (diagnostic,) = [entry for entry in message.diagnostics or () if entry.type == "restart"]
    assert diagnostic.details is not None
    assert diagnostic.details["content"][0]["text"]
    assert "usage" in diagnostic.details


async def test_abort_does_not_fall_back() -> None:
    """A stream the caller stopped is not begun elsewhere."""
    client = client_with(one=[Reply("text", stall_after=1)], two=["fine"])
    async with client.stream("one/a", "hi", fallback="two/b", after_content="restart") as stream:
        async for event in stream:
            if event.type == "text_delta":
                stream.abort()
    assert (stream.message.stop_reason, stream.message.provider) == ("aborted", "one")
