"""Signature Version 4 of AWS: proves who sent a request, and that it was not changed.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, unquote, urlsplit

from attrs import field, frozen

__all__ = ["AwsKeys", "sign"]

_ALGORITHM = "AWS4-HMAC-SHA256"
# Headers that are signed. Others, such as the user agent, may be changed on the way.
_SIGNED = ("content-type", "host")
_PORTS = {"http": 80, "https": 443}


@frozen
class AwsKeys:
    """Credentials of AWS. ``token`` comes with those that expire."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    keys: AwsKeys,
    region: str,
    service: str,
    now: datetime,
) -> dict[str, str]:
    """The headers that sign a request.

    Args:
        method: Such as ``POST``.
        url: As it is sent, its path encoded once; the signature encodes it a second time, as all services but S3 want it.
        headers: Names in lower case. The content type and those that begin with ``x-amz-`` are signed.
        body: The bytes of the body.
        keys: Whose signature it is.
        region: Region of the service.
        service: Name of the service in signatures, such as ``bedrock``.
        now: The time, in UTC. AWS takes signatures that are up to five minutes old.
    """
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    added = {"x-amz-date": stamp} | ({"x-amz-security-token": keys.token} if keys.token else {})
    signed = {
        name: " ".join(value.split())
        for name, value in ({"host": _host(url)} | dict(headers) | added).items()
        if name in _SIGNED or name.startswith("x-amz-")
    }
    names = ";".join(sorted(signed))
    lines = [f"{name}:{signed[name]}" for name in sorted(signed)]
    canonical = "\n".join(
        (method, _path(url), _query(url), *lines, "", names, hashlib.sha256(body).hexdigest())
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{keys.secret_key}".encode()
    for part in (day, region, service, "aws4_request"):
        key = _hmac(key, part)
    proof = f"Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={_hmac(key, text).hex()}"
    return {**added, "authorization": f"{_ALGORITHM} {proof}"}


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port in (None, _PORTS.get(parts.scheme)) else f"{host}:{parts.port}"


def _path(url: str) -> str:
    return quote(urlsplit(url).path or "/", safe="/~")


def _query(url: str) -> str:
    pairs = (pair.partition("=") for pair in urlsplit(url).query.split("&") if pair)
    encoded = sorted((_encoded(name), _encoded(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def _encoded(text: str) -> str:
    return quote(unquote(text), safe="~")
