"""What all tests share: the loops async tests run on, the material beside the project, settings of hypothesis."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]

# A slow machine is not a bug: nothing here is measured by the clock.
# `make test` looks a little everywhere, `make test-long` looks hard.
hypothesis.settings.register_profile("pi_stream", deadline=None, print_blob=True, max_examples=40)
hypothesis.settings.register_profile("long", hypothesis.settings.get_profile("pi_stream"), max_examples=500)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "pi_stream"))

# Without debug mode: it would slow streams down, and hides nothing that "warnings are errors" does not show.
ASYNCIO = [pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio")]
if importlib.util.find_spec("uvloop"):
    ASYNCIO.append(pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"))
TRIO = [pytest.param(("trio", {}), id="trio")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run async tests on asyncio and uvloop, those of the engine on trio too.

    An async test is marked ``pytest.mark.anyio``. Tests under ``tests/engine`` run on all three unless they are marked
    ``http``: aiohttp is for asyncio only. A test elsewhere asks for trio with the marker ``trio``.
    """
    if "anyio_backend" not in metafunc.fixturenames:
        return
    node = metafunc.definition
    if any(mark.args[0] == "anyio_backend" for mark in node.iter_markers("parametrize")):
        return
    in_engine = (ROOT / "tests" / "engine") in node.path.parents
    with_trio = node.get_closest_marker("trio") or (in_engine and not node.get_closest_marker("http"))
    metafunc.parametrize(
        "anyio_backend", ASYNCIO + TRIO if with_trio else ASYNCIO, indirect=True, scope="module"
    )


@pytest.fixture(scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """The loop an async test runs on, as anyio's pytest plugin wants it."""
    return request.param


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with recordings and reference material, beside the project or where ``PI_STREAM_SHARED`` says."""
    path = Path(os.environ.get("PI_STREAM_SHARED") or ROOT.parent / "shared").resolve()
    if not path.is_dir():
        pytest.skip(f"the test material is not there: {path} (PI_STREAM_SHARED names another place)")
    return path
