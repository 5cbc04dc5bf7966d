"""How servers of Chat Completions differ, as flags: ``compat`` of a model, over defaults of the host or provider."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from attrs import Attribute, field, fields, frozen

from pi_stream.exceptions import ConfigError
from pi_stream.models import Model

__all__ = ["PROFILES", "Profile", "Quirks", "ThinkingFormat", "is_host"]

ThinkingFormat: TypeAlias = Literal[
    "openai",
    "openrouter",
    "deepseek",
    "zai",
    "qwen",
    "qwen-chat-template",
    "chat-template",
    "baseten",
    "together",
    "string-thinking",
    "ant-ling",
]
"""How a server is told to think; :mod:`pi_stream.apis.openai_completions.thinking` has the table."""


def _checked(default: Any, expected: str, allowed: Callable[[Any], bool]) -> Any:
    """A flag with a default and a check of what ``compat`` says instead."""

    def check(instance: Any, attribute: Attribute[Any], value: Any) -> None:
        if not allowed(value):
            raise ConfigError(f"compat flag `{attribute.name}` must be {expected}, not {value!r}")

    return field(default=default, validator=check)


def _flag(default: bool = False) -> Any:
    return _checked(default, "true or false", lambda value: isinstance(value, bool))


def _choice(*allowed: str | None) -> Any:
    return _checked(allowed[0], "one of " + ", ".join(map(str, allowed)), lambda value: value in allowed)


def _object() -> Any:
    return _checked(None, "an object", lambda value: value is None or isinstance(value, dict))


def _string(default: str | None = None) -> Any:
    return _checked(default, "a string", lambda value: value == default or isinstance(value, str))


def _whole_number() -> Any:
    return _checked(None, "a whole number", lambda value: value is None or type(value) is int)


@frozen(kw_only=True)
class Quirks:
    """What a server of Chat Completions takes and needs. The names in ``compat`` may be camelCase or snake_case.

    Attributes:
        supports_store: Takes ``store``; then ``store: false`` is sent.
        supports_developer_role: Takes the role ``developer``, for the system prompt of reasoning models.
        supports_reasoning_effort: Takes ``reasoning_effort``.
        supports_usage_in_streaming: Takes ``stream_options.include_usage``.
        supports_finish_reason: Sends ``finish_reason``; without, the end of the stream is the end of the answer.
        supports_long_cache_retention: Takes ``prompt_cache_retention`` and markers of one hour.
        supports_strict_mode: Takes ``strict`` on tools.
        supports_openai_grammar_tools: Takes tools of type ``custom`` with a grammar.
        supports_mid_convo_system_messages: Takes system messages in the middle of a conversation.
        supports_mid_convo_tool_additions: Takes such messages with ``tools``; needs the flag above.
        max_tokens_field: Name of the limit on the answer: ``max_completion_tokens`` or ``max_tokens``.
        requires_tool_result_name: Wants the tool's ``name`` on its results.
        requires_assistant_after_tool_result: Wants an assistant message between tool results and a user message.
        requires_non_null_assistant_content: Wants ``""`` instead of null for an answer without text.
        requires_tools_with_tool_history: Wants ``tools``, even empty, once tools were used.
        requires_thinking_as_text: Takes thinking back only as text.
        requires_reasoning_content_on_assistant_messages: Wants ``reasoning_content``, even empty, on every answer.
        thinking_format: How thinking is switched on and off.
        thinking_token_budget_field: Name of the field for a thinking budget in tokens; None where there is none.
        chat_template_kwargs: Values of ``chat_template_kwargs`` for the format ``chat-template``.
        chat_template_args: Values of ``chat_template_args`` for the format ``baseten``.
        zai_tool_stream: Wants ``tool_stream: true`` to stream tool calls.
        cache_control_format: ``anthropic``: takes ``cache_control`` markers.
        prompt_cache_key_mode: When ``prompt_cache_key`` is sent: ``enabled``, ``disabled``, or ``auto`` (to OpenAI).
        send_session_affinity_headers: Routes by session headers.
        session_affinity_format: Which headers: ``openai``, ``openai-nosession``, ``openrouter``, ``opencode``.
        open_router_routing: OpenRouter's ``provider`` object.
        vercel_gateway_routing: Vercel's gateway routing: ``only``, ``order``.
        vllm_priority: vLLM's ``priority`` of the request.
        short_tool_call_ids: Takes tool call ids of 40 characters at most.
        copilot_headers: Wants the headers of GitHub Copilot.
        tool_error_prefix: Put before the text of failed tool results, such as ``"[tool error] "``.
    """

    supports_store: bool = _flag(True)
    supports_developer_role: bool = _flag()
    supports_reasoning_effort: bool = _flag(True)
    supports_usage_in_streaming: bool = _flag(True)
    supports_finish_reason: bool = _flag(True)
    supports_long_cache_retention: bool = _flag(True)
    supports_strict_mode: bool = _flag()
    supports_openai_grammar_tools: bool = _flag()
    supports_mid_convo_system_messages: bool = _flag()
    supports_mid_convo_tool_additions: bool = _flag()
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = _choice(
        "max_completion_tokens", "max_tokens"
    )
    requires_tool_result_name: bool = _flag()
    requires_assistant_after_tool_result: bool = _flag()
    requires_non_null_assistant_content: bool = _flag()
    requires_tools_with_tool_history: bool = _flag()
    requires_thinking_as_text: bool = _flag()
    requires_reasoning_content_on_assistant_messages: bool = _flag()
    thinking_format: ThinkingFormat = _choice(*get_args(ThinkingFormat))
    thinking_token_budget_field: str | None = _string()
    chat_template_kwargs: dict[str, Any] | None = _object()
    chat_template_args: dict[str, Any] | None = _object()
    zai_tool_stream: bool = _flag()
    cache_control_format: Literal["anthropic"] | None = _choice(None, "anthropic")
    prompt_cache_key_mode: Literal["auto", "enabled", "disabled"] = _choice("auto", "enabled", "disabled")
    send_session_affinity_headers: bool = _flag()
    session_affinity_format: Literal["openai", "openai-nosession", "openrouter", "opencode"] = _choice(
        "openai", "openai-nosession", "openrouter", "opencode"
    )
    open_router_routing: dict[str, Any] | None = _object()
    vercel_gateway_routing: dict[str, Any] | None = _object()
    vllm_priority: int | None = _whole_number()
    short_tool_call_ids: bool = _flag()
    copilot_headers: bool = _flag()
    tool_error_prefix: str = _string("")

    @classmethod
    def of(cls, model: Model) -> Quirks:
        """The quirks of a model's server: its ``compat`` over the defaults of its profile.

        The profile is the one that ``compat["profile"]`` names, else that of the base URL's host, else that of the
        provider id.

        Raises:
            ConfigError: ``compat`` has an unknown flag or profile, or a value of the wrong kind.
        """
        given = {_flag_name(name): value for name, value in (model.compat or {}).items()}
        profile = _profile(model, given.pop("profile", None))
        defaults: dict[str, Any] = dict(profile.quirks) if profile else {}
        if profile and profile.name == "openrouter" and model.id.startswith("anthropic/"):
            defaults["cache_control_format"] = "anthropic"
        return cls(**(defaults | given))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@frozen
class Profile:
    """Servers that share quirks.

    Attributes:
        name: What ``compat["profile"]`` says.
        providers: Provider ids.
        hosts: Host names; their subdomains count as well.
        quirks: Defaults of the flags.
    """

    name: str
    providers: tuple[str, ...] = field(converter=_words)
    hosts: tuple[str, ...] = field(converter=_words)
    quirks: dict[str, Any]


_NO_STORE: dict[str, Any] = {"supports_store": False}
_NO_EFFORT: dict[str, Any] = {"supports_reasoning_effort": False}
_NO_LONG_CACHE: dict[str, Any] = {"supports_long_cache_retention": False}
_MAX_TOKENS: dict[str, Any] = {"max_tokens_field": "max_tokens"}
_PLAIN = _NO_STORE | _NO_EFFORT | _MAX_TOKENS


def _affinity(headers: str) -> dict[str, Any]:
    return {"send_session_affinity_headers": True, "session_affinity_format": headers}


def _thinking(name: str) -> dict[str, Any]:
    return {"thinking_format": name}


PROFILES: tuple[Profile, ...] = (
    Profile(
        "openai", "openai", "api.openai.com", {"supports_developer_role": True, "short_tool_call_ids": True}
    ),
    Profile("openrouter", "openrouter", "openrouter.ai", _thinking("openrouter") | _affinity("openrouter")),
    Profile(
        "deepseek",
        "deepseek",
        "deepseek.com",
        _NO_STORE
        | _MAX_TOKENS
        | _thinking("deepseek")
        | {"requires_reasoning_content_on_assistant_messages": True},
    ),
    Profile("zai", "zai zai-coding-cn", "api.z.ai open.bigmodel.cn", _PLAIN | _thinking("zai")),
    Profile(
        "together",
        "together",
        "api.together.ai api.together.xyz",
        _PLAIN | _NO_LONG_CACHE | _thinking("together"),
    ),
    Profile("moonshot", "moonshotai moonshotai-cn", "api.moonshot.ai api.moonshot.cn", _PLAIN),
    Profile("cf-workers", "cloudflare-workers-ai", "api.cloudflare.com", _NO_STORE | _NO_LONG_CACHE),
    Profile("cf-gateway", "cloudflare-ai-gateway", "gateway.ai.cloudflare.com", _PLAIN | _NO_LONG_CACHE),
    Profile("nvidia", "nvidia", "integrate.api.nvidia.com", _PLAIN | _NO_LONG_CACHE),
    Profile("ant-ling", "ant-ling", "api.ant-ling.com", _PLAIN | _NO_LONG_CACHE | _thinking("ant-ling")),
    Profile("cerebras", "cerebras", "cerebras.ai", _NO_STORE),
    Profile("xai", "xai", "api.x.ai", _NO_STORE | _NO_EFFORT),
    Profile("chutes", "chutes", "chutes.ai", _NO_STORE | _MAX_TOKENS),
    Profile("opencode", "opencode opencode-go", "opencode.ai", _NO_STORE | _affinity("opencode")),
    Profile("github-copilot", "github-copilot", "githubcopilot.com", {"copilot_headers": True}),
)
"""Known groups of servers. The host decides before the provider id, and is compared as a host, not as text."""


def is_host(url: str, *hosts: str) -> bool:
    """Whether a URL goes to one of the hosts or to a subdomain of one."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return any(host == known or host.endswith("." + known) for known in hosts)


def _profile(model: Model, name: Any) -> Profile | None:
    if name is not None:
        by_name = {profile.name: profile for profile in PROFILES}
        if name not in by_name:
            raise ConfigError(f"unknown compat profile {name!r}; there are: {', '.join(sorted(by_name))}")
        return by_name[name]
    by_host = (profile for profile in PROFILES if is_host(model.base_url, *profile.hosts))
    by_provider = (profile for profile in PROFILES if model.provider in profile.providers)
    return next(by_host, None) or next(by_provider, None)


_NAMES = ("profile", *(attribute.name for attribute in fields(Quirks)))
_BY_SPELLING = {name.replace("_", ""): name for name in _NAMES}


def _flag_name(given: str) -> str:
    """The flag that a name in ``compat`` means, however it is spelt."""
    name = _BY_SPELLING.get(given.replace("_", "").lower())
    if name is not None:
        return name
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", given).lower()
    near = difflib.get_close_matches(snake, _NAMES, n=3)
    if snake != given:
        near = [_camel_case(name) for name in near]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ConfigError(f"unknown compat flag {given!r}{hint}")


def _camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name).replace("Openai", "OpenAI")
