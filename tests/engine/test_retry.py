"""Trying again before anything was handed out, on every loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from anthropic_bodies import sse, start
from anthropic_bodies import text as words
from chat_bodies import SSE, chat_chunk, chat_pieces

from pi_stream import Client, Limits, Provider, RetryPolicy, TransportError
from pi_stream.engine.retry import retry_delay
from pi_stream.testing import check_events, without_waits
from pi_stream.transport.memory import MemoryResponse, MemoryTransport

pytestmark = pytest.mark.anyio
BUSY = MemoryResponse(status=503, headers={}, chunks=[b'{"error":{"message":"busy"}}'])
GOOD = MemoryResponse(headers=SSE, chunks=chat_pieces("a b"))


@pytest.fixture
def answering() -> Callable[..., Client]:
    """A client whose requests are answered with these responses, in turn."""

    def make(*responses: Any, **options: Any) -> Client:
        queue = iter(responses)

        def handler(request: Any) -> MemoryResponse:
            response = next(queue)
            if isinstance(response, Exception):
                raise response
            return response  # type: ignore[no-any-return]

        provider = Provider("mem", base_url="http://memory.test/v1")
        return Client(providers=[provider], transport=MemoryTransport(handler), **options)

    return make


@pytest.fixture
def waits() -> Iterator[list[float]]:
    """Waits are recorded instead of waited for."""
    with without_waits() as recorded:
        yield recorded


async def test_failures_before_the_start_are_invisible(answering: Any, waits: list[float]) -> None:
    """503, 503, 200: three requests, one clean stream."""
    client = answering(BUSY, BUSY, GOOD)
    events = [event async for event in client.stream("mem/m", "hi")]
    assert check_events(events).text == "a b "
    assert len(client._transport.requests) == 3
    assert len(waits) == 2


async def test_connection_failures_are_tried_again(answering: Any, waits: list[float]) -> None:
    """A refused connection counts as an attempt."""
    client = answering(TransportError("refused", kind="connect"), GOOD)
    assert (await client.complete("mem/m", "hi")).stop_reason == "stop"
    assert len(waits) == 1


async def test_an_overload_as_first_frame_is_tried_again(answering: Any, waits: list[float]) -> None:
    """An error inside a 200 stream, before any content, is invisible too."""
    overloaded = b'data: {"error":{"code":"server_overloaded","message":"busy"}}\n\n'
    client = answering(MemoryResponse(headers=SSE, chunks=[overloaded]), GOOD)
    assert (await client.complete("mem/m", "hi")).stop_reason == "stop"
    assert len(waits) == 1


async def test_nothing_is_tried_again_after_content(answering: Any, waits: list[float]) -> None:
    """What was handed out is never replayed."""
    broken = MemoryResponse(headers=SSE, chunks=[chat_chunk({"content": "a"}), TransportError("reset")])
    client = answering(broken, GOOD)
    message = await client.complete("mem/m", "hi")
    assert (message.stop_reason, message.text) == ("error", "a")
    assert not waits


async def test_a_failure_between_blocks_is_not_tried_again(waits: list[float]) -> None:
    """With every block ended the error event comes alone, and content was handed out all the same."""
    broken = MemoryResponse(headers=SSE, chunks=[sse(start(), *words(0, "a")), TransportError("reset")])
    transport = MemoryTransport(lambda request: broken)
    provider = Provider("mem", api="anthropic-messages", base_url="http://memory.test")
    client = Client(providers=[provider], transport=transport)
    message = check_events([event async for event in client.stream("mem/m", "hi")])
    assert (message.stop_reason, message.text) == ("error", "a")
    assert len(transport.requests) == 1
    assert not waits


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_the_callers_faults_are_not_tried_again(
    answering: Any, waits: list[float], status: int
) -> None:
    """A wrong request stays wrong."""
    client = answering(MemoryResponse(status=status, headers={}, chunks=[b"no"]), GOOD)
    assert (await client.complete("mem/m", "hi")).stop_reason == "error"
    assert not waits


async def test_retries_can_be_switched_off_and_are_bounded(answering: Any, waits: list[float]) -> None:
    """`max_retries=0` is one request; the default is two retries."""
    client = answering(BUSY, BUSY, BUSY, BUSY)
    assert (await client.complete("mem/m", "hi", retries=RetryPolicy(max_retries=0))).stop_reason == "error"
    assert len(client._transport.requests) == 1
    message = await client.complete("mem/m", "hi")
    assert message.error_message == "503 busy"
    assert len(client._transport.requests) == 4


async def test_the_providers_wait_is_obeyed_up_to_the_cap(answering: Any, waits: list[float]) -> None:
    """Retry-After within the cap is waited for; beyond it the request fails at once, naming both."""
    wait = MemoryResponse(status=429, headers={"retry-after": "7"}, chunks=[b"slow down"])
    long = MemoryResponse(status=429, headers={"retry-after": "120"}, chunks=[b"slow down"])
    client = answering(wait, long)
    message = await client.complete("mem/m", "hi")
    assert waits == [7.0]
    assert message.error_message is not None
    assert "120 s" in message.error_message
    assert "60 s" in message.error_message
    assert message.error_cause is not None
    assert message.error_cause.retry_after_ms == 120_000


async def test_notices_tell_of_each_attempt(answering: Any, waits: list[float]) -> None:
    """Who asks for notices sees a `retry` event before each wait; the message is not changed by it."""
    client = answering(BUSY, GOOD)
    stream = client.stream("mem/m", "hi", notices=True)
    first = await anext(stream)
    assert first.type == "retry"
    assert (first.attempt, first.error.error_message) == (1, "503 busy")
    assert stream.message.stop_reason == "pending"
    rest = [event async for event in stream]
    assert check_events(rest) == stream.message


async def test_abort_during_the_wait(answering: Any) -> None:
    """An abort ends the wait at once."""
    client = answering(BUSY, GOOD, retries=RetryPolicy(base_delay=3600, max_delay=3600))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            stream = client.stream("mem/m", "hi")

            async def later() -> None:
                await anyio.sleep(0.05)
                stream.abort()

            tasks.start_soon(later)
            message = await stream.result()
    assert message.stop_reason == "aborted"
    assert len(client._transport.requests) == 1


async def test_the_total_limit_spans_all_attempts(answering: Any) -> None:
    """Retries do not start the total limit anew: a wait beyond it is not begun."""
    slow = [0.05, b"busy"]
    client = answering(
        *[MemoryResponse(status=503, headers={}, chunks=list(slow)) for _ in range(10)],
        limits=Limits(total=0.12),
        retries=RetryPolicy(max_retries=9, base_delay=0.0001),
    )
    message = await client.complete("mem/m", "hi")
    assert message.stop_reason == "error"
    assert len(client._transport.requests) < 10


def test_delays_double_with_full_jitter() -> None:
    """The wait is a random part of base * 2^n, never above the cap."""
    policy = RetryPolicy(base_delay=0.5, max_delay=3)
    assert [retry_delay(policy, attempt, None, 1.0) for attempt in (1, 2, 3, 4, 99)] == [0.5, 1.0, 2.0, 3, 3]
    assert retry_delay(policy, 3, None, 0.25) == 0.5
    assert retry_delay(policy, 1, 3000, 0.0) == 3.0
    assert retry_delay(policy, 1, 3001, 0.0) is None
