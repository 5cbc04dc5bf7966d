"""The catalog as it is shipped, what a provider's models get from it, and the overlay file."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from pi_stream import Client, ConfigError, Model, Provider, build_request
from pi_stream.apis import get_api
from pi_stream.apis.anthropic_messages.quirks import Quirks as AnthropicQuirks
from pi_stream.apis.openai_completions.quirks import Quirks as ChatQuirks
from pi_stream.apis.openai_responses.quirks import Quirks as ResponsesQuirks
from pi_stream.catalog import DATA, Catalog, lookup, search
from pi_stream.models import REASONING_LEVELS
from pi_stream.providers.registry import Registry, api_of
from pi_stream.serialization import from_json

FILES = sorted(DATA.glob("*.json"))
QUIRKS: dict[str, Any] = {
    "anthropic-messages": AnthropicQuirks,
    "openai-completions": ChatQuirks,
    "openai-responses": ResponsesQuirks,
}


def models_of(file: Path) -> list[dict[str, Any]]:
    models: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["models"]
    return models


# --- the data that is shipped -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_is_of_a_provider_we_have(file: Path) -> None:
    assert file.stem in Registry().ids()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_entries_are_sound(file: Path) -> None:
    """Each has a source with its date, a window, rates that are not negative, and levels that exist."""
    about = json.loads(file.read_text(encoding="utf-8"))["sources"]
    assert {source["licence"] for source in about.values()} == {"MIT"}
    for entry in models_of(file):
        where = f"{file.stem}/{entry['id']}"
        assert entry["sources"], where
        assert all(about[name]["date"] == date for name, date in entry["sources"].items()), where
        assert entry["contextWindow"] >= 0, where
        assert entry["maxTokens"] > 0, where
        rates = [rate for part in (entry["cost"], *entry["cost"].get("tiers", ())) for rate in part.values()]
        assert all(rate >= 0 for rate in rates if not isinstance(rate, list)), where
        assert set(entry.get("thinkingLevelMap", {})) <= set(REASONING_LEVELS), where
        assert set(entry.get("input", ())) <= {"text", "image"}, where
        for key, values in entry.get("disputed", {}).items():
            assert set(values) <= set(entry["sources"]), where
            assert len({json.dumps(value) for value in values.values()}) > 1, f"{where}: {key}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_quirks_are_known_to_the_protocol(file: Path) -> None:
    """A quirk that the protocol does not know would be an error of every request with that model."""
    provider = Registry().provider(file.stem)
    for entry in Catalog().search(providers=[file.stem]):
        model = entry.for_api(api_of(provider))
        if model.compat and model.api in QUIRKS:
            QUIRKS[model.api].of(model)
        if model.api:
            get_api(model.api)


def test_the_vendors_own_facts() -> None:
    """A few facts that everybody can look up, from the vendors' pages: a data file gone wrong shows here."""
    sonnet = lookup("anthropic", "claude-sonnet-4-5")
    assert sonnet is not None
    assert (sonnet.context_window, sonnet.max_tokens, sonnet.input) == (200_000, 64_000, ("text", "image"))
    assert (sonnet.cost.input, sonnet.cost.output, sonnet.cost.cache_read) == (3, 15, 0.3)
    gemini = lookup("google", "gemini-2.5-pro")
    assert gemini is not None
    assert gemini.cost.tiers is not None
    assert (gemini.cost.input, gemini.cost.tiers[0].input_tokens_above, gemini.cost.tiers[0].input) == (
        1.25,
        200_000,
        2.5,
    )


# --- finding ----------------------------------------------------------------------------------------------------------


def test_nothing_is_known_of_most_names() -> None:
    """Unknown models and providers are None, not an error; odd names open no file."""
    assert lookup("openai", "no-such-model") is None
    assert lookup("no-such-provider", "gpt-5") is None
    assert lookup("../data/openai", "gpt-5") is None


