"""``pi-stream models``: the providers and models that are known, and which keys are set."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from pi_stream.cli._console import FAILED, OK, Commands, mask_url, note, use_utf8

if TYPE_CHECKING:
    from pi_stream.models import Model
    from pi_stream.providers.base import Provider

__all__ = ["add_to", "execute"]

_DESCRIPTION = """\
List the providers and the models that are known, and which keys are set (never the keys).

A model is named provider/model. Models that are not listed work too: a provider knows its own best.
"""


@frozen
class Entry:
    """A provider and those of its models that are asked for."""

    provider: Provider
    models: tuple[Model, ...]


def add_to(commands: Commands, parent: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser = commands.add_parser(
        "models",
        help="list providers, models, and which keys are set",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[parent],
    )
    parser.add_argument(
        "query", metavar="QUERY", nargs="?", default="", help="part of a provider or model name"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print what is known. 1 when a query finds nothing."""
    entries = [found for entry in _entries() if (found := _matching(entry, arguments.query.casefold()))]
    if arguments.json:
        from pi_stream.serialization import dumps

        use_utf8()
        print(dumps([_as_json(entry) for entry in entries], indent=2))
    else:
        _print_tables(entries)
    if arguments.query and not entries:
        note(f"pi-stream models: nothing is known by the name {arguments.query!r}")
        return FAILED
    return OK


def _entries() -> Iterator[Entry]:
    from pi_stream.exceptions import ConfigError
    from pi_stream.providers.registry import Registry, merged

    registry = Registry()
    for name in registry.ids():
        try:
            provider = registry.provider(name)
        except (
            ConfigError,
            ImportError,
        ) as error:  # of somebody else's package: the others can still be used
            note(f"pi-stream models: {name}: {error}")
            continue
        yield Entry(provider, tuple(merged(provider, model) for model in provider.models))


def _matching(entry: Entry, query: str) -> Entry | None:
    """The entry with the models that match; all of them if the provider does."""
    if query in entry.provider.id.casefold() or query in entry.provider.name.casefold():
        return entry
    models = tuple(
        model
        for model in entry.models
        if query in f"{model.provider}/{model.id}".casefold() or query in model.name.casefold()
    )
    return evolve(entry, models=models) if models else None


def _as_json(entry: Entry) -> dict[str, Any]:
    from pi_stream.serialization import to_json

    provider = entry.provider
    return {
        "provider": provider.id,
        "name": provider.name,
        "api": _api(provider),
        "baseUrl": _base_url(provider) or None,
        "keyEnv": list(provider.key_env),
        "keyRequired": provider.key_required,
        "keySet": _key_variable(provider) is not None,
        "models": [
            to_json(evolve(model, headers=None, base_url=mask_url(model.base_url))) for model in entry.models
        ],
    }


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


def _print_tables(entries: Sequence[Entry]) -> None:
    if not entries:
        return
    _print_table(("PROVIDER", "API", "BASE URL", "KEY", "MODELS"), map(_provider_row, entries))
    models = [model for entry in entries for model in entry.models]
    if models:
        print()
        header = ("MODEL", "NAME", "CONTEXT", "OUTPUT", "$/M IN", "$/M OUT", "REASONING", "INPUT")
        _print_table(header, map(_model_row, models))


def _provider_row(entry: Entry) -> tuple[str, ...]:
    provider = entry.provider
    place = "starts on first use" if provider.runtime is not None else "-"
    return (
        provider.id,
        _api(provider) or "-",
        _base_url(provider) or place,
        _key(provider),
        f"{len(entry.models)} known" if entry.models else "any",
    )


def _key(provider: Provider) -> str:
    if not provider.key_env:
        return "needed" if provider.key_required else "not needed"
    found = _key_variable(provider)
    return f"{found} (set)" if found else f"{' or '.join(provider.key_env)} (not set)"


def _model_row(model: Model) -> tuple[str, ...]:
    return (
        f"{model.provider}/{model.id}",
        model.name,
        f"{model.context_window:,}" if model.context_window else "?",
        f"{model.max_tokens:,}" if model.max_tokens else "?",
        f"{model.cost.input:g}",
        f"{model.cost.output:g}",
        "yes" if model.reasoning else "no",
        ", ".join(model.input),
    )


def _print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns as wide as their widest cell."""
    table = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
