"""Wire protocols: one package each, found by id.

A package holds ``request.py`` (context to request) and ``response.py`` (chunks to events) and names both in one
:class:`~pi_stream.apis.base.Api` called ``api``.
"""

from __future__ import annotations

from importlib import import_module

from pi_stream.apis.base import Api
from pi_stream.exceptions import ConfigError

__all__ = ["api_ids", "get_api", "register_api"]

_MODULES = {
    "anthropic-messages": "pi_stream.apis.anthropic_messages",
    "azure-openai-responses": "pi_stream.apis.azure_openai_responses",
    "bedrock-converse-stream": "pi_stream.apis.bedrock",
    "bedrock-invoke": "pi_stream.apis.anthropic_messages.bedrock_invoke",
    "cohere-chat": "pi_stream.apis.cohere",
    "google-generative-ai": "pi_stream.apis.google",
    "google-vertex": "pi_stream.apis.google.vertex",
    "mistral-conversations": "pi_stream.apis.mistral",
    "ollama": "pi_stream.apis.ollama",
    "openai-completions": "pi_stream.apis.openai_completions",
    "openai-responses": "pi_stream.apis.openai_responses",
    "pi-messages": "pi_stream.apis.pi_messages",
}
_registered: dict[str, Api] = {}


def register_api(api: Api) -> Api:
    """Make a wire protocol known under its id, from outside the package.

    Raises:
        ConfigError: The id is taken.
    """
    if api.id in _MODULES or _registered.get(api.id, api) is not api:
        raise ConfigError(f"the api id {api.id!r} is taken already")
    _registered[api.id] = api
    return api


def api_ids() -> list[str]:
    """Ids of all known wire protocols."""
    return sorted({*_MODULES, *_registered})


def get_api(api: str | Api) -> Api:
    """The wire protocol of an id, loaded on first use.

    Raises:
        ConfigError: Nobody knows the id.
    """
    if isinstance(api, Api):
        return api
    if api in _MODULES:
        found: Api = import_module(_MODULES[api]).api
        return found
    if api in _registered:
        return _registered[api]
    raise ConfigError(f"unknown api {api!r}; known are: {', '.join(api_ids())}")
