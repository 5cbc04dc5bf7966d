"""Building the catalog from small packages that were made up: what wins, what is disputed, and the same bytes each time."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pi_stream.catalog import build
from pi_stream.catalog._sources import VENDORS

(GROQ,) = (vendor for vendor in VENDORS if vendor.id == "groq")
(VERTEX,) = (vendor for vendor in VENDORS if vendor.id == "google-vertex")
DATES = {"pi-ai": "2030-01-10", "litellm": "2030-01-11", "genai-prices": "2030-01-12"}


def rates(input: float, output: float, read: float = 0, write: float = 0, **more: Any) -> dict[str, Any]:
    """Rates as pi-ai has them."""
    return {"input": input, "output": output, "cacheRead": read, "cacheWrite": write, **more}


def pi_model(id: str, **facts: Any) -> dict[str, Any]:
    """A model as pi-ai has it."""
    model = {
        "type": "chat",
        "id": id,
        "name": id.title(),
        "api": "openai-completions",
        "provider": "groq",
        "baseUrl": "https://api.groq.example",
        "headers": {"x-a": "b"},
        "reasoning": False,
        "input": ["text"],
        "cost": rates(1, 2),
        "contextWindow": 1000,
        "maxTokens": 100,
    }
    return model | facts


def litellm_model(input: float, output: float, **facts: Any) -> dict[str, Any]:
    """A model as litellm has it; rates in USD per million tokens."""
    model = {
        "litellm_provider": "groq",
        "mode": "chat",
        "input_cost_per_token": input / 1e6,
        "output_cost_per_token": output / 1e6,
        "max_input_tokens": 1000,
        "max_output_tokens": 100,
    }
    return model | facts


def genai_model(id: str, prices: str, more: str = "") -> str:
    """A model as genai-prices has it."""
    return f"ModelInfo(id={id!r}, match=ClauseOr(or_=[ClauseEquals(equals={id!r})]), {more} prices={prices})"


@pytest.fixture
def packages(tmp_path: Path) -> Any:
    """Writes three packages; returns the data files that are built from them."""

    def make(
        pi: list[dict[str, Any]] | None = None,
        litellm: Mapping[str, Any] | None = None,
        genai: list[str] | None = None,
        vendor: Any = GROQ,
    ) -> dict[str, str]:
        write_pi(tmp_path / "earendil-works-pi-ai-9.9.9.tgz", pi or [])
        prices = {"sample_spec": {"mode": "one of"}, **(litellm or {})}
        map_name = "litellm/model_prices_and_context_window_backup.json"
        write_wheel(tmp_path / "litellm-8.8.8-py3-none-any.whl", {map_name: json.dumps(prices)})
        data = f"""
