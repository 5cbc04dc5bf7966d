"""URLs, environment proxies and the words for failures; what needs a socket is in test_aiohttp.py."""

from __future__ import annotations

import itertools
import socket
import ssl

import aiohttp
import pytest
from aiohttp.http_exceptions import LineTooLong
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from pi_stream.exceptions import ConfigError
from pi_stream.transport._net import environment_proxy, failure, proxy_url, request_url


@given(path=st.text("abc%2F3A:/@+~.-_"), query=st.text("abc%2F=&+"))
def test_a_url_is_never_rewritten(path: str, query: str) -> None:
    text = f"https://api.example.com:8443/{path}?{query}"
    assert request_url(text).raw_path_qs == f"/{path}" + (f"?{query}" if query else "")


def test_a_url_that_a_person_wrote_is_encoded() -> None:
    url = request_url("http://xn--bcher-kva.example/a b/ü")
    assert url.raw_path_qs == "/a%20b/%C3%BC"
    assert request_url("http://bücher.example/").raw_host == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    "text", ["", "example.com", "/v1", "file:///etc/passwd", "http:///x", "http://h:99999/"]
)
def test_what_cannot_be_requested_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="URL"):
        request_url(text)


def test_a_proxy_without_scheme_is_http() -> None:
    assert proxy_url("proxy.example:3128") == URL("http://proxy.example:3128")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "request_method"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


def test_each_scheme_has_its_proxy_and_all_proxy_is_for_the_rest(environment: pytest.MonkeyPatch) -> None:
    assert environment_proxy(URL("https://api.example.com/")) is None
    environment.setenv("ALL_PROXY", "http://all:1")
    environment.setenv("https_proxy", "http://secure:2")
    assert environment_proxy(URL("https://api.example.com/")) == URL("http://secure:2")
    assert environment_proxy(URL("http://api.example.com/")) == URL("http://all:1")


@pytest.mark.parametrize(
    ("exempt", "url", "direct"),
    [
        ("example.com", "https://api.example.com/", True),
        (".example.com", "https://api.example.com/", True),
        ("ample.com", "https://api.example.com/", False),
        ("localhost,::1", "http://[::1]:8080/", True),
        ("api.example.com:443", "https://api.example.com/", True),
        ("api.example.com:80", "https://api.example.com/", False),
    ],
)
def test_no_proxy_names_hosts_and_domains(
    environment: pytest.MonkeyPatch, exempt: str, url: str, direct: bool
) -> None:
    environment.setenv("ALL_PROXY", "http://all:1")
    environment.setenv("NO_PROXY", exempt)
    assert (environment_proxy(URL(url)) is None) is direct


def chained(*errors: BaseException) -> BaseException:
    """The first of these, caused by the second, and so on."""
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            chained(aiohttp.ClientError("http://x/?key=secret"), ConnectionRefusedError(111, "x")),
            "Connection refused",
        ),
        (chained(OSError(), socket.gaierror(-2, "Name or service not known")), "Name or service not known"),
        (aiohttp.ServerDisconnectedError(), "the server closed it"),
        (chained(aiohttp.ClientPayloadError("secret"), LineTooLong(b"secret", 10)), "a header is too long"),
        (aiohttp.ConnectionTimeoutError("http://x/?key=secret"), "ConnectionTimeoutError"),
        (OSError("Multiple exceptions"), "Multiple exceptions"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_failures_are_named_by_their_deepest_cause(error: BaseException, words: str) -> None:
    said, cause = failure(error)
    assert said == words
    assert "secret" not in f"{said}{cause}"


def test_a_certificate_is_refused_with_the_reason() -> None:
    error = ssl.SSLCertVerificationError(
        1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: x (_ssl.c:1)"
    )
    error.verify_message = "certificate has expired"
    assert failure(chained(OSError(), error))[0] == "certificate has expired"
