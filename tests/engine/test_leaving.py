"""A thousand streams left early over real sockets: nothing stays open, whatever the way out."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from chat_bodies import SSE, chat_chunk, chat_server

from pi_stream import Client, Provider
from pi_stream.engine.stream import AssistantStream

pytestmark = [pytest.mark.anyio, pytest.mark.http]
STREAMS = 200  # of each way out: a thousand in all


async def endless(request: Any) -> Any:
    """Ten words, then nothing more: only the client can end it."""
    from aiohttp import web

    response = web.StreamResponse(headers=SSE)
    await response.prepare(request)
    for number in range(10):
        await response.write(chat_chunk({"content": f"word{number} "}))
    await asyncio.sleep(3600)
    return response


async def break_inside(stream: AssistantStream) -> None:
    async with stream:
        async for event in stream:
            if event.type == "text_delta":
                break


async def break_outside(stream: AssistantStream) -> None:
    async for event in stream:
        if event.type == "text_delta":
            break


async def abort(stream: AssistantStream) -> None:
    async with anyio.create_task_group() as tasks:

        async def later() -> None:
            await anyio.sleep(0.01)
            stream.abort()

        tasks.start_soon(later)
        last = [event async for event in stream][-1]
    assert last.type == "error" and last.reason == "aborted"


async def cancel(stream: AssistantStream) -> None:
    with anyio.move_on_after(0.02) as scope:
        await stream.result()
    assert scope.cancelled_caught


async def raise_inside(stream: AssistantStream) -> None:
    with pytest.raises(ZeroDivisionError):
        async with stream:
            async for event in stream:
                if event.type == "text_delta":
                    raise ZeroDivisionError


def open_sockets() -> int:
    """Sockets of this process."""
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return sum(os.path.islink(link) and os.readlink(link).startswith("socket:") for link in links)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counting sockets needs /proc")
@pytest.mark.parametrize("leave", [break_inside, break_outside, abort, cancel, raise_inside])
async def test_leaving_leaves_nothing(leave: Callable[[AssistantStream], Awaitable[None]]) -> None:
    """No open socket, no task and no warning but the documented one, after 200 streams left at once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with chat_server(endless) as url, Client(providers=[Provider("me", base_url=url)]) as client:
            before = open_sockets()
            tasks_before = len(asyncio.all_tasks())

            async def one() -> None:
                stream = client.stream("me/m", "hi")
                try:
                    await leave(stream)
                    if leave is not break_outside:
                        assert stream.message.stop_reason == "aborted"
                finally:
                    del stream

            async with anyio.create_task_group() as tasks:
                for _ in range(STREAMS):
                    tasks.start_soon(one)
            gc.collect()
            with anyio.fail_after(20):
                while open_sockets() > before or len(asyncio.all_tasks()) > tasks_before:
                    await anyio.sleep(0.01)
    kinds = {str(warning.message)[:60] for warning in caught if "AssistantStream" not in str(warning.message)}
    assert not kinds
    assert len(caught) == (STREAMS if leave is break_outside else 0)


async def test_an_ended_stream_gives_its_connection_back() -> None:
    """The next request of the client uses the same connection."""
    peers = set()

    async def answer(request: Any) -> Any:
        from aiohttp import web

        peers.add(request.transport.get_extra_info("peername"))
        response = web.StreamResponse(headers=SSE)
        await response.prepare(request)
        await response.write(chat_chunk({"content": "a"}) + chat_chunk(finish="stop") + b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async with chat_server(answer) as url, Client(providers=[Provider("me", base_url=url)]) as client:
        for _ in range(5):
            assert (await client.complete("me/m", "hi")).stop_reason == "stop"
            await anyio.sleep(0.02)
    assert len(peers) == 1
