"""What every request needs, whatever the protocol: URL, headers, and a body that is clean JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pi_stream._text import clean_text
from pi_stream.exceptions import ConfigError
from pi_stream.messages import JsonObject
from pi_stream.options import CacheRetention, StreamOptions

__all__ = [
    "cache_retention",
    "clean_json",
    "clean_text",
    "endpoint",
    "is_host",
    "merge_deep",
    "merge_headers",
    "rooted_endpoint",
]

# Control characters would end a line of the request early; a lone surrogate cannot be encoded at all.
_UNSAFE_URL = re.compile("[\x00-\x20\x7f-\x9f\ud800-\udfff]")
_UNSAFE_HEADER = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def endpoint(base_url: str, path: str) -> str:
    """The URL of an operation below a base URL.

    A trailing slash of the base URL is tolerated, its query string is kept, and a base URL that already ends with the
    path is taken as it is.

    Args:
        base_url: Absolute ``http`` or ``https`` URL.
        path: Such as ``chat/completions``.

    Raises:
        ConfigError: The base URL is empty, of another scheme, has no host, or holds control characters.
    """
    if not base_url:
        raise ConfigError("no base URL: set `base_url` of the model or of its provider")
    if _UNSAFE_URL.search(base_url):
        raise ConfigError(f"the base URL {base_url!r} holds spaces or control characters")
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        raise ConfigError(f"the base URL {base_url!r} is no URL: {problem}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"the base URL {base_url!r} must start with http:// or https:// and name a host")
    root = parts.path.rstrip("/")
    if not root.endswith("/" + path):
        root = f"{root}/{path}"
    return urlunsplit((parts.scheme, parts.netloc, root, parts.query, ""))


def is_host(url: str, *hosts: str) -> bool:
    """Whether a URL goes to one of the hosts or to a subdomain of one."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return any(host == known or host.endswith("." + known) for known in hosts)


def rooted_endpoint(base_url: str, root: str, path: str) -> str:
    """The URL of an operation below a root, such as a version, that the base URL may hold already or not.

    Args:
        base_url: As for :func:`endpoint`.
        root: Such as ``v1``.
        path: Such as ``chat/completions``.

    Raises:
        ConfigError: As for :func:`endpoint`.
    """
    rooted = base_url.partition("?")[0].rstrip("/").endswith((f"/{root}", f"/{root}/{path}"))
    return endpoint(base_url, path if rooted else f"{root}/{path}")


def merge_headers(*layers: Mapping[str, str | None] | None) -> dict[str, str]:
    """Merge headers, later layers over earlier ones, names case-insensitively; a None value removes a header.

    Returns:
        Headers with names in lower case.

    Raises:
        ConfigError: A name or value that no HTTP message can carry. The message names the header, never its value.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name, value in (layer or {}).items():
            if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
                raise ConfigError(f"{name!r} is no header name")
            if value is None:
                merged.pop(name.lower(), None)
            elif not isinstance(value, str):
                raise ConfigError(f"the header {name!r} must be a string or None, not {type(value).__name__}")
            elif _UNSAFE_HEADER.search(value):
                raise ConfigError(f"the header {name!r} holds control characters, such as a line end")
            else:
                merged[name.lower()] = value
    return merged


def clean_json(value: Any, path: str = "$") -> Any:
    """A copy of a value that any JSON encoder accepts: lone surrogates become U+FFFD, NaN and infinities null.

    Args:
        value: JSON value; tuples and mappings are taken as lists and objects.
        path: JSON path of the value, for the error message.

    Raises:
        ConfigError: Something in it is not JSON.
    """
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ConfigError(f"{path}: the key {key!r} of a JSON object must be a string")
        return {clean_text(key): clean_json(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_json(item, f"{path}[{index}]") for index, item in enumerate(value)]
    raise ConfigError(f"{path}: a value of type {type(value).__name__} cannot be sent as JSON")


def merge_deep(base: JsonObject, extra: Mapping[str, Any]) -> JsonObject:
    """A new object: ``extra`` over ``base``, key by key where both have an object, else replaced."""
    merged = dict(base)
    for key, value in extra.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            merged[key] = merge_deep(old, value)
        else:
            merged[key] = value
    return merged


def cache_retention(options: StreamOptions) -> CacheRetention:
    """How long prompts are cached: what was asked, else ``short`` for a session, else ``none``.

    Writing to a cache costs extra on one-shot calls, so nothing is cached unasked.
    """
    return options.cache_retention or ("short" if options.session_id else "none")
