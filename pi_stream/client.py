"""The client: owns the connections, knows the providers, makes streams."""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from attrs import evolve

from pi_stream.apis import get_api
from pi_stream.apis.base import Api, TranslatorSetup
from pi_stream.catalog import Catalog
from pi_stream.check import ConnectionCheck, check_connection, refused
from pi_stream.context_size import context_tokens
from pi_stream.engine.fallback import FallbackSource
from pi_stream.engine.generator import GeneratorRequest, GeneratorSource
from pi_stream.engine.queue import Concurrency
from pi_stream.engine.retry import RetryingSource
from pi_stream.engine.run import Exchange, HttpSource
from pi_stream.engine.source import FailedSource, Source
from pi_stream.engine.stream import AssistantStream
from pi_stream.exceptions import ConfigError, ContextOverflowError, MissingKeyError
from pi_stream.guard import Guard
from pi_stream.handover import HandoverPolicy, hand_over
from pi_stream.http import HttpRequest
from pi_stream.messages import (
    AgentMessage,
    AssistantMessage,
    Context,
    Diagnostic,
    Message,
    SystemMessage,
    Tool,
    UserMessage,
    convert_to_llm,
    now_ms,
)
from pi_stream.models import Model
from pi_stream.options import Limits, RetryPolicy, StreamOptions, changed, layered, with_defaults
from pi_stream.providers.base import Provider, Runtime, from_environment
from pi_stream.providers.registry import Registry, located
from pi_stream.transport.base import Transport

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Client", "ContextLike", "build_request", "complete", "stream"]

logger = logging.getLogger("pi_stream")

ContextLike = Context | Sequence[AgentMessage] | str
"""What a request is about: a context, a list of messages, or the text of one user message."""


