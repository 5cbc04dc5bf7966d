"""``pi-stream models``: the providers and models that are known, which keys are set, and whether they work."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from pi_stream.cli._console import FAILED, OK, Commands, note, use_utf8
from pi_stream.http import mask_url

if TYPE_CHECKING:
    from pi_stream.catalog import CatalogEntry
    from pi_stream.check import ConnectionCheck
    from pi_stream.models import Model
    from pi_stream.providers.base import Provider
    from pi_stream.providers.registry import Registry

__all__ = ["add_to", "execute"]

_DESCRIPTION = """\
List the providers that are known, and which keys are set (never the keys).
With QUERY, list the models in whose name all its words occur, or all models of the providers it names.

A model is named provider/model. Models that are not listed work too: a provider knows its own best. Prices are USD per
million tokens; a + marks those that rise with the prompt. A star marks what the sources of the catalog do not agree
about: --json shows the value of each.
"""


@frozen
class Known:
    """A model that is known, and its catalog entry, unless the provider describes it itself."""

    model: Model
    entry: CatalogEntry | None = None

    def mark(self, key: str) -> str:
        """A star where the sources differ about a key."""
        return "*" if self.entry is not None and key in self.entry.disputed else ""


@frozen
class Entry:
    """A provider and those of its models that are asked for.

    ``provider`` is None where it is not asked for itself: then nothing of it is shown, so it is not loaded.
    """

    provider: Provider | None
    models: tuple[Known, ...]


def add_to(commands: Commands, parent: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser = commands.add_parser(
        "models",
        help="list providers and models, or check a provider",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[parent],
    )
    parser.add_argument("query", metavar="QUERY", nargs="*", help="words of a provider or model name")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--check", metavar="PROVIDER[/MODEL]", help="ask a provider whether key, address and model are right"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print what is known, or what a provider says. 1 when a query finds nothing, or when something is wrong."""
    if arguments.check is not None:
        return _check(arguments.check, as_json=arguments.json)
    query = " ".join(arguments.query)
    entries = list(_entries(query, all_providers=arguments.json or not query))
    if query and not entries:
        entries = list(_entries(query, all_providers=True))
    if arguments.json:
        _print_json([_as_json(entry.provider, entry.models) for entry in entries if entry.provider])
    else:
        _print_tables(entries, with_models=bool(query))
    if query and not entries:
        note(f"pi-stream models: nothing is known by the name {query!r}")
        return FAILED
    return OK


def _entries(query: str, *, all_providers: bool) -> Iterator[Entry]:
    """The providers that are asked for, each with the models that are.

    Args:
        query: Words of a provider or model name.
        all_providers: Whether to load every provider. Else the models of a built-in one that is not named are those of
            the catalog, which takes a fraction of the time.
    """
    from pi_stream.exceptions import ConfigError
    from pi_stream.providers.registry import Registry

    registry = Registry()
    for name in registry.ids():
        if not all_providers and query.casefold() not in name and registry.is_built_in(name):
            models = [Known(entry.model, entry) for entry in registry.catalog.search(query, [name])]
            if models:
                yield Entry(None, tuple(models))
            continue
        try:
            provider = registry.provider(name)
        except (
            ConfigError,
            ImportError,
        ) as error:  # of somebody else's package: the others can still be used
            note(f"pi-stream models: {name}: {error}")
            continue
        asked = query.casefold() in f"{provider.id}\n{provider.name}".casefold()
        found = tuple(_models(registry, provider, "" if asked else query))
        if asked or found:
            yield Entry(provider, found)


def _models(registry: Registry, provider: Provider, query: str) -> Iterator[Known]:
    """What the provider says of its models itself, then the catalog."""
    from pi_stream.catalog import matches
    from pi_stream.providers.registry import api_of, merged

    for model in provider.models:
        if matches(query, provider.id, model.id, model.name):
            yield Known(merged(provider, model))
    own = {model.id for model in provider.models}
    for entry in registry.catalog.search(query, [provider.id]):
        if entry.model.id not in own:
            yield Known(merged(provider, entry.for_api(api_of(provider))), entry)


def _check(spec: str, *, as_json: bool) -> int:
    import anyio

    from pi_stream.client import Client
    from pi_stream.serialization import to_json

    async def ask() -> ConnectionCheck:
        async with Client() as client:
            return await client.check(spec)

    found = anyio.run(ask)
    if as_json:
        _print_json(to_json(found))
    else:
        print(found)
    return OK if found.ok else FAILED


