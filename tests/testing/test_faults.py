"""Every fault of the torture set, on every api that can have it: whole, cut anywhere, and live where the connection matters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from pi_stream import Client, Provider, RetryPolicy
from pi_stream.apis import api_ids
from pi_stream.events import Event
from pi_stream.testing.fault_server import FaultServer
from pi_stream.testing.faults import FAULTS, Fault, check_outcome, cuts, play
from pi_stream.testing.wires import WIRES

# Of the list of faults seen in the field, these are no condition on the wire or in the engine.
ELSEWHERE = {"B05", "B17", "B19", "B25", "B47", "B65", "B67", "B80", "B88", "B92"}

BODIES = [fault for fault in FAULTS if fault.is_body]
LIVE = [fault for fault in FAULTS if not fault.is_body]


def test_every_fault_of_the_wire_has_its_case(shared: Path) -> None:
    """The set covers what was seen in the field, and nothing that was not."""
    seen = set(re.findall(r"^### (B\d\d) ", (shared / "wire-faults.md").read_text(), re.MULTILINE))
    assert {fault.id for fault in FAULTS} == seen - ELSEWHERE


def test_every_api_has_its_row() -> None:
    """An api without a row would be tested by none of the cases that all apis share."""
    assert set(WIRES) == set(api_ids())


def test_cases_have_names_of_their_own() -> None:
    """A name tells one case."""
    assert len({str(fault) for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("api", WIRES)
def test_bodies_whole_and_cut(api: str) -> None:
    """The outcome is as it must be, and the events are the same at one byte a read and cut in two here and there."""
    for fault in BODIES:
        if fault.api == api:
            check_cuts(fault, step=37)


@pytest.mark.long
@pytest.mark.parametrize("api", WIRES)
def test_bodies_cut_at_every_byte(api: str) -> None:
    """Cut in two at each byte, the events are the same too."""
    for fault in BODIES:
        if fault.api == api:
            check_cuts(fault, step=1)


def check_cuts(fault: Fault, step: int) -> None:
    events = play(fault)
    check_outcome(fault, events)
    for pieces in cuts(fault.body, step=step):
        assert play(fault, pieces) == events, (
            f"{fault}: other events when cut at {[len(p) for p in pieces[:9]]}"
        )


@pytest.mark.anyio
@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])
async def test_faults_of_the_connection_live(api: str) -> None:
    """What has to do with time, connection or reader, on real sockets; all bodies once more, as one write."""
    async with FaultServer() as server, anyio.create_task_group() as tasks:
        for fault in FAULTS:
            if fault.api == api:
                tasks.start_soon(check_live, server, fault)


async def check_live(server: FaultServer, fault: Fault) -> None:
    provider = Provider("faults", api=fault.api, base_url=server.base_url(fault))
    client = Client(
        providers=[provider],
        api_keys={"faults": "key"},
        retries=RetryPolicy(max_retries=0),
        trust_env=False,
    )
    with anyio.fail_after(50):
        async with client:
            events = await read(client.stream("faults/m", "hi", **fault.options), fault)
    check_outcome(fault, events)


async def read(stream: Any, fault: Fault) -> list[Event]:
    """Read as the case says; who leaves or is cancelled gets no events, so the message speaks for them."""
    events: list[Event] = []
    with anyio.CancelScope() as scope:
        async with stream:
            async for event in stream:
                events.append(event)
                if event.type == "text_delta" and fault.consumer == "abort":
                    stream.abort()
                elif event.type == "text_delta" and fault.consumer == "leave":
                    break
                elif event.type == "text_delta" and fault.consumer == "cancel":
                    scope.cancel()
    if fault.consumer in ("leave", "cancel"):
        from pi_stream import unfold

        return unfold(stream.message)
    assert events[-1].type in ("done", "error")
    return events


@pytest.mark.parametrize(
    "fault", [fault for fault in BODIES if fault.api == "openai-completions"][:3], ids=str
)
def test_an_outcome_that_differs_is_told(fault: Fault) -> None:
    """A wrong outcome says which case it is and what is wrong."""
    wrong = evolve(fault, expect=evolve(fault.expect, text="something else"))
    with pytest.raises(AssertionError, match=r"B\d\d .*text is"):
        check_outcome(wrong, play(wrong))
