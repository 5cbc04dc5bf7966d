"""llmock breaks answers in all the ways it knows, and judges how we take it: it finds nothing to blame."""

from __future__ import annotations

import json
import random
import urllib.request
from typing import Any

import anyio
import pytest
from attrs import frozen

from pi_stream import Client, Limits, Provider, RetryPolicy
from pi_stream.messages import AssistantMessage
from pi_stream.testing import check_events

BASES = {
    "openai-completions": "/v1",
    "openai-responses": "/v1",
    "anthropic-messages": "/anthropic",
    "google-generative-ai": "/gemini/v1beta",
}
TEXT = " ".join(f"word {number}" for number in range(20))
BLAMES = {
    *("truncated_stream_accepted", "malformed_chunk_ignored", "retry_after_ignored", "no_backoff"),
    "no_read_timeout",
}


@frozen
class Fault:
    """What llmock does to a request, and what comes of it.

    Attributes:
        behavior: In llmock's words.
        kind: Kind of the error where text came before it; None where it is got over in silence.
    """

    behavior: dict[str, Any]
    kind: str | None = None


def stream_fault(kind: str, after: int = 6, **more: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, **more}


FAULTS = {
    "429 with Retry-After": Fault({"type": "fail", "status": 429, "retry_after": 0.4}),
    "500": Fault({"type": "fail", "status": 500, "times": 2}),
    "503": Fault({"type": "fail", "status": 503, "times": 2}),
    "truncated before content": Fault(stream_fault("truncate", 0)),
    "truncated": Fault(stream_fault("truncate"), "truncated"),
    "disconnect before content": Fault(stream_fault("disconnect", 0)),
    "disconnect": Fault(stream_fault("disconnect"), "transport"),
    "malformed chunk": Fault(stream_fault("malformed"), "malformed"),
    "slow": Fault({"type": "delay", "seconds": 0.3}),
    "slow first token": Fault({"type": "slow_first_token", "seconds": 0.3}),
    "stall": Fault(stream_fault("stall", stall_seconds=3), "timeout_idle"),
}
LIMITS = Limits(idle=1)
RETRIES = RetryPolicy(base_delay=0.2)
# One api in every run of the tests; one loop, since it is the client that is judged.
APIS = [api if api == "openai-completions" else pytest.param(api, marks=pytest.mark.long) for api in BASES]
on_asyncio = pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    """llmock's own api."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"}, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        return json.load(response)


async def play(url: str, api: str, name: str, *, again: bool) -> list[AssistantMessage]:
    """Ask with this fault, and once more after a failure that may go away; gives the message of each stream."""
    behaviors = [{"type": "reply", "text": TEXT, "times": None}, FAULTS[name].behavior]
    ask(url, "DELETE", "/_llmock/scenario")
    ask(url, "POST", "/_llmock/scenario", {"behaviors": behaviors})
    provider = Provider("llmock", api=api, base_url=url + BASES[api])
    messages: list[AssistantMessage] = []
    with anyio.fail_after(40):
        async with Client(
            providers=[provider],
            api_keys={"llmock": "key"},
            limits=LIMITS,
            retries=RETRIES,
            trust_env=False,
        ) as client:
            while True:
                async with client.stream("llmock/m", f"{api}: {name}") as stream:
                    messages.append(check_events([event async for event in stream]))
                cause = messages[-1].error_cause
                if cause is None or not cause.retryable or not again:
                    return messages
                await anyio.sleep(0.2)  # llmock notices a little later that somebody is gone


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize("api", APIS)
async def test_llmock_finds_nothing_to_blame(llmock_url: str, api: str) -> None:
    """Before content we try again ourselves; who asks again where we say that it may help has every answer in the end."""
    ask(llmock_url, "POST", "/_llmock/reset")
    random.seed(5)  # full jitter may draw a second wait no longer than the first, which is taken for none
    for name, fault in FAULTS.items():
        messages = await play(llmock_url, api, name, again=True)
        assert len(messages) == 1 + (fault.kind is not None), name
        assert (messages[-1].stop_reason, messages[-1].text) == ("stop", TEXT), name
    verdict = ask(llmock_url, "GET", "/_llmock/verdict")
    assert (verdict["calls"], verdict["attempts"]) == (len(FAULTS), sum(map(attempts, FAULTS.values())))
    assert not BLAMES & {finding["code"] for finding in verdict["findings"]}, verdict["findings"]
    assert verdict["findings"] == []


def attempts(fault: Fault) -> int:
    """How many requests it takes."""
    if fault.behavior["type"] == "fail":
        return 1 + int(fault.behavior.get("times", 1))
    return 2 if fault.behavior["type"] == "stream_fault" else 1


@pytest.mark.long
@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.kind])
@pytest.mark.parametrize("api", BASES)
async def test_a_failure_after_content_is_told(llmock_url: str, api: str, name: str) -> None:
    """Nothing that was handed out is replayed: the stream ends with an error that keeps what came."""
    (message,) = await play(llmock_url, api, name, again=False)
    assert message.stop_reason == "error"
    assert message.error_cause is not None
    assert (message.error_cause.kind, message.error_cause.retryable) == (FAULTS[name].kind, True)
    assert message.text
    assert TEXT.startswith(message.text)
