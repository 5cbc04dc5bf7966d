"""What a message that ended badly says of it: the error cause, the usage mark, the provider's own limits. On every loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from attrs import field, frozen
from chat_bodies import SSE, chat_chunk, chat_pieces

from pi_stream import Client, ErrorCause, Limits, Provider, RetryPolicy, TransportError, Usage, fold
from pi_stream.messages import AssistantMessage
from pi_stream.providers import text, usage
from pi_stream.testing import check_events
from pi_stream.transport.memory import MemoryResponse, MemoryTransport

pytestmark = pytest.mark.anyio

A = chat_chunk({"content": "a"})
STOP = chat_chunk(finish="stop")
USAGE = chat_chunk(None, usage={"prompt_tokens": 3, "completion_tokens": 1})
BROKEN = b'data: {"choices":[{"del\n\n'
HEADERS = {**SSE, "x-request-id": "req_7"}


@frozen
class Case:
    """An answer that ends badly, and what the cause says of it.

    Attributes:
        answer: Pieces of the body, a whole response, or what sending raises.
        kind, phase, origin, retryable: The cause.
        more: Further fields of the cause.
        limits: Limits of the request.
    """

    answer: Any
    kind: str
    phase: str
    origin: str
    retryable: bool
    more: dict[str, Any] = field(factory=dict)
    limits: Limits = Limits()


def status(code: int, body: bytes = b"", **headers: str) -> MemoryResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return MemoryResponse(status=code, headers=named, chunks=[body] if body else [])


def refused(kind: str) -> TransportError:
    return TransportError("no", kind=kind)


ONE = {"bytes": len(A), "chunks": 1}
CASES = {
    "refused": Case(refused("connect"), "connect", "connect", "network", True),
    "certificate": Case(refused("tls"), "tls", "connect", "network", False),
    "connect too slow": Case(refused("timeout_connect"), "timeout_connect", "connect", "limit", True),
    "head too slow": Case(refused("timeout_head"), "timeout_head", "head", "limit", True),
    "lost before head": Case(refused("transport"), "transport", "head", "network", True),
    "total before head": Case(
        3600.0, "timeout_total", "head", "limit", True, limits=Limits(total=0.05, head=None)
    ),
    "bad request": Case(status(400, b"no"), "http_status", "head", "provider", False, {"status": 400}),
    "wrong key": Case(
        status(401, b'{"error":{"message":"no","code":"invalid_api_key"}}'),
        *("auth", "head", "provider", False),
        {"status": 401, "provider_code": "invalid_api_key"},
    ),
    "too many requests": Case(
        status(429, b"slow", retry_after="7", x_request_id="req_1"),
        *("rate_limit", "head", "provider", True),
        {"status": 429, "retry_after_ms": 7000, "request_id": "req_1", "bytes": 4},
    ),
    "overflow": Case(
        status(400, b'{"error":{"message":"no","code":"context_length_exceeded"}}'),
        *("overflow", "head", "provider", False),
        {"status": 400, "overflow": True},
    ),
    "overloaded": Case(status(529), "overloaded", "head", "provider", True, {"status": 529}),
    "redirect": Case(status(307, location="http://x.test/"), "http_status", "head", "provider", False),
    "error body that hangs": Case(
        MemoryResponse(status=500, headers={}, chunks=[b"oh", 3600.0]),
        *("http_status", "head", "provider", True),
        {"status": 500, "bytes": 2},
        Limits(drain=0.05),
    ),
    "empty": Case([], "truncated", "body", "network", True, {"bytes": 0, "chunks": 0, "request_id": "req_7"}),
    "truncated": Case([A], "truncated", "body", "network", True, {**ONE, "request_id": "req_7"}),
    "connection lost": Case([A, refused("transport")], "transport", "body", "network", True, ONE),
    "silence": Case([A, 3600.0], "timeout_idle", "body", "limit", True, ONE, Limits(idle=0.05)),
    "no content": Case([3600.0], "timeout_first", "body", "limit", True, {}, Limits(first=0.05)),
    "keep-alives only": Case(
        [A, *[b": ping\n\n", 0.02] * 50],
        *("timeout_content", "body", "limit", True),
        limits=Limits(content=0.05),
    ),
    "too long in all": Case([A, 3600.0], "timeout_total", "body", "limit", True, ONE, Limits(total=0.05)),
    "malformed": Case([A, BROKEN], "malformed", "body", "provider", True, {"chunks": 2}),
    "malformed after the stop reason": Case([A, STOP, BROKEN], "malformed", "done", "provider", True),
    "too large": Case(
        [A, b"data: " + b"x" * 5000], "too_large", "body", "limit", False, limits=Limits(event_bytes=4096)
    ),
    "too many blocks": Case([A], "too_large", "body", "limit", False, limits=Limits(blocks=1)),
    "error in the stream": Case(
        [A, b'data: {"error":{"message":"busy","type":"overloaded_error"}}\n\n'],
        *("overloaded", "body", "provider", True),
        {"provider_code": "overloaded_error", "chunks": 2},
    ),
    "filtered": Case([A, chat_chunk(finish="content_filter")], "filtered", "body", "provider", False),
}
CASES["too many blocks"] = Case(
    [A, chat_chunk({"reasoning_content": "b"})],
    *("too_large", "body", "limit", False),
    limits=Limits(blocks=1),
)


def client_of(answer: Any, **options: Any) -> Client:
    """A client whose every request is answered like that, and not tried again."""

    async def handler(request: Any) -> MemoryResponse:
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            await anyio.sleep(answer)
        if isinstance(answer, MemoryResponse):
            return answer
        return MemoryResponse(headers=HEADERS, chunks=list(answer))

    provider = Provider("mem", base_url="http://memory.test/v1")
    return Client(
        providers=[provider],
        transport=MemoryTransport(handler),
        retries=RetryPolicy(max_retries=0),
        **options,
    )


def cause_of(message: AssistantMessage) -> ErrorCause:
    assert message.error_cause is not None
    return message.error_cause


@pytest.mark.parametrize("name", CASES)
async def test_the_cause_says_what_happened(name: str) -> None:
    """Kind, how far it had come, who did it, whether it is worth another try, and the figures."""
    case = CASES[name]
    with anyio.fail_after(20):
        events = [event async for event in client_of(case.answer, limits=case.limits).stream("mem/m", "hi")]
    message = check_events(events)
    cause = cause_of(message)
    assert (cause.kind, cause.phase, cause.origin, cause.retryable) == (
        case.kind,
        case.phase,
        case.origin,
        case.retryable,
    )
    assert {field: getattr(cause, field) for field in case.more} == case.more
    assert message.error_message
    received = cause.bytes > 0
    assert (cause.last_byte_age_ms is not None) == received
    if received and case.origin == "limit" and case.kind in ("timeout_idle", "timeout_total"):
        assert cause.last_byte_age_ms >= 40  # the silence before the limit passed


@pytest.mark.parametrize(
    ("pieces", "phase", "chunks"),
    [([3600.0], "body", 0), ([A, 3600.0], "body", 1), ([A, STOP, 3600.0], "done", 2)],
)
@pytest.mark.parametrize("way", ["abort", "leave", "cancel"])
async def test_leaving_is_told_likewise(way: str, pieces: list[Any], phase: str, chunks: int) -> None:
    """The same figures for who aborts, breaks or is cancelled, with the caller as the one who did it."""
    stream = client_of(pieces, limits=Limits(drain=None)).stream("mem/m", "hi")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks, stream:

            async def later() -> None:
                await anyio.sleep(0.05)
                if way == "abort":
                    stream.abort()
                elif way == "leave":
                    await stream.aclose()
                else:
                    tasks.cancel_scope.cancel()

            tasks.start_soon(later)
            await stream.result()
    cause = cause_of(stream.message)
    assert (cause.kind, cause.phase, cause.origin, cause.retryable) == ("cancelled", phase, "caller", False)
    assert (cause.chunks, cause.bytes > 0, cause.request_id) == (chunks, chunks > 0, "req_7")
    assert (cause.last_byte_age_ms is not None) == (chunks > 0)


async def test_leaving_before_the_head_came() -> None:
    """Waiting for the head is a phase of its own."""
    stream = client_of(3600.0).stream("mem/m", "hi")
    with anyio.move_on_after(0.05):
        await stream.result()
    assert (cause_of(stream.message).phase, cause_of(stream.message).bytes) == ("head", 0)


# --- usage --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "quality", "output"),
    [
        ([A, STOP, USAGE, b"data: [DONE]\n\n"], "reported", 1),
        ([A, STOP, b"data: [DONE]\n\n"], None, 0),
        ([A], "partial", 0),
        ([chat_chunk({"content": "a"}, usage={"prompt_tokens": 3, "completion_tokens": 1})], "partial", 1),
        ([A, STOP, BROKEN], "partial", 0),
        ([A, chat_chunk(finish="content_filter"), USAGE], "reported", 1),
        ([], None, 0),
    ],
)
async def test_usage_says_how_far_it_can_be_trusted(
    pieces: list[Any], quality: str | None, output: int
) -> None:
    """Final numbers are `reported`, those of an answer that broke off `partial`; none at all have no mark."""
    events = [event async for event in client_of(pieces).stream("mem/m", "hi")]
    message = check_events(events)
    assert (message.usage.quality, message.usage.output) == (quality, output)
    assert fold(events) == message


@pytest.mark.parametrize(("pieces", "quality"), [([A], "partial"), ([A, STOP, USAGE], "reported")])
async def test_an_aborted_answer_marks_its_usage_too(pieces: list[Any], quality: str) -> None:
    """Before the stop reason the numbers are incomplete; an estimate stands beside them, marked as one."""
    stream = client_of([*pieces, 3600.0], limits=Limits(drain=None)).stream("mem/m", "hi")
    seen = []
    with anyio.fail_after(20):
        async with stream:
            async for event in stream:
                seen.append(event)
                if event.type == "text_delta" and len(pieces) == 1:
                    stream.abort()
                if event.type == "metadata" and event.usage is not None:
                    stream.abort()
    message = check_events(seen)
    assert (message.stop_reason, message.usage.quality) == ("aborted", quality)
    estimates = [entry.details for entry in message.diagnostics or () if entry.type == "usage_estimate"]
    assert estimates == ([{"output": 1}] if quality == "partial" else [])


async def test_what_a_provider_marks_itself_stays() -> None:
    """A generator that only estimates says so, also when it breaks off."""

    async def generate(request: Any) -> Any:
        yield text("a")
        counted = usage(input=1, output=1)
        counted.usage.quality = "estimated"  # type: ignore[union-attr]
        yield counted
        raise RuntimeError("gone")

    message = await Client(providers=[Provider("mine", generate=generate)]).complete("mine/m", "hi")
    assert (message.stop_reason, message.usage.quality) == ("error", "estimated")


async def test_a_refused_request_used_nothing() -> None:
    """Numbers of a request that was never answered are not called incomplete."""
    message = await client_of(status(401)).complete("mem/m", "hi")
    assert message.usage == Usage()


# --- the provider's own limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "chunks"), [(200, chat_pieces("a")), (429, [b"slow down"])])
async def test_rate_limit_headers_are_kept(code: int, chunks: list[bytes]) -> None:
    """What the provider says of its limits stands in one diagnostic, as it was sent; other headers do not."""
    headers = {
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-tokens": "6m0s",
        "anthropic-ratelimit-tokens-remaining": "1000",
        "retry-after": "120",
        "x-request-id": "req_1",
        "set-cookie": "secret",
    }
    answer = MemoryResponse(status=code, headers=headers, chunks=chunks)
    message = await client_of(answer).complete("mem/m", "hi")
    (kept,) = [entry.details for entry in message.diagnostics or () if entry.type == "rate_limits"]
    assert kept == {name: headers[name] for name in headers if "rate" in name or name == "retry-after"}


async def test_without_such_headers_there_is_no_diagnostic(memory: Callable[..., Client]) -> None:
    """Most local servers send none."""
    message = await memory(chat_pieces("a")).complete("mem/m", "hi")
    assert [entry.type for entry in message.diagnostics or ()] == ["unknown_model"]
