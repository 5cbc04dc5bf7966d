"""The layers: what each module may import. The table is the rule; the picture is in docs/explanation/architecture.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "pi_stream"

# What each part may import, itself included. A part is a module, or a package with everything in it.
VALUES = {
    "_text",
    "exceptions",
    "usage",
    "models",
    "http",
    "messages",
    "handover",
    "context_size",
    "overflow",
    "options",
}
SANS_IO = VALUES | {"events", "partial_json", "wire", "apis", "reducer", "guard"}
ENGINE = SANS_IO | {"version", "_json_rules", "serialization", "transport", "engine"}
CLIENT = ENGINE | {"catalog", "providers", "check", "client"}

MAY_IMPORT: dict[str, set[str]] = {
    # values and folding: attrs only
    "version": set(),
    "exceptions": set(),
    "usage": {"exceptions"},
    "models": {"exceptions", "usage"},
    "http": {"exceptions"},
    "partial_json": {"exceptions"},
    "messages": {"exceptions", "usage", "partial_json"},
    "_text": set(),
    "handover": {"_text", "exceptions", "usage", "models", "messages", "handover"},
    "overflow": {"messages"},
    "context_size": {"exceptions", "usage", "models", "messages"},
    "options": {"exceptions", "usage", "models", "http", "messages", "handover"},
    "tools": {"exceptions", "messages", "tools"},
    "events": {"exceptions", "usage", "messages"},
    "reducer": {"exceptions", "usage", "messages", "events", "partial_json"},
    "guard": {"exceptions", "usage", "messages", "events", "partial_json", "reducer"},
    "_json_rules": VALUES | {"events"},
    "serialization": VALUES | {"events", "_json_rules"},
    # sans-IO: bytes to chunks to events
    "wire": {"exceptions", "events", "wire"},
    "apis": VALUES
    | {"events", "partial_json", "serialization", "wire", "apis"},  # a proxy gets transcripts as JSON
    # sockets, then the only await loops
    "transport": {"version", "exceptions", "http", "options", "wire", "transport"},
    "engine": ENGINE,
    # what users hold
    "catalog": {"exceptions", "usage", "models", "serialization", "catalog"},
    "providers": ENGINE | {"catalog", "providers"},
    "structured": ENGINE | {"tools", "structured"},
    "check": ENGINE | {"catalog", "providers", "check"},
    "client": CLIENT,
    # around it
    "testing": CLIENT | {"testing"},
    "bench": CLIENT | {"testing", "bench"},
    "cli": CLIENT | {"testing", "bench", "cli", "pi_stream"},
}

# Third-party packages that are imported in one place alone.
HOME = {
    "aiohttp": {"pi_stream.transport.aiohttp"},
    "cattrs": {"pi_stream.serialization", "pi_stream._json_rules"},
}

# Parts that may wait. Everything else is plain synchronous code.
MAY_AWAIT = {"transport", "engine", "providers", "structured", "check", "client", "testing", "bench", "cli"}

MODULES = {
    ".".join(("pi_stream", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in sorted(PACKAGE.rglob("*.py"))
}


def part_of(module: str) -> str:
    """``pi_stream.wire.sse`` belongs to ``wire``, ``pi_stream`` itself is ``pi_stream``."""
    return [*module.split("."), module][1]


def is_type_checking(node: ast.AST) -> bool:
    """An ``if TYPE_CHECKING:`` block: never run, so it loads nothing."""
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Everything that can run, functions included."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield other
                yield from walk(other)
        else:
            yield child
            yield from walk(child)


def imports(module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of each import: of our own modules as deep as it goes."""
    for node in walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            base = node.module or ""
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield node.lineno, name if name in MODULES else base


@pytest.mark.parametrize("module", MODULES)
def test_imports_only_what_stands_left_of_it(module: str) -> None:
    """Every import, lazy ones too, goes to a part that the table allows."""
    part = part_of(module)
    if part == "pi_stream":  # loads everything, on first use
        return
    assert part in MAY_IMPORT, f"{module} is in no layer: give it a line in MAY_IMPORT"
    wrong = [
        f"{module}:{line} imports {name}"
        for line, name in imports(module)
        if name.split(".")[0] == "pi_stream" and part_of(name) not in MAY_IMPORT[part]
    ]
    assert not wrong


@pytest.mark.parametrize("module", MODULES)
def test_third_party_packages_stay_at_home(module: str) -> None:
    """aiohttp is imported by one transport alone, cattrs by the serialization alone."""
    wrong = [
        f"{module}:{line} imports {name}"
        for line, name in imports(module)
        if module not in HOME.get(name.split(".")[0], {module})
    ]
    assert not wrong


@pytest.mark.parametrize("module", [module for module in MODULES if part_of(module) not in MAY_AWAIT])
def test_no_await_below_the_transport(module: str) -> None:
    """Values, wire and apis are synchronous: no coroutine, no await."""
    waits = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    wrong = [f"{module}:{node.lineno}" for node in ast.walk(tree) if isinstance(node, waits)]
    assert not wrong


def test_the_table_is_a_layering() -> None:
    """No two parts may import each other, directly or around corners."""
    order: list[str] = []
    left = {part: allowed - {part, "pi_stream"} for part, allowed in MAY_IMPORT.items()}
    while left:
        free = [part for part, allowed in left.items() if allowed <= set(order)]
        assert free, f"a circle among {sorted(left)}"
        order += free
        for part in free:
            del left[part]
