"""The stream as its consumer sees it, on every loop: pulling, looking, leaving, aborting."""

from __future__ import annotations

import gc
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
from chat_bodies import SSE, chat_chunk, chat_pieces

from pi_stream import Client, ConfigError, Limits, Provider, StreamError, TextDelta, fold, to_json
from pi_stream.testing import check_events
from pi_stream.transport.memory import MemoryResponse, MemoryTransport

pytestmark = pytest.mark.anyio
Memory = Callable[..., Client]


async def test_events_come_in_order_and_the_message_follows(memory: Memory) -> None:
    """At every step the message is the fold of the events handed out so far, and pending until the last."""
    client = memory([b"".join(chat_pieces("one two three"))])  # everything in one read
    seen = []
    async with client.stream("mem/m", "hi") as stream:
        async for event in stream:
            seen.append(event)
            assert stream.message == fold(seen)
            assert (stream.message.stop_reason == "pending") == (event.type not in ("done", "error"))
    assert check_events(seen) == stream.message
    assert stream.message.text == "one two three "
    assert stream.message.stop_reason == "stop"
    assert stream.message.duration_ms is not None


async def test_nothing_is_sent_before_the_first_pull(memory: Memory) -> None:
    """The consumer's pull drives the request."""
    client = memory(chat_pieces())
    stream = client.stream("mem/m", "hi")
    assert client._transport.requests == []  # type: ignore[union-attr]
    assert stream.message.stop_reason == "pending"
    await anext(stream)
    assert len(client._transport.requests) == 1  # type: ignore[union-attr]
    await stream.aclose()


async def test_result_needs_no_iteration(memory: Memory) -> None:
    """`result()` gives the final message, before, amid or after iterating, and again and again."""
    stream = memory(chat_pieces("a b")).stream("mem/m", "hi")
    assert (await anext(stream)).type == "start"
    assert (await stream.result()).text == "a b "
    assert (await stream.result()) is stream.message
    assert [event async for event in stream] == []


async def test_result_raises_for_those_who_ask(memory: Memory) -> None:
    """An error ending becomes an exception only with `raise_on_error`."""
    client = memory(chat_pieces("a", end=False))
    assert (await client.complete("mem/m", "hi")).stop_reason == "error"
    with pytest.raises(StreamError, match="ended before") as caught:
        await client.stream("mem/m", "hi").result(raise_on_error=True)
    assert caught.value.message.text == "a "


async def test_projections(memory: Memory) -> None:
    """`text()` gives strings, `batches()` gives the events of each read."""
    client = memory(chat_pieces("a b"))
    assert [piece async for piece in client.stream("mem/m", "hi").text()] == ["a ", "b "]
    batches = [batch async for batch in client.stream("mem/m", "hi").batches()]
    assert [event.type for event in batches[0]] == ["start", "metadata", "text_start", "text_delta"]
    assert batches[-1][-1].type == "done"
    check_events([event for batch in batches for event in batch])


async def test_leaving_ends_the_message_where_the_consumer_stands(memory: Memory) -> None:
    """After a break the message is aborted, with what was handed out; undelivered events of the read do not count."""
    client = memory([b"".join(chat_pieces("one two three"))])
    async with client.stream("mem/m", "hi") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert stream.message.text == "one "
    assert stream.message.stop_reason == "aborted"
    assert stream.message.error_cause is not None
    assert (stream.message.error_cause.kind, stream.message.error_cause.origin) == ("cancelled", "caller")
    assert client._transport.open_bodies == 0  # type: ignore[union-attr]
    assert [event async for event in stream] == []
    await stream.aclose()
    assert to_json(stream.message)["stopReason"] == "aborted"


async def test_leaving_after_the_end_changes_nothing(memory: Memory) -> None:
    """Closing a stream that has ended keeps its message."""
    async with memory(chat_pieces("a")).stream("mem/m", "hi") as stream:
        async for _ in stream:
            pass
    stream.abort()
    await stream.aclose()
    assert stream.message.stop_reason == "stop"


async def test_leaving_before_the_first_pull(memory: Memory) -> None:
    """A stream that was never read ends as aborted, and nothing is sent."""
    client = memory(chat_pieces("a"))
    async with client.stream("mem/m", "hi") as stream:
        pass
    assert stream.message.stop_reason == "aborted"
    assert client._transport.requests == []  # type: ignore[union-attr]


async def test_abort_lets_the_reader_receive_the_ends(memory: Memory) -> None:
    """`abort()` from another task: the waiting reader gets block ends and one aborted terminal."""
    client = memory([*chat_pieces("a b", end=False), 60.0])
    events = []
    async with anyio.create_task_group() as tasks, client.stream("mem/m", "hi") as stream:

        async def abort_soon() -> None:
            await anyio.sleep(0.05)
            stream.abort("enough")

        tasks.start_soon(abort_soon)
        async for event in stream:
            events.append(event)
    message = check_events(events)
    assert [event.type for event in events[-2:]] == ["text_end", "error"]
    assert (message.stop_reason, message.error_message, message.text) == ("aborted", "enough", "a b ")
    assert message == stream.message == fold(events)


