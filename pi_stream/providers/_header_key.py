"""A key that goes into a header of its own instead of ``authorization``."""

from __future__ import annotations

from collections.abc import Mapping

from pi_stream.exceptions import MissingKeyError
from pi_stream.http import HttpRequest
from pi_stream.providers.base import from_environment

__all__ = ["HeaderKey"]


class HeaderKey:
    """Adds the key of an environment variable as ``<header>: Bearer <key>``.

    A request that has the header already, or a key of the caller's own in ``authorization``, can do without the variable.

    Args:
        header: Name in lower case.
        key_env: Environment variables that hold the key; the first that is set and not blank.
    """

    def __init__(self, header: str, *key_env: str) -> None:
        self.header = header
        self.key_env = key_env

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """The header, where it is missing.

        Raises:
            MissingKeyError: There is no key at all.
        """
        if self.header in request.headers:
            return {}
        key = from_environment(self.key_env)
        if key is not None:
            return {self.header: f"Bearer {key}"}
        if "authorization" in request.headers:
            return {}
        raise MissingKeyError(f"no API key: set {' or '.join(self.key_env)}, or pass api_key=")
