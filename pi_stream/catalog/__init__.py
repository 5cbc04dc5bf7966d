"""The catalog: what is known of the vendors' models, as data that is read when it is first asked for.

One file for each vendor in ``data/``, built by :mod:`pi_stream.catalog.build` from the catalogs of npm pi-ai,
PyPI litellm and PyPI genai-prices (all MIT); no value is typed by hand. Prices and windows change: an *overlay file* of
your own, named by ``Client(catalog=...)`` or the environment variable ``PI_STREAM_CATALOG``, corrects and adds models::

    {
        "models": [
            {"provider": "openai", "id": "gpt-5", "cost": {"input": 1.5}},
            {"provider": "acme", "id": "rocket-1", "contextWindow": 200000, "reasoning": true},
        ]
    }

Its keys are those of :class:`~pi_stream.models.Model` in JSON. What an entry does not name stays as it is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from attrs import evolve, fields_dict, frozen

from pi_stream.exceptions import ConfigError, SerializationError
from pi_stream.models import Model
from pi_stream.usage import CostTier, ModelCost

__all__ = ["DATA", "OVERLAY_VARIABLE", "Catalog", "CatalogEntry", "dateless", "lookup", "matches", "search"]

DATA = Path(__file__).parent / "data"
"""Where the data files are."""

OVERLAY_VARIABLE = "PI_STREAM_CATALOG"
"""The environment variable that names an overlay file."""

Facts: TypeAlias = dict[str, Any]

# Providers that are another way to the same models.
_SAME_MODELS = {"openai-responses": "openai", "azure-openai-responses": "azure"}
_OURS = {"azure-openai-completions": "openai-completions", "azure-openai-responses": "openai-responses"}


@frozen(kw_only=True)
class CatalogEntry:
    """What is known of a model, and from whom.

    Attributes:
        model: The model. ``api`` and ``compat`` are those of the protocol that the sources reach it by.
        apis: Protocols it is known to speak; empty when nobody says.
        sources: Where the facts come from, and the date of each source: the first source is the main one.
        disputed: Where the sources differ: a key, such as ``contextWindow`` or ``cost.input``, to the value of each.
        stated: The keys of the model that a source states; the others have default values.
    """

    model: Model
    apis: tuple[str, ...] = ()
    sources: dict[str, str]
    disputed: dict[str, dict[str, Any]]
    stated: frozenset[str]

    def for_api(self, api: str) -> Model:
        """The model as it is asked through a protocol.

        Quirks of another protocol are left out. Where the model is known not to speak this one, its own is kept.
        """
        own = self.model.api
        if own == api or (self.apis and own in self.apis and _OURS.get(api, api) not in self.apis):
            return self.model
        return evolve(self.model, api="", compat=None)


class Catalog:
    """The catalog with an overlay.

    Args:
        overlay: The overlay file; without one, what ``PI_STREAM_CATALOG`` names, if anything.
    """

    def __init__(self, overlay: str | os.PathLike[str] | None = None) -> None:
        self._path = overlay or os.environ.get(OVERLAY_VARIABLE, "").strip() or None
        self._overlay: dict[str, dict[str, Facts]] | None = None

    def find(self, provider: str, id: str) -> CatalogEntry | None:
        """What is known of a model.

        Args:
            provider: Provider id.
            id: Model id. A dated id that is not known, such as ``gpt-5-2025-08-07``, is taken for the one without a date.

        Raises:
            ConfigError: The overlay file cannot be read; the message says why.
        """
        vendor = _SAME_MODELS.get(provider, provider)
        changes = self._changes(vendor, provider)
        known = _models(vendor)
        for name in (id, dateless(id)):
            if name in known or name in changes:
                return _entry(provider, id, known.get(name, {}), changes.get(name))
        return None

    def lookup(self, provider: str, id: str, api: str = "") -> Model | None:
        """The record of a model; None when nothing is known of it.

        Args:
            provider: Provider id.
            id: Model id.
            api: Protocol that it is asked through; without one, the record is as the sources have it.

        Raises:
            ConfigError: As for :meth:`find`.
        """
        entry = self.find(provider, id)
        if entry is None:
            return None
        return entry.for_api(api) if api else entry.model

    def search(self, query: str = "", providers: Iterable[str] | None = None) -> list[CatalogEntry]:
        """The models in whose name (``provider/id`` and title) all words of a query occur, whatever their case.

        Args:
            query: The words; without any, all models.
            providers: Provider ids to look at; by default all that the catalog has.

        Raises:
            ConfigError: As for :meth:`find`.
        """
        overlay = self._read()
        found: list[CatalogEntry] = []
        for provider in sorted({*_vendors(), *overlay} if providers is None else set(providers)):
            vendor = _SAME_MODELS.get(provider, provider)
            known, changes = _models(vendor), self._changes(vendor, provider)
            for id in sorted({*known, *changes}):
                facts = known.get(id, {})
                title = changes.get(id, {}).get("name") or facts.get("name", "")
                if matches(query, provider, id, title):
                    found.append(_entry(provider, id, facts, changes.get(id)))
        return found

    def _changes(self, *providers: str) -> Mapping[str, Facts]:
        overlay = self._read()
        return {id: facts for name in providers for id, facts in overlay.get(name, {}).items()}

    def _read(self) -> dict[str, dict[str, Facts]]:
        if self._overlay is None:
            self._overlay = _read_overlay(Path(self._path)) if self._path is not None else {}
        return self._overlay


def lookup(provider: str, id: str) -> Model | None:
    """The record of a model; None when nothing is known of it. See :meth:`Catalog.lookup`."""
    return Catalog().lookup(provider, id)


def search(query: str = "") -> list[CatalogEntry]:
    """The models in whose name all words of a query occur. See :meth:`Catalog.search`."""
    return Catalog().search(query)


def matches(query: str, provider: str, id: str, title: str = "") -> bool:
    """Whether all words of a query occur in a model's name or title, whatever their case."""
    name = f"{provider}/{id} {title}".casefold()
    return all(word in name for word in query.casefold().split())


