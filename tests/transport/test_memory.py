"""The in-memory transport keeps the contract of a connection, on asyncio and trio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from pi_stream.exceptions import ConfigError, TransportError
from pi_stream.http import HttpRequest
from pi_stream.transport.memory import Chunk, MemoryBody, MemoryResponse, MemoryTransport

pytestmark = [pytest.mark.anyio, pytest.mark.trio]

REQUEST = HttpRequest(url="https://api.example.com/v1", body={"stream": True})


async def answered(*chunks: Chunk) -> tuple[MemoryTransport, MemoryBody]:
    transport = MemoryTransport(lambda request: MemoryResponse(chunks=chunks))
    return transport, await transport.send(REQUEST)


async def read_all(body: MemoryBody) -> list[bytes]:
    pieces: list[bytes] = []
    while piece := await body.receive():
        pieces.append(piece)
    return pieces


async def fails(body: MemoryBody) -> str:
    """The kind of error that the next read ends with."""
    with pytest.raises(TransportError) as caught:
        await body.receive()
    return caught.value.kind


async def test_pieces_come_one_by_one_and_then_the_end() -> None:
    transport, body = await answered(b"one", 0.001, b"two", b"", b"three")
    assert transport.open_bodies == 1
    assert await read_all(body) == [b"one", b"two", b"three"]
    assert await body.receive() == b""
    assert transport.open_bodies == 0
    assert transport.requests == [REQUEST]
    assert body.head.status == 200
    assert body.head.content_type == "text/event-stream"


async def test_lone_bytes_are_an_answer() -> None:
    body = await MemoryTransport(lambda request: b"data: x\n\n").send(REQUEST)
    assert await read_all(body) == [b"data: x\n\n"]


async def test_a_handler_may_wait_and_answer_by_request() -> None:
    async def handler(request: HttpRequest) -> MemoryResponse:
        await anyio.sleep(0.001)
        assert request.body is not None
        return MemoryResponse(
            status=429, headers={"retry-after": "1"}, chunks=[str(request.body["stream"]).encode()]
        )

    body = await MemoryTransport(handler).send(REQUEST)
    assert (body.head.status, body.head.headers) == (429, {"retry-after": "1"})
    assert await read_all(body) == [b"True"]


async def test_a_handler_that_takes_too_long_is_a_head_timeout() -> None:
    async def handler(request: HttpRequest) -> bytes:
        await anyio.sleep_forever()
        raise AssertionError

    transport = MemoryTransport(handler)
    with pytest.raises(TransportError) as caught:
        await transport.send(REQUEST, head=0.01)
    assert caught.value.kind == "timeout_head"
    assert transport.open_bodies == 0


async def test_a_handler_can_refuse_the_connection() -> None:
    def handler(request: HttpRequest) -> bytes:
        raise TransportError("nobody there", kind="connect")

    with pytest.raises(TransportError, match="nobody there"):
        await MemoryTransport(handler).send(REQUEST)


async def test_chunks_may_come_from_an_async_generator() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        await anyio.sleep(0.001)
        yield b"two"

    transport = MemoryTransport(lambda request: MemoryResponse(chunks=chunks()))
    assert await read_all(await transport.send(REQUEST)) == [b"one", b"two"]


async def test_closing_ends_an_async_generator() -> None:
    ended: list[bool] = []

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            yield b"two"
        finally:
            ended.append(True)

    body = await MemoryTransport(lambda request: MemoryResponse(chunks=chunks())).send(REQUEST)
    assert await body.receive() == b"one"
    await body.aclose()
    assert ended == [True]


@pytest.mark.parametrize(
    ("error", "kind"), [(OSError("broken"), "transport"), (TransportError("x", kind="tls"), "tls")]
)
async def test_an_exception_is_the_loss_of_the_connection(error: Exception, kind: str) -> None:
    transport, body = await answered(b"one", error, b"never")
    assert await body.receive() == b"one"
    assert await fails(body) == kind
    assert await fails(body) == kind
    assert transport.open_bodies == 0


async def test_a_deadline_ends_a_wait_with_its_kind() -> None:
    transport, body = await answered(b"one", 3600, b"two")
    body.set_deadline(transport.time() - 1, "timeout_first")
    assert await body.receive() == b"one"  # nothing to wait for
    body.set_deadline(transport.time() + 0.01, "timeout_idle")
    assert await fails(body) == "timeout_idle"
    assert await fails(body) == "timeout_idle"
    assert transport.open_bodies == 0


async def test_a_deadline_ends_the_wait_of_an_async_generator() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        await anyio.sleep_forever()
        yield b""

    transport = MemoryTransport(lambda request: MemoryResponse(chunks=chunks()))
    body = await transport.send(REQUEST)
    body.set_deadline(transport.time() + 0.01, "timeout_idle")
    assert await fails(body) == "timeout_idle"


async def test_a_deadline_far_away_or_lifted_does_not_pass() -> None:
    transport, body = await answered(0.02, b"one", 0.02, b"two")
    body.set_deadline(transport.time() + 3600, "timeout_idle")
    assert await body.receive() == b"one"
    body.set_deadline(transport.time() + 0.001, "timeout_idle")
    body.set_deadline(None, "timeout_idle")
    assert await body.receive() == b"two"


async def test_a_deadline_set_during_a_wait_holds_for_it() -> None:
    transport, body = await answered(3600)
    kinds: list[str] = []

    async def read() -> None:
        kinds.append(await fails(body))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        body.set_deadline(transport.time() + 0.01, "timeout_total")
    assert kinds == ["timeout_total"]


@pytest.mark.parametrize("how", ["abort", "aclose", "transport.abort", "transport.aclose"])
async def test_abort_from_another_task_wakes_the_reader(how: str) -> None:
    transport, body = await answered(3600)
    kinds: list[str] = []

    async def read() -> None:
        kinds.append(await fails(body))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        owner: Any = transport if how.startswith("transport") else body
        result = getattr(owner, how.rpartition(".")[2])()
        if result is not None:
            await result
    assert kinds == ["cancelled"]
    assert await fails(body) == "cancelled"
    assert transport.open_bodies == 0


async def test_what_comes_together_with_an_abort_is_not_handed_out() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        body.abort()
        yield b"late"

    body = await MemoryTransport(lambda request: MemoryResponse(chunks=chunks())).send(REQUEST)
    assert await fails(body) == "cancelled"
    await body.aclose()


async def test_abort_after_the_end_changes_nothing() -> None:
    _, body = await answered()
    assert await body.receive() == b""
    body.abort()
    await body.aclose()
    assert await body.receive() == b""


async def test_release_closes_and_abort_after_it_changes_nothing() -> None:
    transport, body = await answered(b"[DONE]", 3600)
    assert await body.receive() == b"[DONE]"
    body.release(2.0)
    body.abort()
    await body.aclose()
    assert transport.open_bodies == 0


async def test_a_cancelled_pause_goes_on_with_the_next_read() -> None:
    _, body = await answered(0.05, b"one")
    with anyio.move_on_after(0.01) as scope:
        await body.receive()
    assert scope.cancelled_caught
    assert await body.receive() == b"one"


async def test_a_reader_that_never_waits_can_be_cancelled() -> None:
    transport = MemoryTransport(lambda request: MemoryResponse(chunks=iter(lambda: b"x", b"")))
    body = await transport.send(REQUEST)
    with anyio.move_on_after(0.01) as scope:
        while True:
            await body.receive()
    assert scope.cancelled_caught


async def test_what_is_not_closed_is_counted() -> None:
    transport = MemoryTransport(lambda request: b"x")
    await transport.send(REQUEST)
    await transport.send(REQUEST)
    assert transport.open_bodies == 2
    await transport.aclose()
    assert transport.open_bodies == 0


async def test_a_closed_transport_sends_nothing() -> None:
    transport = MemoryTransport(lambda request: b"x")
    await transport.aclose()
    with pytest.raises(ConfigError, match="closed"):
        await transport.send(REQUEST)
    assert transport.requests == []
