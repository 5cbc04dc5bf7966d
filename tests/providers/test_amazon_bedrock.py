"""Amazon Bedrock: where requests go, who signs them, and botocore's opinion of the signature."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from attrs import evolve
from bedrock_bodies import answer, arguments, call, stop, text
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import Client, build_request
from pi_stream.exceptions import MissingExtraError, MissingKeyError
from pi_stream.http import HttpRequest
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.providers._sigv4 import AwsKeys, sign
from pi_stream.providers.amazon_bedrock import AwsSignature, provider
from pi_stream.transport.memory import MemoryResponse, MemoryTransport
from pi_stream.wire.json import dumps

NOVA = "amazon-bedrock/amazon.nova-lite-v1:0"
KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "TOKEN//=")
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
STREAM = {"content-type": "application/vnd.amazon.eventstream"}

needs_botocore = pytest.mark.skipif(
    find_spec("botocore") is None, reason="botocore is not installed: no second opinion"
)


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine's AWS configuration is seen, and nobody is asked for credentials."""
    for name in (
        *("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_BEDROCK_SKIP_AUTH"),
        *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_BEDROCK_FORCE_CACHE"),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / ".aws" / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / ".aws" / "credentials"))


def host(spec: str | Model = NOVA, **options: Any) -> str:
    return build_request(spec, "hi", StreamOptions(**options)).url.partition("/model/")[0]


# --- region and endpoint ----------------------------------------------------------------------------------------------


def regional(region: str) -> str:
    return f"https://bedrock-runtime.{region}.amazonaws.com"


def test_the_region_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert host() == regional("us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert host() == regional("eu-west-1")
    monkeypatch.setenv("AWS_REGION", "eu-west-2")
    assert host() == regional("eu-west-2")


def test_partitions_have_their_own_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    for region, domain in (("cn-north-1", "amazonaws.com.cn"), ("eusc-de-east-1", "amazonaws.eu")):
        monkeypatch.setenv("AWS_REGION", region)
        assert host() == f"https://bedrock-runtime.{region}.{domain}"


def test_an_arn_and_a_flag_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-2")
    flagged = Model(id="amazon.nova-lite-v1:0", provider="amazon-bedrock", compat={"region": "ap-south-1"})
    assert host(flagged) == regional("ap-south-1")
    arn = "arn:aws:bedrock:us-west-2:123456789012:inference-profile/us.amazon.nova-lite-v1:0"
    assert host(f"amazon-bedrock/{arn}") == regional("us-west-2")
    assert host(evolve(flagged, id=arn)) == regional("us-west-2")


def test_a_regional_url_of_a_model_record_yields_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of pi-ai's catalog name a region for every model."""
    stored = Model(id="m", provider="amazon-bedrock", base_url=regional("eu-central-1"))
    assert host(stored) == regional("eu-central-1")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert host(stored) == regional("us-west-2")


def test_a_url_of_another_kind_is_always_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    private = "https://vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com"
    assert host(Model(id="m", provider="amazon-bedrock", base_url=private)) == private
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:4566")
    assert host() == "http://localhost:4566"
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://localhost:4567")
    assert host() == "http://localhost:4567"


def test_the_region_of_the_profile_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        "[default]\nregion = sa-east-1\n[profile w]\nregion=ca-west-1\n"
    )
    assert host() == regional("sa-east-1")
    monkeypatch.setenv("AWS_PROFILE", "w")
    assert host() == regional("ca-west-1")
    (tmp_path / ".aws" / "config").write_text("no config\n")
    assert host() == regional("us-east-1")


@pytest.mark.anyio
@pytest.mark.trio
async def test_the_client_s_own_url_is_used_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "b")
    (request,) = await requests_of(base_urls={"amazon-bedrock": regional("eu-west-3")})
    assert request.url.startswith(regional("eu-west-3"))


def test_caching_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = "amazon-bedrock/openai.gpt-oss-20b-1:0"
    options = StreamOptions(cache_retention="short")
    assert "cachePoint" not in str(build_request(spec, "hi", options).body)
    monkeypatch.setenv("AWS_BEDROCK_FORCE_CACHE", "1")
    assert "cachePoint" in str(build_request(spec, "hi", options).body)
    invoke = Model(id="anthropic.claude-x", provider="amazon-bedrock", api="bedrock-invoke")
    assert build_request(invoke, "hi").url.endswith("/invoke-with-response-stream")


