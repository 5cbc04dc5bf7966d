"""Azure OpenAI (https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle): Chat Completions.

A model's id is the name of its deployment, or ``AZURE_OPENAI_DEPLOYMENT_NAME_MAP`` says which one it has
(``model=deployment,...``). Chat Completions is the default because every deployment speaks it, other vendors' models
included; the provider ``azure-openai-responses``, or ``Model(provider="azure", api="azure-openai-responses")``, speaks
Responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from attrs import evolve

from pi_stream.apis.azure_openai_completions import api
from pi_stream.exceptions import MissingExtraError
from pi_stream.http import HttpRequest
from pi_stream.models import Model
from pi_stream.providers.base import Provider

__all__ = ["Entra", "configure", "provider"]

_SCOPE = "https://cognitiveservices.azure.com/.default"


def configure(model: Model, environment: Mapping[str, str]) -> Model:
    """The model with its deployment and the version of the API, where the environment names them and it does not."""
    flags: dict[str, Any] = {}
    version = environment.get("AZURE_OPENAI_API_VERSION", "").strip()
    if version:
        flags["api_version"] = version
    for entry in environment.get("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "").split(","):
        id, _, deployment = (part.strip() for part in entry.partition("="))
        if id == model.id and deployment:
            flags["deployment"] = deployment
    return evolve(model, compat={**flags, **(model.compat or {})}) if flags else model


class Entra:
    """Signs requests with tokens of Microsoft Entra, in place of a key.

    Use it as ``evolve(provider, credential=Entra(), key_required=False)``.

    Args:
        credential: An asynchronous credential of azure-identity; by default its ``DefaultAzureCredential``.

    Raises:
        MissingExtraError: There is none and azure-identity is not installed (extra ``azure``).
    """

    def __init__(self, credential: Any = None) -> None:
        if credential is None:
            try:
                credential = import_module("azure.identity.aio").DefaultAzureCredential()
            except ImportError:
                raise MissingExtraError("azure", "azure-identity", "pip install 'pi-stream[azure]'") from None
        self._credential = credential

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """A bearer token; the credential keeps it as long as it is valid. A request with a key is left as it is."""
        if "api-key" in request.headers:
            return {}
        token = await self._credential.get_token(_SCOPE)
        return {"authorization": f"Bearer {token.token}"}


provider = Provider(
    "azure",
    name="Azure OpenAI",
    api=api,
    base_url="https://{AZURE_OPENAI_RESOURCE_NAME}.openai.azure.com/openai/v1",
    base_url_env=("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"),
    configure=configure,
    key_env="AZURE_OPENAI_API_KEY",
)
