"""``pi-stream decode``: recorded bodies to events, and the exit codes scripts rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_bodies import chat_chunk, chat_pieces

import pi_stream
from pi_stream.cli import main

WHOLE = b"".join(
    [
        chat_chunk({"reasoning_content": "Hm… "}),
        chat_chunk({"content": "Grüße, 世界 🌍"}),
        chat_chunk(
            {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add", "arguments": '{"a":'}}]}
        ),
        chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
        chat_chunk(finish="tool_calls"),
        b"data: [DONE]\n\n",
    ]
)


@pytest.fixture
def body(tmp_path: Path) -> Path:
    """A recorded answer with thinking, text and a tool call."""
    path = tmp_path / "answer.sse"
    path.write_bytes(WHOLE)
    return path


def decode(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and events."""
    code = main(["decode", "--api", "openai-completions", *arguments])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_events_are_those_of_the_library(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object a line: the same events that ``pi_stream.decode`` gives."""
    code, events = decode(capsys, "--provider", "p", "--model", "m/1", str(body))
    expected = pi_stream.decode(WHOLE, api="openai-completions", provider="p", model="m/1")
    assert code == 0
    assert events == [pi_stream.to_json(event) for event in expected]
    assert events[-1]["reason"] == "toolUse"
    assert (events[-1]["message"]["provider"], events[-1]["message"]["model"]) == ("p", "m/1")


@pytest.mark.parametrize("cut", ["1", "7", "64", "100000"])
def test_cut_changes_nothing(cut: str, body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(capsys, "--cut", cut, str(body)) == decode(capsys, str(body))


def test_truncated_body_is_exit_1(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A body without a stop reason is an error event with what had come."""
    body.write_bytes(b"".join(chat_pieces("Half an answer", end=False)))
    code, events = decode(capsys, str(body))
    assert code == 1
    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["errorCause"]["kind"] == "truncated"
    assert events[-1]["error"]["content"] == [{"type": "text", "text": "Half an answer "}]


def test_error_status_is_exit_1(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body.write_text('{"error": {"message": "slow down"}}')
    code, events = decode(capsys, "--status", "429", "--content-type", "application/json", str(body))
    assert code == 1
    assert [event["type"] for event in events] == ["error"]
    assert events[0]["error"]["errorCause"]["kind"] == "rate_limit"


def test_content_type_reaches_the_decoder(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page instead of an answer, although the status is 200."""
    body.write_text("<html><title>Sign in</title></html>")
    code, events = decode(capsys, "--content-type", "text/html", str(body))
    assert code == 1
    assert [event["type"] for event in events] == ["error"]


def test_standard_input_and_file_give_the_same_bytes(body: Path, program) -> None:
    from_file = program.run("decode", "--api", "openai-completions", str(body))
    from_stdin = program.run("decode", "--api", "openai-completions", "-", stdin=WHOLE)
    assert from_file.code == from_stdin.code == 0
    assert from_file.bytes == from_stdin.bytes != b""


@pytest.mark.parametrize(
    "locale",
    [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "latin-1"}],
    ids=["C", "latin-1"],
)
def test_output_is_utf8_whatever_the_locale(locale: dict[str, str], body: Path, program) -> None:
    program.environment |= locale
    done = program.run("decode", "--api", "openai-completions", str(body))
    assert done.code == 0
    assert "Grüße, 世界 🌍" in done.bytes.decode("utf-8")


def test_half_a_surrogate_pair_is_written_as_an_escape(program) -> None:
    """Text that cannot be encoded is still valid JSON in valid UTF-8."""
    pieces = [rb'data: {"choices":[{"delta":{"content":"a\ud83d"}}]}' + b"\n\n", *chat_pieces("")]
    done = program.run("decode", "--api", "openai-completions", "-", stdin=b"".join(pieces))
    assert done.code == 0
    assert json.loads(done.out.splitlines()[-1])["message"]["content"][0]["text"] == "a\ud83d"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--api", "no-such-api", "BODY"], "unknown api 'no-such-api'; known are:"),
        (
            ["--api", "openai-completions", "nowhere.sse"],
            "cannot read nowhere.sse: No such file or directory",
        ),
        (["--api", "openai-completions", "."], "cannot read .: Is a directory"),
        (["--api", "openai-completions", "--cut", "0", "BODY"], "'0' is not a whole number above 0"),
        (["--api", "openai-completions", "--cut", "many", "BODY"], "'many' is not a whole number above 0"),
        (["--api", "openai-completions", "--status", "ok", "BODY"], "'ok' is not an HTTP status"),
        (["BODY"], "--api"),
    ],
)
def test_misuse_is_exit_2(
    arguments: list[str], complaint: str, body: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what is wrong; nothing is printed that a script could take for events."""
    code = main(["decode", *(str(body) if argument == "BODY" else argument for argument in arguments)])
    seen = capsys.readouterr()
    assert code == 2
    assert seen.out == ""
    assert complaint in seen.err
