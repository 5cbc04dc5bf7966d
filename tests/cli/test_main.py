"""The program as a whole: help, version, misuse, and what it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from chat_bodies import chat_pieces

import pi_stream
from pi_stream.cli import main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pi-stream {pi_stream.__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n    {command} " in out for command in ("run", "decode", "payload", "models"))


@pytest.mark.parametrize("command", ["run", "decode", "payload", "models"])
def test_help_of_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"usage: pi-stream {command}" in capsys.readouterr().out


def test_no_command_shows_the_help_and_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "pi-stream run" in seen.err


@pytest.mark.parametrize(
    "argv", [["no-such-command"], ["decode"], ["decode", "--nonsense", "x"], ["payload", "x"]]
)
def test_wrong_arguments_are_misuse(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "usage: pi-stream" in seen.err


def test_runs_as_a_module() -> None:
    """``python -m pi_stream.cli`` is the program, under its own name."""
    done = subprocess.run(
        [sys.executable, "-m", "pi_stream.cli", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: pi-stream ")


@pytest.mark.parametrize("argv", [["-v", "run"], ["run", "-v"]])
def test_verbose_says_what_is_done_and_no_secret(argv: list[str], server, program) -> None:
    """``-v`` stands before or after the command; the log goes to stderr and holds no key."""
    done = program.run(*argv, "-m", "openai/x", "hi")
    assert done.code == 0
    assert f"POST {server.url}/chat/completions" in done.err
    assert "sk-not-a-key" not in done.err
    assert done.out == "Hello there \n"


def test_decode_loads_no_http_client(program) -> None:
    """Decoding a recording pays neither for sockets nor for a loop."""
    code = (
        "import sys\nfrom pi_stream.cli import main\n"
        "code = main(['decode', '--api', 'openai-completions', '-'])\n"
        "print(sorted({'aiohttp', 'anyio', 'asyncio', 'rich'} & set(sys.modules)), file=sys.stderr)\nsys.exit(code)"
    )
    done = program.run(stdin=b"".join(chat_pieces()), code=code)
    assert (done.code, done.err) == (0, "[]\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", [["run", "-m", "scripted/x", "hi"], ["models"]])
def test_full_disk_is_one_line(command: list[str], program) -> None:
    with Path("/dev/full").open("wb") as full, program.start(*command, stdout=full) as process:
        err = process.stderr.read().decode()
    assert process.returncode == 1
    assert err == f"pi-stream {command[0]}: cannot write the output: No space left on device\n"


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_closed_output_is_one_line(program) -> None:
    """``>&-`` in a shell."""
    code = (
        "import os, sys\nos.close(1)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'pi_stream.cli', 'models'])"
    )
    done = program.run(code=code)
    assert (done.code, done.err) == (1, "pi-stream: standard output is closed\n")


def test_reader_that_leaves_ends_the_program_quietly(program) -> None:
    """``pi-stream decode ... | head -1`` is no error message."""
    body = b"".join(chat_pieces("word " * 20_000))
    with program.start("decode", "--api", "openai-completions", "-", stdin=subprocess.PIPE) as process:
        process.stdin.write(body)
        process.stdin.close()
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
