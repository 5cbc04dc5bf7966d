"""The process that holds llama.cpp, started by :mod:`pi_stream.providers.local_server`; a script, not for import.

It reads one line of JSON from standard input (:class:`Settings`), loads the model, writes one line of JSON
(``{"url": "http://127.0.0.1:PORT"}``) to standard output and then serves until its parent goes away. Everything that
goes wrong before that line is a text on standard error and an exit code other than 0.

Only the standard library and xllamacpp are imported, so it starts in a moment.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
import traceback
from typing import Any, TypedDict


class Settings(TypedDict):
    """What the parent asks for."""

    parent: int
    """Process id of the parent."""
    path: list[str]
    """``sys.path`` of the parent: xllamacpp is found where the parent finds it."""
    model: str
    """Path of a GGUF file."""
    alias: str
    """Model name in the answers."""
    threads: int
    """Threads that compute."""
    context: int
    """Tokens of context for each stream, prompt and answer together."""
    slots: int
    """Streams that run at once; more of them wait."""


def main() -> None:
    """Serve one model until the parent goes away."""
    settings: Settings = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_leave_at_end_of_input, daemon=True).start()
    report = os.dup(1)
    os.dup2(2, 1)  # whatever native code prints belongs to the log, the first line of the pipe is ours

    sys.path[:] = settings["path"]
    server = _serve(settings)
    os.write(report, json.dumps({"url": server.listening_address}).encode() + b"\n")
    os.close(report)
    _silence()

    # The end of standard input is the usual way out. A forked copy of the parent can hold that pipe open, so the
    # parent's id is watched too (it changes when the parent dies; on Windows it never does).
    while os.getppid() == settings["parent"]:
        time.sleep(1)
    os._exit(0)


def _leave_at_end_of_input() -> None:
    """Wait for the end of standard input, then end this process whatever its threads are doing."""
    sys.stdin.buffer.read()
    os._exit(0)


def _serve(settings: Settings) -> Any:
    """Load the model and listen on a free loopback port.

    Returns:
        The running ``xllamacpp.Server``; it stops when it is dropped.
    """
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["alias"]}
    # Each stream has its own part of the memory. Shared (kv_unified), one answer that runs over ends all of them.
    params.kv_unified = False
    params.n_ctx = settings["context"] * settings["slots"]
    params.n_parallel = settings["slots"]
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.use_jinja = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.warmup = False
    params.fit_params = False  # trying the memory out loads the model twice
    params.cache_ram_mib = 0  # the default keeps up to 8 GiB of old prompts
    params.verbosity = 1  # errors only
    # Any page in a browser of this machine can reach a loopback port: no page may read answers, nobody other prompts.
    params.cors_origins = ""
    params.endpoint_slots = False
    params.ui = False
    return xllamacpp.Server(params)


def _silence() -> None:
    """Send what native code prints from now on to nowhere: the log was for the start."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # an ordinary exit would wait for the thread that reads standard input
