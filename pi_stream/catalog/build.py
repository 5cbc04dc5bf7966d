"""Builds the catalog's data from the packages it is made of; a tool for those who work on pi_stream.

::

    python -m pi_stream.catalog.build --download DIRECTORY     gets the newest packages, then builds
    python -m pi_stream.catalog.build DIRECTORY                builds from the packages that are there

The directory holds the three archives and ``dates.json``, which says when each was published. The same packages give the
same bytes. Nothing in the data is typed by hand: to change a model, change a source, or use an overlay file.

**Which models.** All of pi-ai for the vendors of :data:`~pi_stream.catalog._sources.VENDORS`, and what litellm
has beside them. A dated id, such as ``gpt-5-2025-08-07``, that pi-ai does not list has what pi-ai says of the id without
the date.

**Which value.** Each source states what it knows. Where they differ the entry carries all values in ``disputed``, and two
against one win, else the order is pi-ai, litellm, genai-prices; of windows the largest. Rates that are equal to three
digits are equal, and so are windows of which one counts the input alone and the other input and output.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from pi_stream.catalog import DATA, dateless
from pi_stream.catalog._sources import VENDORS, Facts, GenaiPrices, LiteLLM, PiAi, Source, Vendor

__all__ = ["build", "download", "main"]

_RATES = ("input", "output", "cacheRead", "cacheWrite")
# What sources may dispute, in the order of an entry; what only one of them states is taken from it.
_KEYS = (
    *(
        "name",
        "api",
        "apis",
        "reasoning",
        "thinkingLevelMap",
        "input",
        "inputLimits",
        "contextWindow",
        "maxTokens",
    ),
    *("cost", "promptCache", "compat"),
)
_DISPUTABLE = ("reasoning", "input", "maxTokens")

_ARCHIVES: dict[str, Callable[[Path, str], Source]] = {
    "earendil-works-pi-ai-*.tgz": PiAi,
    "litellm-*.whl": LiteLLM,
    "genai_prices-*.whl": GenaiPrices,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Build the data files."""
    parser = argparse.ArgumentParser(prog="python -m pi_stream.catalog.build", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("directory", type=Path, help="where the packages are")
    parser.add_argument("--download", action="store_true", help="get the newest packages first")
    parser.add_argument("--to", type=Path, default=DATA, help="where the data files go")
    arguments = parser.parse_args(argv)
    if arguments.download:
        download(arguments.directory)
    for name, text in build(sources(arguments.directory)).items():
        (arguments.to / name).write_text(text, encoding="utf-8", newline="\n")
    return 0


def sources(directory: Path) -> list[Source]:
    """The sources in a directory, the most trusted first."""
    dates = json.loads((directory / "dates.json").read_text(encoding="utf-8"))
    found: list[Source] = []
    for pattern, read in _ARCHIVES.items():
        (archive,) = directory.glob(pattern)
        found.append(read(archive, dates[archive.name]))
    return found


def build(sources: Sequence[Source], vendors: Iterable[Vendor] = VENDORS) -> dict[str, str]:
    """The text of each data file by its name: a JSON object with one model on a line."""
    about = {
        source.name: {"version": source.version, "date": source.date, "licence": source.licence}
        for source in sources
    }
    files: dict[str, str] = {}
    for vendor in vendors:
        entries = [
            _entry(sources, vendor, id)
            for id in sorted({id for source in sources for id in source.ids(vendor)})
        ]
        lines = ",\n".join(map(_dump, entries))
        files[f"{vendor.id}.json"] = f'{{"sources":{_dump(about)},"models":[\n{lines}\n]}}\n'
    return files


def _entry(sources: Sequence[Source], vendor: Vendor, id: str) -> Facts:
    """What the sources state of a model together."""
    stated = {source.name: facts for source in sources if (facts := source.facts(vendor, id)) is not None}
    first = sources[0]
    if first.name not in stated and (alias := first.facts(vendor, dateless(id))) is not None:
        alias.pop("name", None)
        stated = {first.name: alias, **stated}
    values: Facts = {}
    disputed: Facts = {}
    for key in _KEYS:
        by_source = {name: facts[key] for name, facts in stated.items() if key in facts}
        if key == "cost":
            values[key] = _cost(by_source, disputed)
        elif key == "contextWindow" and by_source:
            values[key] = _window(by_source, stated, disputed)
        elif key in _DISPUTABLE and by_source:
            values[key] = _settled(by_source, _same, disputed, key)
        elif by_source:
            values[key] = next(iter(by_source.values()))
    dates = {source.name: source.date for source in sources if source.name in stated}
    return {"id": id, **values, "sources": dates, **({"disputed": disputed} if disputed else {})}


def _window(by_source: Mapping[str, int], stated: Mapping[str, Facts], disputed: Facts) -> int:
    """The window of input and output together.

    Where one counts the input alone, two differ by the longest answer, and agree. Of windows that as many sources agree
    with the largest is taken: a provider refuses what does not fit, and nobody else should refuse what does.
    """
    answers = {facts["maxTokens"] for facts in stated.values() if "maxTokens" in facts}

    def agree(one: int, other: int) -> bool:
        return one == other or abs(one - other) in answers

    largest_first = dict(sorted(by_source.items(), key=lambda entry: -entry[1]))
    return int(_settled(largest_first, agree, disputed, "contextWindow"))


def _cost(stated: Mapping[str, Facts], disputed: Facts) -> Facts:
    cost: Facts = {}
    for name in _RATES:
        by_source = {source: rates[name] for source, rates in stated.items() if name in rates}
        cost[name] = _settled(by_source, _near, disputed, f"cost.{name}") if by_source else 0
    by_source = {source: _full_tiers(rates) for source, rates in stated.items() if rates.get("tiers")}
    if by_source:
        cost["tiers"] = _settled(by_source, _tiers_agree, disputed, "cost.tiers")
    return cost


def _full_tiers(cost: Facts) -> list[Facts]:
    """Tiers with all four rates: what a tier leaves out is that of the rates below it."""
    below: Facts = {"inputTokensAbove": 0, **{name: cost.get(name, 0) for name in _RATES}}
    full: list[Facts] = []
    for tier in sorted(cost["tiers"], key=lambda tier: int(tier["inputTokensAbove"])):
        below = {**below, **tier}
        full.append(below)
    return full


def _settled(stated: Mapping[str, Any], agree: Callable[[Any, Any], bool], disputed: Facts, key: str) -> Any:
    """The value that most sources agree with, of equals the first; all of them go to ``disputed`` if they differ."""
    values = list(stated.values())
    support = [sum(agree(value, other) for other in values) for value in values]
    if min(support) < len(values):
        disputed[key] = dict(stated)
    return values[support.index(max(support))]


def _same(one: Any, other: Any) -> bool:
    return bool(one == other)


def _near(one: Any, other: Any) -> bool:
    """Whether two rates are the same but for rounding."""
    return abs(Decimal(one) - Decimal(other)) <= max(Decimal(one), Decimal(other)) / 1000


def _tiers_agree(one: list[Facts], other: list[Facts]) -> bool:
    """Whether thresholds and rates are the same; of the cache rates not every source knows all."""
    names = ("inputTokensAbove", "input", "output")
    return len(one) == len(other) and all(
        _near(tier[name], twin[name]) for tier, twin in zip(one, other, strict=True) for name in names
    )


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_number)


