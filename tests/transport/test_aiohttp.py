"""Sending over real sockets: what goes out, what comes back, and each way to fail."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
import traceback
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from pi_stream.exceptions import ConfigError, TransportError
from pi_stream.http import HttpRequest
from pi_stream.transport.aiohttp import AiohttpTransport

if TYPE_CHECKING:
    import trustme

pytestmark = [pytest.mark.anyio, pytest.mark.http]

SECRET = "sk-very-secret"


async def ok(exchange: Any) -> None:
    """A complete answer that says nothing."""
    await exchange.start()
    await exchange.end()


async def silent(exchange: Any) -> None:
    await exchange.closed()


def post(url: str, **headers: str) -> HttpRequest:
    """A request with a key in every place where providers want one."""
    return HttpRequest(
        url=f"{url}?key={SECRET}", headers={"authorization": f"Bearer {SECRET}", **headers}, body={"a": 1}
    )


async def failure(transport: AiohttpTransport, request: HttpRequest, **limits: float) -> TransportError:
    """The error that sending ends with; checks that it can be shown to anybody."""
    with pytest.raises(TransportError) as caught:
        await transport.send(request, **limits)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return caught.value


# --- a server nobody here wrote ---------------------------------------------------------------------------------------


async def test_streams_an_answer_of_an_aiohttp_server(connect: Any) -> None:
    async def chat(request: web.Request) -> web.StreamResponse:
        sent = await request.json()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Request-Id": "r1"})
        await response.prepare(request)
        for word in sent["words"]:
            await response.write(f"data: {word}\n\n".encode())
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/v1/chat", chat)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/chat"
    transport = connect()
    try:
        body = await transport.send(HttpRequest(url=url, body={"words": ["one", "zwölf"]}))
        assert body.head.status == 200
        assert body.head.headers["x-request-id"] == "r1"
        assert body.head.content_type == "text/event-stream"
        received = b""
        while piece := await body.receive():
            received += piece
        assert received == "data: one\n\ndata: zwölf\n\n".encode()
        body.release(2.0)
    finally:
        await transport.aclose()
        await runner.cleanup()


# --- the request ------------------------------------------------------------------------------------------------------


async def test_the_body_goes_out_as_json(serve: Any, transport: AiohttpTransport) -> None:
    server = await serve(ok)
    await transport.send(HttpRequest(url=server.url + "/v1/chat", body={"text": "zwölf \U0001f600"}))
    sent = server.exchanges[0]
    assert sent.request_line == "POST /v1/chat HTTP/1.1"
    assert json.loads(sent.body) == {"text": "zwölf \U0001f600"}
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["accept-encoding"] == "identity"


async def test_headers_of_the_caller_win_whatever_their_case(serve: Any, transport: AiohttpTransport) -> None:
    server = await serve(ok)
    headers = {"Content-Type": "application/vnd.x+json", "Accept-Encoding": "gzip", "X-Key": SECRET}
    await transport.send(HttpRequest(url=server.url, headers=headers, body={}))
    sent = server.exchanges[0].headers
    assert sent["content-type"] == "application/vnd.x+json"
    assert sent["accept-encoding"] == "gzip"
    assert sent["x-key"] == SECRET


async def test_a_get_has_no_body(serve: Any, transport: AiohttpTransport) -> None:
    server = await serve(ok)
    await transport.send(HttpRequest(method="GET", url=server.url + "/v1/models"))
    assert server.exchanges[0].request_line == "GET /v1/models HTTP/1.1"
    assert server.exchanges[0].body == b""
    assert "content-type" not in server.exchanges[0].headers


async def test_path_and_query_are_sent_as_they_stand(serve: Any, transport: AiohttpTransport) -> None:
    """A signature covers the encoded path: whoever decodes %3A on the way breaks it."""
    server = await serve(ok)
    await transport.send(HttpRequest(url=server.url + "/model/a.b%3A0/x%2Fy?q=1%2F2&r=a+b", body={}))
    assert server.exchanges[0].request_line == "POST /model/a.b%3A0/x%2Fy?q=1%2F2&r=a+b HTTP/1.1"


async def test_a_request_of_several_megabytes_arrives(serve: Any, transport: AiohttpTransport) -> None:
    server = await serve(ok)
    await transport.send(HttpRequest(url=server.url, body={"image": "A" * 3_000_000}))
    assert len(json.loads(server.exchanges[0].body)["image"]) == 3_000_000


async def test_a_header_with_a_line_break_is_named_and_not_sent(
    serve: Any, transport: AiohttpTransport
) -> None:
    """A key that was read from a file, with its line end."""
    server = await serve(ok)
    with pytest.raises(ConfigError, match="x-api-key") as caught:
        await transport.send(post(server.url, **{"x-api-key": SECRET + "\n"}))
    assert SECRET not in str(caught.value)
    assert server.accepted == 0


@pytest.mark.parametrize(
    "url", ["", "api.example.com/v1", "ftp://example.com/", "http://", "http://x:99999/"]
)
async def test_what_is_no_web_address_is_a_mistake_of_the_caller(
    transport: AiohttpTransport, url: str
) -> None:
    with pytest.raises(ConfigError, match="URL") as caught:
        await transport.send(HttpRequest(url=f"{url}?key={SECRET}", body={}))
    assert SECRET not in str(caught.value)


# --- the head ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [204, 302, 401, 429, 500])
async def test_any_status_is_an_answer_and_redirects_are_not_followed(
    serve: Any, transport: AiohttpTransport, status: int
) -> None:
    async def answer(exchange: Any) -> None:
        lines = f"HTTP/1.1 {status} X\r\nLocation: {server.url}/elsewhere\r\nRetry-After: 7\r\n"
        content = b"" if status == 204 else b"content-length: 4\r\n"
        await exchange.send(lines.encode() + content + b"\r\n" + (b"" if status == 204 else b"oops"))

    server = await serve(answer)
    body = await transport.send(post(server.url))
    assert body.head.status == status
    assert body.head.headers["retry-after"] == "7"
    assert await body.receive() == (b"" if status == 204 else b"oops")
    body.release(1.0)
    await transport.send(post(server.url))
    assert [sent.request_line.split("?")[0] for sent in server.exchanges] == ["POST /", "POST /"]
    assert server.accepted == 1


async def test_repeated_headers_are_joined(serve: Any, transport: AiohttpTransport) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-B: 2\r\nx-a: 3\r\ncontent-length: 0\r\n\r\n")

    body = await transport.send(post((await serve(answer)).url))
    assert body.head.headers == {"x-a": "1, 3", "x-b": "2", "content-length": "0"}


async def test_cookies_are_not_kept(serve: Any, transport: AiohttpTransport) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nset-cookie: a=b; Path=/\r\ncontent-length: 0\r\n\r\n")

    server = await serve(answer)
    for _ in range(2):
        # By name: a cookie jar would not take cookies of an address.
        await (await transport.send(post(f"http://localhost:{server.port}/"))).receive()
    assert "cookie" not in server.exchanges[1].headers


async def test_hundreds_of_streams_are_open_at_once(serve: Any, transport: AiohttpTransport) -> None:
    """aiohttp's pool has room for 100 by default, and lets the next one wait."""

    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.closed()

    server = await serve(answer)
    bodies = await asyncio.gather(*(transport.send(post(server.url), head=20) for _ in range(150)))
    assert server.open == 150
    for body in bodies:
        body.abort()
    await server.all_closed()


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_nobody_listens(transport: AiohttpTransport, closed_port: int) -> None:
    error = await failure(transport, post(f"http://127.0.0.1:{closed_port}/"))
    assert error.kind == "connect"
    assert str(error) == f"cannot connect to 127.0.0.1:{closed_port}: Connection refused"


