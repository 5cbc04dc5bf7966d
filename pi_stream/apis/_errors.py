"""Errors of providers as fields: what an error object, an error body or an HTTP status says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from pi_stream.events import Finish
from pi_stream.exceptions import DecodeError
from pi_stream.http import ResponseHead
from pi_stream.messages import ErrorCause, ErrorKind
from pi_stream.overflow import says_overflow
from pi_stream.wire import json

__all__ = ["body_error", "error_object", "excerpt", "provider_error", "request_id", "retry_after_ms"]

_STATUS_KINDS: dict[int, ErrorKind] = {
    401: "auth",
    403: "auth",
    413: "overflow",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}
_RETRYABLE_STATUS = frozenset({408, 409, 429})

# Codes and types as the providers document them; compared in lower case.
_CODE_KINDS: dict[str, ErrorKind] = {
    "api_key_invalid": "auth",
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "permission_denied": "auth",
    "permission_error": "auth",
    "unauthenticated": "auth",
    "unauthorized": "auth",
    "context_length_exceeded": "overflow",
    "too_many_prompt_tokens": "overflow",
    "exceed_context_size_error": "overflow",
    "request_too_large": "overflow",
    "content_filter": "filtered",
    "engine_overloaded": "overloaded",
    "engine_overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "server_overloaded": "overloaded",
    "unavailable": "overloaded",
    "unavailable_error": "overloaded",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_reached_error": "rate_limit",
    "resource_exhausted": "rate_limit",
    "too_many_requests": "rate_limit",
    # AWS names exceptions; in a stream their names begin with a small letter.
    "accessdeniedexception": "auth",
    "expiredtokenexception": "auth",
    "modelnotreadyexception": "overloaded",
    "serviceunavailableexception": "overloaded",
    "throttlingexception": "rate_limit",
    "unrecognizedclientexception": "auth",
}
_RETRYABLE_CODES = frozenset(
    {
        *("server_error", "api_error", "internal_error", "internal_server_error", "timeout_error"),
        *("internalserverexception", "modelstreamerrorexception", "modeltimeoutexception"),
    }
)
_NEVER_RETRY_CODES = frozenset(
    {
        *("insufficient_quota", "billing_error", "billing_hard_limit_reached"),
        *("1308", "gousagelimiterror", "freeusagelimiterror"),  # plans of Z.ai and OpenCode
    }
)
# What is spent is not back in a moment, unless the provider says when.
_SPENT = re.compile(
    r"insufficient.(quota|balance|credit)|out of budget|quota exceeded|usage limit reached|available balance|billing",
    re.IGNORECASE,
)

_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "cf-ray")
_MESSAGE_KEYS = ("message", "detail", "error_description", "msg")
_MAX_TEXT = 4000


def error_object(value: Any) -> Any:
    """The error in a JSON value that is one: an object or a text; None when the value is no error.

    Providers wrap it as ``{"error": {...}}``, ``{"error": "text"}`` or ``[{"error": {...}}]``. Some gateways put the words
    beside it (``{"error": true, "message": "text"}``), and older versions of vLLM send ``{"object": "error", ...}``.
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if not error:
        return value if value.get("object") == "error" else None
    if isinstance(error, dict) or not isinstance(value.get("message"), str):
        return error
    beside = {name: part for name, part in value.items() if name != "error"}
    return {"code": error, **beside} if isinstance(error, str) else beside


def provider_error(error: Any, *, status: int | None = None, head: ResponseHead | None = None) -> Finish:
    """The end of a stream that an error object of the provider brings.

    Args:
        error: ``{"message", "type", "code", ...}`` or a text, as the provider sent it.
        status: HTTP status, or the numeric code inside the error.
        head: Head of the answer, for retry-after and the request id.

    Returns:
        A ``Finish`` with reason ``error``, the provider's words and a cause.
    """
    fields = error if isinstance(error, dict) else {}
    message = _message(error)
    code = _code(fields) or _amazon_code(head)
    in_head = status is not None
    if status is None:
        status = _numeric_status(fields)
    kind = _CODE_KINDS.get(_detail(fields, "reason").lower()) or _kind(code, status, message, in_head=in_head)
    overflow = True if kind == "overflow" else None
    cause = ErrorCause(
        kind=kind,
        origin="provider",
        retryable=_retryable(kind, code, status),
        status=status,
        provider_code=code,
        overflow=overflow,
    )
    if head is not None:
        cause.retry_after_ms = retry_after_ms(head.headers)
        cause.request_id = request_id(head.headers)
    if cause.retry_after_ms is None:
        cause.retry_after_ms = _duration_ms(_detail(fields, "retryDelay"))
    if cause.retry_after_ms is None and _SPENT.search(message):
        cause.retryable = False
    return Finish("error", message, cause)


