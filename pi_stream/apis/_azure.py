"""Azure OpenAI: the URL, the version and the deployment of a request. What is asked is that of OpenAI.

The v1 API needs no dated version, and the model in the body is the name of a deployment. The API before it has a version
of the form ``2024-10-21`` and, for Chat, the deployment in the path.
Source: https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from attrs import evolve, frozen

from pi_stream.apis._request import endpoint, is_host, merge_headers
from pi_stream.exceptions import ConfigError
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["Azure", "Operation"]

Operation = str
"""``chat/completions`` or ``responses``."""

_HOSTS = ("openai.azure.com", "cognitiveservices.azure.com", "ai.azure.com")
_V1 = "/openai/v1"
_BARE = frozenset(
    f"{root}{operation}"
    for root in ("", "/openai", _V1)
    for operation in ("", "/chat/completions", "/responses")
)
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")
_LAST_DATED = "2024-10-21"  # the last of the dated versions that is no preview
_FLAGS = {"deployment": "deployment", "apiversion": "api_version"}


@frozen
class Azure:
    """Where a model is on Azure.

    Attributes:
        model: The model without the flags that only Azure knows.
        deployment: Name of its deployment: compat flag ``deployment``, else the model's id.
        version: Version of the API: compat flag ``api_version``; None where it says nothing.
    """

    model: Model
    deployment: str
    version: str | None = None

    @classmethod
    def of(cls, model: Model) -> Azure:
        """Read the flags ``deployment`` and ``api_version`` of a model; the others stay with it.

        Raises:
            ConfigError: A flag is no text.
        """
        compat: dict[str, Any] = {}
        found: dict[str, str] = {}
        for key, value in (model.compat or {}).items():
            name = _FLAGS.get(key.replace("_", "").lower())
            if name is None:
                compat[key] = value
            elif isinstance(value, str) and value:
                found[name] = value
            else:
                raise ConfigError(f"compat flag `{name}` must be a text, not {value!r}")
        return cls(evolve(model, compat=compat), found.get("deployment", model.id), found.get("api_version"))

    def url(self, operation: Operation) -> str:
        """The URL of an operation.

        A bare base URL of Azure's hosts becomes that of the v1 API, or of the API before it when the version is dated.
        Other paths and hosts, such as a gateway, stay as they are.

        Raises:
            ConfigError: The base URL is no URL.
        """
        checked = urlsplit(endpoint(self.model.base_url, ""))
        query = dict(parse_qsl(checked.query))
        root = checked.path.rstrip("/")
        version = self.version or query.get("api-version")
        if is_host(self.model.base_url, *_HOSTS):
            query = {}
            if root in _BARE:
                root = self._root(operation, version)
        if version is None:
            version = _LAST_DATED if "/deployments/" in root else "v1"
        query["api-version"] = version
        base = urlunsplit((checked.scheme, checked.netloc, root, urlencode(query), ""))
        return endpoint(base, operation)

    def _root(self, operation: Operation, version: str | None) -> str:
        if version is None or not _DATED.fullmatch(version):
            return _V1
        if operation == "responses":
            return "/openai"
        return f"/openai/deployments/{quote(self.deployment, safe='')}"

    def headers(self, written: dict[str, str], options: StreamOptions) -> dict[str, str]:
        """Headers with the key in Azure's own; what the model and the caller say of headers still wins.

        Raises:
            ConfigError: A key that no header can carry.
        """
        key = {"api-key": options.api_key} if options.api_key else None
        return merge_headers(key, written, self.model.headers, options.headers)

    def body(self, written: dict[str, Any]) -> dict[str, Any]:
        """The body with the deployment where OpenAI has the model, unless the caller put something else there."""
        if written.get("model") == self.model.id:
            written["model"] = self.deployment
        return written