def _number(value: Any) -> int | float:
    """A rate as JSON: exact to six digits after the point, which is a millionth of a cent for a thousand tokens."""
    if not isinstance(value, Decimal):
        raise TypeError(f"{value!r} has no JSON form")
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) else float(rounded)


def download(directory: Path) -> None:
    """Get the newest version of each package through npm and pip, and write down when they were published.

    npm's newest is the one published last: the tag ``latest`` can lag behind.
    """
    directory.mkdir(parents=True, exist_ok=True)
    package = "@earendil-works/pi-ai"
    times = json.loads(_run("npm", "view", package, "time", "--json"))
    version, published = max(
        ((name, time) for name, time in times.items() if name[:1].isdigit()), key=lambda entry: entry[1]
    )
    _run("npm", "pack", f"{package}@{version}", "--pack-destination", str(directory))
    dates = {f"earendil-works-pi-ai-{version}.tgz": published[:10]}
    for name in ("litellm", "genai-prices"):
        _run(sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(directory), name)
        accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
        request = urllib.request.Request(f"https://pypi.org/simple/{name}/", headers=accept)
        with urllib.request.urlopen(request, timeout=60) as answer:
            for file in json.load(answer)["files"]:
                if (directory / file["filename"]).exists():
                    dates[file["filename"]] = file["upload-time"][:10]
    (directory / "dates.json").write_text(json.dumps(dates, indent=1), encoding="utf-8")


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