import datetime
from decimal import Decimal
from .types import *
providers: list[Provider] = [
    Provider(id='groq', name='Groq', models=[{", ".join(genai or [])}]),
]
"""
        write_wheel(tmp_path / "genai_prices-7.7.7-py3-none-any.whl", {"genai_prices/data.py": data})
        files = sorted(file.name for file in tmp_path.glob("*-*"))
        dates = dict(zip(files, (DATES["pi-ai"], DATES["genai-prices"], DATES["litellm"]), strict=True))
        (tmp_path / "dates.json").write_text(json.dumps(dates))
        return build.build(build.sources(tmp_path), [vendor])

    return make


def write_pi(file: Path, models: list[dict[str, Any]]) -> None:
    by_api: dict[str, dict[str, Any]] = {}
    for model in models:
        by_api.setdefault(model["api"], {})[f"chat:{model['id']}"] = model
    members = {
        "package/package.json": {"version": "9.9.9", "license": "MIT"},
        "package/dist/providers/data/.manifest.json": {"schemaVersion": 6},
        "package/dist/providers/data/groq.json": by_api,
    }
    with tarfile.open(file, "w:gz") as archive:
        for name, value in members.items():
            text = json.dumps(value).encode()
            about = tarfile.TarInfo(name)
            about.size = len(text)
            archive.addfile(about, io.BytesIO(text))


def write_wheel(file: Path, members: Mapping[str, str]) -> None:
    name, version = file.name.split("-")[:2]
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(
            f"{name}-{version}.dist-info/METADATA",
            f"Name: {name}\nVersion: {version}\nLicense-Expression: MIT\n",
        )
        for member, text in members.items():
            wheel.writestr(member, text)


def entries(files: Mapping[str, str]) -> dict[str, Any]:
    """The entries of the only file, by model id."""
    (text,) = files.values()
    return {entry["id"]: entry for entry in json.loads(text)["models"]}


def test_an_entry_has_its_facts_and_where_they_are_from(packages: Any) -> None:
    """What one source states is taken from it; base URL and headers are the provider's business and left out."""
    quirks = {"supportsStrictMode": True}
    levels = {"off": None, "high": "high"}
    files = packages([pi_model("rocket", reasoning=True, thinkingLevelMap=levels, compat=quirks)])
    assert entries(files)["rocket"] == {
        "id": "rocket",
        "name": "Rocket",
        "api": "openai-completions",
        "reasoning": True,
        "thinkingLevelMap": levels,
        "input": ["text"],
        "contextWindow": 1000,
        "maxTokens": 100,
        "cost": rates(1, 2),
        "compat": quirks,
        "sources": {"pi-ai": "2030-01-10"},
    }
    about = json.loads(files["groq.json"])["sources"]
    assert about["pi-ai"] == {"version": "9.9.9", "date": "2030-01-10", "licence": "MIT"}
    assert [source["version"] for source in about.values()] == ["9.9.9", "8.8.8", "7.7.7"]


def test_two_against_one_wins_and_all_values_are_kept(packages: Any) -> None:
    """Where sources differ, the entry carries each value, and the one that most state holds."""
    found = entries(
        packages(
            [pi_model("rocket", cost=rates(1, 2, 0.5))],
            {"groq/rocket": litellm_model(1.5, 2, cache_read_input_token_cost=0.5e-6)},
            [genai_model("rocket", "ModelPrice(input_mtok=Decimal('1.5'), output_mtok=Decimal('2'))")],
        )
    )["rocket"]
    assert found["cost"] == rates(1.5, 2, 0.5)
    assert found["disputed"] == {"cost.input": {"pi-ai": 1, "litellm": 1.5, "genai-prices": 1.5}}
    assert found["sources"] == DATES


def test_one_against_one_the_order_of_sources_holds(packages: Any) -> None:
    """Of two, the first source is believed, and the entry is marked."""
    found = entries(
        packages([pi_model("rocket")], {"groq/rocket": litellm_model(1, 3, max_output_tokens=90)})
    )
    assert found["rocket"]["cost"]["output"] == 2
    assert found["rocket"]["maxTokens"] == 100
    assert found["rocket"]["disputed"] == {
        "maxTokens": {"pi-ai": 100, "litellm": 90},
        "cost.output": {"pi-ai": 2, "litellm": 3},
    }


def test_rounded_rates_are_no_dispute(packages: Any) -> None:
    """A source that writes six digits agrees with one that writes sixteen."""
    price = "ModelPrice(input_mtok=Decimal('0.0833333333333333'), output_mtok=Decimal('2'))"
    found = entries(
        packages([pi_model("rocket", cost=rates(0.083333, 2))], None, [genai_model("rocket", price)])
    )
    assert "disputed" not in found["rocket"]
    assert found["rocket"]["cost"]["input"] == 0.083333


def test_a_cache_rate_of_zero_states_nothing(packages: Any) -> None:
    """Pi-ai writes 0 where it knows no rate: the other source's holds, undisputed."""
    found = entries(
        packages(
            [pi_model("rocket")], {"groq/rocket": litellm_model(1, 2, cache_creation_input_token_cost=3e-6)}
        )
    )
    assert found["rocket"]["cost"] == rates(1, 2, 0, 3)
    assert "disputed" not in found["rocket"]


