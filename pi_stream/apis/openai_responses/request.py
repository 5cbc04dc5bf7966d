"""A transcript as a request of Responses. Nothing is sent that was not asked for.

Source: https://platform.openai.com/docs/api-reference/responses/create; servers that differ are told apart by
:mod:`~pi_stream.apis.openai_responses.quirks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pi_stream.apis._history import (
    collapse,
    copilot_headers,
    current_tools,
    named_tool,
    sees_images,
    without_images,
)
from pi_stream.apis._reasoning import clamp_level, effort_word
from pi_stream.apis._request import cache_retention, clean_json, endpoint, merge_deep, merge_headers
from pi_stream.apis._schema import Grammar, grammar_of, strict_parameters
from pi_stream.apis.openai_responses.conversation import Conversation
from pi_stream.apis.openai_responses.quirks import Quirks
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import JsonObject, Message, Tool
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["build_request", "write_body", "write_headers"]

_API = "openai-responses"
_CACHE_KEY_LENGTH = 64
_ENCRYPTED_REASONING = "reasoning.encrypted_content"


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of Responses for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved; without one there is no authorization header.

    Returns:
        A streaming request. Its body shares nothing with the arguments and is clean JSON.

    Raises:
        ConfigError: The request cannot be written: a bad URL or header, an unknown quirk, a tool whose strict schema
            is required and impossible, a tool choice without its tool, stop sequences, which the protocol does not
            have, or an option that is not JSON.
    """
    quirks = Quirks.of(model)
    url = endpoint(model.base_url, "responses")
    key = {"authorization": f"Bearer {options.api_key}"} if options.api_key else None
    headers = write_headers(model, messages, options, quirks, key)
    return HttpRequest(url=url, headers=headers, body=write_body(_API, model, messages, options, quirks))


def write_body(
    api: str, model: Model, messages: Sequence[Message], options: StreamOptions, quirks: Quirks
) -> JsonObject:
    """The body of a request, for OpenAI's protocol or Azure's variant of it.

    Args:
        api: Id of the protocol.
        model: The model.
        messages: Plain messages.
        options: What the caller wants.
        quirks: Those of the model's server.

    Raises:
        ConfigError: As :func:`build_request`.
    """
    if options.stop:
        raise ConfigError("Responses has no stop sequences: `stop` cannot be sent")
    if not sees_images(model):
        messages = without_images(messages)
    try:
        body = _body(api, model, messages, options, quirks)
        return clean_json(merge_deep(body, options.extra_body or {}))  # type: ignore[no-any-return]
    except RecursionError:
        raise ConfigError("the request is nested too deeply to be written") from None


def _body(
    api: str, model: Model, messages: Sequence[Message], options: StreamOptions, quirks: Quirks
) -> JsonObject:
    tools = current_tools(messages)
    grammars = {tool.name: grammar for tool in tools if (grammar := _grammar(tool, quirks))}
    stored = bool((options.extra_body or {}).get("store"))
    conversation = Conversation(api=api, model=model, quirks=quirks, grammars=grammars, stored=stored)
    transcript = messages if quirks.supports_mid_convo_system_messages else collapse(messages)
    body: JsonObject = {
        "model": model.id,
        "input": conversation.items(transcript),
        "stream": True,
        "store": False,
    }
    body |= _tool_fields(tools, options, quirks)
    body |= _caching_fields(options, quirks)
    body |= _reasoning_fields(model, options, quirks)
    body |= _model_defaults(model, options)
    body |= _option_fields(options, quirks)
    return body


