"""Anthropic (https://platform.claude.com/docs/en/api/overview)."""

from __future__ import annotations

from collections.abc import Mapping

from pi_stream.exceptions import MissingKeyError
from pi_stream.http import HttpRequest
from pi_stream.providers.base import Provider, from_environment

__all__ = ["provider"]

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN")
_TOKEN = "ANTHROPIC_AUTH_TOKEN"
_KEY_HEADERS = ("x-api-key", "authorization", "cf-aig-authorization")


class AuthToken:
    """The token in ``ANTHROPIC_AUTH_TOKEN``, sent as bearer where there is no key: what proxies of the api want."""

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """The header for a request that has none of its own yet.

        Raises:
            MissingKeyError: There is neither a key nor a token.
        """
        if any(name in request.headers for name in _KEY_HEADERS):
            return {}
        token = from_environment((_TOKEN,))
        if token is None:
            names = " or ".join((*_KEYS, _TOKEN))
            raise MissingKeyError(f"no API key for provider 'anthropic': set {names}, or pass api_key=")
        return {"authorization": f"Bearer {token}"}


provider = Provider(
    "anthropic",
    name="Anthropic",
    api="anthropic-messages",
    base_url="https://api.anthropic.com",
    base_url_env="ANTHROPIC_BASE_URL",
    key_env=_KEYS,
    key_required=False,
    credential=AuthToken(),
    default_model="claude-sonnet-4-5",
)
