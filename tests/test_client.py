"""Finding providers, models, keys and addresses; requests without sending them."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

import pi_stream
from pi_stream import ConfigError, Context, HttpRequest, Model, Provider, StreamOptions, Tool, UserMessage
from pi_stream.providers import registry
from pi_stream.providers.registry import Registry, located

ADD = Tool("add", "Add", {"type": "object", "properties": {"a": {"type": "number"}}})


def test_the_provider_is_what_stands_before_the_first_slash() -> None:
    """The rest is the model id, untouched, slashes and all."""
    provider, model, known = Registry().model("openai/org/some:model/v2")
    assert (provider.id, model.id, known) == ("openai", "org/some:model/v2", False)


def test_known_models_keep_their_data() -> None:
    """A model the provider knows comes with its record, and with quirks and headers of both."""
    mine = Provider(
        "mine",
        base_url="http://x/v1",
        headers={"x-a": "1"},
        quirks={"supports_store": False},
        models=[
            Model(id="m", context_window=10, headers={"x-b": "2"}, compat={"max_tokens_field": "max_tokens"})
        ],
    )
    _, model, known = Registry([mine]).model("mine/m")
    assert known
    assert (model.context_window, model.provider, model.api) == (10, "mine", "openai-completions")
    assert model.headers == {"x-a": "1", "x-b": "2"}
    assert model.compat == {"supports_store": False, "max_tokens_field": "max_tokens"}
    assert Registry([mine]).model("mine")[1].id == "m"


def test_unknown_providers_list_near_names() -> None:
    """A typing mistake is answered with what was probably meant."""
    with pytest.raises(ConfigError, match="did you mean openai"):
        Registry().provider("opena")


@pytest.mark.parametrize("id", ["", "a/b", " a"])
def test_provider_ids_are_names(id: str) -> None:
    """An id that could not be found again is refused."""
    with pytest.raises(ConfigError, match=r"Provider\.id"):
        Provider(id, base_url="http://x")


def test_a_provider_needs_a_door() -> None:
    """Neither an address nor a generator: the error says which are missing."""
    with pytest.raises(ConfigError, match="base_url"):
        Provider("x")


def test_registered_providers_are_known_to_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """`register` is for the whole process; a client's own providers win."""
    monkeypatch.setattr(registry, "_registered", {})
    pi_stream.register(Provider("acme", base_url="http://one"))
    assert Registry().provider("acme").base_url == "http://one"
    assert Registry([Provider("acme", base_url="http://two")]).provider("acme").base_url == "http://two"


def test_installed_providers_are_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that names a provider in the entry point group is found; one that cannot load says why."""
    points = [
        EntryPoint("plugged", "test_client:PLUGGED", registry.ENTRY_POINT_GROUP),
        EntryPoint("broken", "no_such_module:x", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    import sys

    monkeypatch.setitem(sys.modules, "test_client", sys.modules[__name__])
    found = Registry()
    assert found.provider("plugged") is PLUGGED
    assert "plugged" in found.ids()
    with pytest.raises(ConfigError, match="no_such_module"):
        found.provider("broken")


PLUGGED = Provider("plugged", base_url="http://plugged/v1")


def test_base_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's wins, then the model's own, the environment's, the provider's, with variables filled in."""
    provider = Provider("x", base_url="https://{X_REGION}.x.test/v1", base_url_env="X_URL")
    model = Model(id="m")
    monkeypatch.delenv("X_REGION", raising=False)
    with pytest.raises(ConfigError, match="X_REGION"):
        located(provider, model)
    monkeypatch.setenv("X_REGION", "eu")
    assert located(provider, model).base_url == "https://eu.x.test/v1"
    monkeypatch.setenv("X_URL", "http://env/v1")
    assert located(provider, model).base_url == "http://env/v1"
    assert located(provider, Model(id="m", base_url="http://own")).base_url == "http://own"
    assert located(provider, model, "http://caller").base_url == "http://caller"
    monkeypatch.setenv("X_URL", "  ")
    computed = Provider("y", locate=lambda environ: "http://" + environ["X_REGION"])
    assert located(computed, model).base_url == "http://eu"


def test_build_request_sends_nothing_and_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request that would be sent, with the key if there is one; its repr shows no secret."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    request = pi_stream.build_request("openai/gpt-4o", "hi", StreamOptions(temperature=0.5))
    assert (request.method, request.url) == ("POST", "https://api.openai.com/v1/chat/completions")
    assert request.body is not None
    assert request.body["model"] == "gpt-4o"
    assert request.body["messages"] == [{"role": "user", "content": "hi"}]
    assert request.body["temperature"] == 0.5
    assert "authorization" not in request.headers
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    request = pi_stream.build_request("openai/gpt-4o", Context([UserMessage("hi")], tools=[ADD]))
    assert request.headers["authorization"] == "Bearer sk-secret"
    assert request.body is not None
    assert request.body["tools"][0]["function"]["name"] == "add"
    assert "sk-secret" not in repr(request)
    assert request.masked().headers["authorization"] == "***"


def test_build_request_for_a_generator_is_an_error() -> None:
    """A provider that plays its answers itself sends no request."""
    with pytest.raises(ConfigError, match="generator"):
        pi_stream.build_request("scripted/x", "hi")


@pytest.mark.anyio
async def test_credentials_sign_the_request_as_it_is_sent() -> None:
    """A credential's headers are added when the request is about to be sent."""
    from chat_bodies import SSE, chat_pieces

    from pi_stream.transport.memory import MemoryResponse, MemoryTransport

    class Token:
        async def headers(self, request: HttpRequest) -> dict[str, str]:
            assert request.body is not None
            return {"authorization": f"Signed {request.body['model']}"}

    transport = MemoryTransport(lambda request: MemoryResponse(headers=SSE, chunks=chat_pieces()))
    provider: Any = Provider("mine", base_url="http://x/v1", credential=Token())
    client = pi_stream.Client(providers=[provider], transport=transport)
    assert (await client.complete("mine/m", "hi")).stop_reason == "stop"
    assert transport.requests[0].headers["authorization"] == "Signed m"


@pytest.mark.anyio
async def test_module_level_calls_close_their_client() -> None:
    """`complete` and `stream` of the module own a client for the call."""
    message = await pi_stream.complete("scripted", "hello")
    assert message.stop_reason == "stop"
    async with pi_stream.stream("scripted", "hello") as stream:
        assert [event.type async for event in stream][-1] == "done"
    async for _ in pi_stream.stream("scripted", "hello"):
        pass
