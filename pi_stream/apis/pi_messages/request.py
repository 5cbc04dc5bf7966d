"""A transcript as a request to a proxy: the messages as they are stored, and options. The proxy does the rest.

Nothing is clamped or converted here: what the model behind it knows, only the proxy can tell.
"""

from __future__ import annotations

from attrs import frozen

from pi_stream.apis._flags import flag, read_flags
from pi_stream.apis._request import clean_json, endpoint, merge_deep, merge_headers
from pi_stream.exceptions import ConfigError
from pi_stream.http import HttpRequest
from pi_stream.messages import JsonObject, Message
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["Quirks", "build_request"]


@frozen(kw_only=True)
class Quirks:
    """What can be asked of a proxy. The names in ``compat`` may be camelCase or snake_case.

    Attributes:
        debug: Asks it to say more (``?debug=1``).
    """

    debug: bool = flag()


def build_request(model: Model, messages: list[Message], options: StreamOptions) -> HttpRequest:
    """Write the request of a proxy for a transcript.

    Args:
        model: With the provider's base URL, headers and quirks merged in.
        messages: Plain messages; system prompt and tools are in system messages.
        options: With the key resolved.

    Returns:
        A streaming request. Its body shares nothing with the arguments and is clean JSON.

    Raises:
        ConfigError: The request cannot be written: a bad URL or header, an unknown quirk, or something that is not JSON.
    """
    from pi_stream.serialization import to_json

    url = endpoint(model.base_url, "messages")
    if read_flags(Quirks, model.compat).debug:
        url += "&debug=1" if "?" in url else "?debug=1"
    headers = merge_headers(
        {"accept": "text/event-stream", "content-type": "application/json"},
        {"authorization": f"Bearer {options.api_key}"} if options.api_key else None,
        model.headers,
        options.headers,
    )
    try:
        body: JsonObject = {
            "model": model.id,
            "context": {"messages": [to_json(message) for message in messages]},
            "options": _options(options),
        }
        body = clean_json(merge_deep(body, options.extra_body or {}))
    except RecursionError:
        raise ConfigError("the request is nested too deeply to be written") from None
    return HttpRequest(method="POST", url=url, headers=headers, body=body)


def _options(options: StreamOptions) -> JsonObject:
    """The options that the protocol has. ``extra_body={"options": {...}}`` adds others."""
    fields: JsonObject = {
        "temperature": options.temperature,
        "maxTokens": options.max_tokens,
        "reasoning": None if options.reasoning == "off" else options.reasoning,
        "cacheRetention": options.cache_retention,
        "sessionId": options.session_id,
        "toolChoice": options.tool_choice,
    }
    return {name: value for name, value in fields.items() if value is not None}