def test_a_window_of_input_alone_is_no_dispute(packages: Any) -> None:
    """One source counts input and output together, the other the input alone: the whole window is taken."""
    found = entries(packages([pi_model("rocket", contextWindow=900)], {"groq/rocket": litellm_model(1, 2)}))
    assert found["rocket"]["contextWindow"] == 1000
    assert "disputed" not in found["rocket"]


def test_of_disputed_windows_the_largest_holds(packages: Any) -> None:
    """Without a majority nobody should be kept from sending what the provider may take."""
    found = entries(
        packages(
            [pi_model("rocket", contextWindow=272)],
            {"groq/rocket": litellm_model(1, 2, max_input_tokens=1050)},
        )
    )["rocket"]
    assert found["contextWindow"] == 1050
    assert found["disputed"]["contextWindow"] == {"pi-ai": 272, "litellm": 1050}


def test_tiers_of_all_sources_are_compared(packages: Any) -> None:
    """Each source writes tiers in its own way; equal ones agree, and what a tier leaves out is that of the base."""
    tier = {"inputTokensAbove": 200_000, "input": 2, "output": 4, "cacheRead": 0, "cacheWrite": 0}
    litellm = litellm_model(
        1, 2, input_cost_per_token_above_200k_tokens=2e-6, output_cost_per_token_above_200k_tokens=4e-6
    )
    price = """ModelPrice(
        input_mtok=TieredPrices(base=Decimal('1'), tiers=[Tier(start=199999, price=Decimal('2'))]),
        output_mtok=TieredPrices(base=Decimal('2'), tiers=[Tier(start=199999, price=Decimal('4'))]),
    )"""
    pi = pi_model("rocket", cost=rates(1, 2, tiers=[tier]))
    found = entries(packages([pi], {"groq/rocket": litellm}, [genai_model("rocket", price)]))["rocket"]
    assert "disputed" not in found
    assert found["cost"]["tiers"] == [tier]
    alone = entries(packages(None, {"groq/rocket": litellm | {"cache_read_input_token_cost": 1e-7}}))[
        "rocket"
    ]
    assert alone["cost"]["tiers"] == [tier | {"cacheRead": 0.1}]


def test_the_price_of_the_day_counts(packages: Any) -> None:
    """A price that begins later than the package, or holds at night only, is not today's."""
    prices = """[
        ConditionalPrice(prices=ModelPrice(input_mtok=Decimal('9'), output_mtok=Decimal('2'))),
        ConditionalPrice(constraint=StartDateConstraint(start_date=datetime.date(2030, 1, 1)),
                         prices=ModelPrice(input_mtok=Decimal('1'), output_mtok=Decimal('2'))),
        ConditionalPrice(constraint=TimeOfDateConstraint(start_time=datetime.time(1, 0), end_time=datetime.time(2, 0)),
                         prices=ModelPrice(input_mtok=Decimal('8'), output_mtok=Decimal('2'))),
        ConditionalPrice(constraint=StartDateConstraint(start_date=datetime.date(2031, 1, 1)),
                         prices=ModelPrice(input_mtok=Decimal('7'), output_mtok=Decimal('2'))),
    ]"""
    found = entries(packages([pi_model("rocket")], None, [genai_model("rocket", prices)]))
    assert "disputed" not in found["rocket"]