async def test_abort_from_a_thread(memory: Memory) -> None:
    """`abort()` may be called from another thread while the reader waits."""
    client = memory([*chat_pieces("a b", end=False), 60.0])
    events = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks, client.stream("mem/m", "hi") as stream:

            async def abort_soon() -> None:
                await anyio.sleep(0.05)
                await anyio.to_thread.run_sync(stream.abort)

            tasks.start_soon(abort_soon)
            async for event in stream:
                events.append(event)
    assert check_events(events).stop_reason == "aborted"


async def test_abort_between_pulls_drops_what_was_not_handed_out(memory: Memory) -> None:
    """After an abort the next pull brings the ends: the rest of the read is not handed out any more."""
    client = memory([b"".join(chat_pieces("one two three"))])
    events = []
    async with client.stream("mem/m", "hi") as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, TextDelta):
                stream.abort()
    assert check_events(events).stop_reason == "aborted"
    assert stream.message.text == "one "


async def test_abort_before_the_first_pull_sends_nothing(memory: Memory) -> None:
    """An aborted stream makes no request and gives one lone aborted error."""
    client = memory(chat_pieces())
    stream = client.stream("mem/m", "hi")
    stream.abort()
    (event,) = [event async for event in stream]
    assert event.type == "error" and event.reason == "aborted"
    assert client._transport.requests == []  # type: ignore[union-attr]


async def test_cancellation_keeps_the_partial_message(memory: Memory) -> None:
    """A cancelled reader sees the cancellation; the message holds what came, as aborted."""
    client = memory([*chat_pieces("a b", end=False), 60.0])
    stream = client.stream("mem/m", "hi")
    with anyio.move_on_after(0.05) as scope:
        async for _ in stream:
            pass
    assert scope.cancelled_caught
    assert (stream.message.stop_reason, stream.message.text) == ("aborted", "a b ")
    assert client._transport.open_bodies == 0  # type: ignore[union-attr]


async def test_an_exception_of_the_consumer_closes_the_stream(memory: Memory) -> None:
    """The consumer's exception comes out unchanged and the body is closed."""
    client = memory(chat_pieces("a b"))
    with pytest.raises(ZeroDivisionError):
        async with client.stream("mem/m", "hi") as stream:
            async for _ in stream:
                raise ZeroDivisionError
    assert client._transport.open_bodies == 0  # type: ignore[union-attr]
    assert stream.message.stop_reason == "aborted"


