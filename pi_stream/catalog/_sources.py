"""What the catalog is built from: three packages of public registries, each read into the same facts.

======================  =====================================================  =======
package                 what it knows                                          licence
======================  =====================================================  =======
npm pi-ai               everything, reasoning levels and quirks included       MIT
PyPI litellm            windows, prices with tiers, abilities, endpoints       MIT
PyPI genai-prices       prices with tiers and their history, windows           MIT
======================  =====================================================  =======

*Facts* are a dict with the keys of :class:`~pi_stream.models.Model` in JSON; what a source does not state is absent.
Packages are read as archives: none of their code runs.
"""

from __future__ import annotations

import ast
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from decimal import Decimal
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from attrs import frozen

__all__ = ["VENDORS", "Facts", "GenaiPrices", "LiteLLM", "PiAi", "Source", "Vendor"]

Facts: TypeAlias = dict[str, Any]
_THOUSAND_TOKENS = 1000


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@frozen
class Vendor:
    """One of our providers, and what the sources call it.

    Attributes:
        id: Our provider id.
        pi: Its id in pi-ai.
        litellm: ``litellm_provider`` and, after a colon, what stands before its model ids; several, with spaces between.
        genai: Its id in genai-prices.
    """

    id: str
    pi: str = ""
    litellm: str = ""
    genai: str = ""


VENDORS: tuple[Vendor, ...] = (
    Vendor("amazon-bedrock", "amazon-bedrock", "bedrock_converse: bedrock:", "aws"),
    Vendor("anthropic", "anthropic", "anthropic:", "anthropic"),
    Vendor("azure", "azure", "azure:azure/", "azure"),
    Vendor("baseten", "baseten", "baseten:baseten/", "baseten"),
    Vendor("cerebras", "cerebras", "cerebras:cerebras/", "cerebras"),
    Vendor("cloudflare-ai-gateway", "cloudflare-ai-gateway", "clf_ai_gateway:clf_ai_gateway/"),
    Vendor("cloudflare-workers-ai", "cloudflare-workers-ai", "cloudflare:cloudflare/", "cloudflare"),
    Vendor("cohere", "", "cohere_chat:", "cohere"),
    Vendor("deepseek", "deepseek", "deepseek:deepseek/", "deepseek"),
    Vendor("fireworks", "fireworks", "fireworks_ai:fireworks_ai/", "fireworks"),
    Vendor("github-copilot", "github-copilot", "github_copilot:github_copilot/", "github-copilot"),
    Vendor("google", "google", "gemini:gemini/", "google"),
    Vendor(
        "google-vertex",
        "google-vertex",
        "vertex_ai-language-models: vertex_ai-anthropic_models:vertex_ai/",
        "google",
    ),
    Vendor("groq", "groq", "groq:groq/", "groq"),
    Vendor("huggingface", "huggingface"),
    Vendor("minimax", "minimax", "minimax:minimax/", "minimax"),
    Vendor("mistral", "mistral", "mistral:mistral/", "mistral"),
    Vendor("moonshotai", "moonshotai", "moonshot:moonshot/", "moonshotai"),
    Vendor("nvidia", "nvidia"),
    Vendor("openai", "openai", "openai:", "openai"),
    Vendor("openrouter", "openrouter", "", "openrouter"),
    Vendor("perplexity", "", "perplexity:perplexity/", "perplexity"),
    Vendor("qwen", "", "dashscope:dashscope/"),
    Vendor("together", "together", "together_ai:together_ai/", "together"),
    Vendor("vercel-ai-gateway", "vercel-ai-gateway", "vercel_ai_gateway:vercel_ai_gateway/"),
    Vendor("xai", "xai", "xai:xai/", "x-ai"),
    Vendor("zai", "zai", "zai:zai/", "zai"),
)


class Source(Protocol):
    """A package that knows models."""

    name: str
    version: str
    date: str
    licence: str

    def ids(self, vendor: Vendor) -> list[str]:
        """Ids of the vendor's models that are worth an entry."""
        ...

    def facts(self, vendor: Vendor, id: str) -> Facts | None:
        """What it states of a model; None when it does not know it."""
        ...


# --- npm pi-ai --------------------------------------------------------------------------------------------------------

_PI_KEYS = _words("name api reasoning thinkingLevelMap input contextWindow maxTokens cost promptCache compat")