async def test_a_host_that_does_not_exist(transport: AiohttpTransport) -> None:
    error = await failure(transport, post("https://no-such-host.invalid/v1"))
    assert error.kind == "connect"
    assert str(error).startswith("cannot resolve no-such-host.invalid: ")


async def test_no_connection_in_time(serve: Any, transport: AiohttpTransport) -> None:
    """Somebody accepts and never speaks TLS: that is still connecting."""
    server = await serve(silent)
    error = await failure(transport, post(f"https://127.0.0.1:{server.port}"), connect=0.05, head=60)
    assert error.kind == "timeout_connect"
    assert str(error) == f"no connection to 127.0.0.1:{server.port} within 0.05 s"
    await server.all_closed()


async def test_no_answer_in_time(serve: Any, transport: AiohttpTransport) -> None:
    server = await serve(silent)
    error = await failure(transport, post(server.url), connect=60, head=0.05)
    assert error.kind == "timeout_head"
    assert str(error) == f"127.0.0.1:{server.port} sent no answer within 0.05 s"
    await server.all_closed()


async def closes(exchange: Any) -> None:
    exchange.writer.close()


async def resets(exchange: Any) -> None:
    exchange.reset()


async def speaks_ssh(exchange: Any) -> None:
    await exchange.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    await exchange.closed()