async def test_dropping_an_open_stream_closes_it_and_warns(memory: Memory) -> None:
    """Without `async with`, dropping the last reference closes the body and gives one ResourceWarning."""
    client = memory(chat_pieces("a b"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async for _ in client.stream("mem/m", "hi"):
            break
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]
    assert "async with" in str(caught[0].message)
    assert client._transport.open_bodies == 0  # type: ignore[union-attr]


async def test_dropping_a_finished_or_unread_stream_is_silent(memory: Memory) -> None:
    """Nothing is open then, so nothing is said."""
    client = memory(chat_pieces("a b"))
    client.stream("mem/m", "hi")
    async for _ in client.stream("mem/m", "hi"):
        pass
    gc.collect()


async def test_a_second_reader_is_refused(memory: Memory) -> None:
    """Two tasks that iterate one stream would steal each other's events: the second is told so."""
    client = memory([60.0])
    async with anyio.create_task_group() as tasks, client.stream("mem/m", "hi") as stream:

        async def read() -> None:
            async for _ in stream:
                pass

        tasks.start_soon(read)
        await anyio.sleep(0.02)
        with pytest.raises(ConfigError, match="one task"):
            await anext(stream)
        stream.abort()


async def test_closing_while_another_task_reads(memory: Memory) -> None:
    """`aclose()` from another task ends the reader's loop without an event or an exception."""
    client = memory([*chat_pieces("a", end=False), 60.0])
    stream = client.stream("mem/m", "hi")
    seen = []

    async def read() -> None:
        seen.extend([event async for event in stream])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.sleep(0.05)
        await stream.aclose()
    assert stream.message.stop_reason == "aborted"
    assert "error" not in [event.type for event in seen]


@pytest.mark.parametrize(
    ("limits", "pieces", "kind"),
    [
        (Limits(idle=0.05), [*chat_pieces("a", end=False), 60.0], "timeout_idle"),
        (Limits(first=0.05), [60.0], "timeout_first"),
        (Limits(first=0.05), [b": ping\n\n", 0.02] * 100, "timeout_first"),
        (
            Limits(content=0.05),
            [chat_chunk({"content": "a"}), *[b": ping\n\n", 0.02] * 100],
            "timeout_content",
        ),
        (Limits(total=0.05), [chat_chunk({"content": "a"}), 0.02] * 100, "timeout_total"),
    ],
)
async def test_a_stalled_body_ends_by_its_limit(
    memory: Memory, limits: Limits, pieces: Any, kind: str
) -> None:
    """Each limit has its own kind; the content that came is kept."""
    client = memory(pieces, limits=limits)
    with anyio.fail_after(20):
        message = await client.complete("mem/m", "hi")
    assert message.error_cause is not None
    assert (message.error_cause.kind, message.error_cause.origin) == (kind, "limit")
    assert message.error_cause.retryable
    assert message.text in ("", "a ") or set(message.text) == {"a"}
    assert client._transport.open_bodies == 0  # type: ignore[union-attr]


async def test_the_total_limit_ends_a_server_that_never_pauses() -> None:
    """Where there is always something to read the engine never waits, and the total limit holds all the same."""
    endless = itertools.repeat(chat_chunk({"content": "a"}))
    transport = MemoryTransport(lambda request: MemoryResponse(headers=SSE, chunks=endless))
    client = Client(providers=[Provider("mem", base_url="http://memory.test/v1")], transport=transport)
    message = await client.complete("mem/m", "hi", limits=Limits(total=0.05))
    assert message.error_cause is not None
    assert message.error_cause.kind == "timeout_total"
    assert set(message.text) == {"a"}


async def test_the_consumers_own_time_is_never_counted(memory: Memory) -> None:
    """A slow consumer meets no idle limit: the clocks run only while the engine waits for bytes."""
    client = memory(chat_pieces("a b c"), limits=Limits(idle=0.05, first=0.05, content=0.05))
    async with client.stream("mem/m", "hi") as stream:
        async for _ in stream:
            await anyio.sleep(0.06)
    assert stream.message.stop_reason == "stop"


async def test_complete_without_end_ends_within_the_drain_limit(memory: Memory) -> None:
    """After the stop reason an open connection costs the drain limit at most, and is success."""
    client = memory(
        [chat_chunk({"content": "a"}), chat_chunk(finish="stop"), 60.0], limits=Limits(drain=0.05)
    )
    with anyio.fail_after(20):
        assert (await client.complete("mem/m", "hi")).stop_reason == "stop"


async def test_the_end_mark_ends_the_stream_while_the_connection_stays_open(memory: Memory) -> None:
    """After [DONE] nothing is waited for."""
    client = memory([*chat_pieces("a"), 60.0])
    with anyio.fail_after(20):
        assert (await client.complete("mem/m", "hi")).stop_reason == "stop"
    assert client._transport.open_bodies == 0  # type: ignore[union-attr]


async def test_an_error_status_is_a_lone_error(memory: Memory) -> None:
    """The body of an error status is read, in however many pieces, and becomes one error event."""
    client = memory([b'{"error":{"message":"slow ', b'down","code":"rate_limit_exceeded"}}'], status=429)
    (event,) = [event async for event in client.stream("mem/m", "hi")]
    assert event.type == "error"
    message = event.error
    assert message.error_message == "429 slow down"
    assert message.error_cause is not None
    assert (message.error_cause.kind, message.error_cause.status) == ("rate_limit", 429)
    assert message.error_cause.retryable and message.error_cause.provider_code == "rate_limit_exceeded"


async def test_observers_see_wire_data_and_cannot_break_a_stream(memory: Memory) -> None:
    """Hooks get the request, the head and each chunk; what they raise is logged only."""
    seen: list[Any] = []

    def observe(value: Any) -> None:
        seen.append(value)
        raise RuntimeError("observer")

    hooks = {"on_request": observe, "on_response": observe, "on_chunk": observe}
    message = await memory(chat_pieces("a")).complete("mem/m", "hi", **hooks)
    assert message.stop_reason == "stop"
    assert seen[0].body["model"] == "m"
    assert seen[1].status == 200
    assert seen[2]["choices"][0]["delta"] == {"content": "a "}


async def test_unknown_provider_and_missing_key_are_error_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set-up problems are one lone error that says what to do."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with Client() as client:
        unknown = await client.complete("opnai/x", "hi")
        keyless = await client.complete("openai/gpt-4o", "hi")
    assert unknown.error_message is not None and "did you mean openai" in unknown.error_message
    assert unknown.error_cause is not None and unknown.error_cause.kind == "config"
    assert keyless.error_message is not None and "OPENAI_API_KEY" in keyless.error_message
    assert keyless.error_cause is not None and keyless.error_cause.kind == "auth"


async def test_an_unknown_model_is_allowed_and_noted(memory: Memory) -> None:
    """A model that no catalog knows is asked all the same; a diagnostic says that its data is default."""
    message = await memory(chat_pieces("a")).complete("mem/a/b", "hi")
    assert message.model == "a/b"
    assert [diagnostic.type for diagnostic in message.diagnostics or ()] == ["unknown_model"]


async def test_misuse_raises_at_once(memory: Memory) -> None:
    """Wrong arguments are exceptions of the call, not events."""
    client = memory([])
    with pytest.raises(ConfigError, match="temprature"):
        client.stream("mem/m", "hi", temprature=1)
    with pytest.raises(ConfigError, match="max_tokens"):
        client.stream("mem/m", "hi", max_tokens=0)
    with pytest.raises(ConfigError, match=r"messages\[0\]"):
        client.stream("mem/m", ["hi"])
    with pytest.raises(ConfigError, match="context"):
        client.stream("mem/m", 5)  # type: ignore[arg-type]
