"""What every HTTP client has to settle: the URL, the proxy, the certificates, and what to say when it fails."""

from __future__ import annotations

import os
import socket
import ssl
import urllib.request
from typing import Final

from yarl import URL

from pi_stream.exceptions import ConfigError

__all__ = ["environment_proxy", "failure", "proxy_url", "request_url", "tls_context"]

# By name, since transport/aiohttp.py alone imports aiohttp, and others need the words too.
_AIOHTTP_REASONS: Final = {
    "ServerDisconnectedError": "the server closed it",
    "LineTooLong": "a header is too long",
    "InvalidHeader": "a header is not valid",
}


def request_url(text: str) -> URL:
    """The URL of a request, exactly as given: yarl would decode ``%3A`` and ``%2F``, and break paths that are signed.

    Raises:
        ConfigError: It is not an absolute http or https URL.
    """
    url = _parse(text, encoded=text.isascii() and text.isprintable() and " " not in text)
    if url is None:
        raise ConfigError(f"not an absolute http or https URL: {text.partition('?')[0]!r}")
    return url


def proxy_url(text: str) -> URL:
    """The URL of a proxy; without a scheme it is ``http``, as everywhere.

    Raises:
        ConfigError: It is not an HTTP proxy. The message does not repeat the URL, which may hold a password.
    """
    url = _parse(text if "://" in text else f"http://{text}", encoded=False)
    if url is None:
        raise ConfigError(
            f"cannot use a proxy of the kind {text.partition('://')[0]!r}: it must be an http:// or https:// URL. "
            "For another kind give a session with its connector; to ignore the environment, trust_env=False"
        )
    return url


def environment_proxy(url: URL) -> URL | None:
    """The proxy that the environment (on Windows and macOS also the system) names for this URL, if any.

    ``HTTP_PROXY`` or ``HTTPS_PROXY`` by the scheme of the URL, else ``ALL_PROXY``; not for a host or ``host:port`` in
    ``NO_PROXY``. In lower or upper case.

    Raises:
        ConfigError: It names a proxy of a kind that cannot be used, such as SOCKS. Going around it could leak.
    """
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy:
        return None
    names = (url.host or "", f"{url.host_subcomponent}:{url.port}")
    if any(urllib.request.proxy_bypass(name) for name in names):
        return None
    return proxy_url(proxy)


def tls_context(
    ca: str | os.PathLike[str] | None, client_cert: str | tuple[str, str] | None
) -> ssl.SSLContext:
    """A context that trusts the system's CAs, or those of a file instead, and may identify itself.

    Raises:
        ConfigError: A file cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as exc:
        raise ConfigError(f"cannot load the CA certificates {str(ca)!r}: {_reason(exc)}") from exc
    context.set_alpn_protocols(["http/1.1"])
    if client_cert is not None:
        cert, key = (client_cert, None) if isinstance(client_cert, str) else client_cert
        try:
            # Without a password here, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(cert, key, password="")
        except OSError as exc:
            raise ConfigError(
                f"cannot load the client certificate {cert!r}: {_reason(exc)} "
                "(with an encrypted key, make an ssl_context yourself)"
            ) from exc
    return context


def failure(error: BaseException) -> tuple[str, BaseException | None]:
    """The deepest cause of an error in words, and itself where a traceback may show it.

    The texts of aiohttp's own errors may hold the whole URL, with a key in its query, or the headers of the request. So
    only what lies below them is named and chained.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    if not type(error).__module__.startswith("aiohttp."):
        return _reason(error), error
    name = type(error).__name__
    if name not in _AIOHTTP_REASONS and type(error).__module__ == "aiohttp.http_exceptions":
        return str(getattr(error, "message", name)).partition("\n")[0].rstrip(":."), None
    return _AIOHTTP_REASONS.get(name, name), None


def _reason(error: BaseException) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return error.verify_message
        case ssl.SSLError(reason=str(reason)):
            return reason.replace("_", " ").lower()
        case socket.gaierror(strerror=str(reason)):
            return reason
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case _:
            return str(error) or type(error).__name__


def _parse(text: str, *, encoded: bool) -> URL | None:
    try:
        url = URL(text, encoded=encoded)
        return url if url.scheme in ("http", "https") and url.host and url.port else None
    except ValueError:
        return None
