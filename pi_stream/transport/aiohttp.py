"""HTTP over aiohttp: the transport behind every provider that is reached by a URL.

What differs from aiohttp's defaults, and why:

- no total limit (300 s cut long answers), no connection limit (the 101st stream would wait without a word), no
  ``sock_read`` (it costs more per read than everything else): the clock is :meth:`AiohttpBody.set_deadline`;
- no cookies, no redirects (they would carry the key elsewhere), no ``.netrc``;
- ``accept-encoding: identity`` unless the caller's headers say otherwise: compression holds back small events. gzip and
  deflate are decoded when a server sends them all the same;
- sockets close without waiting for unsent bytes or a TLS goodbye, since the peer may be the one that hangs;
- bytes that came before a connection was lost are handed out before the error.

Needs asyncio; uvloop is fine.
"""

from __future__ import annotations

import asyncio
import io
import logging
import math
import os
import re
import ssl
import sys
import weakref
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from yarl import URL

from pi_stream.exceptions import ConfigError, TransportError
from pi_stream.http import HttpRequest, ResponseHead
from pi_stream.transport._aiohttp_body import AiohttpBody, Drain, LossWatch, abort_connection, runs_here
from pi_stream.transport._net import environment_proxy, failure, proxy_url, request_url, tls_context
from pi_stream.version import __version__
from pi_stream.wire.json import dumps

__all__ = ["AiohttpBody", "AiohttpTransport"]

logger = logging.getLogger("pi_stream.transport")

READ_SIZE: Final = 64 * 1024
"""Bytes asked of the socket at a time: asyncio's 256 kB make the allocator map and unmap memory at every read."""

KEEP_ALIVE: Final = 45.0
"""Seconds an idle connection stays in the pool: long enough for a tool to run between two turns."""

_USER_AGENT: Final = f"pi-stream/{__version__}"
_HEADER_SIZE: Final = 64 * 1024
_LARGE_BODY: Final = 2**20
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class _ClosingResponse(aiohttp.ClientResponse):
    """Closes at once, also when a request is cancelled while most of its body still waits to be written."""

    def close(self) -> None:
        abort_connection(self)
        super().close()


class AiohttpTransport:
    """Sends requests over aiohttp. Belongs to the event loop of its first request.

    Args:
        session: A session of your own, with its connector, proxies and certificates. It is used and never closed; our
            settings of limits, redirects and decoding hold for our requests all the same.
        proxy: URL of an HTTP proxy for every request (``http://`` or ``https://``, credentials allowed).
        trust_env: Take the proxy from the environment (``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY``, ``NO_PROXY``)
            when ``proxy`` is not given. A session of your own has such a switch itself, and that one holds.
        ca: File of CA certificates to trust instead of the system's.
        client_cert: File of a certificate to identify with, key included, or a pair of certificate and key file.
        ssl_context: All settings of TLS; excludes ``ca`` and ``client_cert``.

    Raises:
        ConfigError: A file that cannot be read, a proxy of another kind, or settings that exclude each other.
    """

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession | None = None,
        proxy: str | None = None,
        trust_env: bool = True,
        ca: str | os.PathLike[str] | None = None,
        client_cert: str | tuple[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        if ca is not None or client_cert is not None:
            if ssl_context is not None:
                raise ConfigError("ssl_context excludes ca and client_cert: load them into the context")
            ssl_context = tls_context(ca, client_cert)
        self._session = session
        self._own_session = session is None
        self._proxy = None if proxy is None else proxy_url(proxy)
        self._trust_env = trust_env and session is None
        self._ssl_context = ssl_context
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._bodies: weakref.WeakSet[AiohttpBody] = weakref.WeakSet()
        self._drains: set[Drain] = set()
        self._watches: dict[Any, LossWatch] = {}  # by aiohttp's protocol, which is one for each connection

    def time(self) -> float:
        """The loop's clock, in seconds."""
        return (self._loop or _running_loop()).time()

    async def send(
        self, request: HttpRequest, *, connect: float | None = None, head: float | None = None
    ) -> AiohttpBody:
        """Send a request and wait for the head of the answer; see :meth:`pi_stream.transport.base.Transport.send`.

        Cancelling it closes the socket.

        Args:
            request: What to send.
            connect: Most seconds to open the connection: name, socket, proxy and TLS.
            head: Most seconds from here to the head.

        Raises:
            TransportError: ``connect``, ``tls``, ``timeout_connect``, ``timeout_head`` or ``transport``.
            ConfigError: The request can be sent by nobody, or not from here (transport closed, other loop, trio).
        """
        loop = _running_loop()
        session = self._session_in(loop)
        url = request_url(request.url)
        target = f"{url.host_subcomponent}:{url.port}"
        options = await self._options(request, url, connect)
        started = loop.time()
        limit = asyncio.timeout(head)
        try:
            async with limit:
                response = await session.request(request.method, url, **options)
        except (aiohttp.ClientError, OSError) as exc:
            if limit.expired():
                error = TransportError(f"{target} sent no answer within {head:g} s", kind="timeout_head")
            else:
                error = _send_error(exc, target, connect)
            logger.debug("%s %s%s failed: %s", request.method, target, url.path, error)
            raise error from failure(exc)[1]
        except (RuntimeError, ValueError, TypeError) as exc:
            raise ConfigError(f"cannot send a request to {target}: {exc}") from exc
        seconds = loop.time() - started
        logger.debug("%s %s%s: %d in %.3f s", request.method, target, url.path, response.status, seconds)
        return self._body(response, target, loop)

    def abort(self) -> None:
        """Close all bodies and connections at once, without waiting, save those of a session of your own."""
        self._closed = True
        if self._loop is None or self._loop.is_closed():
            return
        if not runs_here(self._loop):  # a collector at work in another thread
            self._loop.call_soon_threadsafe(self.abort)
            return
        self._abort_bodies()
        if self._own_session and self._session is not None and self._session.connector is not None:
            # close() needs an await, and __exit__() would wait for the TLS goodbye of every peer.
            self._session.connector._close(abort_ssl=True)  # pyright: ignore[reportPrivateUsage]

    async def aclose(self) -> None:
        """Abort all bodies and close the connections, save those of a session of your own. Idempotent."""
        self._closed = True
        self._abort_bodies()
        session, self._session = self._session, None
        if session is not None and self._own_session:
            await session.close()

    def _abort_bodies(self) -> None:
        for drain in tuple(self._drains):
            drain.close()
        for body in tuple(self._bodies):
            body.abort()

    def _session_in(self, loop: asyncio.AbstractEventLoop) -> aiohttp.ClientSession:
        if self._closed:
            raise ConfigError("this transport is closed")
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise ConfigError("this transport belongs to another event loop: make one in each loop")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
                cookie_jar=aiohttp.DummyCookieJar(),
                response_class=_ClosingResponse,
            )
        return self._session

    async def _options(self, request: HttpRequest, url: URL, connect: float | None) -> dict[str, Any]:
        headers, body = _payload(request)
        options: dict[str, Any] = {
            "headers": headers,
            "data": body,
            "allow_redirects": False,
            "raise_for_status": False,
            "auto_decompress": True,
            # aiohttp takes 0 for no limit, and would round up to seconds above the threshold.
            "timeout": aiohttp.ClientTimeout(
                connect=None if connect is None else max(connect, 0.001), ceil_threshold=math.inf
            ),
            "read_bufsize": READ_SIZE,
            "max_line_size": _HEADER_SIZE,
            "max_field_size": _HEADER_SIZE,
        }
        if self._ssl_context is not None:
            options["ssl"] = self._ssl_context
        proxy = self._proxy
        if proxy is None and self._trust_env:
            # Windows and macOS look into the system's settings too, which can take a while.
            off_loop = sys.platform in ("win32", "darwin")
            proxy = await asyncio.to_thread(environment_proxy, url) if off_loop else environment_proxy(url)
        if proxy is not None:
            options["proxy"] = proxy
        return options

    def _body(
        self, response: aiohttp.ClientResponse, target: str, loop: asyncio.AbstractEventLoop
    ) -> AiohttpBody:
        connection = response.connection
        if connection is not None:  # None when the whole answer came with its head
            if hasattr(connection.transport, "max_size"):  # of asyncio on a plain socket
                setattr(connection.transport, "max_size", READ_SIZE)  # noqa: B010 - not in any annotation
            self._watch(connection.protocol, response.content)
        head = ResponseHead(status=response.status, headers=_joined(response.headers))
        body = AiohttpBody(response, head, target, loop, self._drains)
        self._bodies.add(body)
        return body

    def _watch(self, protocol: Any, content: aiohttp.StreamReader) -> None:
        watch = self._watches.get(protocol)
        if watch is not None:
            watch.content = content
        elif (closed := protocol.closed) is not None:
            self._watches[protocol] = watch = LossWatch(content)
            closed.add_done_callback(watch.lost)
            closed.add_done_callback(lambda _: self._watches.pop(protocol))


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "HTTP goes through aiohttp, which needs asyncio, and no asyncio loop runs here. "
            "Under trio, give a transport of your own"
        ) from None


