"""Real sockets: everything a server does to a connection, times everything a reader does, on every api.

Each cell has to end by itself, with the outcome that :mod:`pi_stream.testing.fault_matrix` says, and to leave nothing: no
socket, no task, no timer, no warning.
"""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from typing import Any

import anyio
import pytest
from fault_page import PAGE, page

from pi_stream import Client, Provider, RetryPolicy, unfold
from pi_stream.engine.stream import AssistantStream
from pi_stream.events import Event
from pi_stream.testing.fault_matrix import CONSUMERS, ROWS, Row
from pi_stream.testing.fault_server import FaultServer
from pi_stream.testing.faults import Consumer, Fault, check_outcome
from pi_stream.testing.wires import WIRES, Wire

on_asyncio = pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])
CELL_SECONDS = 20.0
"""Most a cell may take: each has limits of a fraction of a second."""


@pytest.mark.anyio
@on_asyncio
async def test_chat_cells() -> None:
    """All cells of one api, in every run of the tests."""
    await check_wire(WIRES["openai-completions"])


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.http
@pytest.mark.parametrize("api", WIRES)
async def test_cells(api: str, anyio_backend: Any) -> None:
    """All cells of every api, on both loops."""
    await check_wire(WIRES[api])


async def check_wire(wire: Wire) -> None:
    for row in ROWS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for consumer in CONSUMERS:
                await check_cell(wire, row, consumer)
            gc.collect()
        assert not [str(warning.message) for warning in caught], row.name


async def check_cell(wire: Wire, row: Row, consumer: Consumer) -> None:
    """Run one cell and look at what is left."""
    cell = f"{wire.api}, {row.name}, {consumer}"
    loop, problems = asyncio.get_running_loop(), []
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: problems.append(context))
    try:
        with anyio.fail_after(CELL_SECONDS):
            async with FaultServer() as server:
                held = leftovers(loop)
                await run_cell(server, row.case(wire, consumer))
                await server.all_closed()
                while extra := exceeding(leftovers(loop), held):
                    await anyio.sleep(0.001)
                assert server.requests <= 1, cell
    except TimeoutError:
        pytest.fail(f"{cell}: still there after {CELL_SECONDS} s, or left behind: {extra}")
    finally:
        loop.set_exception_handler(before)
    assert not problems, cell


async def run_cell(server: FaultServer, fault: Fault) -> None:
    provider = Provider("faults", api=fault.api, base_url=server.base_url(fault))
    retries = RetryPolicy(max_retries=0)
    async with Client(
        providers=[provider], api_keys={"faults": "key"}, retries=retries, trust_env=False
    ) as client:
        events = await consume(client.stream("faults/m", "hi", **fault.options), fault.consumer, server)
    check_outcome(fault, events)


async def consume(stream: AssistantStream, consumer: Consumer, server: FaultServer) -> list[Event]:
    """Read, and go away at the first piece of text, or as soon as the server has stopped sending.

    Who leaves or is cancelled gets no events, so the message speaks for them.
    """
    events: list[Event] = []
    seen, gone = anyio.Event(), anyio.Event()

    async def go_away(scope: anyio.CancelScope) -> None:
        async with anyio.create_task_group() as either:
            for event in (seen, server.held):
                either.start_soon(first_of, event, either.cancel_scope)
        if consumer == "abort":
            stream.abort()
        else:
            scope.cancel()
        gone.set()

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            if consumer in ("abort", "cancel"):
                tasks.start_soon(go_away, scope)
            async with stream:
                async for event in stream:
                    events.append(event)
                    if event.type == "text_delta" and consumer == "leave":
                        break
                    if event.type == "text_delta" and consumer in ("abort", "cancel") and not seen.is_set():
                        seen.set()
                        await gone.wait()
        tasks.cancel_scope.cancel()
    ended = bool(events) and events[-1].type in ("done", "error")
    return events if ended else unfold(stream.message)


async def first_of(event: Any, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def leftovers(loop: Any) -> dict[str, int]:
    """How many sockets, tasks and timers there are."""
    timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
    sockets = 0
    if os.path.isdir("/proc/self/fd"):
        links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
        sockets = sum(os.path.islink(link) and os.readlink(link).startswith("socket:") for link in links)
    return {"sockets": sockets, "tasks": len(asyncio.all_tasks(loop)), "timers": len(timers)}


def exceeding(now: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: now[name] - before[name] for name in now if now[name] > before[name]}


def test_the_page_is_up_to_date() -> None:
    """docs/reference/faults.md says what is tested. `python tests/fault_page.py` writes it anew."""
    assert PAGE.read_text() == page()
