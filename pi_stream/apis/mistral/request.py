"""A transcript as a request of Mistral: that of Chat Completions, save for what stands here.

Source: https://docs.mistral.ai/api/endpoint/chat and the Python package mistralai 3.7.
"""

from __future__ import annotations

from attrs import evolve

from pi_stream.apis._history import sees_images, without_images
from pi_stream.apis._reasoning import clamp_level, effort_word
from pi_stream.apis._request import cache_retention, clean_json, merge_deep, merge_headers, rooted_endpoint
from pi_stream.apis.mistral.conversation import MistralConversation
from pi_stream.apis.openai_completions.quirks import Quirks
from pi_stream.apis.openai_completions.request import chat_body
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import JsonObject, Message
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["build_request"]

_QUIRKS = {
    "supports_store": False,
    "supports_usage_in_streaming": False,  # it is always sent
    "supports_reasoning_effort": False,  # written here, for some models take a prompt mode instead
    "max_tokens_field": "max_tokens",
    "prompt_cache_key_mode": "disabled",  # likewise, for it is not cut here
    "supports_long_cache_retention": False,
    "tool_error_prefix": "[tool error] ",
}


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of Mistral for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in. The flags are those of Chat Completions; what
            applies here are ``supports_mid_convo_system_messages``, ``supports_strict_mode`` and ``tool_error_prefix``.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved; without one there is no authorization header.

    Returns:
        A streaming request. Its body shares nothing with the arguments and is clean JSON.

    Raises:
        ConfigError: The request cannot be written, as for Chat Completions.
    """
    url = rooted_endpoint(model.base_url, "v1", "chat/completions")
    quirks = Quirks.of(evolve(model, compat={**_QUIRKS, **(model.compat or {})}))
    if not sees_images(model):
        messages = without_images(messages)
    try:
        body = chat_body(model, messages, options, quirks, MistralConversation)
        if "seed" in body:
            body["random_seed"] = body.pop("seed")
        body |= _thinking(model, options) | _caching(options)
        body = clean_json(merge_deep(body, options.extra_body or {}))
    except RecursionError:
        raise ConfigError("the request is nested too deeply to be written") from None
    return HttpRequest(method="POST", url=url, headers=_headers(model, options), body=body)


def _thinking(model: Model, options: StreamOptions) -> JsonObject:
    """How hard to think: a word for models with a map of levels, else the prompt that makes a model think."""
    if not model.reasoning or options.reasoning is None:
        return {}
    level = clamp_level(model, options.reasoning)
    if model.thinking_level_map is not None:
        word = effort_word(model, level)
        return {} if word is None else {"reasoning_effort": word}
    return {} if level == "off" else {"prompt_mode": "reasoning"}


def _session(options: StreamOptions) -> str | None:
    return options.session_id if cache_retention(options) != "none" else None


def _caching(options: StreamOptions) -> JsonObject:
    session = _session(options)
    return {"prompt_cache_key": session} if session else {}


def _headers(model: Model, options: StreamOptions) -> dict[str, str]:
    session = _session(options)
    return merge_headers(
        {"accept": "text/event-stream", "content-type": "application/json"},
        {"authorization": f"Bearer {options.api_key}"} if options.api_key else None,
        {"x-affinity": session} if session else None,
        model.headers,
        options.headers,
    )