# --- credentials ------------------------------------------------------------------------------------------------------


async def requests_of(model: str = NOVA, **arguments: Any) -> list[HttpRequest]:
    """What a client sends for one question."""
    sent: list[HttpRequest] = []

    def reply(request: HttpRequest) -> MemoryResponse:
        sent.append(request)
        return MemoryResponse(headers=STREAM, chunks=answer(text(0, "Hello"), stop(0)))

    async with Client(transport=MemoryTransport(reply), **arguments) as client:
        message = await client.complete(model, "hi")
    assert (message.text, message.error_message) == ("Hello", None)
    return sent


@pytest.mark.anyio
@pytest.mark.trio
async def test_a_bearer_token_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unused")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "unused")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bearer-1")
    (request,) = await requests_of()
    assert request.headers["authorization"] == "Bearer bearer-1"
    assert not any(name.startswith("x-amz-") for name in request.headers)


@pytest.mark.anyio
@pytest.mark.trio
async def test_keys_of_the_environment_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    (request,) = await requests_of()
    assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert "/eu-west-1/bedrock/aws4_request" in request.headers["authorization"]
    assert request.headers["x-amz-security-token"] == "session"
    assert signed_again(request, AwsKeys("AKID", "secret", "session"), "eu-west-1") == request.headers


def signed_again(request: HttpRequest, keys: AwsKeys, region: str) -> dict[str, str]:
    """The request's headers with the signature that its parts should have."""
    now = datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    added = sign(
        request.method,
        request.url,
        {name: value for name, value in request.headers.items() if not name.startswith("x-amz-")},
        dumps(request.body),
        keys=keys,
        region=region,
        service="bedrock",
        now=now,
    )
    return {**request.headers, **added}


@pytest.mark.anyio
async def test_a_region_in_the_host_is_the_one_that_is_signed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    arn = quote("arn:aws:bedrock:ap-south-1:1:inference-profile/x", safe="")
    for url, region in (
        ("https://vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com/model/m/converse-stream", "eu-west-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/model/m", "us-gov-west-1"),
        (f"http://localhost:1/model/{arn}/converse-stream", "ap-south-1"),
        ("http://localhost:1/model/m/converse-stream", "us-west-2"),
    ):
        made = await AwsSignature().headers(HttpRequest(url=url, body={}))
        assert f"/{region}/bedrock/" in made["authorization"]


@pytest.mark.anyio
async def test_signing_can_be_skipped_for_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEDROCK_SKIP_AUTH", "1")
    (request,) = await requests_of()
    assert "authorization" not in request.headers


@needs_botocore
@pytest.mark.anyio
@pytest.mark.trio
async def test_a_profile_is_found_by_botocore(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = FIRST\naws_secret_access_key = s\n"
        "[work]\naws_access_key_id = SECOND\naws_secret_access_key = s\n"
    )
    request = HttpRequest(url=regional("us-east-1"), body={})
    assert "Credential=FIRST/" in (await AwsSignature().headers(request))["authorization"]
    named = await AwsSignature(profile="work").headers(request)
    assert "Credential=SECOND/" in named["authorization"]
    # Keys of the environment come before the files, unless a profile is named.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "THIRD")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert "Credential=THIRD/" in (await AwsSignature().headers(request))["authorization"]
    assert "Credential=SECOND/" in (await AwsSignature(profile="work").headers(request))["authorization"]
    with pytest.raises(MissingKeyError, match="nowhere"):
        await AwsSignature(profile="nowhere").headers(request)


@needs_botocore
@pytest.mark.anyio
async def test_without_credentials_the_stream_is_an_error_that_says_what_to_do() -> None:
    transport = MemoryTransport(lambda request: b"")
    async with Client(transport=transport) as client:
        message = await client.complete(NOVA, "hi")
    assert message.stop_reason == "error"
    assert "AWS_BEARER_TOKEN_BEDROCK" in (message.error_message or "")


@pytest.mark.anyio
async def test_without_botocore_a_profile_needs_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    request = HttpRequest(url=regional("us-east-1"), body={})
    with pytest.raises(MissingKeyError, match="AWS_ACCESS_KEY_ID"):
        await AwsSignature().headers(request)
    monkeypatch.setenv("AWS_PROFILE", "work")
    with pytest.raises(MissingExtraError, match=r"pi-stream\[bedrock\]"):
        await AwsSignature().headers(request)
    monkeypatch.delenv("AWS_PROFILE")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\n")
    with pytest.raises(MissingExtraError):
        await AwsSignature().headers(request)


