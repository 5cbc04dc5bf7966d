"""Plain data between the apis, which write requests, and the transports, which send them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from attrs import evolve, field, frozen

__all__ = ["MASK", "HttpRequest", "ResponseHead", "mask_headers", "mask_url"]

MASK = "***"
"""What stands in place of a secret."""

# By name: those that vendors use, and whatever else a proxy may want.
_SHORTEST_SECRET = 8  # shorter ones, such as the keys of local servers, are words that messages may hold
_SECRET_HEADER = re.compile("auth|key|token|secret|cookie|password|credential", re.IGNORECASE)


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """A copy of the headers with secret values replaced by :data:`MASK`."""
    return {name: MASK if _SECRET_HEADER.search(name) else value for name, value in headers.items()}


def mask_url(url: str) -> str:
    """The URL without what may be secret in it: user and password, and the values of its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    host = parts.netloc.rpartition("@")
    netloc = f"{MASK}@{host[2]}" if host[1] else parts.netloc
    query = re.sub(r"=[^&]*", f"={MASK}", parts.query)
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def _masked_repr(headers: Mapping[str, str]) -> str:
    return repr(mask_headers(headers))


@frozen(kw_only=True)
class HttpRequest:
    """A request that would be sent. Its repr shows no secrets and no body.

    Attributes:
        method: ``POST`` or ``GET``.
        url: Absolute URL.
        headers: Names in lower case.
        body: The JSON body, a dict; None for a request without one.
    """

    method: str = "POST"
    url: str = field(repr=lambda url: repr(mask_url(url)))
    headers: dict[str, str] = field(factory=dict, repr=_masked_repr)
    body: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown: the values of secret headers, without the word before them such as ``Bearer``."""
        values = (
            value.rpartition(" ")[2] for name, value in self.headers.items() if _SECRET_HEADER.search(name)
        )
        return tuple(value for value in values if len(value) >= _SHORTEST_SECRET)

    def without_secrets(self, text: str) -> str:
        """A text that a server sent back, with the secrets of the request replaced."""
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        return text

    def masked(self) -> HttpRequest:
        """The same request with what is secret in its headers and URL replaced, to be shown or stored."""
        return evolve(self, url=mask_url(self.url), headers=mask_headers(self.headers))


@frozen(kw_only=True)
class ResponseHead:
    """Status and headers of an answer; header names in lower case."""

    status: int
    headers: dict[str, str] = field(factory=dict, repr=_masked_repr)

    @property
    def content_type(self) -> str | None:
        """The media type without parameters, in lower case."""
        value = self.headers.get("content-type")
        return value.partition(";")[0].strip().lower() if value else None