class Client:
    """Makes streams, and owns what they share: connections, providers, local servers.

    Use it as ``async with Client() as client``; one client serves any number of streams at once.

    Args:
        providers: Providers of your own, beside the built-in, registered and installed ones.
        catalog: An overlay file for the catalog; else what ``PI_STREAM_CATALOG`` names.
        api_keys: Keys by provider id; else the providers' environment variables are used.
        base_urls: Base URLs by provider id; else the providers' environment variables, else their own.
        options: Options for every request, below those of the request.
        limits: Bounds in time and size for every request.
        retries: When requests are tried again.
        timeout: Short for the head and idle limits, in seconds.
        concurrency: How many requests to a provider may run at once: one number for each provider, or numbers by
            provider id. The others wait in line, for as long as it takes (``limits.total`` counts it); off by default.
        transport: A transport of your own; the arguments below are then not used.
        session: An aiohttp session of your own; it is used and never closed.
        proxy: URL of an HTTP proxy; without it the environment's proxies are honoured.
        trust_env: Whether proxies of the environment are honoured.
        ca: File with certificates to trust instead of the system's.
        client_cert: File with certificate and key, or the two files.
        ssl_context: Instead of ``ca`` and ``client_cert``.
    """

    def __init__(
        self,
        *,
        providers: Iterable[Provider] = (),
        catalog: str | os.PathLike[str] | None = None,
        api_keys: Mapping[str, str] | None = None,
        base_urls: Mapping[str, str] | None = None,
        options: StreamOptions | None = None,
        limits: Limits | None = None,
        retries: RetryPolicy | None = None,
        timeout: float | None = None,
        concurrency: int | Mapping[str, int] | None = None,
        transport: Transport | None = None,
        session: aiohttp.ClientSession | None = None,
        proxy: str | None = None,
        trust_env: bool = True,
        ca: str | os.PathLike[str] | None = None,
        client_cert: str | tuple[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._registry = Registry(providers, Catalog(catalog))
        self._api_keys = dict(api_keys or {})
        self._base_urls = dict(base_urls or {})
        self._options = with_defaults(options or StreamOptions(), limits, retries, timeout)
        self._concurrency = Concurrency(concurrency)
        self._own_transport = transport is None
        self._transport = transport
        self._transport_options: dict[str, Any] = {
            "session": session,
            "proxy": proxy,
            "trust_env": trust_env,
            "ca": ca,
            "client_cert": client_cert,
            "ssl_context": ssl_context,
        }
        self._direct_transport: Transport | None = None
        self._runtimes: dict[tuple[str, str], Runtime] = {}  # by provider id and model id

    # Whether the stream owns the client, and closes it, instead of the other way round.
    _for_one_stream = False

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close connections and local servers. Idempotent. Streams that are still open end with an error."""
        runtimes, self._runtimes = self._runtimes, {}
        for runtime in runtimes.values():
            await runtime.aclose()
        for transport in self._own_transports():
            await transport.aclose()
        if self._own_transport:
            self._transport = self._direct_transport = None

    def _own_transports(self) -> list[Transport]:
        own = (self._transport if self._own_transport else None, self._direct_transport)
        return [transport for transport in own if transport is not None]

    def abort(self) -> None:
        """Close connections and local servers at once, without waiting: for clean-up where nothing can be awaited."""
        runtimes, self._runtimes = self._runtimes, {}
        for runtime in runtimes.values():
            runtime.abort()
        for transport in self._own_transports():
            transport.abort()

    @property
    def providers(self) -> Registry:
        """The providers this client knows."""
        return self._registry

    # --- streams ------------------------------------------------------------------------------------------------------

    def stream(
        self,
        model: str | Model,
        context: ContextLike,
        *,
        tools: Sequence[Tool] | None = None,
        system_prompt: str | None = None,
        options: StreamOptions | None = None,
        **changes: Any,
    ) -> AssistantStream:
        """Begin an answer. Nothing is sent before the stream is read.

        Args:
            model: ``"provider/id"``, ``"provider"`` for its default model, or a model record.
            context: A context, a list of messages, or the text of one user message.
            tools: Tools the model may call, beside the context's.
            system_prompt: System prompt, unless the context has one.
            options: Options of this request.
            **changes: Single options by name, such as ``temperature=0.2``; they win over ``options``.

        Returns:
            The stream. What the provider or the network does wrong is its ``error`` event.

        Raises:
            ConfigError: An option or the context is not what it should be.
        """
        given = changed(self._options if options is None else layered(self._options, options), changes)
        asked = as_context(context, tools, system_prompt)
        source, head = self._begin(model, asked, given)
        if given.fallback:
            first = source, head
            later = [partial(self._begin, spec, asked, given) for spec in given.fallback]
            restart = given.after_content == "restart"
            source = FallbackSource([lambda _: first, *later], restart=restart, notices=given.notices)
        return AssistantStream(source, head, self if self._for_one_stream else None)

    async def complete(self, model: str | Model, context: ContextLike, **arguments: Any) -> AssistantMessage:
        """Wait for the whole answer. Arguments as for :meth:`stream`."""
        async with self.stream(model, context, **arguments) as stream:
            return await stream.result()

    async def check(self, provider: str) -> ConnectionCheck:
        """Find out whether key, base URL and model of a provider are right, without spending tokens.

        Args:
            provider: ``"provider"``, or ``"provider/model"`` to check the model too.

        Returns:
            What was found, and what to do about it. What is wrong is in it, never raised.
        """
        name, _, asked = provider.partition("/")
        try:
            found = self._registry.provider(name)
            if found.generate is not None:
                return ConnectionCheck(
                    provider=name, model=asked or None, ok=True, message="plays its answers itself"
                )
            id = asked or found.default_model or (found.models[0].id if found.models else "any")
            _, model, _ = self._registry.model(f"{name}/{id}")
            if found.runtime is None:
                model = located(found, model, self._base_urls.get(name))
            else:
                model = await self._running(found, model)
            request = _api(found, model).build_request(
                model, [UserMessage("Hello")], self._keyed(found, self._options)
            )
        except ConfigError as error:
            return refused(name, asked or None, error)
        sign = partial(_signed, found)
        if found.runtime is not None:  # it runs the model that is asked for, whatever it calls it
            result = await check_connection(found, model, request, sign=sign, transport=self._direct())
            return evolve(result, model=asked or None)
        return await check_connection(
            found, model, request, asked=asked or None, sign=sign, transport=self._connected()
        )

    def _begin(
        self,
        spec: str | Model,
        context: Context,
        options: StreamOptions,
        diagnostics: Sequence[Diagnostic] = (),
    ) -> tuple[Source, AssistantMessage]:
        """The source of a model's answer, and the message to come. What cannot be asked gives a source that says so."""
        head = AssistantMessage(timestamp=now_ms(), diagnostics=list(diagnostics) or None)
        if isinstance(spec, Model):
            head.provider, head.model, head.api = spec.provider, spec.id, spec.api
        else:
            head.provider, _, head.model = spec.partition("/")
        try:
            return self._source(spec, context, options, head), head
        except ConfigError as error:
            return FailedSource(head, error), head

    def _source(
        self, spec: str | Model, context: Context, options: StreamOptions, head: AssistantMessage
    ) -> Source:
        provider, model, known = self._registry.model(spec)
        head.provider, head.model, head.api = model.provider, model.id, model.api
        if not known and provider.generate is None and provider.runtime is None:
            details = {"provider": provider.id, "model": model.id}
            unknown = Diagnostic(type="unknown_model", timestamp=head.timestamp, details=details)
            head.diagnostics = [*(head.diagnostics or ()), unknown]
        if provider.generate is not None:
            plain = convert_to_llm(context.transcript())
            request = GeneratorRequest(
                model=model, messages=plain, tools=_tools(plain), options=options, context=context
            )
            generate = provider.generate
            guard = _guard(head, options, time.monotonic())
            line = self._concurrency.line(provider.id, options.limits.total)
            return line.join(guard, lambda _: GeneratorSource(generate, request, guard))
        if provider.runtime is None:
            model = located(provider, model, self._base_urls.get(provider.id))
            head.api = model.api
        api = _api(provider, model)
        messages = _handed_over(context, model, options, api)
        _refuse_overflow(messages, model, options)
        setup = TranslatorSetup(
            model=model, tools=_tools(messages), options=options, timestamp=head.timestamp
        )

        async def request_now() -> HttpRequest:
            address = model if provider.runtime is None else await self._running(provider, model)
            return await _signed(
                provider, api.build_request(address, messages, self._keyed(provider, options))
            )

        # What a provider runs itself is on this machine: no proxy of the environment stands before it.
        transport = self._connected() if provider.runtime is None else self._direct()
        exchange = Exchange(api=api, setup=setup, transport=transport, request=request_now)
        started = time.monotonic()
        line = self._concurrency.line(provider.id, options.limits.total)

        def attempt(elapsed: float) -> Source:
            guard = _guard(head, options, started)
            return line.join(guard, lambda before: HttpSource(exchange, guard, before), elapsed)

        return RetryingSource(attempt, options.retries, total=options.limits.total, notices=options.notices)

    async def _running(self, provider: Provider, model: Model) -> Model:
        """The model at the address of the server that the provider runs for it."""
        url = self._base_urls.get(provider.id)
        if url is None:
            key = (provider.id, model.id)
            if key not in self._runtimes:
                assert provider.runtime is not None
                self._runtimes[key] = provider.runtime(model)
            url = await self._runtimes[key].base_url()
        return evolve(model, base_url=url)

    def _keyed(self, provider: Provider, options: StreamOptions) -> StreamOptions:
        return keyed(provider, options, self._api_keys.get(provider.id))

    def _connected(self) -> Transport:
        if self._transport is None:
            self._transport = _http(**self._transport_options)
        return self._transport

    def _direct(self) -> Transport:
        if not self._own_transport:
            return self._connected()
        if self._direct_transport is None:
            self._direct_transport = _http(trust_env=False)
        return self._direct_transport


def _http(**options: Any) -> Transport:
    """The transport over HTTP, loaded when it is first needed."""
    from pi_stream.transport.aiohttp import AiohttpTransport

    return AiohttpTransport(**options)


class _ClientOfOneStream(Client):
    """A client that is closed with its stream."""

    _for_one_stream = True


def stream(model: str | Model, context: ContextLike, **arguments: Any) -> AssistantStream:
    """Begin an answer with a client of its own, which is closed with the stream. Arguments as for ``Client.stream``."""
    return _ClientOfOneStream().stream(model, context, **arguments)


async def complete(model: str | Model, context: ContextLike, **arguments: Any) -> AssistantMessage:
    """Wait for a whole answer, with a client of its own. Arguments as for ``Client.stream``."""
    async with Client() as client:
        return await client.complete(model, context, **arguments)


def build_request(
    model: str | Model,
    context: ContextLike,
    options: StreamOptions | None = None,
    *,
    providers: Iterable[Provider] = (),
) -> HttpRequest:
    """The request that would be sent, without sending it.

    Args:
        model: ``"provider/id"`` or a model record.
        context: A context, a list of messages, or the text of one user message.
        options: What the caller wants.
        providers: Providers of your own.

    Returns:
        Method, URL, headers and body. Headers hold the key; ``masked()`` hides it.

    Raises:
        ConfigError: The provider is unknown, plays its answers itself, or the request cannot be made.
    """
    provider, found, _ = Registry(providers).model(model)
    if provider.generate is not None:
        raise ConfigError(f"the provider {provider.id!r} is a generator: it sends no request")
    found = located(provider, found)
    given = keyed(provider, options or StreamOptions(), None, required=False)
    api = _api(provider, found)
    return api.build_request(found, _handed_over(as_context(context), found, given, api), given)


def _handed_over(context: Context, model: Model, options: StreamOptions, api: Api) -> list[Message]:
    """The plain messages of a context, fit for a model."""
    plain = convert_to_llm(context.transcript())
    if not api.handover and options.handover is None:
        return plain
    handover = hand_over(plain, model, options.handover or HandoverPolicy())
    if handover.changes:
        logger.debug("hand-over to %s/%s: %d changes", model.provider, model.id, len(handover.changes))
    return handover.messages


def _refuse_overflow(messages: Sequence[Message], model: Model, options: StreamOptions) -> None:
    """Refuse what cannot fit, before it is sent: some servers would cut it without a word.

    Raises:
        ContextOverflowError: There is no room for even one token of an answer.
    """
    if not options.check_context or not model.context_window:
        return
    size = context_tokens(messages, model)
    if size.is_full:
        raise ContextOverflowError(
            f"the messages take about {size.tokens:,} tokens, and the context window of {model.provider}/{model.id} "
            f"is {size.window:,}: shorten them (`check_context=False` sends them all the same)"
        )


def _api(provider: Provider, model: Model) -> Api:
    """The wire protocol of a model; the provider may bring one of its own."""
    own = provider.api
    return own if isinstance(own, Api) and own.id == model.api else get_api(model.api)


async def _signed(provider: Provider, request: HttpRequest) -> HttpRequest:
    if provider.credential is None:
        return request
    return evolve(request, headers={**request.headers, **await provider.credential.headers(request)})


def as_context(
    context: ContextLike, tools: Sequence[Tool] | None = None, system_prompt: str | None = None
) -> Context:
    """A context of whatever a caller may give for one.

    Raises:
        ConfigError: It is nothing of that kind.
    """
    if isinstance(context, str):
        made = Context([UserMessage(context)])
    elif isinstance(context, Context):
        made = evolve(context)
    elif isinstance(context, Sequence):
        made = Context(list(context))
    else:
        raise ConfigError(f"the context must be a Context, a list of messages or a string, not {context!r}")
    if tools is not None:
        made.tools = [*(made.tools or ()), *tools]
    if system_prompt is not None and made.system_prompt is None:
        made.system_prompt = system_prompt
    for position, message in enumerate(made.messages):
        if not isinstance(getattr(message, "role", None), str):
            raise ConfigError(f"messages[{position}] is no message but {type(message).__name__}")
    return made


def keyed(
    provider: Provider, options: StreamOptions, key: str | None, *, required: bool = True
) -> StreamOptions:
    """The options with the key that applies: the request's, the client's, the environment's.

    Raises:
        MissingKeyError: The provider needs a key and there is none.
    """
    key = options.api_key or key or from_environment(provider.key_env)
    if key is None and provider.key_required and required:
        names = " or ".join(provider.key_env)
        how = f"set {names}, or " if names else ""
        raise MissingKeyError(f"no API key for provider {provider.id!r}: {how}pass api_key=")
    return evolve(options, api_key=key)


def _tools(messages: Iterable[Message]) -> tuple[Tool, ...]:
    """All tools that the transcript ever declares, the last of a name winning."""
    known: dict[str, Tool] = {}
    for message in messages:
        if isinstance(message, SystemMessage):
            known.update((tool.name, tool) for tool in message.tools_added or ())
    return tuple(known.values())


def _guard(head: AssistantMessage, options: StreamOptions, started: float) -> Guard:
    return Guard(
        head,
        max_blocks=options.limits.blocks,
        max_argument_bytes=options.limits.argument_bytes,
        elapsed_ms=lambda: max(0, round((time.monotonic() - started) * 1000)),
    )
