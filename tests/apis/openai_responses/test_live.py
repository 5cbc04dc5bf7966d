"""Responses against servers nobody here wrote: llama.cpp with a real model, and the mock server llmock."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_stream import Client, Provider, StreamOptions
from pi_stream.messages import Tool, ToolResultMessage, UserMessage
from pi_stream.options import RetryPolicy
from pi_stream.providers.local_server import REQUEST_HEADERS, LocalServer, is_available
from pi_stream.testing import check_events

pytestmark = [pytest.mark.http, pytest.mark.anyio]
needs_local = pytest.mark.skipif(not is_available(), reason="the local model is not installed")
needs_llmock = pytest.mark.skipif(
    importlib.util.find_spec("llmock") is None, reason="llmock is not installed"
)

ADD = Tool("add", "Add", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
HANG = 60


def client_of(url: str, **headers: str) -> Client:
    provider = Provider(
        "lab",
        api="openai-responses",
        base_url=url,
        headers=headers,
        key_env="NO_SUCH_KEY",
        key_required=False,
    )
    return Client(providers=[provider], trust_env=False)


@pytest.fixture(scope="module")
def llama_url() -> Iterator[str]:
    """The address of llama.cpp's server."""
    with LocalServer() as server:
        yield server.base_url


@pytest.fixture
async def llama(llama_url: str) -> AsyncIterator[Client]:
    async with client_of(llama_url, **REQUEST_HEADERS) as client:
        yield client


@pytest.fixture(scope="module")
def llmock() -> Iterator[str]:
    """The address of llmock's server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("llmock")), "serve", "--host", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(
        [*command, "--tool-mode", "auto"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        give_up = time.monotonic() + HANG
        while not _answers(f"{url}/_llmock/verdict"):
            assert server.poll() is None, "llmock did not start"
            assert time.monotonic() < give_up, "llmock does not answer"
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def scenario(url: str, *behaviors: dict[str, Any]) -> None:
    """What llmock does with the next requests."""
    body = json.dumps({"behaviors": list(behaviors)}).encode()
    request = urllib.request.Request(f"{url}/_llmock/scenario", body, {"content-type": "application/json"})
    urllib.request.urlopen(request).close()


@needs_local
async def test_llama_answers_with_text(llama: Client) -> None:
    async with llama.stream("lab/m", "Say hello.", max_tokens=12, temperature=0) as stream:
        message = check_events([event async for event in stream])
    assert message.text
    assert message.stop_reason == "stop"
    assert message.usage.output > 0
    assert message.response_id is not None


@needs_local
async def test_llama_takes_back_what_it_said(llama: Client) -> None:
    first = await llama.complete("lab/m", "Say hello.", max_tokens=8)
    again = await llama.complete(
        "lab/m", [UserMessage("Say hello."), first, UserMessage("Again.")], max_tokens=8
    )
    assert again.stop_reason == "stop", again.error_message


@needs_local
async def test_llama_says_why_it_refuses(llama: Client) -> None:
    async with llama.stream("lab/m", "hi", extra_body={"input": 5}) as stream:
        message = await stream.result()
    assert message.stop_reason == "error"
    assert message.error_cause is not None
    assert (message.error_cause.status, message.error_cause.retryable) == (400, False)


@needs_local
async def test_llama_can_be_left_in_the_middle(llama: Client) -> None:
    async with llama.stream("lab/m", "Tell a long story.", max_tokens=200) as stream:
        async for event in stream:
            if event.type == "text_delta":
                break
    assert stream.message.stop_reason == "aborted"
    assert stream.message.text


@needs_llmock
async def test_llmock_calls_a_tool_and_takes_its_result(llmock: str) -> None:
    async with client_of(f"{llmock}/v1") as client:
        first = await client.complete(
            "lab/gpt-4o", "Add 1.", tools=[ADD], api_key="k", tool_choice="required"
        )
        assert first.stop_reason == "toolUse", first.error_message
        (call,) = first.tool_calls
        assert call.name == "add"
        result = ToolResultMessage(call.id, call.name, [])
        second = await client.complete(
            "lab/gpt-4o", [UserMessage("Add 1."), first, result], tools=[ADD], api_key="k"
        )
        assert second.stop_reason in ("stop", "toolUse"), second.error_message


@needs_llmock
@pytest.mark.parametrize(
    ("behavior", "kinds"),
    [
        ({"type": "stream_fault", "kind": "truncate", "after_chunks": 3}, {"truncated", "transport"}),
        ({"type": "stream_fault", "kind": "disconnect", "after_chunks": 3}, {"truncated", "transport"}),
        ({"type": "stream_fault", "kind": "malformed", "after_chunks": 3}, {"malformed"}),
    ],
)
async def test_llmock_s_broken_streams_are_errors(
    llmock: str, behavior: dict[str, Any], kinds: set[str]
) -> None:
    scenario(llmock, behavior)
    async with client_of(f"{llmock}/v1") as client:
        options = StreamOptions(api_key="k", retries=RetryPolicy(max_retries=0))
        async with client.stream("lab/gpt-4o", "hi", options=options) as stream:
            message = check_events([event async for event in stream])
    assert message.stop_reason == "error"
    assert message.error_cause is not None
    assert message.error_cause.kind in kinds