def test_a_dated_id_is_the_one_without_its_date() -> None:
    """Vendors give snapshots of models ids of their own; they are the same model."""
    for id, dated in (("claude-opus-4-8", "claude-opus-4-8-20990101"), ("gpt-5", "gpt-5-2099-01-31")):
        provider = "anthropic" if id.startswith("claude") else "openai"
        known, found = lookup(provider, id), lookup(provider, dated)
        assert known is not None and found is not None
        assert (found.id, found.context_window, found.compat) == (dated, known.context_window, known.compat)


def test_quirks_of_another_protocol_stay_away() -> None:
    """The sources reach OpenAI through Responses: its quirks do not go into Chat Completions, prices and levels do."""
    entry = Catalog().find("openai", "gpt-5")
    assert entry is not None
    chat, responses = entry.for_api("openai-completions"), entry.for_api("openai-responses")
    assert (chat.api, chat.compat) == ("", None)
    assert (responses.api, responses.compat) == ("openai-responses", entry.model.compat)
    assert chat.cost == responses.cost
    assert chat.thinking_level_map == responses.thinking_level_map


def test_a_model_that_does_not_speak_the_protocol_keeps_its_own() -> None:
    """``openai/gpt-5-pro`` speaks Responses only, so that is what it is asked through."""
    request = build_request("openai/gpt-5-pro", "Hello")
    assert request.url == "https://api.openai.com/v1/responses"
    assert build_request("openai/gpt-5", "Hello").url == "https://api.openai.com/v1/chat/completions"


def test_other_ways_to_a_vendor_share_its_models() -> None:
    assert [
        model.id for model in (lookup("openai", "gpt-5"), lookup("openai-responses", "gpt-5")) if model
    ] == ["gpt-5"] * 2
    assert lookup("azure-openai-responses", "gpt-5") is not None


def test_search_finds_all_words_in_name_or_title() -> None:
    """In any order and case; a provider's id is part of the name."""
    found = search("SONNET claude 4.5")
    assert {"openrouter/anthropic/claude-sonnet-4.5"} <= {
        f"{entry.model.provider}/{entry.model.id}" for entry in found
    }
    assert "anthropic/claude-sonnet-4-5" in {f"{entry.model.provider}/{entry.model.id}" for entry in found}
    assert {entry.model.provider for entry in search("groq/")} == {"groq"}
    assert search("no such model") == []
    assert len(search()) == sum(len(models_of(file)) for file in FILES)


# --- what providers get from it ---------------------------------------------------------------------------------------


def test_known_models_carry_data_and_no_diagnostic() -> None:
    provider, model, known = Registry().model("anthropic/claude-sonnet-4-5")
    assert known
    assert (model.api, model.provider) == (provider.api, "anthropic")
    assert model.cost.input == 3
    assert model.reasoning


def test_what_a_provider_says_itself_wins() -> None:
    """A model in ``Provider.models`` is taken as it stands, nothing of the catalog is mixed in."""
    mine = Provider("openai", base_url="http://x/v1", models=[Model(id="gpt-5", context_window=10)])
    _, model, known = Registry([mine]).model("openai/gpt-5")
    assert known
    assert (model.context_window, model.cost.input) == (10, 0)


def test_quirks_of_the_provider_and_of_the_model_are_merged() -> None:
    _, model, _ = Registry().model("zai/glm-5.3")
    assert model.compat is not None
    assert model.compat["zai_tool_stream"] is True
    assert "thinkingFormat" in model.compat


@pytest.mark.anyio
async def test_unknown_models_keep_their_diagnostic() -> None:
    """An id that nobody knows is asked all the same, and the message says that nothing was known."""
    async with Client(api_keys={"openai": "k"}) as client:
        for id, noted in (("gpt-5", None), ("no-such-model", ["unknown_model"])):
            diagnostics = client.stream(f"openai/{id}", "Hello").message.diagnostics
            assert (diagnostics and [diagnostic.type for diagnostic in diagnostics]) == noted


# --- the overlay ------------------------------------------------------------------------------------------------------

OVERLAY = {
    "models": [
        {"provider": "openai", "id": "gpt-5", "cost": {"input": 99}, "maxTokens": 5},
        {"provider": "acme", "id": "rocket", "name": "The Rocket", "reasoning": True, "contextWindow": 1000},
        {"provider": "openai", "id": "gpt-5-pro", "api": "openai-completions"},
    ]
}


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(OVERLAY))
    return file