def body_error(head: ResponseHead, body: bytes) -> Finish:
    """The end of a stream that was answered with an error body: JSON of any shape, text, HTML or nothing."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value = json.loads(body) if text else None
    except DecodeError:
        value = None
    error = _sse_error(text) if value is None else error_object(value) or value
    if error is None or isinstance(error, (int, float, bool)) or not error:
        error = _plain_text(text) or "status code (no body)"
    if 300 <= head.status < 400:
        error = _redirect(head)
    finish = provider_error(error, status=head.status, head=head)
    assert finish.error_cause is not None
    finish.error_cause.phase = "head"
    finish.error_message = f"{head.status} {finish.error_message}"
    return finish


def _redirect(head: ResponseHead) -> str:
    """Where a redirect leads. The host alone: the rest of an address may hold secrets."""
    location = head.headers.get("location", "")
    try:
        host = urlsplit(location).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    where = f"to {host}" if host else "to another path of the same host" if location else "to nowhere"
    return f"redirect {where}, which is not followed: it could take the key there. Set the base URL to the right one"


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's id of the exchange, from whichever header it uses."""
    return next((headers[name] for name in _REQUEST_ID_HEADERS if name in headers), None)


def excerpt(value: Any) -> str:
    """The beginning of a JSON value as text, for messages and diagnostics."""
    try:
        return _cut(json.dumps(value).decode())
    except (RecursionError, TypeError):
        return f"a {type(value).__name__} that is nested too deeply"


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """How long the provider asks to wait, in ms: ``retry-after-ms``, or ``retry-after`` in seconds or as a date.

    A date needs the ``date`` header beside it, so that no clock of ours is asked; a date in the past is 0.
    """
    for name, factor in (("retry-after-ms", 1.0), ("retry-after", 1000.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            return max(0, round(float(value) * factor))
        except (ValueError, OverflowError):
            pass
        try:
            when, now = parsedate_to_datetime(value), parsedate_to_datetime(headers["date"])
            return max(0, round((when - now).total_seconds() * 1000))
        except (ValueError, KeyError, TypeError):
            continue
    return None


def _message(error: Any) -> str:
    if isinstance(error, str):
        return _cut(error)
    if isinstance(error, dict):
        words = next(
            (error[key] for key in _MESSAGE_KEYS if isinstance(error.get(key), str) and error[key]), None
        )
        # OpenRouter hands on the upstream provider's own words here.
        metadata = error.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None
        if words is not None and isinstance(raw, str) and raw not in words:
            words = f"{words}\n{raw}"
        if words is not None:
            return _cut(words)
    return excerpt(error)


def _cut(text: str) -> str:
    return (
        text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... ({len(text) - _MAX_TEXT} characters more)"
    )


def _code(fields: dict[str, Any]) -> str | None:
    for key in ("code", "type", "error_type", "status"):
        value = fields.get(key)
        if isinstance(value, str) and value and value not in ("error", "None"):
            return value
    code = fields.get("code")
    return str(code) if isinstance(code, int) and not isinstance(code, bool) else None


def _detail(fields: dict[str, Any], name: str) -> str:
    """A text in the ``details`` of an error of Google (google.rpc.Status); empty when there is none."""
    details = fields.get("details")
    for entry in details if isinstance(details, list) else ():
        value = entry.get(name) if isinstance(entry, dict) else None
        if isinstance(value, str):
            return value
    return ""


def _duration_ms(text: str) -> int | None:
    """A duration as Google writes it, such as ``34.07s``, in ms."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", text)
    return round(float(match[1]) * 1000) if match else None


def _amazon_code(head: ResponseHead | None) -> str | None:
    """The exception that AWS names in a header, as ``ThrottlingException:http://...`` or without the rest."""
    named = head.headers.get("x-amzn-errortype", "") if head is not None else ""
    return named.partition(":")[0].strip() or None


def _numeric_status(fields: dict[str, Any]) -> int | None:
    for key in ("code", "status", "status_code"):
        value = fields.get(key)
        if isinstance(value, str) and value.isdecimal() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
    return None


def _kind(code: str | None, status: int | None, message: str, *, in_head: bool) -> ErrorKind:
    known = _CODE_KINDS.get((code or "").lower())
    if known is not None:
        return known
    if status != 429 and says_overflow(message):
        return "overflow"
    # A status inside an error object says what happened upstream; the answer itself had status 200.
    return _STATUS_KINDS.get(status or 0, "http_status" if in_head else "provider_error")


def _retryable(kind: ErrorKind, code: str | None, status: int | None) -> bool:
    word = (code or "").lower()
    if word in _NEVER_RETRY_CODES or kind in ("auth", "overflow", "filtered"):
        return False
    if kind in ("overloaded", "rate_limit") or word in _RETRYABLE_CODES:
        return True
    return status is not None and (status >= 500 or status in _RETRYABLE_STATUS)


def _sse_error(text: str) -> Any:
    """The error inside a body that is an event stream, as some gateways answer with an error status."""
    for line in text.splitlines():
        if line.startswith("data:"):
            try:
                value = json.loads(line[5:].strip())
            except DecodeError:
                continue
            return error_object(value) or value
    return None


def _plain_text(text: str) -> str:
    """The words of a text or HTML body, without the markup."""
    if text.startswith("<"):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        text = title.group(1) if title else re.sub(r"<[^>]{0,1000}>", " ", text[: 4 * _MAX_TEXT])
    return " ".join(text.split())
