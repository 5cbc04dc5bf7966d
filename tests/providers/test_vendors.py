"""All vendor files at once: what a file of data must be, and whose key a request carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import pi_stream.providers
from pi_stream import build_request
from pi_stream.apis import get_api
from pi_stream.apis.base import Api
from pi_stream.exceptions import MissingKeyError
from pi_stream.http import HttpRequest
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.providers._header_key import HeaderKey
from pi_stream.providers.base import Provider
from pi_stream.providers.registry import _MODULES, Registry

FOLDER = Path(pi_stream.providers.__file__).parent
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "providers.md"
LOOPBACK = ("localhost", "127.0.0.1")


def hosts() -> dict[str, Provider]:
    """The built-in providers that are hosts of a protocol."""
    loaded = {id: Registry().provider(id) for id in _MODULES}
    return {id: found for id, found in loaded.items() if found.generate is None and found.runtime is None}


HOSTS = hosts()


def key_variables(provider: Provider) -> tuple[str, ...]:
    """Where its key comes from."""
    credential = provider.credential
    return provider.key_env + (credential.key_env if isinstance(credential, HeaderKey) else ())


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in every variable, each telling whose it is, and a value for every part of a URL."""
    for name in list(os.environ):
        if re.search("_API_BASE$|_BASE_URL$|ENDPOINT|^AWS_|^AZURE_|^GOOGLE_|^ANTHROPIC_|^OLLAMA_", name):
            monkeypatch.delenv(name)
    for provider in HOSTS.values():
        for name in key_variables(provider):
            monkeypatch.setenv(name, f"key-of-{name}")
        for name in re.findall(r"{(\w+)}", provider.base_url):
            monkeypatch.setenv(name, f"x-{name.lower().replace('_', '-')}")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-central1")


def request(id: str) -> HttpRequest:
    return build_request(f"{id}/some-model", "hi")


def test_every_file_is_a_vendor_or_begins_with_an_underscore() -> None:
    """Adding a vendor is adding a file: nothing else lists them."""
    files = {file.stem for file in FOLDER.glob("*.py") if not file.stem.startswith("_")}
    assert files - {"base", "local_server", "registry"} == {
        module.rpartition(".")[2] for module in _MODULES.values()
    }


def test_ids_are_those_of_the_files() -> None:
    assert {id: found.id for id, found in HOSTS.items()} == {id: id for id in HOSTS}


@pytest.mark.parametrize("id", HOSTS)
def test_a_vendor_has_a_name_a_known_api_and_a_key(id: str) -> None:
    provider = HOSTS[id]
    assert provider.name
    assert provider.name != id
    api = provider.api if isinstance(provider.api, Api) else get_api(provider.api)
    assert callable(api.build_request)
    local = urlsplit(provider.base_url).hostname in LOOPBACK
    assert key_variables(provider) or provider.credential or local
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]+", name) for name in key_variables(provider))


@pytest.mark.parametrize("id", HOSTS)
def test_requests_go_by_https_or_to_this_machine(id: str) -> None:
    made = urlsplit(request(id).url)
    assert made.scheme == "https" or made.hostname in LOOPBACK
    assert "{" not in made.netloc + made.path


@pytest.mark.parametrize("id", HOSTS)
def test_a_request_carries_the_vendor_s_own_key_and_no_other(id: str) -> None:
    made = request(id)
    carried = set(re.findall(r"key-of-(\w+)", f"{made.url} {made.headers} {made.body}"))
    assert carried <= set(HOSTS[id].key_env)
    assert carried or not HOSTS[id].key_env
    assert "key-of-" not in str(made.masked().headers)


@pytest.mark.parametrize("id", HOSTS)
def test_quirks_are_known_to_the_api(id: str) -> None:
    """A flag that the api does not know is an error."""
    provider = HOSTS[id]
    asked = Model(id="m", provider=id, compat=dict(provider.quirks))
    assert build_request(asked, "hi", StreamOptions(api_key="k")).body


@pytest.mark.anyio
async def test_the_gateway_s_key_has_a_header_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = HOSTS["cloudflare-ai-gateway"].credential
    assert gateway is not None
    plain = request("cloudflare-ai-gateway")
    assert await gateway.headers(plain) == {"cf-aig-authorization": "Bearer key-of-CLOUDFLARE_API_KEY"}
    own = HttpRequest(url=plain.url, headers={"cf-aig-authorization": "mine"})
    assert await gateway.headers(own) == {}
    monkeypatch.delenv("CLOUDFLARE_API_KEY")
    assert await gateway.headers(HttpRequest(url=plain.url, headers={"authorization": "Bearer x"})) == {}
    with pytest.raises(MissingKeyError, match="CLOUDFLARE_API_KEY"):
        await gateway.headers(plain)


def test_a_url_with_parts_names_the_variable_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOUDFLARE_ACCOUNT_ID")
    with pytest.raises(Exception, match="CLOUDFLARE_ACCOUNT_ID"):
        request("cloudflare-workers-ai")


@pytest.mark.parametrize("id", sorted(_MODULES))
def test_the_page_of_providers_has_every_vendor(id: str) -> None:
    """Id, api and variables stand in the table."""
    (row,) = re.findall(rf"^\| `{re.escape(id)}` \|.*$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    provider = Registry().provider(id)
    if id in HOSTS:
        api = provider.api.id if isinstance(provider.api, Api) else provider.api
        for word in (api, *key_variables(provider)):
            assert f"`{word}`" in row


def test_the_file_of_the_how_to_page_is_all_it_takes(tmp_path: Path) -> None:
    """A copy of the package with that one file more knows the vendor."""
    page = (DOCS.parents[1] / "howto" / "add-a-vendor.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    shutil.copytree(
        FOLDER.parent, tmp_path / "pi_stream", ignore=shutil.ignore_patterns("__pycache__", "bench", "cli")
    )
    (tmp_path / "pi_stream" / "providers" / "acme.py").write_text(found[1], encoding="utf-8")
    program = "from pi_stream import build_request; print(build_request('acme/large', 'hi').url)"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert result.stdout.strip() == "https://llm.acme.example/v1/chat/completions", result.stderr
