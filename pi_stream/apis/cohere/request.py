"""A transcript as a request of Cohere's chat, version 2. Nothing is sent that was not asked for.

Source: https://docs.cohere.com/reference/chat-stream
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from pi_stream.apis._history import collapse, current_tools, named_tool, sees_images, without_images
from pi_stream.apis._reasoning import clamp_level, sampling_defaults, thinking_budget
from pi_stream.apis._request import clean_json, merge_deep, merge_headers, rooted_endpoint
from pi_stream.apis._schema import strict_mode
from pi_stream.apis.cohere.conversation import CohereConversation
from pi_stream.apis.openai_completions.quirks import Quirks
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import JsonObject, Message, Tool
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["build_request"]


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of Cohere's chat for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in. The flags are those of Chat Completions; what
            applies here are ``supports_mid_convo_system_messages``, ``supports_strict_mode`` (on unless set to False) and
            ``tool_error_prefix``.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved; without one there is no authorization header. Cohere has no fields for
            ``metadata``, ``service_tier``, ``parallel_tool_calls`` and caching.

    Returns:
        A streaming request. Its body shares nothing with the arguments and is clean JSON.

    Raises:
        ConfigError: The request cannot be written: a bad URL or header, an unknown quirk, a tool choice without its tool,
            strict arguments required of a server without them, or an option that is not JSON.
    """
    url = rooted_endpoint(model.base_url, "v2", "chat")
    quirks = Quirks.of(evolve(model, compat={"supports_strict_mode": True, **(model.compat or {})}))
    if not sees_images(model):
        messages = without_images(messages)
    try:
        body = _body(model, messages, options, quirks)
        body = clean_json(merge_deep(body, options.extra_body or {}))
    except RecursionError:
        raise ConfigError("the request is nested too deeply to be written") from None
    headers = merge_headers(
        {"accept": "text/event-stream", "content-type": "application/json"},
        {"authorization": f"Bearer {options.api_key}"} if options.api_key else None,
        model.headers,
        options.headers,
    )
    return HttpRequest(method="POST", url=url, headers=headers, body=body)


def _body(model: Model, messages: Sequence[Message], options: StreamOptions, quirks: Quirks) -> JsonObject:
    in_place = quirks.supports_mid_convo_system_messages
    transcript = messages if in_place else collapse(messages)
    conversation = CohereConversation(model=model, quirks=quirks)
    body: JsonObject = {"model": model.id, "messages": conversation.messages(transcript), "stream": True}
    body |= _tool_fields(current_tools(messages), options, quirks)
    body |= _thinking(model, options)
    body |= sampling_defaults(model, options)
    fields = {
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
        "p": options.top_p,
        "stop_sequences": list(options.stop) if options.stop else None,
        "seed": options.seed,
        "response_format": _response_format(options.response_format),
    }
    return body | {name: value for name, value in fields.items() if value is not None}


def _tool_fields(tools: Sequence[Tool], options: StreamOptions, quirks: Quirks) -> JsonObject:
    choice = options.tool_choice
    chosen = named_tool(choice, tools)
    if isinstance(choice, dict) and chosen is None:
        raise ConfigError(
            f"Cohere takes the tool choices auto, none, required and {{'name': tool}}, not {choice!r}"
        )
    # There is no word for one tool: the model has to call a tool, and this is the only one it is shown.
    shown = [chosen] if chosen else tools
    fields: JsonObject = {}
    if shown:
        fields["tools"] = [_tool(tool) for tool in shown]
    if shown and _strict(shown, quirks):
        fields["strict_tools"] = True
    if chosen or choice == "required":
        fields["tool_choice"] = "REQUIRED"
    elif choice == "none" and shown:
        fields["tool_choice"] = "NONE"
    return fields


def _tool(tool: Tool) -> JsonObject:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _strict(tools: Sequence[Tool], quirks: Quirks) -> bool:
    """Whether all calls must follow their schemas: one tool requires it, or all prefer it. There is no switch per tool."""
    modes = [strict_mode(tool) for tool in tools]
    if quirks.supports_strict_mode:
        return "require" in modes or None not in modes
    if "require" in modes:
        name = tools[modes.index("require")].name
        raise ConfigError(
            f"tool {name!r} requires strict arguments, which this server is not known to support; "
            "set compat flag supports_strict_mode if it does"
        )
    return False


def _thinking(model: Model, options: StreamOptions) -> JsonObject:
    """How long to think, in tokens: the only scale there is. Without room for it, thinking is off."""
    if not model.reasoning or options.reasoning is None:
        return {}
    level = clamp_level(model, options.reasoning)
    budget = thinking_budget(model, options, level) if level != "off" else 0
    if budget <= 0:
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled", "token_budget": budget}}


def _response_format(wanted: JsonObject | None) -> JsonObject | None:
    """The format with a schema where Cohere wants it: ``{"type": "json_object", "json_schema": schema}``."""
    if wanted is None or wanted.get("type") != "json_schema":
        return wanted
    inner = wanted.get("json_schema")
    schema = (inner if isinstance(inner, dict) else wanted).get("schema", inner)
    return {"type": "json_object", "json_schema": schema}
