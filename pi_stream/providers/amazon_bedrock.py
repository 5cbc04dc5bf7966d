"""Amazon Bedrock (https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html).

Requests carry the bearer token of ``AWS_BEARER_TOKEN_BEDROCK``, else the signature of AWS credentials: those of
``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, else what botocore finds (profiles, roles, containers; extra
``bedrock``). The region is that of an ARN in the model's id, else the compat flag ``region``, else ``AWS_REGION`` or
``AWS_DEFAULT_REGION``, else that of the model's own base URL, else that of the profile, else ``us-east-1``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from anyio import to_thread
from attrs import evolve

from pi_stream.exceptions import MissingExtraError, MissingKeyError
from pi_stream.http import HttpRequest
from pi_stream.models import Model
from pi_stream.providers._sigv4 import AwsKeys, sign
from pi_stream.providers.base import Provider, from_environment
from pi_stream.wire.json import dumps

__all__ = ["AwsSignature", "configure", "provider"]

_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_REGION = "us-east-1"
_STANDARD_HOST = re.compile(
    r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|amazonaws\.eu)"
)
_REGIONAL_HOST = re.compile(r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z]{2,}(?:-[a-z]+)+-\d+)\.")
_ARN = re.compile(r"arn:aws[a-z-]*:(?:bedrock|sagemaker):([a-z0-9-]+):")
# Variables that botocore looks for credentials by.
_CHAIN = (
    "AWS_PROFILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)


def configure(model: Model, environment: Mapping[str, str]) -> Model:
    """The model with the endpoint of the region that applies, unless it has an endpoint that is not a regional one."""
    flags = dict(model.compat or {})
    region = flags.pop("region", None)  # no business of the apis
    if model.api == "bedrock-converse-stream" and environment.get("AWS_BEDROCK_FORCE_CACHE") == "1":
        flags = {"supports_prompt_caching": True, **flags}
    url = model.base_url
    standard = _STANDARD_HOST.fullmatch(urlsplit(url).hostname or "")
    if not url or standard:
        arn = _ARN.search(model.id)
        named = [environment.get(name, "").strip() for name in _REGIONS]
        given = [arn[1] if arn else None, region, *named, standard[1] if standard else None]
        url = _endpoint(next(filter(None, given), None) or _profile_region(environment) or _REGION)
    return evolve(model, base_url=url, compat=flags)


def _profile_region(environment: Mapping[str, str]) -> str | None:
    """The region that the configuration file of AWS has for the profile."""
    profile = environment.get("AWS_PROFILE", "").strip() or "default"
    file = environment.get("AWS_CONFIG_FILE", "").strip() or "~/.aws/config"
    config = ConfigParser(interpolation=None)
    try:
        config.read(Path(file).expanduser(), encoding="utf-8")
    except (ConfigParserError, OSError, ValueError, RuntimeError):
        return None
    section = profile if profile == "default" else f"profile {profile}"
    return config.get(section, "region", fallback="").strip() or None


def _endpoint(region: str) -> str:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    domain = "amazonaws.eu" if region.startswith("eusc-") else domain
    return f"https://bedrock-runtime.{region}.{domain}"


class AwsSignature:
    """Signs requests that have no bearer token.

    Use it as ``evolve(provider, credential=AwsSignature(profile="work"))`` to name a profile.

    Args:
        profile: Profile of the AWS configuration files; it wins over keys in the environment.
    """

    def __init__(self, profile: str | None = None) -> None:
        self._profile = profile
        self._found: dict[
            str | None, Any
        ] = {}  # credentials that botocore found, by profile; it renews them itself

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """The signature, made now: it is good for five minutes.

        Raises:
            MissingKeyError: There are no credentials.
            MissingExtraError: They are where only botocore can find them, and it is not installed (extra ``bedrock``).
        """
        if "authorization" in request.headers or os.environ.get("AWS_BEDROCK_SKIP_AUTH") == "1":
            return {}
        keys = None if self._profile else _environment_keys()
        if keys is None:
            keys = await to_thread.run_sync(self._search)
        return sign(
            request.method,
            request.url,
            request.headers,
            dumps(request.body),
            keys=keys,
            region=_signing_region(request.url),
            service="bedrock",
            now=datetime.now(UTC),
        )

    def _search(self) -> AwsKeys:
        """Let botocore look. It reads files, and may ask other services."""
        profile = self._profile or from_environment(("AWS_PROFILE",))
        if profile not in self._found:
            self._found[profile] = _botocore_credentials(profile)
        frozen = self._found[profile].get_frozen_credentials()
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)


def _environment_keys() -> AwsKeys | None:
    access, secret = from_environment(("AWS_ACCESS_KEY_ID",)), from_environment(("AWS_SECRET_ACCESS_KEY",))
    return AwsKeys(access, secret, from_environment(("AWS_SESSION_TOKEN",))) if access and secret else None


def _botocore_credentials(profile: str | None) -> Any:
    try:
        session: Any = import_module("botocore.session")
        exceptions: Any = import_module("botocore.exceptions")
    except ImportError:
        if profile or _configured():
            raise MissingExtraError(
                "bedrock",
                "botocore, which finds AWS credentials beyond AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,",
                "pip install 'pi-stream[bedrock]'",
            ) from None
        raise _missing() from None
    try:
        found = session.Session(profile=profile).get_credentials()
    except exceptions.BotoCoreError as problem:
        raise MissingKeyError(f"no AWS credentials for provider 'amazon-bedrock': {problem}") from None
    if found is None:
        raise _missing()
    return found


def _configured() -> bool:
    """Whether something speaks for credentials that botocore would find."""
    files = (Path.home() / ".aws" / name for name in ("credentials", "config"))
    return from_environment(_CHAIN) is not None or any(file.exists() for file in files)


def _missing() -> MissingKeyError:
    return MissingKeyError(
        "no credentials for provider 'amazon-bedrock': set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or an AWS profile (extra `bedrock`), or pass api_key="
    )


def _signing_region(url: str) -> str:
    """The region that a request is signed for: its host's, else that of an ARN in its path, else the environment's."""
    parts = urlsplit(url)
    found = _REGIONAL_HOST.search(parts.hostname or "") or _ARN.search(unquote(parts.path))
    return found[1] if found else from_environment(_REGIONS) or _REGION


provider = Provider(
    "amazon-bedrock",
    name="Amazon Bedrock",
    api="bedrock-converse-stream",
    base_url_env=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"),
    configure=configure,
    key_env="AWS_BEARER_TOKEN_BEDROCK",
    key_required=False,
    credential=AwsSignature(),
)
