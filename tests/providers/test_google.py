"""Google's two addresses: the Gemini api with a key, Vertex AI with a key or with tokens of google-auth."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pi_stream import Client, build_request
from pi_stream.exceptions import ConfigError, MissingExtraError, TransportError
from pi_stream.http import HttpRequest
from pi_stream.models import Model
from pi_stream.options import RetryPolicy, StreamOptions
from pi_stream.providers.vertex import GoogleCredential

NAMES = (
    *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"),
    *("GOOGLE_CLOUD_API_KEY", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
    "GOOGLE_APPLICATION_CREDENTIALS",
)
HOST = "https://aiplatform.googleapis.com/v1"
VERTEX = HttpRequest(url=f"{HOST}/projects/p/locations/global/publishers/google/models/m:x")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment without Google in it, and no credentials on disk."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    return monkeypatch


def test_gemini_is_ready_with_a_key(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GOOGLE_API_KEY", "second")
    environment.setenv("GEMINI_API_KEY", "first")
    request = build_request("google", "hi")
    assert request.url == (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    )
    assert request.headers["x-goog-api-key"] == "first"


def test_google_s_own_variable_for_the_base_url_has_no_version(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9/")
    assert build_request("google/m", "hi").url.startswith("http://127.0.0.1:9/v1beta/models/m:")


@pytest.mark.parametrize(
    ("variables", "base"),
    [
        ({}, f"{HOST}/publishers"),
        ({"GOOGLE_CLOUD_API_KEY": "k"}, f"{HOST}/publishers"),
        ({"GOOGLE_CLOUD_API_KEY": "k", "GOOGLE_CLOUD_PROJECT": "p"}, f"{HOST}/publishers"),
        ({"GOOGLE_CLOUD_PROJECT": "p"}, f"{HOST}/projects/p/locations/global/publishers"),
        ({"GCLOUD_PROJECT": "d.com:p"}, f"{HOST}/projects/d.com:p/locations/global/publishers"),
        (
            {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"},
            "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/publishers",
        ),
        (
            {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "eu"},
            "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers",
        ),
        ({"GOOGLE_VERTEX_BASE_URL": "http://h"}, "http://h/v1/publishers"),
    ],
)
def test_vertex_addresses(environment: pytest.MonkeyPatch, variables: dict[str, str], base: str) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    request = build_request("google-vertex/gemini-x", "hi")
    assert request.url == f"{base}/google/models/gemini-x:streamGenerateContent?alt=sse"
    assert request.headers.get("x-goog-api-key") == variables.get("GOOGLE_CLOUD_API_KEY")


@pytest.mark.parametrize("key", [None, "k"])
def test_claude_is_addressed_as_anthropic_s_api_in_the_project(
    environment: pytest.MonkeyPatch, key: str | None
) -> None:
    if key:
        environment.setenv("GOOGLE_CLOUD_API_KEY", key)
    with pytest.raises(ConfigError, match="GOOGLE_CLOUD_PROJECT"):
        build_request("google-vertex/claude-x@1", "hi")
    environment.setenv("GOOGLE_CLOUD_PROJECT", "p")
    request = build_request("google-vertex/claude-x@1", "hi")
    assert (
        request.url
        == f"{HOST}/projects/p/locations/global/publishers/anthropic/models/claude-x@1:streamRawPredict"
    )
    assert request.body is not None and request.body["anthropic_version"] == "vertex-2023-10-16"


@pytest.mark.anyio
async def test_the_message_names_the_api_that_claude_speaks(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GOOGLE_VERTEX_BASE_URL", "http://127.0.0.1:9/v1")
    async with Client(retries=RetryPolicy(max_retries=0)) as client:
        message = await client.complete("google-vertex/claude-x", "hi", api_key="ya29.x")
    assert (message.provider, message.api) == ("google-vertex", "anthropic-messages")
    assert message.error_cause is not None and message.error_cause.kind == "connect"


# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("header", ["x-goog-api-key", "authorization"])
async def test_a_request_with_a_key_is_left_as_it_is(header: str) -> None:
    signed = HttpRequest(url=VERTEX.url, headers={header: "given"})
    assert await GoogleCredential().headers(signed) == {}


@pytest.mark.anyio
async def test_without_key_and_project_the_error_says_what_to_set() -> None:
    request = build_request("google-vertex/gemini-x", "hi")
    with pytest.raises(ConfigError, match=r"GOOGLE_CLOUD_API_KEY.*GOOGLE_CLOUD_PROJECT"):
        await GoogleCredential().headers(request)


@pytest.mark.anyio
async def test_without_google_auth_the_error_says_what_to_install(environment: pytest.MonkeyPatch) -> None:
    environment.setitem(sys.modules, "google.auth", None)
    with pytest.raises(MissingExtraError, match=r"pi-stream\[vertex\]"):
        await GoogleCredential().headers(VERTEX)


@pytest.mark.anyio
async def test_without_credentials_the_error_says_so(environment: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.auth", reason="google-auth is not installed")
    with pytest.raises(ConfigError, match="no credentials for Vertex AI"):
        await GoogleCredential().headers(VERTEX)


@pytest.fixture
def token_server() -> Iterator[tuple[str, list[str]]]:
    """A server that gives access tokens, and the requests it has answered."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.rfile.read(int(self.headers["content-length"])).decode())
            body = json.dumps({"access_token": f"ya29.{len(seen)}", "expires_in": 3600}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token", seen
    server.shutdown()
    thread.join()
    server.server_close()


def user(token_uri: str) -> Any:
    """Credentials of a user that have to be exchanged for a token first."""
    credentials = pytest.importorskip("google.oauth2.credentials", reason="google-auth is not installed")
    return credentials.Credentials(
        token=None, refresh_token="r", client_id="c", client_secret="s", token_uri=token_uri
    )


@pytest.mark.anyio
async def test_credentials_give_a_token_that_is_kept(token_server: tuple[str, list[str]]) -> None:
    url, seen = token_server
    credential = GoogleCredential(user(url))
    assert await credential.headers(VERTEX) == {"authorization": "Bearer ya29.1"}
    assert await credential.headers(VERTEX) == {"authorization": "Bearer ya29.1"}
    assert len(seen) == 1 and "refresh_token=r" in seen[0]


@pytest.mark.anyio
async def test_a_key_in_the_environment_is_no_token_for_claude(
    environment: pytest.MonkeyPatch,
) -> None:
    credentials = pytest.importorskip("google.oauth2.credentials", reason="google-auth is not installed")
    environment.setenv("GOOGLE_CLOUD_API_KEY", "k")
    environment.setenv("GOOGLE_CLOUD_PROJECT", "p")
    request = build_request(Model(id="claude-x", provider="google-vertex"), "hi", StreamOptions(api_key="k"))
    credential = GoogleCredential(credentials.Credentials(token="ya29.x"))
    assert await credential.headers(request) == {"authorization": "Bearer ya29.x"}


@pytest.mark.anyio
async def test_a_token_server_that_does_not_answer_can_be_tried_again() -> None:
    with pytest.raises(TransportError, match="no access token"):
        await GoogleCredential(user("http://127.0.0.1:9/")).headers(VERTEX)
