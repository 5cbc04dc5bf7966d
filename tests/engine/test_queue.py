"""A limit of requests at once, per provider, on every loop: who waits, for how long, and who gets the place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
from chat_bodies import SSE, chat_chunk, chat_pieces

from pi_stream import Client, ConfigError, Limits, Provider, RetryPolicy
from pi_stream.messages import AssistantMessage
from pi_stream.providers import finish, text
from pi_stream.testing import check_events, without_waits
from pi_stream.transport.memory import MemoryResponse, MemoryTransport

pytestmark = pytest.mark.anyio
Gated = tuple[Client, anyio.Event, list[Any]]


class Chunks:
    """One word, and the end when the gate is opened."""

    def __init__(self, gate: anyio.Event) -> None:
        self.gate = gate
        self.sent = 0

    def __aiter__(self) -> Chunks:
        return self

    async def __anext__(self) -> bytes:
        self.sent += 1
        if self.sent == 1:
            return chat_chunk({"content": "a"})
        if self.sent > 2:
            raise StopAsyncIteration
        await self.gate.wait()
        return chat_chunk(finish="stop") + b"data: [DONE]\n\n"


@pytest.fixture
def gated() -> Callable[..., Gated]:
    """A client whose answers end when a gate is opened, and the requests it has sent."""

    def make(**options: Any) -> Gated:
        gate = anyio.Event()

        transport = MemoryTransport(lambda request: MemoryResponse(headers=SSE, chunks=Chunks(gate)))
        providers = [Provider(id, base_url="http://memory.test/v1") for id in ("mem", "other")]
        return Client(providers=providers, transport=transport, **options), gate, transport.requests

    return make


def waited_ms(message: AssistantMessage) -> int | None:
    """The figure that the message keeps."""
    details = [entry.details for entry in message.diagnostics or () if entry.type == "queued"]
    return details[0]["waitMs"] if details and details[0] else None


async def settle() -> None:
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def test_no_more_run_at_once_than_allowed(gated: Callable[..., Gated]) -> None:
    """Five streams at a limit of two: two requests at first, all in the end; who waited says how long."""
    client, gate, requests = gated(concurrency=2)
    messages = []

    async def one() -> None:
        messages.append(await client.complete("mem/m", "hi"))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(one)
        await anyio.sleep(0.05)
        assert len(requests) == 2
        gate.set()
    assert len(requests) == 5
    assert [message.stop_reason for message in messages] == ["stop"] * 5
    waits = [waited_ms(message) for message in messages]
    assert sorted(wait is not None for wait in waits) == [False, False, True, True, True]
    assert all(wait is None or wait > 0 for wait in waits)


async def test_the_limit_is_each_providers_own(gated: Callable[..., Gated]) -> None:
    """A number holds for each provider by itself; a mapping leaves the others without one."""
    client, gate, requests = gated(concurrency=1)
    async with anyio.create_task_group() as tasks:
        for model in ("mem/m", "mem/m", "other/m"):
            tasks.start_soon(client.complete, model, "hi")
        await anyio.sleep(0.02)
        assert len(requests) == 2
        gate.set()
    client, gate, requests = gated(concurrency={"mem": 1})
    async with anyio.create_task_group() as tasks:
        for model in ("mem/m", "mem/m", "other/m", "other/m"):
            tasks.start_soon(client.complete, model, "hi")
        await anyio.sleep(0.02)
        assert len(requests) == 3
        gate.set()


@pytest.mark.parametrize("way", ["abort", "cancel", "close", "thread"])
async def test_a_waiting_stream_can_be_left(gated: Callable[..., Gated], way: str) -> None:
    """It ends as aborted, sends nothing, and the next in line gets its turn."""
    client, gate, requests = gated(concurrency=1)
    first = client.stream("mem/m", "hi")
    await anext(first)
    waiting = client.stream("mem/m", "hi")
    last: list[AssistantMessage] = []

    async def read() -> None:
        if way == "cancel":
            with anyio.move_on_after(0.02):
                await waiting.result()
        else:
            await waiting.result()

    async def third() -> None:
        last.append(await client.complete("mem/m", "hi"))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await settle()
            tasks.start_soon(third)
            await settle()
            if way == "abort":
                waiting.abort()
            elif way == "close":
                await waiting.aclose()
            elif way == "thread":
                await anyio.to_thread.run_sync(waiting.abort)
            await anyio.sleep(0.05)
            assert waiting.message.stop_reason == "aborted"
            cause = waiting.message.error_cause
            assert cause is not None and (cause.kind, cause.phase) == ("cancelled", "connect")
            assert len(requests) == 1
            gate.set()
            assert (await first.result()).stop_reason == "stop"
    assert last[0].stop_reason == "stop"
    assert len(requests) == 2


@pytest.mark.parametrize("way", ["break", "abort", "cancel", "drop"])
async def test_leaving_gives_the_place_back(gated: Callable[..., Gated], way: str) -> None:
    """However a running stream is left, the next one runs."""
    client, gate, _ = gated(concurrency=1)
    stream = client.stream("mem/m", "hi")
    await anext(stream)
    if way == "break":
        await stream.aclose()
    elif way == "abort":
        stream.abort()
        await stream.result()
    elif way == "cancel":
        with anyio.move_on_after(0.02):
            await stream.result()
    else:
        with pytest.warns(ResourceWarning):
            del stream
    gate.set()
    with anyio.fail_after(20):
        assert (await client.complete("mem/m", "hi")).stop_reason == "stop"


async def test_a_stream_dropped_in_another_thread_gives_its_place_back(gated: Callable[..., Gated]) -> None:
    """A collector at work elsewhere leaves it to the loop."""
    client, gate, _ = gated(concurrency=1)
    places = client._concurrency.line("mem", None).places
    assert places is not None
    await places.take()
    thread = threading.Thread(target=places.give_back)
    thread.start()
    thread.join()
    gate.set()
    with anyio.fail_after(20):
        assert (await client.complete("mem/m", "hi")).stop_reason == "stop"


async def test_the_total_limit_counts_the_wait(gated: Callable[..., Gated]) -> None:
    """Nobody waits in line for longer than the whole stream may take."""
    client, _, requests = gated(concurrency=1)
    async with client.stream("mem/m", "hi") as first:
        await anext(first)
        message = await client.complete(
            "mem/m", "hi", limits=Limits(total=0.05), retries=RetryPolicy(max_retries=0)
        )
    assert message.error_cause is not None
    cause = message.error_cause
    assert (cause.kind, cause.phase, cause.origin) == ("timeout_total", "connect", "limit")
    assert waited_ms(message) is not None
    assert len(requests) == 1


async def test_a_wait_before_a_retry_holds_no_place() -> None:
    """While one stream waits to try again, another runs."""
    answers = iter(
        [
            MemoryResponse(status=503, headers={}, chunks=[b"busy"]),
            *[MemoryResponse(chunks=chat_pieces("a"))] * 2,
        ]
    )
    client = Client(
        providers=[Provider("mem", base_url="http://memory.test/v1")],
        transport=MemoryTransport(lambda request: next(answers)),
        retries=RetryPolicy(base_delay=3600, max_delay=3600),
        concurrency=1,
    )
    async with client.stream("mem/m", "hi", notices=True) as slow:
        assert (await anext(slow)).type == "retry"
        with anyio.fail_after(20):
            assert (await client.complete("mem/m", "hi")).stop_reason == "stop"


async def test_waits_of_earlier_attempts_count(gated: Callable[..., Gated]) -> None:
    """The figure is of the stream, though only its first attempt had to wait."""
    answers = iter([MemoryResponse(status=503, headers={}, chunks=[b"busy"]), b"".join(chat_pieces("a"))])
    client, _, _ = gated(concurrency=1)
    first = client.stream("mem/m", "hi")
    await anext(first)
    client._transport._handler = lambda request: next(answers)  # type: ignore[union-attr]
    messages = []

    async def second() -> None:
        messages.append(await client.complete("mem/m", "hi"))

    with without_waits():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second)
            await anyio.sleep(0.02)
            await first.aclose()
    assert messages[0].stop_reason == "stop"
    assert (waited_ms(messages[0]) or 0) > 0


async def test_with_a_free_place_there_is_no_figure(gated: Callable[..., Gated]) -> None:
    """The message of a stream that did not wait says nothing of it."""
    client, gate, _ = gated(concurrency=1)
    gate.set()
    assert waited_ms(await client.complete("mem/m", "hi")) is None


async def test_generators_wait_in_line_too() -> None:
    """A provider of one's own runs as often at once as the client allows."""
    running = most = 0

    async def generate(request: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.01)
        yield text("a")
        running -= 1
        yield finish("stop")

    client = Client(providers=[Provider("mine", generate=generate)], concurrency=2)
    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(client.complete, "mine/m", "hi")
    assert most == 2


async def test_events_of_a_stream_that_waited_keep_the_guarantees(gated: Callable[..., Gated]) -> None:
    """The figure comes as metadata, like everything else in the message."""
    client, gate, _ = gated(concurrency=1)
    first = client.stream("mem/m", "hi")
    await anext(first)
    events: list[Any] = []

    async def second() -> None:
        async for event in client.stream("mem/m", "hi"):
            events.append(event)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second)
        await anyio.sleep(0.02)
        gate.set()
        await first.result()
    assert waited_ms(check_events(events)) is not None


@pytest.mark.parametrize("wrong", [0, -1, True, "3", {"openai": 0}])
def test_what_is_no_limit_is_refused(wrong: Any) -> None:
    """At once, when the client is made."""
    with pytest.raises(ConfigError, match="concurrency"):
        Client(concurrency=wrong)