def _print_json(value: Any) -> None:
    from pi_stream.serialization import dumps

    use_utf8()
    print(dumps(value, indent=2))


def _as_json(provider: Provider, models: Iterable[Known]) -> dict[str, Any]:
    return {
        "provider": provider.id,
        "name": provider.name,
        "api": _api(provider),
        "baseUrl": _base_url(provider) or None,
        "keyEnv": list(provider.key_env),
        "keyRequired": provider.key_required,
        "keySet": _key_variable(provider) is not None,
        "models": [_model_as_json(known) for known in models],
    }


def _model_as_json(known: Known) -> dict[str, Any]:
    from pi_stream.serialization import to_json

    model = known.model
    shown: dict[str, Any] = to_json(evolve(model, headers=None, base_url=mask_url(model.base_url)))
    if known.entry is not None:
        shown["sources"] = known.entry.sources
        if known.entry.disputed:
            shown["disputed"] = known.entry.disputed
    return shown


# --- what a provider is -----------------------------------------------------------------------------------------------


def _api(provider: Provider) -> str | None:
    if provider.generate is not None:
        return None
    return provider.api if isinstance(provider.api, str) else provider.api.id


def _base_url(provider: Provider) -> str:
    """Where requests go, or nothing where that is settled only when they do."""
    from pi_stream.exceptions import ConfigError
    from pi_stream.models import Model
    from pi_stream.providers.registry import located

    if provider.runtime is not None or provider.generate is not None:
        return ""
    try:
        return mask_url(located(provider, Model(id="")).base_url)
    except ConfigError:  # an environment variable in the URL is not set: the template names it
        return provider.base_url


def _key_variable(provider: Provider) -> str | None:
    """The environment variable that holds the key."""
    from pi_stream.providers.base import from_environment

    return next((name for name in provider.key_env if from_environment([name]) is not None), None)


# --- tables -----------------------------------------------------------------------------------------------------------


def _print_tables(entries: Sequence[Entry], *, with_models: bool) -> None:
    providers = [
        _provider_row(entry.provider, len(entry.models)) for entry in entries if entry.provider is not None
    ]
    models = [known for entry in entries for known in entry.models]
    if providers:
        _print_table(("PROVIDER", "API", "BASE URL", "KEY", "MODELS"), providers)
    if providers and models:
        print()
    if not with_models:
        print("pi-stream models QUERY lists models, pi-stream models --check PROVIDER tries a key.")
    elif models:
        header = (
            "MODEL",
            "NAME",
            "CONTEXT",
            "OUTPUT",
            "$/M IN",
            "$/M OUT",
            "$/M CACHED",
            "REASONING",
            "INPUT",
        )
        _print_table(header, map(_model_row, models))


def _provider_row(provider: Provider, models: int) -> tuple[str, ...]:
    place = "starts on first use" if provider.runtime is not None else "-"
    return (
        provider.id,
        _api(provider) or "-",
        _base_url(provider) or place,
        _key(provider),
        f"{models} known" if models else "any",
    )


def _key(provider: Provider) -> str:
    if not provider.key_env:
        return "needed" if provider.key_required else "not needed"
    found = _key_variable(provider)
    return f"{found} (set)" if found else f"{' or '.join(provider.key_env)} (not set)"


def _model_row(known: Known) -> tuple[str, ...]:
    model, mark = known.model, known.mark
    tiered = "+" if model.cost.tiers else ""
    return (
        f"{model.provider}/{model.id}",
        model.name if model.name != model.id else "",
        _count(model.context_window) + mark("contextWindow"),
        _count(model.max_tokens) + mark("maxTokens"),
        f"{model.cost.input:g}{tiered}{mark('cost.input')}",
        f"{model.cost.output:g}{tiered}{mark('cost.output')}",
        f"{model.cost.cache_read:g}{tiered}{mark('cost.cacheRead')}",
        _reasoning(model) + mark("reasoning"),
        ", ".join(model.input) + mark("input"),
    )


def _count(tokens: int) -> str:
    return f"{tokens:,}" if tokens else "?"


def _reasoning(model: Model) -> str:
    """The levels that a model knows, from the first to the last."""
    from pi_stream.models import supported_levels

    levels = supported_levels(model)
    if not model.reasoning or not levels:
        return "no"
    return levels[0] if len(levels) == 1 else f"{levels[0]}..{levels[-1]}"


def _print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns as wide as their widest cell."""
    table = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