@pytest.mark.parametrize(
    ("clause", "matches"),
    [
        ("ClauseEquals(equals='Rocket-2')", True),
        ("ClauseStartsWith(starts_with='rocket')", True),
        ("ClauseEndsWith(ends_with='-2')", True),
        ("ClauseContains(contains='cket')", True),
        ("ClauseRegex(regex='^rocket-[0-9]$')", True),
        ("ClauseAnd(and_=[ClauseContains(contains='rocket'), ClauseEquals(equals='no')])", False),
        ("ClauseOr(or_=[ClauseContains(contains='no'), ClauseEquals(equals='rocket-2')])", True),
    ],
)
def test_clauses_of_genai_prices(packages: Any, clause: str, matches: bool) -> None:
    """Its entries stand for many ids; a clause says which."""
    price = "ModelPrice(input_mtok=Decimal('5'), output_mtok=Decimal('2'))"
    model = f"ModelInfo(id='x', match={clause}, prices={price})"
    found = entries(packages([pi_model("Rocket-2")], None, [model]))["Rocket-2"]
    assert ("disputed" in found) is matches


def test_what_litellm_alone_has(packages: Any) -> None:
    """A model pi-ai does not list is one too, if it is a chat model with window and price, and still to be had."""
    models = {
        "groq/new": litellm_model(
            1, 2, supports_vision=True, supports_reasoning=True, supports_xhigh_reasoning_effort=True
        ),
        "groq/old": litellm_model(1, 2, deprecation_date="2029-12-31"),
        "groq/going": litellm_model(1, 2, deprecation_date="2031-12-31"),
        "groq/free": litellm_model(0, 0),
        "groq/ears": litellm_model(1, 2, mode="audio_transcription"),
        "groq/nowhere": litellm_model(1, 2, max_input_tokens=None),
        "other/new": litellm_model(1, 2, litellm_provider="other"),
    }
    found = entries(packages(None, models))
    assert list(found) == ["going", "new"]
    assert found["new"] == {
        "id": "new",
        "reasoning": True,
        "thinkingLevelMap": {"xhigh": "xhigh"},
        "input": ["text", "image"],
        "contextWindow": 1000,
        "maxTokens": 100,
        "cost": rates(1, 2),
        "sources": {"litellm": "2030-01-11"},
    }


def test_a_dated_id_has_what_is_known_of_the_one_without(packages: Any) -> None:
    """Quirks and levels that pi-ai has for ``rocket`` hold for ``rocket-2029-08-07`` too."""
    quirks = {"supportsStore": False}
    found = entries(
        packages([pi_model("rocket", compat=quirks)], {"groq/rocket-2029-08-07": litellm_model(1, 2)})
    )
    assert found["rocket-2029-08-07"]["compat"] == quirks
    assert "name" not in found["rocket-2029-08-07"]


def test_protocols_that_a_model_speaks(packages: Any) -> None:
    """Endpoints are protocols of ours; Claude on Vertex speaks Anthropic's, and new ones think adaptively."""
    endpoints = ["/v1/responses", "/v1/batch"]
    found = entries(
        packages([pi_model("rocket")], {"groq/rocket": litellm_model(1, 2, supported_endpoints=endpoints)})
    )
    assert found["rocket"]["apis"] == ["openai-responses"]
    claude = litellm_model(
        1, 2, litellm_provider="vertex_ai-anthropic_models", supports_adaptive_thinking=True
    )
    vertex = entries(packages(None, {"vertex_ai/claude-x": claude}, vendor=VERTEX))["claude-x"]
    assert (vertex["api"], vertex["apis"]) == ("anthropic-messages", ["anthropic-messages"])
    assert vertex["compat"] == {"forceAdaptiveThinking": True}


def test_the_same_packages_give_the_same_bytes(packages: Any, tmp_path: Path) -> None:
    """Models are sorted, one on a line, and written through the command as they are built."""
    models = [pi_model(id) for id in ("b", "a", "c")]
    files = packages(models)
    assert packages(models[::-1]) == files
    lines = files["groq.json"].splitlines()
    assert [json.loads(line.rstrip(","))["id"] for line in lines[1:-1]] == ["a", "b", "c"]
    to = tmp_path / "to"
    to.mkdir()
    assert build.main([str(tmp_path), "--to", str(to)]) == 0
    assert (to / "groq.json").read_text(encoding="utf-8") == files["groq.json"]
    assert {file.stem for file in to.iterdir()} == {vendor.id for vendor in VENDORS}
