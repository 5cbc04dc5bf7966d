"""Bodies over real sockets: reads, broken answers, the clock, and every way to let go."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import threading
import time
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.client_proto import ResponseHandler
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_stream.exceptions import TransportError
from pi_stream.http import HttpRequest
from pi_stream.transport.aiohttp import AiohttpBody, AiohttpTransport

pytestmark = [pytest.mark.anyio, pytest.mark.http]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


def post(server: Any, path: str = "/v1/chat") -> HttpRequest:
    return HttpRequest(url=server.url + path, body={"stream": True})


async def read_all(body: AiohttpBody) -> bytes:
    pieces: list[bytes] = []
    while piece := await body.receive():
        pieces.append(piece)
    return b"".join(pieces)


async def stay_open(exchange: Any) -> None:
    """Begin an answer, then say nothing more."""
    await exchange.start()
    await exchange.chunks(b"begun")
    await exchange.closed()


async def opened(transport: AiohttpTransport, server: Any) -> AiohttpBody:
    """A body of :func:`stay_open` whose first bytes have been read."""
    body = await transport.send(post(server))
    assert await body.receive() == b"begun"
    return body


# --- reads ------------------------------------------------------------------------------------------------------------


async def test_bytes_come_as_they_are_sent_and_an_empty_read_is_the_end(serve: Any, transport: Any) -> None:
    proceed = asyncio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunks(b"one")
        await proceed.wait()
        await exchange.chunks(b"two")
        await exchange.end()

    body = await transport.send(post(await serve(answer)))
    assert await body.receive() == b"one"  # although the answer is far from complete
    proceed.set()
    assert await read_all(body) == b"two"
    assert await body.receive() == b""


@given(pieces=st.lists(st.binary(min_size=1, max_size=300), max_size=8), cut=st.integers(1, 400))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_byte_is_lost_however_the_wire_is_cut(
    serve: Any, transport: Any, pieces: list[bytes], cut: int
) -> None:
    wire = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"

    async def answer(exchange: Any) -> None:
        for start in range(0, len(wire), cut):
            exchange.writer.write(wire[start : start + cut])
            await asyncio.sleep(0)

    body = await transport.send(post(await serve(answer)))
    assert await read_all(body) == b"".join(pieces)


async def test_an_answer_larger_than_all_buffers_waits_for_a_slow_reader(serve: Any, transport: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.start()
        for _ in range(40):
            await exchange.chunks(b"x" * 100_000)
        await exchange.end()

    body = await transport.send(post(await serve(answer)))
    await asyncio.sleep(0.05)
    assert len(await read_all(body)) == 4_000_000


async def test_a_body_without_length_ends_with_the_connection(serve: Any, transport: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.send(HEAD + b"\r\n", b"all of it")
        exchange.writer.close()

    body = await transport.send(post(await serve(answer)))
    assert await read_all(body) == b"all of it"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_compression_that_nobody_asked_for_is_undone(serve: Any, transport: Any, coding: str) -> None:
    packed = gzip.compress(b"data: x\n\n") if coding == "gzip" else zlib.compress(b"data: x\n\n")

    async def answer(exchange: Any) -> None:
        await exchange.send(
            HEAD + f"content-encoding: {coding}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        await exchange.chunks(packed)
        await exchange.end()

    body = await transport.send(post(await serve(answer)))
    assert await read_all(body) == b"data: x\n\n"


# --- broken answers ---------------------------------------------------------------------------------------------------


async def cut_chunks(exchange: Any) -> None:
    await exchange.start()
    await exchange.chunks(b"begun")
    exchange.writer.close()


async def cut_length(exchange: Any) -> None:
    await exchange.send(HEAD + b"content-length: 100\r\n\r\n", b"begun")
    exchange.writer.close()


async def reset_chunks(exchange: Any) -> None:
    await exchange.start()
    await exchange.chunks(b"begun")
    await asyncio.sleep(0.05)  # a reset takes bytes back that were not read yet
    exchange.reset()


async def reset_without_length(exchange: Any) -> None:
    await exchange.send(HEAD + b"\r\n", b"begun")
    await asyncio.sleep(0.05)
    exchange.reset()


async def no_chunk(exchange: Any) -> None:
    await exchange.start()
    await exchange.chunks(b"begun")
    await exchange.send(b"<html>this is no chunk</html>\r\n")
    await exchange.closed()


BROKEN = [cut_chunks, cut_length, reset_chunks, reset_without_length, no_chunk]


@pytest.mark.parametrize("answer", BROKEN)
async def test_an_answer_that_breaks_off_is_an_error_after_what_came(
    serve: Any, transport: Any, answer: Callable[[Any], Awaitable[None]]
) -> None:
    server = await serve(answer)
    body = await transport.send(post(server))
    assert await body.receive() == b"begun"
    for _ in range(2):  # and it stays one
        with pytest.raises(TransportError) as caught:
            await body.receive()
        assert caught.value.kind == "transport"
        assert f"127.0.0.1:{server.port}" in str(caught.value)
    await server.all_closed()


@pytest.mark.parametrize("answer", BROKEN)
async def test_a_late_reader_gets_what_came_before_the_break(
    serve: Any, transport: Any, answer: Callable[[Any], Awaitable[None]]
) -> None:
    server = await serve(answer)
    body = await transport.send(post(server))
    await server.all_closed()
    await asyncio.sleep(0.05)  # the client has noticed it by now
    assert await body.receive() == b"begun"
    with pytest.raises(TransportError) as caught:
        await body.receive()
    assert caught.value.kind == "transport"


async def test_broken_compression_is_an_error(serve: Any, transport: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.send(HEAD + b"content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n")
        await exchange.chunks(b"not gzip at all")
        await exchange.closed()

    server = await serve(answer)
    body = await transport.send(post(server))
    with pytest.raises(TransportError, match="gzip") as caught:
        await body.receive()
    assert caught.value.kind == "transport"
    await server.all_closed()


# --- the clock --------------------------------------------------------------------------------------------------------


async def test_a_deadline_ends_the_wait_with_its_kind_and_closes_the_socket(
    serve: Any, transport: Any
) -> None:
    server = await serve(stay_open)
    body = await opened(transport, server)
    body.set_deadline(transport.time() + 0.02, "timeout_idle")
    for _ in range(2):
        with pytest.raises(TransportError) as caught:
            await body.receive()
        assert caught.value.kind == "timeout_idle"
    await server.all_closed()


async def test_a_deadline_does_not_pass_while_the_consumer_is_busy(serve: Any, transport: Any) -> None:
    proceed = asyncio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunks(b"one")
        await proceed.wait()
        await exchange.chunks(b"two")
        await exchange.end()

    body = await transport.send(post(await serve(answer)))
    body.set_deadline(transport.time() + 0.02, "timeout_idle")
    assert await body.receive() == b"one"
    proceed.set()
    await asyncio.sleep(0.1)
    assert await body.receive() == b"two"  # it was there: nothing to wait for


async def test_a_deadline_in_the_past_ends_a_wait_but_not_a_read_that_need_not_wait(
    serve: Any, transport: Any
) -> None:
    server = await serve(stay_open)
    body = await transport.send(post(server))
    await asyncio.sleep(0.05)
    body.set_deadline(transport.time() - 1, "timeout_first")
    assert await body.receive() == b"begun"
    with pytest.raises(TransportError) as caught:
        await body.receive()
    assert caught.value.kind == "timeout_first"


async def test_a_deadline_that_fired_while_nobody_waited_still_holds_later(
    serve: Any, transport: Any
) -> None:
    body = await transport.send(post(await serve(stay_open)))
    body.set_deadline(transport.time() + 0.02, "timeout_idle")
    assert await body.receive() == b"begun"
    await asyncio.sleep(0.05)
    with pytest.raises(TransportError) as caught:
        await body.receive()
    assert caught.value.kind == "timeout_idle"


async def test_an_earlier_deadline_replaces_a_later_one(serve: Any, transport: Any) -> None:
    body = await transport.send(post(await serve(stay_open)))
    body.set_deadline(transport.time() + 3600, "timeout_idle")
    assert await body.receive() == b"begun"
    body.set_deadline(transport.time() + 0.02, "drain")
    with pytest.raises(TransportError) as caught:
        await body.receive()
    assert caught.value.kind == "drain"


async def test_a_deadline_set_during_a_wait_holds_for_it(serve: Any, transport: Any) -> None:
    body = await opened(transport, await serve(stay_open))
    reader = asyncio.create_task(body.receive())
    await asyncio.sleep(0.01)
    body.set_deadline(transport.time() + 0.02, "timeout_total")
    with pytest.raises(TransportError) as caught:
        await reader
    assert caught.value.kind == "timeout_total"


async def test_bytes_that_came_in_time_count_although_the_loop_was_stalled(transport: Any) -> None:
    stalled, proceed = threading.Event(), threading.Event()

    def serve_once(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(CHUNKED)
            stalled.wait()
            connection.sendall(b"7\r\nin time\r\n")
            proceed.wait()
            connection.sendall(b"0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_once, args=(listener,))
        thread.start()
        body = await transport.send(HttpRequest(url=f"http://127.0.0.1:{listener.getsockname()[1]}/"))
        body.set_deadline(transport.time() + 0.1, "timeout_idle")
        reader = asyncio.create_task(body.receive())
        await asyncio.sleep(0.01)
        stalled.set()
        time.sleep(0.2)  # noqa: ASYNC251 - that is the stall
        assert await reader == b"in time"
        body.set_deadline(None, "timeout_idle")
        proceed.set()
        assert await body.receive() == b""  # and the connection was left alone
        await asyncio.to_thread(thread.join)


async def test_no_deadline_lifts_the_one_before(serve: Any, transport: Any) -> None:
    proceed = asyncio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunks(b"one")
        await proceed.wait()
        await exchange.chunks(b"two")
        await exchange.closed()

    body = await transport.send(post(await serve(answer)))
    body.set_deadline(transport.time() + 0.03, "timeout_idle")
    assert await body.receive() == b"one"
    body.set_deadline(None, "timeout_idle")
    asyncio.get_running_loop().call_later(0.1, proceed.set)
    assert await body.receive() == b"two"
    body.set_deadline(transport.time() + 0.02, "timeout_content")  # and the next one holds again
    with pytest.raises(TransportError) as caught:
        await body.receive()
    assert caught.value.kind == "timeout_content"


async def test_a_deadline_that_moves_with_every_read_costs_one_timer(
    serve: Any, transport: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunks(*[b"x"] * 50)
        await exchange.end()

    body = await transport.send(post(await serve(answer)))
    timers: list[float] = []
    arm = AiohttpBody._arm

    def counted(self: AiohttpBody, when: float) -> None:
        timers.append(when)
        arm(self, when)

    monkeypatch.setattr(AiohttpBody, "_arm", counted)
    reads = 0
    while True:
        body.set_deadline(transport.time() + 60, "timeout_idle")
        if not await body.receive():
            break
        reads += 1
    assert reads > 10
    assert len(timers) == 1


# --- abort, close, drop -----------------------------------------------------------------------------------------------


async def test_abort_from_another_task_wakes_the_reader(serve: Any, transport: Any) -> None:
    server = await serve(stay_open)
    body = await opened(transport, server)
    reader = asyncio.create_task(body.receive())
    await asyncio.sleep(0.01)
    body.abort()
    body.abort()
    with pytest.raises(TransportError) as caught:
        await reader
    assert caught.value.kind == "cancelled"
    await server.all_closed()


async def test_after_abort_not_even_buffered_bytes_are_handed_out(serve: Any, transport: Any) -> None:
    body = await transport.send(post(await serve(stay_open)))
    await asyncio.sleep(0.05)
    body.abort()
    with pytest.raises(TransportError) as caught:
        await body.receive()
    assert caught.value.kind == "cancelled"


async def test_abort_from_another_thread_is_left_to_the_loop(serve: Any, transport: Any) -> None:
    """The garbage collector may run anywhere, and a stream that it finds aborts its body."""
    server = await serve(stay_open)
    body = await opened(transport, server)
    thread = threading.Thread(target=body.abort)
    thread.start()
    thread.join()
    with pytest.raises(TransportError) as caught:
        await body.receive()
    assert caught.value.kind == "cancelled"
    await server.all_closed()


async def test_abort_after_the_end_leaves_the_connection_in_the_pool(serve: Any, transport: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.end()

    server = await serve(answer)
    for _ in range(3):
        body = await transport.send(post(server))
        assert await body.receive() == b""
        body.abort()
        await body.aclose()
        assert await body.receive() == b""
    assert server.accepted == 1


async def test_a_cancelled_read_can_be_followed_by_another(serve: Any, transport: Any) -> None:
    proceed = asyncio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.start()
        await proceed.wait()
        await exchange.chunks(b"late")
        await exchange.closed()

    server = await serve(answer)
    body = await transport.send(post(server))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(body.receive(), 0.02)
    proceed.set()
    assert await body.receive() == b"late"
    await body.aclose()
    await server.all_closed()


async def test_a_dropped_body_closes_its_socket_and_warns(serve: Any, transport: Any) -> None:
    server = await serve(stay_open)
    body = await opened(transport, server)
    body.set_deadline(transport.time() + 3600, "timeout_idle")  # a timer must not keep it alive
    reader = asyncio.create_task(body.receive())
    await asyncio.sleep(0.01)
    reader.cancel()
    await asyncio.wait([reader])
    del body, reader
    with pytest.warns(ResourceWarning, match="unclosed"):
        transport.kept.clear()
    await server.all_closed()


async def test_many_streams_begun_and_abandoned_leave_nothing(serve: Any, transport: Any) -> None:
    server = await serve(stay_open)
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks()
    for number in range(200):
        body = await transport.send(post(server))
        body.set_deadline(transport.time() + 3600, "timeout_idle")
        await body.receive()
        if number % 2:
            body.abort()
        else:
            await body.aclose()
        transport.kept.clear()
    del body
    await server.all_closed()
    assert server.accepted == 200
    assert {task for task in asyncio.all_tasks() if not task.done()} <= tasks
    gc.collect()
    kinds = (AiohttpBody, ClientResponse, ResponseHandler)
    assert not [thing for thing in gc.get_objects() if issubclass(type(thing), kinds)]


# --- release ----------------------------------------------------------------------------------------------------------


async def test_release_at_the_end_gives_the_connection_back(serve: Any, transport: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunks(b"data: [DONE]\n\n")
        await exchange.end()

    server = await serve(answer)
    for _ in range(3):
        body = await transport.send(post(server))
        await read_all(body)
        body.release(2.0)
    assert server.accepted == 1


async def test_release_waits_for_the_end_in_the_background(serve: Any, transport: Any) -> None:
    proceed = asyncio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunks(b"data: [DONE]\n\n")
        await proceed.wait()
        await exchange.chunks(b"and some more that nobody wants")
        await exchange.end()

    server = await serve(answer)
    tasks = len(asyncio.all_tasks())
    body = await transport.send(post(server))
    await body.receive()
    body.release(30.0)
    await body.aclose()  # what a stream does when it is left: must not close what is being drained
    assert len(asyncio.all_tasks()) <= tasks + 1  # the server's
    proceed.set()
    await asyncio.sleep(0.1)
    proceed.clear()
    second = await transport.send(post(server))
    assert server.accepted == 1
    second.abort()


async def test_release_reads_on_where_reading_was_paused(serve: Any, transport: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunks(b"begun")
        await exchange.chunks(b"x" * 190_000)  # more than is buffered before reading pauses
        await exchange.end()

    server = await serve(answer)
    body = await transport.send(post(server))
    assert (await body.receive())[:5] == b"begun"
    await asyncio.sleep(0.05)
    body.release(30.0)
    await asyncio.sleep(0.05)
    await transport.send(post(server))
    assert server.accepted == 1


async def test_release_closes_when_the_end_does_not_come(serve: Any, transport: Any) -> None:
    server = await serve(stay_open)
    for drain in (0.05, 0.0):
        body = await opened(transport, server)
        body.release(drain)
        await server.all_closed()


async def test_release_cuts_off_a_server_that_goes_on_sending(serve: Any, transport: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.start()
        while True:
            await exchange.chunks(b"x" * 100_000)

    server = await serve(answer)
    body = await transport.send(post(server))
    await body.receive()
    await asyncio.sleep(0.05)  # the buffer is full, and reading paused
    body.release(0.05)
    await server.all_closed()


async def test_closing_the_transport_ends_drains_too(serve: Any, transport: Any) -> None:
    server = await serve(stay_open)
    body = await opened(transport, server)
    body.release(3600.0)
    await transport.aclose()
    await server.all_closed()


@pytest.mark.parametrize("how", ["aclose", "abort"])
async def test_closing_the_transport_wakes_readers(serve: Any, transport: Any, how: str) -> None:
    server = await serve(stay_open)
    body = await opened(transport, server)
    reader = asyncio.create_task(body.receive())
    await asyncio.sleep(0.01)
    if how == "aclose":
        await transport.aclose()
    else:
        transport.abort()
    with pytest.raises(TransportError) as caught:
        await reader
    assert caught.value.kind == "cancelled"
    await server.all_closed()