# --- the signature ----------------------------------------------------------------------------------------------------


def ours(url: str, headers: dict[str, str], body: bytes, keys: AwsKeys = KEYS) -> dict[str, str]:
    return sign("POST", url, headers, body, keys=keys, region="eu-west-1", service="bedrock", now=NOW)


@pytest.fixture(scope="module")
def theirs() -> Iterator[Any]:
    """Botocore's signature of the same request at the same time."""
    if find_spec("botocore") is None:
        pytest.skip("botocore is not installed: no second opinion")
    from botocore import auth, awsrequest, credentials

    def signature(url: str, headers: dict[str, str], body: bytes, keys: AwsKeys = KEYS) -> str:
        given = credentials.Credentials(keys.access_key, keys.secret_key, keys.token)
        request = awsrequest.AWSRequest("POST", url, headers=dict(headers), data=body)
        auth.SigV4Auth(given, "bedrock", "eu-west-1").add_auth(request)
        return str(request.headers["Authorization"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth, "get_current_datetime", lambda *_: NOW.replace(tzinfo=None), raising=False)
        yield signature


MODELS = (
    "amazon.nova-lite-v1:0",
    "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.amazon.nova-lite-v1:0",
    "a b~é/+*",
)


@pytest.mark.parametrize("id", MODELS)
@pytest.mark.parametrize("base", [regional("eu-west-1"), "http://localhost:8080/prefix"])
def test_the_signature_is_botocore_s(theirs: Any, id: str, base: str) -> None:
    url = f"{base}/model/{quote(id, safe='')}/converse-stream"
    headers = {"content-type": "application/json", "x-amz-custom": "a   b "}
    for keys in (KEYS, AwsKeys("AKID", "secret")):
        made = ours(url, headers, b'{"a":1}', keys)
        assert made["authorization"] == theirs(url, headers, b'{"a":1}', keys)
        assert made["x-amz-date"] == "20260304T050607Z"


def test_a_query_is_signed(theirs: Any) -> None:
    url = f"{regional('eu-west-1')}/model/m/converse-stream?b=2&a=%20x&empty="
    assert ours(url, {}, b"")["authorization"] == theirs(url, {}, b"")


@given(id=st.text(min_size=1, max_size=30), body=st.binary(max_size=50))
def test_any_model_and_body_are_signed_as_by_botocore(theirs: Any, id: str, body: bytes) -> None:
    url = f"{regional('eu-west-1')}/model/x{quote(id, safe='', errors='replace')}/converse-stream"
    assert ours(url, {}, body)["authorization"] == theirs(url, {}, body)


def test_keys_show_no_secrets() -> None:
    assert "EXAMPLEKEY" not in repr(KEYS)
    assert "TOKEN" not in repr(KEYS)


# --- on the wire ------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.http
async def test_what_arrives_at_a_server_has_the_signature_of_its_very_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Path and body reach the server as they were signed, and its binary answer becomes events."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    received: list[tuple[str, dict[str, str], bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
        received.append((first.split(" ")[1], headers, body))
        reply = answer(text(0, "é"), stop(0), call(1), arguments(1, '{"a": 1}'), stop(1), reason="tool_use")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n")
        writer.write(b"content-length: %d\r\n\r\n" % len(reply) + reply)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Client(base_urls={"amazon-bedrock": f"http://127.0.0.1:{port}"}) as client:
        message = await client.complete("amazon-bedrock/a:b/c é", "hé\ud800")
    assert (message.text, message.stop_reason) == ("é", "toolUse")
    ((path, headers, body),) = received
    url = f"http://127.0.0.1:{port}{path}"
    assert path == "/model/a%3Ab%2Fc%20%C3%A9/converse-stream"
    again = sign(
        "POST",
        url,
        {"content-type": headers["content-type"]},
        body,
        keys=AwsKeys("AKID", "secret"),
        region="us-east-1",
        service="bedrock",
        now=datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
    )
    assert headers["authorization"] == again["authorization"]


def test_the_provider_is_data() -> None:
    assert (provider.id, provider.api, provider.key_required) == (
        "amazon-bedrock",
        "bedrock-converse-stream",
        False,
    )