class PiAi:
    """The catalog of npm ``@earendil-works/pi-ai``: one file for each vendor, models by api and id.

    Left out: headers and base URLs, which are the provider's business, and how images are scaled, which is the client's.

    Args:
        archive: The package, as ``npm pack`` gets it.
        date: When it was published.
    """

    name: str = "pi-ai"

    def __init__(self, archive: Path, date: str) -> None:
        self.date = date
        self._models: dict[tuple[str, str], Facts] = {}
        with tarfile.open(archive) as package:
            about = _read_json(_member(package, "package/package.json"))
            self.version, self.licence = about["version"], about["license"]
            for name in package.getnames():
                if re.fullmatch(r"package/dist/providers/data/[\w-]+\.json", name):
                    for models in _read_json(_member(package, name)).values():
                        self._add(models.values())

    def _add(self, models: Any) -> None:
        for model in models:
            if model.get("type", "chat") != "chat":
                continue
            facts = {key: model[key] for key in _PI_KEYS if key in model}
            limits = dict(model.get("inputLimits") or {})
            images = {
                key: value for key, value in (limits.pop("images", None) or {}).items() if key != "resize"
            }
            limits |= {"images": images} if images else {}
            if limits:
                facts["inputLimits"] = limits
            self._models[model["provider"], model["id"]] = facts

    def ids(self, vendor: Vendor) -> list[str]:
        """All it has of the vendor."""
        return [id for provider, id in self._models if provider == vendor.pi]

    def facts(self, vendor: Vendor, id: str) -> Facts | None:
        """What it states of a model. A cache rate of 0 may mean that nobody knows it, so it states nothing."""
        found = self._models.get((vendor.pi, id))
        if found is None:
            return None
        cost = {key: value for key, value in found["cost"].items() if value or not key.startswith("cache")}
        return {**found, "cost": {"tiers": [], **cost}}


# --- PyPI litellm -----------------------------------------------------------------------------------------------------

_LITELLM_RATES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cacheRead": "cache_read_input_token_cost",
    "cacheWrite": "cache_creation_input_token_cost",
}
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_ENDPOINTS = {
    "/v1/chat/completions": "openai-completions",
    "/v1/messages": "anthropic-messages",
    "/v1/responses": "openai-responses",
}
_CLAUDE = ("anthropic", "vertex_ai-anthropic_models")
_EFFORTS = {"none": "off", "minimal": "minimal", "low": "low", "xhigh": "xhigh", "max": "max"}


class LiteLLM:
    """The price map of PyPI ``litellm``: one object, models by name.

    Args:
        archive: The wheel.
        date: When it was uploaded.
    """

    name: str = "litellm"

    def __init__(self, archive: Path, date: str) -> None:
        self.date = date
        with zipfile.ZipFile(archive) as wheel:
            self.version, self.licence = _metadata(wheel)
            prices = _read_json(wheel.read("litellm/model_prices_and_context_window_backup.json"))
        self._models: dict[tuple[str, str], Facts] = {}
        names = {tuple(name.split(":")): vendor.id for vendor in VENDORS for name in vendor.litellm.split()}
        prefixes = {provider: (prefix, id) for (provider, prefix), id in names.items()}
        for key, entry in prices.items():
            if entry.get("mode") in ("chat", "responses") and entry.get("litellm_provider") in prefixes:
                prefix, vendor = prefixes[entry["litellm_provider"]]
                self._models[vendor, key.removeprefix(prefix)] = entry

    def ids(self, vendor: Vendor) -> list[str]:
        """Models that are still to be had, with their windows and prices; no regional copies and fine-tuned ones."""
        regional = vendor.id in ("amazon-bedrock", "azure")
        return [
            id
            for (provider, id), entry in self._models.items()
            if provider == vendor.id
            and entry.get("deprecation_date", "9999") > self.date
            and not id.startswith("ft:")
            and not (regional and "/" in id)
            and all(
                entry.get(key) for key in ("max_input_tokens", "max_output_tokens", "input_cost_per_token")
            )
        ]

    def facts(self, vendor: Vendor, id: str) -> Facts | None:
        """What it states of a model. Its window is that of the input alone where input and output have their own."""
        entry = self._models.get((vendor.id, id))
        if entry is None:
            return None
        facts: Facts = {"cost": {**_litellm_rates(entry, ""), "tiers": list(_litellm_tiers(entry))}}
        if isinstance(entry.get("max_input_tokens"), int):
            facts["contextWindow"] = entry["max_input_tokens"]
        if isinstance(entry.get("max_output_tokens"), int):
            facts["maxTokens"] = entry["max_output_tokens"]
        if isinstance(entry.get("supports_vision"), bool):
            facts["input"] = ["text", "image"] if entry["supports_vision"] else ["text"]
        if isinstance(entry.get("supports_reasoning"), bool):
            facts["reasoning"] = entry["supports_reasoning"]
        levels = {
            level: (word if entry[key] else None)
            for word, level in _EFFORTS.items()
            if isinstance(entry.get(key := f"supports_{word}_reasoning_effort"), bool)
        }
        if levels and facts.get("reasoning"):
            facts["thinkingLevelMap"] = levels
        apis = sorted(
            _ENDPOINTS[name] for name in entry.get("supported_endpoints") or () if name in _ENDPOINTS
        )
        if entry["litellm_provider"] in _CLAUDE:
            apis = ["anthropic-messages"]
            facts["api"] = apis[0]
            if entry.get("supports_adaptive_thinking"):
                facts["compat"] = {"forceAdaptiveThinking": True}
        if apis:
            facts["apis"] = apis
        return facts


def _litellm_rates(entry: Mapping[str, Any], above: str) -> Facts:
    """Rates in USD per million tokens."""
    return {
        name: Decimal(entry[key + above]) * 1_000_000
        for name, key in _LITELLM_RATES.items()
        if entry.get(key + above) is not None
    }