def _option_fields(options: StreamOptions, quirks: Quirks) -> JsonObject:
    """The caller's options that are fields of the same meaning. The protocol has no ``seed``: it is left out."""
    fields: JsonObject = {
        "max_output_tokens": options.max_tokens if quirks.supports_max_output_tokens else None,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "text": _text_format(options.response_format),
        "service_tier": options.service_tier,
        "metadata": options.metadata,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _text_format(wanted: JsonObject | None) -> JsonObject | None:
    """The format with a JSON schema flat, as this api wants it, and named; the nested shape of Chat works as well."""
    if wanted is None or wanted.get("type") != "json_schema":
        return wanted and {"format": wanted}
    nested = wanted.get("json_schema")
    schema = nested if isinstance(nested, dict) else wanted
    return {"format": {"name": "answer", **schema, "type": "json_schema"}}


def _reasoning_fields(model: Model, options: StreamOptions, quirks: Quirks) -> JsonObject:
    """How hard the model thinks, and that its reasoning comes in the form that can be sent back.

    Answers are not stored, so reasoning that is not encrypted could never be replayed: it is always asked for.
    """
    fields: JsonObject = {}
    wanted = quirks.encrypted_reasoning
    if wanted == "always" or (wanted == "auto" and model.reasoning):
        fields["include"] = [_ENCRYPTED_REASONING]
    if not model.reasoning or options.reasoning is None:
        return fields
    level = clamp_level(model, options.reasoning)
    if level != "off":
        fields["reasoning"] = {"effort": effort_word(model, level), "summary": "auto"}
    elif quirks.supports_reasoning_off:
        fields["reasoning"] = {"effort": effort_word(model, level) or "none"}
    return fields


def _model_defaults(model: Model, options: StreamOptions) -> JsonObject:
    """Sampling that the model's record gives, over it that of the reasoning level; the caller's options win."""
    by_level: Any = None
    if options.reasoning is not None:
        level = clamp_level(model, options.reasoning)
        by_level = (model.sampling_params_by_thinking_level or {}).get(level)
    return {**(model.sampling_params or {}), **(by_level or {})}


def _caching_fields(options: StreamOptions, quirks: Quirks) -> JsonObject:
    retention = cache_retention(options)
    fields: JsonObject = {}
    if options.session_id and retention != "none" and quirks.prompt_cache_key_mode == "auto":
        fields["prompt_cache_key"] = options.session_id[:_CACHE_KEY_LENGTH]
    if quirks.supports_explicit_prompt_cache_mode:
        # These models bill what they write to the cache, and write unless they are told not to.
        if retention != "short":
            fields["prompt_cache_options"] = {"mode": "explicit"} if retention == "none" else {"ttl": "30m"}
    elif retention == "long" and quirks.supports_long_cache_retention:
        fields["prompt_cache_retention"] = "24h"
    return fields


# --- tools ------------------------------------------------------------------------------------------------------------


def _tool_fields(tools: Sequence[Tool], options: StreamOptions, quirks: Quirks) -> JsonObject:
    chosen = named_tool(options.tool_choice, tools)
    fields: JsonObject = {}
    if tools:
        fields["tools"] = [_tool(tool, quirks) for tool in tools]
    if chosen:
        fields["tool_choice"] = {
            "type": "custom" if _grammar(chosen, quirks) else "function",
            "name": chosen.name,
        }
    elif isinstance(options.tool_choice, dict) or (options.tool_choice and tools):
        fields["tool_choice"] = options.tool_choice
    if tools and options.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = options.parallel_tool_calls
    return fields


def _grammar(tool: Tool, quirks: Quirks) -> Grammar | None:
    return grammar_of(tool) if quirks.supports_openai_grammar_tools else None


def _tool(tool: Tool, quirks: Quirks) -> JsonObject:
    grammar = _grammar(tool, quirks)
    if grammar:
        text_format = {"type": "grammar", "syntax": grammar.syntax, "definition": grammar.definition}
        return {
            "type": "custom",
            "name": tool.name,
            "description": tool.description,
            "format": text_format,
        }
    strict = strict_parameters(tool, supported=quirks.supports_strict_mode)
    wire: JsonObject = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters if strict is None else strict,
    }
    # OpenAI's default is strict here, unlike in Chat: it would make optional arguments required.
    return wire | ({"strict": strict is not None} if quirks.supports_strict_mode else {})


# --- headers ----------------------------------------------------------------------------------------------------------


def write_headers(
    model: Model,
    messages: Sequence[Message],
    options: StreamOptions,
    quirks: Quirks,
    key: dict[str, str] | None,
) -> dict[str, str]:
    """The headers of a request; ``key`` is the one that carries the key.

    Raises:
        ConfigError: A header that no HTTP message can carry.
    """
    return merge_headers(
        {"accept": "application/json", "content-type": "application/json"},
        key,
        model.headers,
        copilot_headers(messages) if quirks.copilot_headers else None,
        _affinity_headers(options, quirks),
        options.headers,
    )


_AFFINITY_HEADERS = {
    "openai": ("session-id", "x-client-request-id"),
    "openai-nosession": ("x-client-request-id",),
    "openrouter": ("x-session-id",),
    "none": (),
}


def _affinity_headers(options: StreamOptions, quirks: Quirks) -> dict[str, str]:
    """Headers that bring the requests of a session to the same machine, where its cache is."""
    session = options.session_id
    if not session or cache_retention(options) == "none":
        return {}
    return dict.fromkeys(_AFFINITY_HEADERS[quirks.session_affinity_format], session)
