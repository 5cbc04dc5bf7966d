"""Errors of providers as fields: what their bodies, codes and statuses say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pi_stream.apis._errors import body_error
from pi_stream.events import Finish
from pi_stream.http import ResponseHead
from pi_stream.messages import ErrorCause


def told(status: int, body: Any, headers: dict[str, str] | None = None) -> tuple[Finish, ErrorCause]:
    """What is made of an error body."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    finish = body_error(ResponseHead(status=status, headers=headers or {}), text)
    assert finish.error_cause is not None
    return finish, finish.error_cause


@pytest.mark.parametrize(
    ("status", "error", "kind", "code", "retryable"),
    [
        (401, {"message": "No.", "code": "invalid_api_key"}, "auth", "invalid_api_key", False),
        (400, {"message": "No.", "status": "PERMISSION_DENIED"}, "auth", "PERMISSION_DENIED", False),
        (403, {"message": "No."}, "auth", None, False),
        (
            400,
            {"message": "Odd.", "type": "invalid_request_error"},
            "http_status",
            "invalid_request_error",
            False,
        ),
        (404, {"message": "Gone.", "code": 404}, "http_status", "404", False),
        (
            400,
            {"message": "Long.", "code": "context_length_exceeded"},
            "overflow",
            "context_length_exceeded",
            False,
        ),
        (413, {"message": "Big."}, "overflow", None, False),
        (429, {"message": "Slow.", "type": "rate_limit_error"}, "rate_limit", "rate_limit_error", True),
        (429, {"message": "Slow."}, "rate_limit", None, True),
        (529, {"message": "Busy.", "type": "overloaded_error"}, "overloaded", "overloaded_error", True),
        (500, {"message": "Oops.", "type": "api_error"}, "http_status", "api_error", True),
        (408, {"message": "Late."}, "http_status", None, True),
        (400, {"message": "Bad words.", "code": "content_filter"}, "filtered", "content_filter", False),
    ],
)
def test_fields_of_an_error(
    status: int, error: dict[str, Any], kind: str, code: str | None, retryable: bool
) -> None:
    """Kind, code, status and whether to try again; the words stand after the status."""
    finish, cause = told(status, {"error": error})
    assert (cause.kind, cause.provider_code, cause.retryable, cause.status) == (kind, code, retryable, status)
    assert (cause.origin, cause.phase) == ("provider", "head")
    assert finish.error_message == f"{status} {error['message']}"


@pytest.mark.parametrize(
    ("error", "headers", "retryable"),
    [
        (
            {"message": "You exceeded your quota, check plan and billing.", "code": "insufficient_quota"},
            {},
            False,
        ),
        ({"message": "Insufficient balance"}, {}, False),
        ({"message": "Monthly usage limit reached"}, {}, False),
        ({"message": "Your account is out of budget."}, {}, False),
        ({"message": "Weekly limit", "code": "1308"}, {}, False),
        ({"message": "Weekly limit", "code": 1308}, {}, False),
        # Google's quota of a minute names plan and billing as well; it says when to come back.
        (
            {"message": "You exceeded your current quota, check plan and billing."},
            {"retry-after": "34"},
            True,
        ),
        (
            {
                "message": "You exceeded your current quota, check plan and billing.",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}],
            },
            {},
            True,
        ),
        ({"message": "Rate limit reached for requests"}, {}, True),
    ],
)
def test_what_is_spent_is_not_asked_for_again(
    error: dict[str, Any], headers: dict[str, str], retryable: bool
) -> None:
    """A quota that is used up does not come back in a moment, unless the provider says when it does."""
    _, cause = told(429, {"error": error}, headers)
    assert (cause.kind, cause.retryable) == ("rate_limit", retryable)


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        (
            {"retry-after": "Wed, 21 Oct 2026 07:28:05 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            5000,
        ),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:29:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], delay: int | None) -> None:
    _, cause = told(429, {"error": {"message": "Slow."}}, headers)
    assert cause.retry_after_ms == delay


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><title>502 Bad Gateway</title><body>x</body></html>", "502 Bad Gateway"),
        (b"upstream connect error", "upstream connect error"),
        (b"", "status code (no body)"),
        (b'{"detail": "Not authenticated"}', "Not authenticated"),
        (b'[{"error": {"message": "In a list."}}]', "In a list."),
        (b'{"error": "Just words."}', "Just words."),
        (b'data: {"error": {"message": "In a stream."}}\n\n', "In a stream."),
        (b'{"error": {"message": "Outer.", "metadata": {"raw": "Inner."}}}', "Outer.\nInner."),
    ],
)
def test_words_in_bodies_of_any_shape(body: bytes, words: str) -> None:
    finish, _ = told(502, body)
    assert finish.error_message == f"502 {words}"


def test_the_request_id_is_kept() -> None:
    """Whichever header it is in: it is what the provider's support asks for."""
    for name in ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "cf-ray"):
        assert told(500, {}, {name: "req-1"})[1].request_id == "req-1"
