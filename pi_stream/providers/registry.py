"""Finding providers and models by name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from attrs import evolve

from pi_stream.catalog import Catalog
from pi_stream.exceptions import ConfigError
from pi_stream.models import Model
from pi_stream.providers.base import Provider, from_environment

__all__ = ["Registry", "api_of", "located", "merged", "register"]

ENTRY_POINT_GROUP = "pi_stream.providers"

_NO_VENDORS = ("base", "local_server", "registry")
_RENAMED = {"vertex": "google-vertex"}


def _built_in() -> dict[str, str]:
    """The built-in providers: id to module, which is loaded on first use.

    Each is a module of this folder, whose name is the id with ``_`` for ``-``.
    """
    names = (module.name for module in iter_modules([str(Path(__file__).parent)]))
    return {
        _RENAMED.get(name, name.replace("_", "-")): f"pi_stream.providers.{name}"
        for name in names
        if not name.startswith("_") and name not in _NO_VENDORS
    }


def entry_points(group: str) -> Iterable[Any]:
    """The entry points of a group. What finds them is loaded on first use."""
    from importlib.metadata import entry_points

    return entry_points(group=group)


_MODULES = _built_in()
_registered: dict[str, Provider] = {}


def register(provider: Provider) -> Provider:
    """Make a provider known to every client of this process. A later one with the same id replaces it."""
    _registered[provider.id] = provider
    return provider


class Registry:
    """The providers a client knows: its own, registered ones, installed ones (entry points), built-in ones.

    Args:
        providers: The client's own.
        catalog: What is known of models that a provider does not describe itself.
    """

    def __init__(self, providers: Iterable[Provider] = (), catalog: Catalog | None = None) -> None:
        self._own = {provider.id: provider for provider in providers}
        self.catalog = catalog or Catalog()
        self._installed: dict[str, Any] | None = None

    def ids(self) -> list[str]:
        """Ids of all known providers, sorted."""
        return sorted({*self._own, *_registered, *self._entry_points(), *_MODULES})

    def is_built_in(self, id: str) -> bool:
        """Whether an id stands for a provider of this package: nobody has put another in its place."""
        return id in _MODULES and id not in {*self._own, *_registered, *self._entry_points()}

    def provider(self, id: str) -> Provider:
        """The provider of an id.

        Raises:
            ConfigError: Nobody knows it; the message lists near names.
        """
        if id in self._own:
            return self._own[id]
        if id in _registered:
            return _registered[id]
        if id in self._entry_points():
            return self._load(id)
        if id in _MODULES:
            found: Provider = import_module(_MODULES[id]).provider
            return found
        near = get_close_matches(id, self.ids(), n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else f"known are: {', '.join(self.ids())}"
        raise ConfigError(f"unknown provider {id!r}; {hint}")

    def model(self, spec: str | Model) -> tuple[Provider, Model, bool]:
        """The provider and the model of a name.

        Args:
            spec: ``"provider/id"``, where the provider is what stands before the first slash and the rest is the id,
                untouched; ``"provider"`` alone for its default model; or a model record.

        Returns:
            The provider, the model with headers and quirks of the provider merged in, and whether anything is known
            of the model.

        Raises:
            ConfigError: The provider is unknown, or has no default model.
        """
        if isinstance(spec, Model):
            provider = self.provider(spec.provider)
            return provider, merged(provider, spec), True
        name, slash, id = spec.partition("/")
        provider = self.provider(name)
        if not id:
            first = provider.models[0].id if provider.models else ""
            id = from_environment(provider.default_model_env) or provider.default_model or first
            if slash or not id:
                raise ConfigError(f"name a model as 'provider/model': {provider.id!r} has no default model")
        for model in provider.models:
            if model.id == id:
                return provider, merged(provider, model), True
        known = self.catalog.lookup(provider.id, id, api_of(provider))
        if known is not None:
            return provider, merged(provider, known), True
        # Nothing is known of it, so nothing is taken away from it: images go through.
        return provider, merged(provider, Model(id=id, input=("text", "image"))), False

    def _entry_points(self) -> dict[str, Any]:
        if self._installed is None:
            self._installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
        return self._installed

    def _load(self, id: str) -> Provider:
        point = self._entry_points()[id]
        try:
            provider = point.load()
        except Exception as error:
            raise ConfigError(
                f"the installed provider {id!r} ({point.value}) cannot be loaded: {error!r}"
            ) from error
        if callable(provider) and not isinstance(provider, Provider):
            provider = provider()
        if not isinstance(provider, Provider):
            raise ConfigError(
                f"the entry point {id!r} ({point.value}) gives {type(provider).__name__}, no Provider"
            )
        return provider


def api_of(provider: Provider) -> str:
    """The id of a provider's protocol."""
    return provider.api if isinstance(provider.api, str) else provider.api.id


def merged(provider: Provider, model: Model) -> Model:
    """The model with what its provider says merged in; what the model says itself wins."""
    return evolve(
        model,
        name=model.name or model.id,
        provider=provider.id,
        api=model.api or api_of(provider),
        headers={**provider.headers, **(model.headers or {})},
        compat={**provider.quirks, **(model.compat or {})},
    )


def located(provider: Provider, model: Model, base_url: str | None = None) -> Model:
    """The model with the base URL that applies, and what else the environment says of it.

    Args:
        provider: Its provider.
        model: The model; a base URL of its own wins over all but ``base_url``.
        base_url: What the caller wants.

    Raises:
        ConfigError: The URL needs an environment variable that is not set.
    """
    url = base_url or model.base_url or from_environment(provider.base_url_env)
    if not url:
        url = provider.locate(os.environ) if provider.locate is not None else provider.base_url
        url = re.sub(r"{(\w+)}", lambda match: _variable(provider, match[1]), url)
    model = evolve(model, base_url=url)
    if provider.configure is not None:
        model = provider.configure(model, os.environ)
    return evolve(model, base_url=base_url) if base_url else model


def _variable(provider: Provider, name: str) -> str:
    value = from_environment((name,))
    if value is None:
        raise ConfigError(f"the base URL of provider {provider.id!r} needs the environment variable {name}")
    return value
