"""The provider record: what is known of a vendor, as data, or the generator that plays one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from attrs import Attribute, Factory, field, frozen

from pi_stream.exceptions import ConfigError
from pi_stream.models import Model

if TYPE_CHECKING:  # a record of data loads neither the engine nor a protocol
    from pi_stream.apis.base import Api
    from pi_stream.engine.generator import Generate
    from pi_stream.http import HttpRequest

__all__ = ["Credential", "Provider", "Runtime", "from_environment"]


class Credential(Protocol):
    """Signs requests: a bearer token that is fetched, or a signature over the request."""

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Headers to add to a request that is about to be sent.

        The body is sent as ``pi_stream.wire.json.dumps(request.body)``: these are the bytes to sign.

        Raises:
            ConfigError: There are no credentials; the message says where they were looked for.
        """
        ...


class Runtime(Protocol):
    """Something a provider runs for a client and a model, such as a local server.

    A client makes one for each model it is asked for, starts it on first use and closes it with itself.
    """

    async def base_url(self) -> str:
        """Start if need be, and give the base URL."""
        ...

    def abort(self) -> None:
        """Stop at once, without waiting. Idempotent."""
        ...

    async def aclose(self) -> None:
        """Stop. Idempotent."""
        ...


def from_environment(names: Iterable[str]) -> str | None:
    """The value of the first environment variable that is set and not blank, without the blanks around it."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def _names(value: str | tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _models(value: Iterable[Model]) -> tuple[Model, ...]:
    return tuple(value)


def _provider_id(instance: Any, attribute: Attribute[str], value: Any) -> None:
    if not isinstance(value, str) or not value or "/" in value or value.strip() != value:
        raise ConfigError(f"Provider.id must be a name without slashes or spaces at its ends, not {value!r}")


@frozen
class Provider:
    """A vendor.

    One of two doors: *data* (``api`` and ``base_url``: a host of a known protocol), or *generator* (``generate``: an
    async generator function that yields parts, see :mod:`pi_stream.engine.parts`).

    Attributes:
        id: What stands before the first slash of a model name.
        api: Wire protocol: an id, or a protocol of your own.
        base_url: Where requests go, version included, such as ``https://api.openai.com/v1``.
            Parts in braces are environment variables: ``https://{AZURE_OPENAI_RESOURCE_NAME}.openai.azure.com``.
        base_url_env: Environment variables that replace it; the first that is set and not blank.
        locate: Gives the base URL from the environment, where a template is not enough.
        configure: Completes a model with what the environment says of it, such as the name of its deployment.
        key_env: Environment variables that hold the key; the first that is set and not blank.
        key_required: Whether a request without a key is refused before it is sent.
        headers: Headers for every request.
        models: What is known of its models; others are allowed with default data.
        default_model: Model id when only the provider is named.
        default_model_env: Environment variables that replace it; the first that is set and not blank.
        credential: Signs requests, where a key in a header is not enough.
        quirks: What its servers do differently, by the names that the api's request module lists.
        generate: The generator door.
        runtime: Makes what the provider runs for a client and one of its models, such as a local server.
        name: For people.
    """

    id: str = field(validator=_provider_id)
    api: str | Api = field(default="openai-completions", kw_only=True)
    base_url: str = field(default="", kw_only=True)
    base_url_env: tuple[str, ...] = field(default=(), converter=_names, kw_only=True)
    locate: Callable[[Mapping[str, str]], str] | None = field(default=None, kw_only=True)
    configure: Callable[[Model, Mapping[str, str]], Model] | None = field(default=None, kw_only=True)
    key_env: tuple[str, ...] = field(default=(), converter=_names, kw_only=True)
    key_required: bool = field(
        default=Factory(lambda self: bool(self.key_env), takes_self=True), kw_only=True
    )
    headers: dict[str, str] = field(factory=dict, kw_only=True, repr=False)
    models: tuple[Model, ...] = field(default=(), converter=_models, kw_only=True)
    default_model: str | None = field(default=None, kw_only=True)
    default_model_env: tuple[str, ...] = field(default=(), converter=_names, kw_only=True)
    quirks: dict[str, Any] = field(factory=dict, kw_only=True)
    credential: Credential | None = field(default=None, kw_only=True)
    generate: Generate | None = field(default=None, kw_only=True)
    runtime: Callable[[Model], Runtime] | None = field(default=None, kw_only=True)
    name: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        addressed = self.base_url or self.base_url_env or self.locate
        if self.generate is None and self.runtime is None and not addressed:
            raise ConfigError(f"Provider {self.id!r} needs a base_url, or a generator in `generate`")
