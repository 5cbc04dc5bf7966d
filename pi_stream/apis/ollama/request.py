"""A transcript as a request of Ollama's chat. Nothing is sent that was not asked for.

Source: https://docs.ollama.com/api/chat and the Python package ollama 0.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pi_stream.apis._history import collapse, current_tools, named_tool, sees_images, without_images
from pi_stream.apis._reasoning import clamp_level, sampling_defaults
from pi_stream.apis._request import clean_json, merge_deep, merge_headers, rooted_endpoint
from pi_stream.apis._schema import strict_mode
from pi_stream.apis.ollama.conversation import wire_messages
from pi_stream.apis.ollama.quirks import Quirks
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import JsonObject, Message, Tool
from pi_stream.models import Model
from pi_stream.options import StreamOptions, ToolChoice

__all__ = ["build_request"]

_THINK_WORDS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of Ollama's chat for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in. Sampling that its record gives goes into
            ``options``, as the caller's does.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved; without one there is no authorization header. Ollama has no fields for
            ``metadata``, ``service_tier``, ``parallel_tool_calls`` and caching. ``keep_alive`` and further ``options`` go
            into ``extra_body``.

    Returns:
        A streaming request. Its body shares nothing with the arguments and is clean JSON.

    Raises:
        ConfigError: The request cannot be written: a bad URL or header, an unknown quirk, a tool call that is required
            or strict arguments that are (Ollama can force neither), or an option that is not JSON.
    """
    url = rooted_endpoint(model.base_url, "api", "chat")
    quirks = Quirks.of(model)
    if not sees_images(model):
        messages = without_images(messages)
    try:
        body = clean_json(merge_deep(_body(model, messages, options, quirks), options.extra_body or {}))
    except RecursionError:
        raise ConfigError("the request is nested too deeply to be written") from None
    headers = merge_headers(
        {"accept": "application/x-ndjson", "content-type": "application/json"},
        {"authorization": f"Bearer {options.api_key}"} if options.api_key else None,
        model.headers,
        options.headers,
    )
    return HttpRequest(method="POST", url=url, headers=headers, body=body)


def _body(model: Model, messages: Sequence[Message], options: StreamOptions, quirks: Quirks) -> JsonObject:
    in_place = quirks.supports_mid_convo_system_messages
    transcript = messages if in_place else collapse(messages)
    body: JsonObject = {
        "model": model.id,
        "messages": wire_messages(transcript, model, quirks),
        "stream": True,
    }
    fields = {
        "tools": _tools(current_tools(messages), options.tool_choice),
        "think": _think(model, options, quirks),
        "format": _format(options.response_format),
        "options": _options(model, options, quirks),
    }
    return body | {name: value for name, value in fields.items() if value is not None}


def _options(model: Model, options: StreamOptions, quirks: Quirks) -> JsonObject | None:
    fields = {
        "num_ctx": quirks.num_ctx,
        "num_predict": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop": list(options.stop) if options.stop else None,
        "seed": options.seed,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return sampling_defaults(model, options) | given or None


def _tools(tools: Sequence[Tool], choice: ToolChoice | None) -> list[JsonObject] | None:
    """The tools; none where none may be called, for there is no field that says so."""
    named_tool(choice, tools)  # a choice without its tool is a mistake of another kind
    if choice not in (None, "auto", "none"):
        raise ConfigError(
            f"Ollama cannot be made to call a tool (tool_choice {choice!r}); it takes the choices auto and none"
        )
    if not tools or choice == "none":
        return None
    for tool in tools:
        if strict_mode(tool) == "require":
            raise ConfigError(f"tool {tool.name!r} requires strict arguments, which Ollama does not support")
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


def _think(model: Model, options: StreamOptions, quirks: Quirks) -> bool | str | None:
    """False, true, or a word for how hard to think."""
    if not model.reasoning or options.reasoning is None:
        return None
    level = clamp_level(model, options.reasoning)
    word = (model.thinking_level_map or {}).get(level)
    if level == "off":
        return False if word is None else word
    return (word or _THINK_WORDS.get(level, level)) if quirks.supports_think_levels else True


def _format(wanted: JsonObject | None) -> Any:
    """``"json"``, or the schema itself."""
    if wanted is None or wanted.get("type") == "text":
        return None
    if wanted.get("type") == "json_object":
        return "json"
    inner = wanted.get("json_schema")
    return (inner if isinstance(inner, dict) else wanted).get("schema", inner)
