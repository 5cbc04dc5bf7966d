"""``pi-stream payload``: the request that would be sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pi_stream
from pi_stream.cli import main

CONTEXT = {
    "systemPrompt": "Be brief.",
    "messages": [{"role": "user", "content": "Grüße", "timestamp": 1}],
    "tools": [{"name": "add", "description": "Adds.", "parameters": {"type": "object", "some_key": 1}}],
}

pytestmark = pytest.mark.usefixtures("clean_environment")


def write(tmp_path: Path, data: Any) -> str:
    """A file with this in it."""
    file = tmp_path / "context.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return str(file)


def payload(capsys: pytest.CaptureFixture[str], model: str, file: str) -> dict[str, Any]:
    """The request of a file."""
    assert main(["payload", "-m", model, file]) == 0
    request = json.loads(capsys.readouterr().out)
    assert list(request) == ["method", "url", "headers", "body"]
    return request


def test_is_the_request_of_the_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = payload(capsys, "openai/gpt-x", write(tmp_path, CONTEXT))
    expected = pi_stream.build_request("openai/gpt-x", pi_stream.from_json(CONTEXT, pi_stream.Context))
    assert request["method"] == "POST"
    assert request["url"] == "https://api.openai.com/v1/chat/completions"
    assert request["body"] == expected.body


def test_says_how_much_of_the_window_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the output, which programs read."""
    assert main(["payload", "-m", "local", write(tmp_path, CONTEXT)]) == 0
    said = capsys.readouterr().err
    assert said.startswith("pi-stream payload: about 28 tokens, 4,068 of 4,096 left")
    assert main(["payload", "-m", "openai/gpt-x", write(tmp_path, CONTEXT)]) == 0
    assert "the context window is unknown" in capsys.readouterr().err


def test_key_is_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str], clean_environment) -> None:
    """Neither the key nor a password or a token in the URL is shown."""
    clean_environment.setenv("OPENAI_API_KEY", "sk-secret-1")
    clean_environment.setenv("OPENAI_BASE_URL", "https://me:secret-2@host.example/v1?token=secret-3&v")
    assert main(["payload", "-m", "openai/x", write(tmp_path, CONTEXT)]) == 0
    seen = capsys.readouterr()
    assert "secret" not in seen.out + seen.err
    request = json.loads(seen.out)
    assert request["headers"]["authorization"] == "***"
    assert request["url"] == "https://***@host.example/v1/chat/completions?token=***&v"


def test_secret_headers_of_the_options_are_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"headers": {"X-Api-Key": "sk-secret", "X-Team": "blue"}}
    headers = payload(capsys, "openai/x", write(tmp_path, {"context": CONTEXT, "options": options}))[
        "headers"
    ]
    assert (headers["x-api-key"], headers["x-team"]) == ("***", "blue")


@pytest.mark.parametrize("wrap", [False, True])
def test_list_of_messages(wrap: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plain list of messages is a context too, alone or beside options."""
    messages = CONTEXT["messages"]
    request = payload(capsys, "openai/x", write(tmp_path, {"context": messages} if wrap else messages))
    assert request["body"]["messages"] == [{"role": "user", "content": "Grüße"}]


def test_options_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"name": "ignored", "context": CONTEXT, "options": {"maxTokens": 7, "temperature": 0.5}}
    body = payload(capsys, "openai/x", write(tmp_path, data))["body"]
    assert (body["max_completion_tokens"], body["temperature"]) == (7, 0.5)


def test_local_model_needs_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started: the address is a placeholder without a port."""
    request = payload(capsys, "local", write(tmp_path, CONTEXT))
    assert request["url"] == "http://127.0.0.1/v1/chat/completions"
    assert "authorization" not in request["headers"]


def test_reads_standard_input(program) -> None:
    done = program.run("payload", "-m", "openai/x", "-", stdin=json.dumps(CONTEXT).encode())
    assert done.code == 0
    assert json.loads(done.out)["body"]["model"] == "x"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"messages": [{"role": "user", "content": 5}]}, "$.messages[0].content: "),
        ([{"role": "user"}, {"role": "user", "content": None}], "$[1].content: "),
        ({"context": {"messages": {}}}, "$.context.messages: "),
        ({"context": [{"content": "who?"}]}, "$.context[0]"),
        ({"context": CONTEXT, "options": {"temprature": 1}}, "$.options"),
        ({"context": CONTEXT, "options": {"maxTokens": 0}}, "$.options"),
        ({"context": CONTEXT, "options": []}, "$.options: "),
        ("{'single': 'quotes'}", "$: not JSON: "),
        ("[" * 100_000, "$: not JSON: "),
        (7, "$: "),
    ],
)
def test_bad_file_names_the_json_path(
    data: Any, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["payload", "-m", "openai/x", write(tmp_path, data)]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.startswith(f"pi-stream payload: {complaint}")


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("opanai/x", "did you mean openai"),
        ("scripted/x", "sends no request"),
        ("openai/", "no default model"),
    ],
)
def test_bad_model_is_misuse(
    model: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["payload", "-m", model, write(tmp_path, CONTEXT)]) == 2
    assert complaint in capsys.readouterr().err


def test_missing_file_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["payload", "-m", "openai/x", "nowhere.json"]) == 2
    assert "cannot read nowhere.json" in capsys.readouterr().err
