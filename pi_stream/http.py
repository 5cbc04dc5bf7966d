"""Plain data between the apis, which write requests, and the transports, which send them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

__all__ = ["MASK", "HttpRequest", "ResponseHead", "mask_headers"]

MASK = "***"
"""What stands in place of a secret."""

_SECRET_HEADERS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "cookie",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "cf-aig-authorization",
        "x-amz-security-token",
    }
)


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """A copy of the headers with secret values replaced by :data:`MASK`."""
    return {name: MASK if name.lower() in _SECRET_HEADERS else value for name, value in headers.items()}


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
    url: str
    headers: dict[str, str] = field(factory=dict, repr=_masked_repr)
    body: dict[str, Any] | None = field(default=None, repr=False)

    def masked(self) -> HttpRequest:
        """The same request with secret header values replaced, to be shown or stored."""
        return evolve(self, headers=mask_headers(self.headers))


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