def dateless(id: str) -> str:
    """A model id without the date at its end: ``gpt-5-2025-08-07`` and ``claude-opus-4-5-20251101`` have one."""
    return re.sub(r"-(\d{8}|\d{4}-\d\d-\d\d)$", "", id)


# --- the data files ---------------------------------------------------------------------------------------------------


@cache
def _vendors() -> frozenset[str]:
    return frozenset(file.stem for file in DATA.glob("*.json"))


@cache
def _models(vendor: str) -> Mapping[str, Facts]:
    """The facts of a vendor's models by id; none for a vendor that is not there."""
    if vendor not in _vendors():
        return {}
    data = json.loads((DATA / f"{vendor}.json").read_bytes())
    return {facts["id"]: facts for facts in data["models"]}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def _by_key(*classes: type) -> dict[str, str]:
    """The attributes of classes by their keys in JSON."""
    names = {name for cls in classes for name in fields_dict(cls)} - {"extra", "_absent"}
    return {_camel(name): name for name in sorted(names)}


_ATTRIBUTES = _by_key(Model)
_RATES = _by_key(ModelCost, CostTier)
_OTHERS = ("cost", "id", "input", "provider")


def _entry(provider: str, id: str, facts: Facts, changes: Facts | None) -> CatalogEntry:
    sources, disputed = facts.get("sources", {}), facts.get("disputed", {})
    apis = tuple(facts.get("apis", ()))
    stated = frozenset(_ATTRIBUTES) & {*facts, *(changes or ())}
    if changes is None:
        model = _model(provider, id, facts)
    else:
        model = _changed_model(provider, id, facts, changes)
        sources = {"overlay": "", **sources}
        disputed = {key: values for key, values in disputed.items() if not _names(changes, key)}
        apis = (model.api,) if "api" in changes else apis
    return CatalogEntry(model=model, apis=apis, sources=sources, disputed=disputed, stated=stated)


def _model(provider: str, id: str, facts: Facts) -> Model:
    """A record of facts from the data files, which need no checks."""
    plain = {_ATTRIBUTES[key]: facts[key] for key in facts if key in _ATTRIBUTES and key not in _OTHERS}
    rates = {_RATES[key]: rate for key, rate in facts.get("cost", {}).items()}
    if "tiers" in rates:
        tiers = ({_RATES[key]: rate for key, rate in tier.items()} for tier in rates["tiers"])
        rates["tiers"] = tuple(CostTier(**tier) for tier in tiers)
    # Where nobody says what goes in, nothing is taken away.
    content = tuple(facts.get("input", ("text", "image")))
    return Model(id=id, provider=provider, input=content, cost=ModelCost(**rates), **plain)


# --- the overlay ------------------------------------------------------------------------------------------------------


def _read_overlay(path: Path) -> dict[str, dict[str, Facts]]:
    """The entries of an overlay file by provider and id, each checked."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the catalog overlay {path}: {error}") from error
    models = data.get("models") if isinstance(data, dict) else data
    if not isinstance(models, list):
        raise ConfigError(f'the catalog overlay {path} must be a list of models, or {{"models": [...]}}')
    overlay: dict[str, dict[str, Facts]] = {}
    for position, facts in enumerate(models):
        problem = _problem(facts)
        if problem:
            raise ConfigError(f"the catalog overlay {path}: models[{position}]: {problem}")
        overlay.setdefault(facts["provider"], {})[facts["id"]] = facts
    return overlay


def _problem(facts: Any) -> str | None:
    from pi_stream.serialization import from_json

    if not isinstance(facts, dict) or not facts.get("provider") or not facts.get("id"):
        return "a model needs a provider and an id"
    unknown = sorted(set(facts) - set(_ATTRIBUTES))
    if unknown:
        return f"unknown key {', '.join(unknown)}; known are: {', '.join(_ATTRIBUTES)}"
    try:
        from_json(facts, Model)
    except SerializationError as error:
        return str(error)
    return None


def _changed_model(provider: str, id: str, facts: Facts, changes: Facts) -> Model:
    """A record of facts and the overlay's over them; objects such as ``cost`` are merged key by key."""
    from pi_stream.serialization import from_json

    merged = {"input": ["text", "image"]} | {key: facts[key] for key in facts if key in _ATTRIBUTES}
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return from_json({**merged, "id": id, "provider": provider}, Model)


def _names(changes: Facts, key: str) -> bool:
    """Whether an overlay settles a disputed key."""
    name, _, part = key.partition(".")
    return name in changes and (not part or part in changes[name])