def _send_error(exc: Exception, target: str, connect: float | None) -> TransportError:
    """The error for a request that got no answer."""
    reason, _ = failure(exc)
    kind, message = "connect", f"cannot connect to {target}: {reason}"
    match exc:
        case aiohttp.ConnectionTimeoutError():
            limit = "" if connect is None else f" within {connect:g} s"
            kind, message = "timeout_connect", f"no connection to {target}{limit}"
        case aiohttp.ClientConnectorDNSError():
            message = f"cannot resolve {exc.host}: {reason}"
        case ssl.SSLError() | aiohttp.ClientSSLError() | aiohttp.ServerFingerprintMismatch():
            kind, message = "tls", f"no TLS connection to {target}: {reason}"
        case aiohttp.ClientProxyConnectionError():
            message = f"cannot connect to the proxy {exc.host}:{exc.port} for {target}: {reason}"
        case aiohttp.ClientConnectorError():
            pass
        case aiohttp.ClientHttpProxyError():
            message = f"the proxy did not connect to {target}: {exc.status} {exc.message}"
        case aiohttp.ClientResponseError():
            kind, message = "transport", f"{target} did not answer with valid HTTP: {reason}"
        case _:
            kind, message = "transport", f"connection to {target} lost before an answer came: {reason}"
    return TransportError(message, kind=kind)


def _payload(request: HttpRequest) -> tuple[dict[str, str], bytes | io.BytesIO | None]:
    """Headers and body as they are sent."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    for name, value in headers.items():
        if _CONTROL.search(value):
            # Most often a key read from a file, with its line end.
            raise ConfigError(f"header {name!r} holds a line break or another control character")
    headers.setdefault("accept-encoding", "identity")
    headers.setdefault("user-agent", _USER_AGENT)
    if request.body is None:
        return headers, None
    headers.setdefault("content-type", "application/json")
    body = dumps(request.body)
    # A large one is written piece by piece, so that it does not hold up the loop.
    return headers, io.BytesIO(body) if len(body) > _LARGE_BODY else body


def _joined(headers: Mapping[str, str]) -> dict[str, str]:
    """Lower-case names; values of a repeated header joined as RFC 9110 section 5.2 says."""
    joined: dict[str, str] = {}
    for name, value in headers.items():
        name = name.lower()
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