async def huge_header(exchange: Any) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nx-huge: " + SECRET.encode() * 10_000 + b"\r\n\r\n")
    await exchange.closed()


async def stops_in_the_head(exchange: Any) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-")
    exchange.writer.close()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (closes, "lost before an answer came: the server closed it"),
        (resets, "lost before an answer came: Connection reset by peer"),
        (stops_in_the_head, "lost before an answer came"),
        (speaks_ssh, "did not answer with valid HTTP: Bad status line"),
        (huge_header, "did not answer with valid HTTP: a header is too long"),
    ],
)
async def test_no_proper_answer(
    serve: Any, transport: AiohttpTransport, answer: Callable[[Any], Awaitable[None]], says: str
) -> None:
    server = await serve(answer)
    error = await failure(transport, post(server.url))
    assert error.kind == "transport"
    assert f"127.0.0.1:{server.port}" in str(error)
    assert says in str(error)
    await server.all_closed()


async def test_a_header_of_many_kilobytes_is_no_failure(serve: Any, transport: AiohttpTransport) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 30_000 + b"\r\ncontent-length: 0\r\n\r\n")

    body = await transport.send(post((await serve(answer)).url))
    assert len(body.head.headers["x-long"]) == 30_000


@pytest.mark.parametrize("size", [10, 8_000_000])
async def test_cancelling_a_request_closes_its_socket(
    serve: Any, transport: AiohttpTransport, size: int
) -> None:
    """Also when most of it waits in our write buffer, for a server that does not read."""
    arrived = asyncio.Event()

    async def stalled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await gone.wait()
        writer.transport.abort()

    gone = asyncio.Event()
    server = await asyncio.start_server(stalled, "127.0.0.1", 0, limit=1024)
    tasks = asyncio.all_tasks()
    port = server.sockets[0].getsockname()[1]
    request = HttpRequest(url=f"http://127.0.0.1:{port}/", body={"text": "x" * size})
    sending = asyncio.create_task(transport.send(request))
    await arrived.wait()
    await asyncio.sleep(0.05)
    before = open_sockets()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await asyncio.sleep(0.05)
    assert open_sockets() == before - 1
    gone.set()
    await asyncio.sleep(0.05)
    assert {task for task in asyncio.all_tasks() if not task.done()} <= tasks
    server.close()


