"""The command line as a program of its own, and a server for it to talk to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from chat_bodies import chat_pieces

ROOT = Path(__file__).parents[2]
HANG = 60
"""Seconds after which a wait is given up. Nothing that passes comes near it."""

# A program started from a background job ignores Ctrl-C; here it must not, wherever the tests run.
MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pi_stream.cli import main
sys.exit(main())
"""


def is_setting(name: str) -> bool:
    """Whether an environment variable may change what the command line does: keys, addresses, proxies, colours."""
    endings = ("_KEY", "_TOKEN", "_BASE_URL", "_PROXY")
    return name.upper().endswith(endings) or name in ("NO_COLOR", "PI_STREAM_LOCAL_MODEL")


class Program:
    """``pi-stream`` in a process of its own, in an environment without keys.

    Attributes:
        environment: What it is started with; None removes a variable.
    """

    def __init__(self) -> None:
        self.environment = {name: value for name, value in os.environ.items() if not is_setting(name)}
        self.environment["PYTHONWARNINGS"] = "error"

    def start(self, *arguments: str, code: str = MAIN, **options: Any) -> subprocess.Popen[bytes]:
        """Start it. ``options`` are those of Popen; stdout and stderr are pipes."""
        pipes: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.Popen(command, cwd=ROOT, env=self.environment, **pipes | options)

    def run(self, *arguments: str, stdin: bytes | None = None, code: str = MAIN) -> Finished:
        """Run it to its end."""
        source = {} if stdin is None else {"stdin": subprocess.PIPE}
        with self.start(*arguments, code=code, **source) as process:
            out, err = process.communicate(stdin, timeout=HANG)
        return Finished(process.returncode, out, err)


class Finished:
    """What a program left behind."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.bytes = out
        self.out = out.decode()
        self.err = err.decode()


@pytest.fixture
def program() -> Program:
    """``pi-stream`` in a process of its own."""
    return Program()


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No keys, addresses, proxies or wishes about colours: for tests that call ``main``."""
    for name in filter(is_setting, tuple(os.environ)):
        monkeypatch.delenv(name)
    return monkeypatch


class ChatServer:
    """A Chat Completions server that gives what it is told, and can fall silent.

    Attributes:
        pieces: The answer.
        status: Its HTTP status.
        stalls: After the pieces, wait for ``go``, send ``rest`` and wait until the client is gone.
        left: The client is gone.
        requests: Headers and body of each request.
    """

    def __init__(self) -> None:
        self.pieces: list[bytes] = chat_pieces()
        self.rest: list[bytes] = []
        self.status = 200
        self.stalls = False
        self.go = threading.Event()
        self.left = threading.Event()
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        """Stop serving."""
        self.go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                owner.requests.append(({k.lower(): v for k, v in self.headers.items()}, json.loads(body)))
                self.send_response(owner.status)
                self.send_header(
                    "content-type", "text/event-stream" if owner.status == 200 else "application/json"
                )
                self.end_headers()
                try:
                    self._send(owner.pieces)
                    if owner.stalls:
                        if not owner.rest or owner.go.wait(HANG):
                            self._send(owner.rest)
                        self.connection.recv(1)
                except OSError:
                    pass  # the client is gone, and reset the connection
                owner.left.set()

            def _send(self, pieces: list[bytes]) -> None:
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def server(program: Program, clean_environment: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A server that stands for OpenAI, for programs and for ``main``."""
    server = ChatServer()
    for name, value in (("OPENAI_BASE_URL", server.url), ("OPENAI_API_KEY", "sk-not-a-key")):
        program.environment[name] = value
        clean_environment.setenv(name, value)
    yield server
    server.close()
