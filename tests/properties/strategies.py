"""Generators for the message model, as objects and as the JSON that other programs write.

Import them with ``from properties.strategies import messages``.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pi_stream.events import (
    Done,
    Error,
    Event,
    Metadata,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from pi_stream.messages import (
    AssistantMessage,
    Context,
    CustomMessage,
    DeferredHandle,
    Diagnostic,
    ErrorCause,
    ImageContent,
    Message,
    ProviderData,
    SystemMessage,
    TextContent,
    ThinkingContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UnknownContent,
    UserMessage,
)
from pi_stream.models import REASONING_LEVELS, Model
from pi_stream.options import Limits, RetryPolicy, StreamOptions
from pi_stream.usage import Cost, CostTier, ModelCost, Usage

Json = Any


def optional(strategy: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.none() | strategy


# --- plain values -----------------------------------------------------------------------------------------------------

#: Any string JSON can hold, half surrogate pairs included.
texts = st.text(st.characters(), max_size=12)
counts = st.integers(0, 10**9)
times = st.integers(0, 2**43)
money = st.integers(0, 5) | st.floats(0, 100)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
flat = scalars | st.lists(scalars, max_size=2) | st.dictionaries(texts, scalars, max_size=2)
json_values: SearchStrategy[Json] = (
    flat | st.lists(flat, max_size=2) | st.dictionaries(texts, flat, max_size=2)
)
json_objects = st.dictionaries(texts, flat, max_size=2)
#: Keys that no version knows. None of ours is empty or begins with an x.
unknown_names = st.just("") | texts.map("x".__add__)
extras: SearchStrategy[Any] = st.just({}) | st.dictionaries(unknown_names, flat, max_size=2)

stop_reasons = st.sampled_from(["pending", "stop", "length", "toolUse", "error", "aborted", "deferred"])
error_kinds = st.sampled_from(
    ["connect", "timeout_idle", "truncated", "http_status", "rate_limit", "cancelled"]
)
error_phases = st.sampled_from(["connect", "head", "body", "done"])
error_origins = st.sampled_from(["caller", "provider", "network", "limit", "engine"])
usage_qualities = st.sampled_from(["reported", "partial", "estimated"])

# --- objects ----------------------------------------------------------------------------------------------------------

costs = st.builds(
    Cost,
    input=money,
    output=money,
    cache_read=money,
    cache_write=money,
    total=money,
    total_from_provider=optional(st.booleans()),
    extra=extras,
)
usages = st.builds(
    Usage,
    input=counts,
    output=counts,
    cache_read=counts,
    cache_write=counts,
    cache_write_1h=optional(counts),
    reasoning=optional(counts),
    total_tokens=counts,
    provider_total_tokens=optional(counts),
    quality=optional(usage_qualities),
    cost=costs,
    extra=extras,
)

text_blocks = st.builds(TextContent, texts, text_signature=optional(texts), extra=extras)
thinking_blocks = st.builds(
    ThinkingContent,
    texts,
    thinking_signature=optional(texts),
    redacted=optional(st.booleans()),
    extra=extras,
)
images = st.builds(ImageContent, texts, texts, extra=extras)
tool_calls = st.builds(
    ToolCall,
    texts,
    texts,
    json_objects,
    thought_signature=optional(texts),
    namespace=optional(texts),
    arguments_error=optional(texts),
    extra=extras,
)
unknown_blocks = st.builds(
    lambda tag, data: UnknownContent(tag, {"type": tag, **data}), unknown_names, extras
)
user_content = st.lists(text_blocks | images | unknown_blocks, max_size=3)
assistant_content = st.lists(text_blocks | thinking_blocks | tool_calls | unknown_blocks, max_size=4)
blocks = text_blocks | thinking_blocks | images | tool_calls | unknown_blocks

tools = st.builds(
    Tool,
    texts,
    texts,
    json_objects,
    constrained_sampling=st.none() | st.just(False) | json_objects,
    extra=extras,
)
diagnostics = st.builds(
    Diagnostic,
    type=texts,
    timestamp=times,
    error=optional(json_objects),
    details=optional(json_objects),
    extra=extras,
)
error_causes = st.builds(
    ErrorCause,
    kind=error_kinds,
    phase=error_phases,
    origin=error_origins,
    retryable=st.booleans(),
    status=optional(st.integers(100, 599)),
    provider_code=optional(texts),
    retry_after_ms=optional(counts),
    request_id=optional(texts),
    overflow=optional(st.booleans()),
    bytes=counts,
    chunks=counts,
    last_byte_age_ms=optional(counts),
    extra=extras,
)
provider_data = st.builds(
    ProviderData, after=counts, api=texts, provider=texts, model=texts, data=json_values, extra=extras
)
deferred_handles = st.builds(
    DeferredHandle,
    provider=texts,
    model_id=texts,
    api=texts,
    id=texts,
    expires_at=optional(times),
    poll_after_ms=optional(counts),
    data=json_values,
    extra=extras,
)

system_messages = st.builds(
    SystemMessage,
    texts | st.lists(text_blocks | unknown_blocks, max_size=2),
    sections=optional(st.dictionaries(texts, optional(texts), max_size=2)),
    tools_added=optional(st.lists(tools, max_size=2)),
    tools_removed=optional(st.lists(json_objects, max_size=2)),
    timestamp=times,
    extra=extras,
)
user_messages = st.builds(UserMessage, texts | user_content, timestamp=times, extra=extras)
assistant_messages = st.builds(
    AssistantMessage,
    assistant_content,
    api=texts,
    provider=texts,
    model=texts,
    response_model=optional(texts),
    response_id=optional(texts),
    provider_thinking_level=optional(texts),
    thinking_level=optional(texts),
    diagnostics=optional(st.lists(diagnostics, max_size=2)),
    usage=usages,
    stop_reason=stop_reasons,
    deferred=optional(deferred_handles),
    error_message=optional(texts),
    error_cause=optional(error_causes),
    provider_data=optional(st.lists(provider_data, max_size=2)),
    raw_stop_reason=optional(texts),
    end_turn=optional(st.booleans()),
    timestamp=times,
    duration_ms=optional(counts),
    extra=extras,
)
tool_results = st.builds(
    ToolResultMessage,
    texts,
    texts,
    user_content,
    is_error=st.booleans(),
    details=json_values,
    usage=optional(usages),
    nested_calls=optional(json_objects),
    timestamp=times,
    duration_ms=optional(counts),
    extra=extras,
)
custom_messages = st.builds(
    lambda role, data: CustomMessage(role, {"role": role, **data}), unknown_names, extras
)
messages: SearchStrategy[Message] = system_messages | user_messages | assistant_messages | tool_results
contexts = st.builds(
    Context,
    st.lists(messages | custom_messages, max_size=3),
    system_prompt=optional(texts),
    tools=optional(st.lists(tools, max_size=2)),
    extra=extras,
)

rates = {"input": money, "output": money, "cache_read": money, "cache_write": money, "extra": extras}
cost_tiers = st.builds(CostTier, input_tokens_above=counts, **rates)
model_costs = st.builds(ModelCost, tiers=optional(st.lists(cost_tiers, max_size=2).map(tuple)), **rates)
compat_flags = st.dictionaries(
    st.sampled_from(["supports_store", "max_tokens_field", "ttl"]), json_values, max_size=3
)
models = st.builds(
    Model,
    id=texts,
    name=texts,
    api=texts,
    provider=texts,
    base_url=texts,
    type=optional(st.sampled_from(["chat", "image", "classifier"])),
    reasoning=st.booleans(),
    thinking_level_map=optional(
        st.dictionaries(st.sampled_from(REASONING_LEVELS), optional(texts), max_size=2)
    ),
    input=st.lists(texts, max_size=2).map(tuple),
    input_limits=optional(json_objects),
    cost=model_costs,
    context_window=counts,
    max_tokens=counts,
    prompt_cache=optional(json_objects),
    headers=optional(st.dictionaries(texts, texts, max_size=2)),
    compat=optional(compat_flags),
    sampling_params=optional(json_objects),
    sampling_params_by_thinking_level=optional(json_objects),
    extra=extras,
)
limits = st.builds(
    Limits,
    connect=optional(st.integers(1, 9) | st.floats(0.1, 9)),
    total=optional(st.integers(1, 9)),
    blocks=st.integers(1, 9),
)
stream_options = st.builds(
    StreamOptions,
    temperature=optional(money),
    max_tokens=optional(st.integers(1, 9)),
    stop=optional(st.lists(texts, max_size=2)),
    tool_choice=st.none() | st.sampled_from(["auto", "none", "required"]) | json_objects,
    reasoning=optional(st.sampled_from(REASONING_LEVELS)),
    thinking_budgets=optional(st.dictionaries(st.sampled_from(REASONING_LEVELS), counts, max_size=2)),
    headers=optional(st.dictionaries(texts, optional(texts), max_size=2)),
    metadata=optional(json_objects),
    limits=limits,
    retries=st.builds(RetryPolicy, max_retries=st.integers(0, 5), base_delay=money),
)

indices = st.integers(0, 9)
events: SearchStrategy[Event] = st.one_of(
    st.builds(Start, assistant_messages),
    st.builds(TextStart, indices),
    st.builds(TextDelta, indices, texts),
    st.builds(TextEnd, indices, texts, optional(texts)),
    st.builds(ThinkingStart, indices),
    st.builds(ThinkingDelta, indices, texts),
    st.builds(ThinkingEnd, indices, texts, optional(texts), optional(st.booleans())),
    st.builds(ToolCallStart, indices, texts, texts),
    st.builds(ToolCallDelta, indices, texts),
    st.builds(ToolCallEnd, indices, tool_calls),
    st.builds(
        Metadata,
        usage=optional(usages),
        response_id=optional(texts),
        response_model=optional(texts),
        raw_stop_reason=optional(texts),
        diagnostic=optional(diagnostics),
        provider_data=optional(provider_data),
    ),
    st.builds(Metadata, content_index=indices, signature=texts),
    st.builds(Done, st.sampled_from(["stop", "length", "toolUse", "deferred"]), assistant_messages),
    st.builds(Error, st.sampled_from(["error", "aborted"]), assistant_messages),
)

# --- JSON, as other programs and older versions write it --------------------------------------------------------------


def json_object(
    required: dict[str, SearchStrategy[Json]],
    usual: dict[str, SearchStrategy[Json]],
    nullable: dict[str, SearchStrategy[Json]],
) -> SearchStrategy[Json]:
    """An object with its required keys, any of its usual ones, any of its nullable ones, and unknown ones.

    A nullable key may hold null, which some programs write for a key that has no value.
    """
    known = st.fixed_dictionaries(
        required, optional={**usual, **{key: optional(value) for key, value in nullable.items()}}
    )
    return st.builds(lambda known, extra: {**known, **extra}, known, extras)


def tag(value: str) -> SearchStrategy[Json]:
    return st.just(value)


json_costs = json_object(
    {},
    {"input": money, "output": money, "cacheRead": money, "cacheWrite": money, "total": money},
    {"totalFromProvider": st.booleans()},
)
json_usages = json_object(
    {},
    {
        "input": st.integers(),
        "output": counts,
        "cacheRead": counts,
        "cacheWrite": counts,
        "totalTokens": counts,
        "cost": json_costs,
    },
    {
        "cacheWrite1h": counts,
        "reasoning": counts,
        "providerTotalTokens": counts,
        "quality": usage_qualities,
    },
)
json_text_blocks = json_object({"type": tag("text")}, {"text": texts}, {"textSignature": texts})
json_images = json_object({"type": tag("image"), "data": texts, "mimeType": texts}, {}, {})
json_thinking_blocks = json_object(
    {"type": tag("thinking")}, {"thinking": texts}, {"thinkingSignature": texts, "redacted": st.booleans()}
)
json_tool_calls = json_object(
    {"type": tag("toolCall"), "id": texts, "name": texts},
    {"arguments": json_objects},
    {"thoughtSignature": texts, "namespace": texts, "argumentsError": texts},
)
json_unknown_blocks = json_object({"type": unknown_names}, {"text": json_values}, {})
json_tools = json_object(
    {"name": texts},
    {"description": texts, "parameters": json_objects},
    {"constrainedSampling": st.just(False) | json_objects},
)
json_system_messages = json_object(
    {"role": tag("system")},
    {"content": texts | st.lists(json_text_blocks | json_unknown_blocks, max_size=2), "timestamp": times},
    {
        "sections": st.dictionaries(texts, optional(texts), max_size=2),
        "toolsAdded": st.lists(json_tools, max_size=2),
        "toolsRemoved": st.lists(json_objects, max_size=2),
    },
)
json_user_content = st.lists(json_text_blocks | json_images | json_unknown_blocks, max_size=2)
json_user_messages = json_object(
    {"role": tag("user")}, {"content": texts | json_user_content, "timestamp": times}, {}
)
json_assistant_messages = json_object(
    {"role": tag("assistant")},
    {
        "content": st.none()
        | st.lists(
            json_text_blocks | json_thinking_blocks | json_tool_calls | json_unknown_blocks, max_size=3
        ),
        "api": texts,
        "provider": texts,
        "model": texts,
        "usage": json_usages,
        "stopReason": stop_reasons,
        "timestamp": times,
    },
    {
        "responseModel": texts,
        "responseId": texts,
        "providerThinkingLevel": texts,
        "thinkingLevel": texts,
        "diagnostics": st.lists(
            json_object(
                {"type": texts}, {"timestamp": times}, {"error": json_objects, "details": json_objects}
            ),
            max_size=1,
        ),
        "deferred": json_object(
            {"provider": texts, "modelId": texts, "api": texts, "id": texts},
            {},
            {"expiresAt": times, "pollAfterMs": counts, "data": json_values},
        ),
        "errorMessage": texts,
        "errorCause": json_object(
            {"kind": error_kinds},
            {"phase": error_phases, "origin": error_origins, "retryable": st.booleans(), "bytes": counts},
            {"status": counts, "providerCode": texts, "overflow": st.booleans()},
        ),
        "providerData": st.lists(
            json_object(
                {"after": counts, "api": texts, "provider": texts, "model": texts, "data": json_values},
                {},
                {},
            ),
            max_size=1,
        ),
        "rawStopReason": texts,
        "endTurn": st.booleans(),
        "durationMs": counts,
    },
)
json_tool_results = json_object(
    {"role": tag("toolResult"), "toolCallId": texts, "toolName": texts},
    {"content": json_user_content, "isError": st.booleans(), "timestamp": times},
    {
        "details": json_values,
        "usage": json_usages,
        "nestedCalls": json_objects,
        "durationMs": counts,
    },
)
json_custom_messages = json_object({"role": unknown_names}, {"content": json_values}, {})
json_messages = (
    json_system_messages
    | json_user_messages
    | json_assistant_messages
    | json_tool_results
    | json_custom_messages
)
json_contexts = json_object(
    {},
    {"messages": st.lists(json_messages, max_size=2)},
    {"systemPrompt": texts, "tools": st.lists(json_tools)},
)