def open_sockets() -> int:
    """Sockets of this process."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("no /proc here")
    count = 0
    for link in folder.iterdir():
        try:
            count += str(link.readlink()).startswith("socket:")
        except OSError:
            pass
    return count


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    pytest.importorskip("trustme", reason="certificates are made with trustme")
    import trustme

    return trustme.CA()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


async def test_a_ca_of_ones_own_is_trusted(
    serve: Any, connect: Any, server_tls: ssl.SSLContext, ca_file: Path
) -> None:
    server = await serve(ok, tls=server_tls)
    for trusted in (ca_file, str(ca_file)):
        body = await connect(ca=trusted).send(post(server.url))
        assert body.head.status == 200
        assert await body.receive() == b""


async def test_a_context_of_ones_own_is_used(
    serve: Any, connect: Any, server_tls: ssl.SSLContext, authority: trustme.CA
) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    body = await connect(ssl_context=context).send(post((await serve(ok, tls=server_tls)).url))
    assert body.head.status == 200


async def test_an_unknown_ca_is_refused(
    serve: Any, transport: AiohttpTransport, server_tls: ssl.SSLContext
) -> None:
    server = await serve(ok, tls=server_tls)
    error = await failure(transport, post(server.url))
    assert error.kind == "tls"
    assert f"no TLS connection to 127.0.0.1:{server.port}: " in str(error)
    assert "certificate" in str(error)
    assert not server.exchanges


async def test_a_certificate_for_another_host_is_refused(
    serve: Any, connect: Any, authority: trustme.CA, ca_file: Path
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("elsewhere.example").configure_cert(context)
    server = await serve(ok, tls=context)
    assert (await failure(connect(ca=ca_file), post(server.url))).kind == "tls"


async def test_tls_to_a_port_that_does_not_speak_it(serve: Any, transport: AiohttpTransport) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    assert (await failure(transport, post(url))).kind == "tls"
    server.close()


async def test_a_client_certificate_is_shown(
    serve: Any, connect: Any, server_tls: ssl.SSLContext, authority: trustme.CA, ca_file: Path, tmp_path: Path
) -> None:
    server_tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(server_tls)
    server = await serve(ok, tls=server_tls)
    mine = authority.issue_cert("me@example.com")
    both, cert, key = tmp_path / "both.pem", tmp_path / "cert.pem", tmp_path / "key.pem"
    mine.private_key_and_cert_chain_pem.write_to_path(str(both))
    mine.cert_chain_pems[0].write_to_path(str(cert))
    mine.private_key_pem.write_to_path(str(key))
    for shown in (str(both), (str(cert), str(key))):
        body = await connect(ca=ca_file, client_cert=shown).send(post(server.url))
        assert body.head.status == 200
    with pytest.raises(TransportError):
        await (await connect(ca=ca_file).send(post(server.url))).receive()


async def test_abort_does_not_wait_for_the_goodbye_of_a_stalled_peer(
    serve: Any, connect: Any, server_tls: ssl.SSLContext, ca_file: Path
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.chunks(b"begun")
        await exchange.closed()

    server = await serve(answer, tls=server_tls)
    transport = connect(ca=ca_file)
    body = await transport.send(post(server.url))
    assert await body.receive() == b"begun"
    body.abort()
    await server.all_closed()


@pytest.mark.parametrize(
    "settings",
    [
        {"ca": "/no/such/file.pem"},
        {"ca": __file__},
        {"client_cert": "/no/such/file.pem"},
        {"client_cert": (__file__, __file__)},
        {"ca": "/x.pem", "ssl_context": ssl.create_default_context()},
        {"proxy": "socks5://user:very-secret@127.0.0.1:1080"},
        {"proxy": ""},
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        AiohttpTransport(**settings)
    assert "very-secret" not in str(caught.value)


def test_an_encrypted_client_key_does_not_ask_for_a_password_on_the_terminal(
    authority: trustme.CA, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    mine = authority.issue_cert("me@example.com")
    key = load_pem_private_key(mine.private_key_pem.bytes(), None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    (tmp_path / "key.pem").write_bytes(key)
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    with pytest.raises(ConfigError, match="encrypted key"):
        AiohttpTransport(client_cert=(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")))


# --- proxies ----------------------------------------------------------------------------------------------------------


async def proxy(exchange: Any) -> None:
    """A tiny HTTP proxy: tunnels for CONNECT, and an answer of its own for everything else."""
    method, where, _ = exchange.request_line.split(" ")
    if method != "CONNECT":
        await exchange.send(b"HTTP/1.1 200 OK\r\nx-by: proxy\r\ncontent-length: 0\r\n\r\n")
        return
    host, _, port = where.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await exchange.send(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
        except ConnectionError:
            pass
        sink.close()

    await asyncio.gather(pump(exchange.reader, writer), pump(reader, exchange.writer))


async def test_requests_go_through_the_given_proxy(serve: Any, connect: Any) -> None:
    via = await serve(proxy)
    given = f"http://user:{SECRET}@127.0.0.1:{via.port}"
    body = await connect(proxy=given).send(post("http://api.example.com/v1/chat"))
    assert body.head.headers["x-by"] == "proxy"
    sent = via.exchanges[0]
    assert sent.request_line == f"POST http://api.example.com/v1/chat?key={SECRET} HTTP/1.1"
    assert sent.headers["host"] == "api.example.com"
    credentials = base64.b64encode(f"user:{SECRET}".encode()).decode()
    assert sent.headers["proxy-authorization"] == f"Basic {credentials}"


async def test_tls_goes_through_a_tunnel(
    serve: Any, connect: Any, server_tls: ssl.SSLContext, ca_file: Path
) -> None:
    via, server = await serve(proxy), await serve(ok, tls=server_tls)
    transport = connect(ca=ca_file, proxy=f"http://127.0.0.1:{via.port}")
    body = await transport.send(post(server.url + "/v1"))
    assert body.head.status == 200
    assert await body.receive() == b""
    assert via.exchanges[0].request_line == f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"
    assert "authorization" not in via.exchanges[0].headers
    assert server.exchanges[0].request_line == f"POST /v1?key={SECRET} HTTP/1.1"


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_requests_go_through_the_proxy_of_the_environment(
    serve: Any, connect: Any, clean_environment: pytest.MonkeyPatch, name: str
) -> None:
    via, server = await serve(proxy), await serve(ok)
    clean_environment.setenv(name, f"http://127.0.0.1:{via.port}")
    body = await connect(trust_env=True).send(post(server.url))
    assert body.head.headers.get("x-by") == "proxy"
    body = await connect(trust_env=False).send(post(server.url))
    assert "x-by" not in body.head.headers


@pytest.mark.parametrize("exempt", ["127.0.0.1", "localhost,127.0.0.1", "127.0.0.1:{port}", "*"])
async def test_no_proxy_is_honoured(
    serve: Any, connect: Any, clean_environment: pytest.MonkeyPatch, exempt: str
) -> None:
    via, server = await serve(proxy), await serve(ok)
    clean_environment.setenv("HTTP_PROXY", f"http://127.0.0.1:{via.port}")
    clean_environment.setenv("NO_PROXY", exempt.format(port=server.port))
    body = await connect(trust_env=True).send(post(server.url))
    assert body.head.status == 200
    assert via.accepted == 0


async def test_a_proxy_of_the_environment_that_cannot_be_used_is_not_passed_by(
    serve: Any, connect: Any, clean_environment: pytest.MonkeyPatch
) -> None:
    server = await serve(ok)
    clean_environment.setenv("ALL_PROXY", f"socks5://user:{SECRET}@127.0.0.1:1080")
    with pytest.raises(ConfigError, match="socks5") as caught:
        await connect(trust_env=True).send(post(server.url))
    assert SECRET not in str(caught.value)
    assert server.accepted == 0


async def test_no_password_is_taken_from_netrc(
    serve: Any, connect: Any, clean_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A key of ours and one of ``.netrc`` would contradict each other, and aiohttp refuse to choose."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
    clean_environment.setenv("NETRC", str(tmp_path / "netrc"))
    server = await serve(ok)
    await connect(trust_env=True).send(post(server.url))
    assert server.exchanges[0].headers["authorization"] == f"Bearer {SECRET}"
    await connect(trust_env=True).send(HttpRequest(url=server.url, body={}))
    assert "authorization" not in server.exchanges[1].headers


async def test_the_proxy_is_down(connect: Any, closed_port: int) -> None:
    transport = connect(proxy=f"http://user:{SECRET}@127.0.0.1:{closed_port}")
    error = await failure(transport, post("http://api.example.com/"))
    assert error.kind == "connect"
    assert f"the proxy 127.0.0.1:{closed_port} for api.example.com:80: Connection refused" in str(error)


async def test_the_proxy_refuses(serve: Any, connect: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.send(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")

    via = await serve(answer)
    transport = connect(proxy=f"http://127.0.0.1:{via.port}")
    error = await failure(transport, post("https://api.example.com/"))
    assert error.kind == "connect"
    assert str(error) == (
        "the proxy did not connect to api.example.com:443: 407 Proxy Authentication Required"
    )
    await via.all_closed()


# --- sessions and loops -----------------------------------------------------------------------------------------------


async def test_a_session_of_ones_own_is_used_and_left_open(serve: Any, connect: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.send(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\ncontent-length: 4\r\n\r\n")
        await asyncio.sleep(0.1)
        await exchange.send(b"late")

    server = await serve(answer)
    strict = aiohttp.ClientTimeout(total=0.05)
    async with aiohttp.ClientSession(
        headers={"x-mine": "1"}, timeout=strict, raise_for_status=True, read_bufsize=10
    ) as session:
        transport = connect(session=session)
        body = await transport.send(post(server.url))
        assert body.head.status == 302  # neither raised nor followed
        assert await body.receive() == b"late"  # nor cut off by the session's own limit
        assert server.exchanges[0].headers["x-mine"] == "1"
        await transport.aclose()
        assert not session.closed
        async with session.get(
            server.url, allow_redirects=False, timeout=aiohttp.ClientTimeout(), raise_for_status=False
        ):
            pass


async def test_closing_aborts_bodies_of_a_session_of_ones_own(serve: Any, connect: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.start()
        await exchange.closed()

    server = await serve(answer)
    async with aiohttp.ClientSession() as session:
        transport = connect(session=session)
        body = await transport.send(post(server.url))
        await transport.aclose()
        with pytest.raises(TransportError) as caught:
            await body.receive()
        assert caught.value.kind == "cancelled"
        await server.all_closed()


async def test_a_closed_session_of_ones_own_is_a_mistake_of_the_caller(serve: Any, connect: Any) -> None:
    session = aiohttp.ClientSession()
    await session.close()
    with pytest.raises(ConfigError, match="Session is closed"):
        await connect(session=session).send(post((await serve(ok)).url))


@pytest.mark.parametrize("how", ["aclose", "abort"])
async def test_a_closed_transport_sends_nothing_and_keeps_no_socket(
    serve: Any, connect: Any, how: str
) -> None:
    server = await serve(ok)
    transport = connect()
    await (await transport.send(post(server.url))).receive()
    assert server.open == 1  # in the pool
    for _ in range(2):
        if how == "aclose":
            await transport.aclose()
        else:
            transport.abort()
    await server.all_closed()
    with pytest.raises(ConfigError, match="closed"):
        await transport.send(post(server.url))


async def test_closing_before_the_first_request_is_fine(connect: Any) -> None:
    await connect().aclose()
    connect().abort()


def test_a_transport_stays_in_its_loop(closed_port: int) -> None:
    transport = AiohttpTransport()

    async def use() -> None:
        await transport.send(post(f"http://127.0.0.1:{closed_port}"))

    async def first() -> None:
        with pytest.raises(TransportError):
            await use()

    with asyncio.Runner() as one, asyncio.Runner() as two:
        one.run(first())
        with pytest.raises(ConfigError, match="another event loop"):
            two.run(use())
        one.run(transport.aclose())


def test_under_trio_it_says_what_is_wrong() -> None:
    trio = pytest.importorskip("trio")
    transport = AiohttpTransport()
    with pytest.raises(ConfigError, match="asyncio"):
        trio.run(transport.send, HttpRequest(url="http://127.0.0.1/"))
    with pytest.raises(ConfigError, match="asyncio"):
        transport.time()


async def test_the_log_tells_what_happened_without_secrets(
    serve: Any, transport: AiohttpTransport, closed_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(ok)
    with caplog.at_level(logging.DEBUG, "pi_stream"):
        await transport.send(post(server.url + "/v1/chat"))
        await failure(transport, post(f"http://127.0.0.1:{closed_port}/v1/chat"))
    text = "\n".join(record.getMessage() for record in caplog.records if record.name == "pi_stream.transport")
    assert f"POST 127.0.0.1:{server.port}/v1/chat: 200 in " in text
    assert f"POST 127.0.0.1:{closed_port}/v1/chat failed: cannot connect" in text
    assert SECRET not in text


async def test_nothing_warns(serve: Any, connect: Any) -> None:
    """aiohttp warns of large bodies, deprecated arguments and sessions left open; users must not see that."""
    server = await serve(ok)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transport = connect()
        await (await transport.send(HttpRequest(url=server.url, body={"x": "x" * 2_000_000}))).receive()
        await transport.aclose()
