"""Google Cloud Vertex AI: Gemini, and Claude.

With an API key (``GOOGLE_CLOUD_API_KEY``) requests go to Google's global address. Else they go to the project in
``GOOGLE_CLOUD_PROJECT`` (or ``GCLOUD_PROJECT``) and the location in ``GOOGLE_CLOUD_LOCATION`` (``global`` when that is not
set), with an access token of the Application Default Credentials (extra ``vertex``).

Models whose id starts with ``claude-`` are addressed by Anthropic's api; they always need a project.

Hosts and variables are those of Google's package google-genai 3.6.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import quote

import anyio.to_thread
from attrs import evolve

from pi_stream.exceptions import ConfigError, MissingExtraError, TransportError
from pi_stream.http import HttpRequest
from pi_stream.models import Model
from pi_stream.providers.base import Provider

__all__ = ["GoogleCredential", "configure", "locate", "provider"]

_KEY = "GOOGLE_CLOUD_API_KEY"
_PROJECTS = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_EXPRESS = "https://aiplatform.googleapis.com/v1"
_MULTI_REGIONS = ("us", "eu")
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


def locate(environment: Mapping[str, str]) -> str:
    """The base URL: that of the project, unless there is a key or no project."""
    return _project_url(environment) if not _value(environment, _KEY) else _EXPRESS


def configure(model: Model, environment: Mapping[str, str]) -> Model:
    """A Claude model with the api that it speaks, and the address of the project.

    Raises:
        ConfigError: There is no project.
    """
    if not model.id.startswith("claude-"):
        return model
    url = _project_url(environment) if model.base_url == _EXPRESS else model.base_url
    if url == _EXPRESS:
        raise ConfigError(f"Claude on Vertex AI needs a project: set {' or '.join(_PROJECTS)}")
    compat = {"platform": "vertex", **(model.compat or {})}
    return evolve(model, api="anthropic-messages", base_url=url, compat=compat)


def _project_url(environment: Mapping[str, str]) -> str:
    project = _value(environment, *_PROJECTS)
    if not project:
        return _EXPRESS
    location = _value(environment, "GOOGLE_CLOUD_LOCATION") or "global"
    host = f"{location}-aiplatform.googleapis.com"
    if location == "global":
        host = "aiplatform.googleapis.com"
    elif location in _MULTI_REGIONS:
        host = f"aiplatform.{location}.rep.googleapis.com"
    return f"https://{host}/v1/projects/{quote(project, safe=':')}/locations/{quote(location, safe='')}"


def _value(environment: Mapping[str, str], *names: str) -> str:
    return next((value for name in names if (value := environment.get(name, "").strip())), "")


class GoogleCredential:
    """Signs requests that carry no key with an access token of google-auth.

    Args:
        credentials: Credentials of google-auth; by default the Application Default Credentials.
    """

    def __init__(self, credentials: Any = None) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """A bearer token; it is kept as long as it is valid.

        Raises:
            ConfigError: There are no credentials, or no project to use them for.
            MissingExtraError: google-auth is not installed (extra ``vertex``).
            TransportError: Google did not answer.
        """
        bearer = request.headers.get("authorization")
        # Claude is reached with access tokens only: a key in the environment is none, though it is sent like one.
        if "x-goog-api-key" in request.headers or (bearer and bearer != f"Bearer {os.environ.get(_KEY)}"):
            return {}
        if request.url.startswith(f"{_EXPRESS}/publishers/"):
            raise ConfigError(f"no credentials for Vertex AI: set {_KEY}, or a project in {_PROJECTS[0]}")
        token = await anyio.to_thread.run_sync(self._token, abandon_on_cancel=True)
        return {"authorization": f"Bearer {token}"}

    def _token(self) -> str:
        try:
            auth = import_module("google.auth")
            exceptions = import_module("google.auth.exceptions")
            transport = import_module("google.auth.transport.requests")
        except ImportError:
            raise MissingExtraError(
                "vertex", "google-auth with requests", "pip install 'pi-stream[vertex]'"
            ) from None
        with self._lock:
            try:
                if self._credentials is None:
                    self._credentials, _ = auth.default(scopes=_SCOPES)
                if not self._credentials.valid:
                    self._credentials.refresh(transport.Request())
            except exceptions.TransportError as error:
                raise TransportError(f"no access token from Google: {error}", kind="connect") from error
            except exceptions.GoogleAuthError as error:
                raise ConfigError(f"no credentials for Vertex AI: {error}") from error
            return str(self._credentials.token)


provider = Provider(
    "google-vertex",
    name="Google Vertex AI",
    api="google-vertex",
    base_url_env="GOOGLE_VERTEX_BASE_URL",
    locate=locate,
    configure=configure,
    key_env=_KEY,
    key_required=False,
    credential=GoogleCredential(),
    default_model="gemini-2.5-flash",
)
