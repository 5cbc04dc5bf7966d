"""``pi-stream models``: what is known, and which keys are set."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pi_stream.catalog import search
from pi_stream.cli import main
from pi_stream.models import Model
from pi_stream.providers import registry
from pi_stream.providers.base import Provider
from pi_stream.usage import ModelCost

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Provider:
    """A registered provider with a priced model."""
    model = Model(
        id="rocket-1",
        name="Rocket",
        reasoning=True,
        input=("text", "image"),
        cost=ModelCost(input=0.25, output=2),
        context_window=200_000,
        headers={"x-team": "team-secret"},
    )
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    return registry.register(
        Provider(
            "acme",
            name="Acme Rockets",
            base_url="https://user:pass-secret@acme.example/v1",
            key_env="ACME_KEY",
            models=[model],
        )
    )


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    """The lines of the tables by their first word."""
    assert main(["models", *arguments]) == 0
    return {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}


def test_lists_providers(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a query: where each is, which key it wants, how many models are known; and how to see the models."""
    found = rows(capsys)
    assert {"openai", "local", "scripted"} <= found.keys()
    assert "openai-completions" in found["openai"]
    assert "https://api.openai.com/v1" in found["openai"]
    assert "OPENAI_API_KEY (not set)" in found["openai"]
    assert found["local"].endswith("1 known")
    assert "not needed" in found["local"]
    assert "pi-stream models QUERY" in found["pi-stream"]


def test_says_that_a_key_is_set_and_never_the_key(
    capsys: pytest.CaptureFixture[str], clean_environment
) -> None:
    clean_environment.setenv("OPENAI_API_KEY", "sk-secret")
    clean_environment.setenv("OPENAI_BASE_URL", "http://gateway.example/v1?key=sk-secret")
    for arguments in ([], ["--json"]):
        assert main(["models", "openai", *arguments]) == 0
        out = capsys.readouterr().out
        assert "OPENAI_API_KEY" in out
        assert "http://gateway.example/v1?key=***" in out
        assert "secret" not in out
        entries = json.loads(out) if arguments else []
        assert "(set)" in out or {entry["provider"]: entry["keySet"] for entry in entries}["openai"]


def test_models_of_the_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    """All words of a query count. A row has window, longest answer, prices, levels and what goes in."""
    found = rows(capsys, "anthropic/", "SONNET", "4-5")
    assert "anthropic/claude-sonnet-4-5" in found
    assert all("sonnet" in name for name in found if name != "MODEL")
    row = found["anthropic/claude-sonnet-4-5"]
    assert row.endswith("text, image")
    for cell in (
        "200,000",
        "64,000",
        "3+",
        "15+",
        "0.3+",
        "off..high",
    ):  # the + is for the price of long prompts
        assert cell in row.split()


def test_what_sources_do_not_agree_about_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    """With a star in the table, with the value of each source in JSON."""
    (disputed, *_) = (entry for entry in search() if {"contextWindow"} == entry.disputed.keys())
    name = f"{disputed.model.provider}/{disputed.model.id}"
    assert f"{disputed.model.context_window:,}*" in rows(capsys, name)[name]
    assert main(["models", "--json", name]) == 0
    models = [model for entry in json.loads(capsys.readouterr().out) for model in entry["models"]]
    (shown,) = (model for model in models if model["id"] == disputed.model.id)
    assert shown["disputed"] == disputed.disputed
    assert shown["sources"] == disputed.sources


def test_an_overlay_is_listed(capsys: pytest.CaptureFixture[str], clean_environment, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('[{"provider": "groq", "id": "my-own-rocket", "contextWindow": 1234}]')
    clean_environment.setenv("PI_STREAM_CATALOG", str(file))
    assert "1,234" in rows(capsys, "rocket")["groq/my-own-rocket"]


def test_a_query_loads_neither_the_engine_nor_all_vendors() -> None:
    """The catalog answers by itself: that is why it answers at once."""
    code = """
import sys
from pi_stream.cli import main
code = main(["models", "claude", "sonnet"])
heavy = {"aiohttp", "anyio", "cattrs", "pi_stream.messages", "pi_stream.engine.stream", "pi_stream.providers.azure"}
print(sorted(heavy & sys.modules.keys()), file=sys.stderr)
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "anthropic/claude-sonnet" in done.stdout
    assert done.stderr.strip() == "[]"


def test_registered_provider_and_its_models(acme: Provider, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "acme")
    assert "https://***@acme.example/v1" in found["acme"]
    assert found["acme/rocket-1"].split()[:-2] == [
        "acme/rocket-1",
        "Rocket",
        "200,000",
        "?",
        "0.25",
        "2",
        "0",
        "off..high",
    ]
    assert found["acme/rocket-1"].endswith("text, image")


@pytest.mark.parametrize("query", ["acme", "ROCKETS", "acme/rocket", "rocket-1", "Rocket"])
def test_query_finds_by_provider_and_model(
    query: str, acme: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(capsys, query)
    assert {"acme", "acme/rocket-1"} <= found.keys()
    assert not {"openai", "local", "local/smollm2"} & found.keys()


def test_query_without_a_match_is_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "no-such-thing"]) == 1
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "no-such-thing" in seen.err


def test_json(acme: Provider, capsys: pytest.CaptureFixture[str]) -> None:
    """The same, for programs; headers of a model stay out, since they may hold a key."""
    assert main(["models", "--json", "acme"]) == 0
    out = capsys.readouterr().out
    (entry,) = json.loads(out)
    assert entry["provider"] == "acme"
    assert entry["keyEnv"] == ["ACME_KEY"]
    assert entry["keySet"] is False
    assert entry["models"][0]["id"] == "rocket-1"
    assert entry["models"][0]["cost"]["output"] == 2
    assert "secret" not in out


def test_url_with_a_variable_that_is_not_set(
    acme: Provider, capsys: pytest.CaptureFixture[str], clean_environment
) -> None:
    """The template stands for it, and names the variable."""
    template = "https://{ACME_RESOURCE}.acme.example/v1"
    clean_environment.delenv("ACME_RESOURCE", raising=False)
    registry.register(Provider("acme", base_url=template))
    assert template in rows(capsys, "acme")["acme"]
    clean_environment.setenv("ACME_RESOURCE", "blue")
    assert "https://blue.acme.example/v1" in rows(capsys, "acme")["acme"]


def test_provider_that_cannot_be_loaded_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken plug-in is named on stderr; the list goes on."""
    monkeypatch.setitem(registry._MODULES, "broken", "pi_stream.providers.no_such_module")
    assert main(["models"]) == 0
    seen = capsys.readouterr()
    assert "broken" in seen.err
    assert "openai" in seen.out


def test_check(clean_environment, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong and what to do, as text and as JSON; exit 1 unless all is well."""
    assert main(["models", "--check", "scripted"]) == 0
    assert capsys.readouterr().out.startswith("scripted: ok")
    assert main(["models", "--check", "openai/gpt-5"]) == 1
    assert "OPENAI_API_KEY" in capsys.readouterr().out
    assert main(["models", "--check", "openai/gpt-5", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["provider"], shown["model"], shown["ok"], shown["problem"]) == (
        "openai",
        "gpt-5",
        False,
        "key",
    )