def test_an_overlay_changes_what_it_names(overlay: Path) -> None:
    """Single rates too; everything else stays, and what it settles is disputed no more."""
    model, known = Catalog(overlay).lookup("openai", "gpt-5"), lookup("openai", "gpt-5")
    assert model is not None and known is not None
    assert (model.cost.input, model.max_tokens) == (99, 5)
    assert (model.cost.output, model.context_window) == (known.cost.output, known.context_window)


def test_an_overlay_settles_a_dispute(overlay: Path) -> None:
    """What it names is disputed no more, the rest still is; and it stands first among the sources."""
    entry = next(entry for entry in search() if {"maxTokens", "contextWindow"} <= entry.disputed.keys())
    names = {"provider": entry.model.provider, "id": entry.model.id}
    overlay.write_text(json.dumps([{**names, "maxTokens": 7}]))
    settled = Catalog(overlay).find(entry.model.provider, entry.model.id)
    assert settled is not None
    assert settled.model.max_tokens == 7
    assert settled.disputed.keys() == entry.disputed.keys() - {"maxTokens"}
    assert next(iter(settled.sources)) == "overlay"


def test_an_overlay_adds_models_and_is_searched(overlay: Path) -> None:
    """Of providers that the catalog does not have, too."""
    catalog = Catalog(overlay)
    model = catalog.lookup("acme", "rocket")
    assert model == from_json({**OVERLAY["models"][1], "input": ["text", "image"]}, Model)
    assert [entry.model.id for entry in catalog.search("rocket the")] == ["rocket"]


def test_a_protocol_that_an_overlay_names_is_used(overlay: Path) -> None:
    model = Catalog(overlay).lookup("openai", "gpt-5-pro", "openai-responses")
    assert model is not None
    assert model.api == "openai-completions"


def test_the_environment_or_the_client_names_the_overlay(
    overlay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's own wins."""
    client = Client(catalog=overlay)
    assert client.providers.model("openai/gpt-5")[1].cost.input == 99
    monkeypatch.setenv("PI_STREAM_CATALOG", str(overlay))
    assert Registry().model("openai/gpt-5")[1].cost.input == 99
    monkeypatch.setenv("PI_STREAM_CATALOG", " ")
    assert Registry().model("openai/gpt-5")[1].cost.input != 99


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot read"),
        ('"x"', "must be a list of models"),
        ('[{"id": "x"}]', r"models\[0\]: a model needs a provider and an id"),
        (
            '[{"provider": "a", "id": "x", "maxTokns": 1}]',
            r"models\[0\]: unknown key maxTokns; known are: .*maxTokens",
        ),
        ('[{"provider": "a", "id": "x", "maxTokens": "1"}]', r"models\[0\]: \$\.maxTokens"),
    ],
)
def test_a_wrong_overlay_says_where(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        Catalog(file).lookup("openai", "gpt-5")


@pytest.mark.anyio
async def test_a_missing_overlay_is_an_error_event(tmp_path: Path) -> None:
    """It is found out when a model is asked, and ends the stream like every wrong setting."""
    async with Client(catalog=tmp_path / "none.json", api_keys={"openai": "k"}) as client:
        message = await client.complete("openai/gpt-5", "Hello")
    assert message.error_cause is not None
    assert message.error_cause.kind == "config"
    assert "none.json" in (message.error_message or "")


# --- weight -----------------------------------------------------------------------------------------------------------


def test_the_catalog_is_small() -> None:
    """It is a fraction of the wheel, which shall stay below 1 MB."""
    assert sum(len(zlib.compress(file.read_bytes())) for file in FILES) < 200_000


def test_nothing_is_read_before_it_is_asked_for() -> None:
    """Neither the import nor a client reads the catalog; a model reads the file of its vendor and no other."""
    code = """
import pi_stream
client = pi_stream.Client()
import pi_stream.catalog as catalog
read = [catalog._models.cache_info().currsize]
client.providers.model("groq/anything")
read.append(catalog._models.cache_info().currsize)
print(read)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0, 1]"
