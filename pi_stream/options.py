"""Options of a request: what the caller wants, checked on construction. Times are seconds, sizes are bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import Attribute, evolve, field, fields_dict, frozen

from pi_stream.exceptions import ConfigError
from pi_stream.handover import HandoverPolicy
from pi_stream.http import HttpRequest, ResponseHead
from pi_stream.models import REASONING_LEVELS, Model, ReasoningLevel

__all__ = [
    "CacheRetention",
    "Limits",
    "RetryPolicy",
    "StreamOptions",
    "ToolChoice",
    "changed",
    "layered",
    "with_defaults",
]

CacheRetention = Literal["none", "short", "long"]
ToolChoice = Literal["auto", "none", "required"] | dict[str, Any]
"""``auto``, ``none``, ``required``, ``{"name": tool}`` for a named tool, or the provider's own object."""

MIB = 1024 * 1024


def _fail(instance: Any, attribute: Attribute[Any], expected: str, value: Any) -> ConfigError:
    return ConfigError(f"{type(instance).__name__}.{attribute.name} must be {expected}, not {value!r}")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _seconds(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and not (_number(value) and value > 0):
        raise _fail(instance, attribute, "a number of seconds above 0, or None for no limit", value)


def _delay(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if not _number(value) or value < 0:
        raise _fail(instance, attribute, "a number of seconds, 0 or above", value)


def _retries(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _fail(instance, attribute, "a whole number, 0 or above", value)


def _optional(kind: type, words: str) -> Callable[[Any, Attribute[Any], Any], None]:
    def check(instance: Any, attribute: Attribute[Any], value: Any) -> None:
        wrong = value is not None and (
            not isinstance(value, kind) or (kind is int and isinstance(value, bool))
        )
        if wrong:
            raise _fail(instance, attribute, words, value)

    return check


def _count(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise _fail(instance, attribute, "a whole number above 0", value)


def _optional_number(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and not _number(value):
        raise _fail(instance, attribute, "a number", value)


def _one_of(*allowed: str) -> Callable[[Any, Attribute[Any], Any], None]:
    def check(instance: Any, attribute: Attribute[Any], value: Any) -> None:
        if value is not None and value not in allowed:
            raise _fail(instance, attribute, "one of " + ", ".join(allowed), value)

    return check


def _tool_choice(instance: Any, attribute: Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, dict) and value not in ("auto", "none", "required"):
        raise _fail(instance, attribute, 'auto, none, required or {"name": tool}', value)


def _strings(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)


def _format(value: Any) -> Any:
    """The option as an ``OutputFormat`` has it."""
    return getattr(value, "response_format", value)


def _models(value: Any) -> tuple[str | Model, ...]:
    return (value,) if isinstance(value, str | Model) else tuple(value)


@frozen(kw_only=True)
class Limits:
    """Bounds of a stream. Clocks run only while the engine waits for bytes; None switches one off.

    Attributes:
        connect: Seconds to open the connection.
        head: Seconds from the request to the response head.
        first: Seconds from the head to the first content.
        idle: Seconds without any byte, keep-alives included.
        content: Seconds without content; keep-alives do not count.
        total: Seconds for the whole stream, the consumer's own time included; off by default.
        drain: Seconds to wait for the rest once a stop reason was sent.
        event_bytes: Largest single event on the wire.
        argument_bytes: Most argument text of one tool call.
        blocks: Most content blocks of one answer.
        error_bytes: How much of an error body is read.
    """

    connect: float | None = field(default=15.0, validator=_seconds)
    head: float | None = field(default=180.0, validator=_seconds)
    first: float | None = field(default=300.0, validator=_seconds)
    idle: float | None = field(default=120.0, validator=_seconds)
    content: float | None = field(default=300.0, validator=_seconds)
    total: float | None = field(default=None, validator=_seconds)
    drain: float | None = field(default=2.0, validator=_seconds)
    event_bytes: int = field(default=32 * MIB, validator=_count)
    argument_bytes: int = field(default=16 * MIB, validator=_count)
    blocks: int = field(default=10_000, validator=_count)
    error_bytes: int = field(default=MIB // 4, validator=_count)


@frozen(kw_only=True)
class RetryPolicy:
    """When and how long to wait before a request is tried again. Only before anything was handed out.

    Attributes:
        max_retries: Attempts after the first; 0 switches retries off.
        base_delay: Seconds before the first retry, doubled for each further one, with full jitter.
        max_delay: Most seconds to wait, also when the provider asks for more (then the request fails at once).
    """

    max_retries: int = field(default=2, validator=_retries)
    base_delay: float = field(default=0.5, validator=_delay)
    max_delay: float = field(default=60.0, validator=_delay)


@frozen(kw_only=True)
class StreamOptions:
    """What the caller wants of one request. Nothing is sent that was not asked for.

    Attributes:
        api_key: Key for this request; else the client's, else the provider's environment variables.
        temperature, top_p, max_tokens, stop, seed: Sampling, as every provider knows it.
        tool_choice: Whether and which tool the model calls.
        parallel_tool_calls: Whether it may call several at once.
        reasoning: How hard to think; clamped to what the model knows.
        thinking_budgets: Token budgets by reasoning level, for models that take budgets.
        response_format: Structured output: an :class:`~pi_stream.structured.OutputFormat`, ``{"type": "json_object"}`` or
            ``{"type": "json_schema", "schema": ...}``.
        cache_retention: Prompt caching; off unless given or a session id is.
        session_id: Groups requests of one conversation for caching and affinity.
        headers: Merged last, case-insensitively; None removes a default header.
        metadata: For the provider's own records, where it has such a field.
        extra_body: Merged into the JSON body last.
        handover: What becomes of parts of the history that the model cannot take; None for the defaults.
        check_context: Whether a prompt that cannot fit the model's context window is refused before it is sent.
        limits: Bounds in time and size.
        retries: When to try again.
        unknown_stop: What an unknown stop value means: ``stop`` with a diagnostic, or ``error``.
        malformed: A chunk that is not JSON: ``strict`` ends the stream with an error, ``lenient`` notes a diagnostic.
        fallback: Models to ask when the first fails before content, in order: ``"provider/id"`` or records.
        after_content: What a failure after content means: ``fail`` ends the stream, ``restart`` begins anew with the
            next model of ``fallback``, which the reader sees as a ``restart`` event.
        notices: Whether the stream hands out notices too: ``retry``, ``fallback``.
        on_request, on_response, on_chunk: Observers of wire data. What they raise is logged, never fails the stream.
    """

    api_key: str | None = field(default=None, repr=False, validator=_optional(str, "a string"))
    temperature: float | None = field(default=None, validator=_optional_number)
    top_p: float | None = field(default=None, validator=_optional_number)
    max_tokens: int | None = field(default=None, validator=_count)
    stop: tuple[str, ...] | None = field(default=None, converter=_strings)
    seed: int | None = field(default=None, validator=_optional(int, "a whole number"))
    tool_choice: ToolChoice | None = field(default=None, validator=_tool_choice)
    parallel_tool_calls: bool | None = field(default=None, validator=_optional(bool, "True or False"))
    reasoning: ReasoningLevel | None = field(default=None, validator=_one_of(*REASONING_LEVELS))
    thinking_budgets: Mapping[str, int] | None = field(
        default=None, validator=_optional(Mapping, "a mapping of levels to tokens")
    )
    response_format: dict[str, Any] | None = field(
        default=None, converter=_format, validator=_optional(dict, "a dict or an OutputFormat")
    )
    cache_retention: CacheRetention | None = field(default=None, validator=_one_of("none", "short", "long"))
    session_id: str | None = field(default=None, validator=_optional(str, "a string"))
    service_tier: str | None = field(default=None, validator=_optional(str, "a string"))
    headers: Mapping[str, str | None] | None = field(
        default=None, repr=False, validator=_optional(Mapping, "a mapping of names to values")
    )
    metadata: dict[str, Any] | None = field(default=None, validator=_optional(dict, "a dict"))
    extra_body: dict[str, Any] | None = field(default=None, validator=_optional(dict, "a dict"))
    handover: HandoverPolicy | None = field(
        default=None, validator=_optional(HandoverPolicy, "a HandoverPolicy")
    )
    check_context: bool = True
    limits: Limits = field(factory=Limits)
    retries: RetryPolicy = field(factory=RetryPolicy)
    unknown_stop: Literal["stop", "error"] = field(default="stop", validator=_one_of("stop", "error"))
    malformed: Literal["strict", "lenient"] = field(default="strict", validator=_one_of("strict", "lenient"))
    fallback: tuple[str | Model, ...] = field(default=(), converter=_models)
    after_content: Literal["fail", "restart"] = field(default="fail", validator=_one_of("fail", "restart"))
    notices: bool = False
    on_request: Callable[[HttpRequest], None] | None = None
    on_response: Callable[[ResponseHead], None] | None = None
    on_chunk: Callable[[Any], None] | None = None


def with_defaults(
    options: StreamOptions, limits: Limits | None, retries: RetryPolicy | None, timeout: float | None
) -> StreamOptions:
    """The options of a client, with what it takes by itself: limits, retries, and a timeout for head and silence."""
    if limits is not None:
        options = evolve(options, limits=limits)
    if retries is not None:
        options = evolve(options, retries=retries)
    if timeout is not None:
        options = evolve(options, limits=evolve(options.limits, head=timeout, idle=timeout))
    return options


def layered(base: StreamOptions, options: StreamOptions) -> StreamOptions:
    """The options of a request over those of the client: what differs from the default wins."""
    default = StreamOptions()
    changes = {
        name: value
        for name in fields_dict(StreamOptions)
        if (value := getattr(options, name)) != getattr(default, name)
    }
    return evolve(base, **changes)


def changed(options: StreamOptions, changes: Mapping[str, Any]) -> StreamOptions:
    """The options with single ones changed by name.

    Raises:
        ConfigError: There is no such option, or its value is not what it should be.
    """
    unknown = sorted(set(changes) - set(fields_dict(StreamOptions)))
    if unknown:
        known = ", ".join(fields_dict(StreamOptions))
        raise ConfigError(f"unknown option {', '.join(unknown)}; known are: {known}")
    return evolve(options, **changes) if changes else options