def _litellm_tiers(entry: Mapping[str, Any]) -> Iterator[Facts]:
    for key in entry:
        match = _TIER.fullmatch(key)
        if match and entry[key] is not None:
            rates = _litellm_rates(entry, f"_above_{match[1]}k_tokens")
            yield {"inputTokensAbove": int(match[1]) * _THOUSAND_TOKENS, **rates}


# --- PyPI genai-prices ------------------------------------------------------------------------------------------------

_GENAI_RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cacheRead": "cache_read_mtok",
    "cacheWrite": "cache_write_mtok",
}


class GenaiPrices:
    """The data of PyPI ``genai-prices``: Python literals, models by clauses that their ids match.

    Args:
        archive: The wheel.
        date: When it was uploaded; the prices of that day are taken.
    """

    name: str = "genai-prices"

    def __init__(self, archive: Path, date: str) -> None:
        self.date = date
        with zipfile.ZipFile(archive) as wheel:
            self.version, self.licence = _metadata(wheel)
            tree = ast.parse(wheel.read("genai_prices/data.py"))
        (data,) = (node.value for node in tree.body if isinstance(node, ast.AnnAssign) and node.value)
        self._providers: dict[str, Facts] = {provider["id"]: provider for provider in _literal(data)}

    def ids(self, vendor: Vendor) -> list[str]:
        """None: its ids stand for many."""
        return []

    def facts(self, vendor: Vendor, id: str) -> Facts | None:
        """What it states of a model."""
        model = self._find(vendor.genai, id.lower())
        if model is None or not (prices := self._current(model["prices"])):
            return None
        plain = {name: prices[key] for name, key in _GENAI_RATES.items() if prices.get(key) is not None}
        cost: Facts = {name: rate["base"] if isinstance(rate, dict) else rate for name, rate in plain.items()}
        facts: Facts = {"cost": {**cost, "tiers": _genai_tiers(plain)}}
        if model.get("context_window"):
            facts["contextWindow"] = model["context_window"]
        return facts

    def _find(self, provider: str, id: str) -> Facts | None:
        known = self._providers.get(provider, {})
        for name in (provider, *(known.get("fallback_model_providers") or ())):
            for model in self._providers.get(name, {}).get("models", ()):
                if _matches(model["match"], id):
                    found: Facts = model
                    return found
        return None

    def _current(self, prices: Any) -> Facts:
        """The prices of the day, of those without a time of day; the last that holds wins."""
        if isinstance(prices, dict):
            return prices
        current: Facts = prices[0]["prices"] if prices else {}
        for price in prices:
            since = (price.get("constraint") or {}).get("start_date")
            if since is not None and since <= self.date:
                current = price["prices"]
        return current


def _genai_tiers(rates: Mapping[str, Any]) -> list[Facts]:
    """Its tiers are of single rates, ours of all four. 199999 is its way to write that 200000 is in the tier."""
    tiers: dict[int, Facts] = {}
    for name, rate in rates.items():
        for tier in rate["tiers"] if isinstance(rate, dict) else ():
            above = tier["start"] + (tier["start"] % 1000 == 999)
            tiers.setdefault(above, {"inputTokensAbove": above})[name] = tier["price"]
    return [tiers[above] for above in sorted(tiers)]


def _matches(clause: Facts, id: str) -> bool:
    """Whether a clause of genai-prices is true of a model id in lower case."""
    ((kind, value),) = clause.items()
    if kind in ("or_", "and_"):
        return (any if kind == "or_" else all)(_matches(part, id) for part in value)
    if kind == "regex":
        return re.search(value, id) is not None
    value = value.lower()
    tests = {"equals": id == value, "starts_with": id.startswith(value), "ends_with": id.endswith(value)}
    return bool(tests.get(kind, value in id))


def _literal(node: ast.expr) -> Any:
    """The value of a Python literal, in which calls are objects: their keywords, a Decimal, or a date as ISO text."""
    if isinstance(node, ast.Call):
        if node.keywords:
            return {word.arg: _literal(word.value) for word in node.keywords}
        values = [_literal(argument) for argument in node.args]
        if len(values) == 1:
            return Decimal(values[0])
        return "-".join(f"{value:02}" for value in values if isinstance(value, int))
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ast.unparse(node)
    return ast.literal_eval(node) if not isinstance(node, ast.Dict) else _literal_dict(node)


def _literal_dict(node: ast.Dict) -> dict[Any, Any]:
    pairs = zip(node.keys, node.values, strict=True)
    return {_literal(key): _literal(value) for key, value in pairs if key is not None}


# --- archives ---------------------------------------------------------------------------------------------------------


def _read_json(text: bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


def _member(package: tarfile.TarFile, name: str) -> bytes:
    file = package.extractfile(name)
    assert file is not None, f"{name} is no file"
    return file.read()


def _metadata(wheel: zipfile.ZipFile) -> tuple[str, str]:
    """Version and licence of a wheel."""
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    fields = HeaderParser().parsestr(wheel.read(name).decode())
    return fields["Version"], fields["License-Expression"] or fields["License"]
