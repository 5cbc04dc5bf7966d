"""The vendors of the Messages api: where their requests go, and how they are signed."""

from __future__ import annotations

import pytest

from pi_stream import build_request
from pi_stream.exceptions import MissingKeyError
from pi_stream.http import HttpRequest
from pi_stream.options import StreamOptions
from pi_stream.providers.anthropic import provider

VARIABLES = ("API_KEY", "OAUTH_TOKEN", "AUTH_TOKEN", "BASE_URL")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)


def test_anthropic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    request = build_request("anthropic/claude-x", "hi")
    assert request.url == "https://api.anthropic.com/v1/messages"
    assert request.headers["x-api-key"] == "sk-1"
    assert request.masked().headers["x-api-key"] == "***"


def test_base_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:4000")
    assert build_request("anthropic", "hi").url == "http://localhost:4000/v1/messages"


def test_minimax() -> None:
    request = build_request("minimax", "hi", StreamOptions(api_key="mm-1"))
    assert request.url == "https://api.minimax.io/anthropic/v1/messages"
    assert request.headers["x-api-key"] == "mm-1"


REQUEST = HttpRequest(url="https://host/v1/messages", headers={"accept": "application/json"}, body={})


@pytest.mark.anyio
async def test_auth_token_is_sent_where_there_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    assert provider.credential is not None
    assert await provider.credential.headers(REQUEST) == {"authorization": "Bearer token"}


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["x-api-key", "authorization", "cf-aig-authorization"])
async def test_a_header_with_a_key_is_enough(name: str) -> None:
    assert provider.credential is not None
    assert await provider.credential.headers(HttpRequest(url="https://host", headers={name: "x"})) == {}


@pytest.mark.anyio
async def test_without_any_key_the_error_names_the_variables() -> None:
    assert provider.credential is not None
    with pytest.raises(
        MissingKeyError, match="ANTHROPIC_API_KEY or ANTHROPIC_OAUTH_TOKEN or ANTHROPIC_AUTH_TOKEN"
    ):
        await provider.credential.headers(REQUEST)
