"""What servers of Responses do differently, as flags: ``compat`` of a model, over defaults of the host or provider."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from pi_stream.apis._flags import anything, choice, flag, read_flags, words
from pi_stream.apis._request import is_host
from pi_stream.models import Model

__all__ = ["Quirks"]


@frozen(kw_only=True)
class Quirks:
    """What a server of Responses takes and needs. The names in ``compat`` may be camelCase or snake_case.

    Attributes:
        supports_developer_role: Takes the role ``developer``, for the system prompt of reasoning models.
        supports_strict_mode: Takes ``strict`` on tools; then it is always sent.
        supports_openai_grammar_tools: Takes tools of type ``custom`` with a grammar.
        supports_mid_convo_system_messages: Takes system messages in the middle of a conversation.
        supports_max_output_tokens: Takes ``max_output_tokens``.
        supports_reasoning_off: Takes an effort for no reasoning at all.
        supports_long_cache_retention: Takes ``prompt_cache_retention``.
        supports_explicit_prompt_cache_mode: Takes ``prompt_cache_options`` (GPT-5.6 and later) instead.
        prompt_cache_key_mode: Whether ``prompt_cache_key`` is sent: ``auto`` (for a session) or ``disabled``.
        encrypted_reasoning: Whether reasoning is asked for in the form that can be sent back: ``auto`` (of models that
            reason), ``always``, ``never``.
        session_affinity_format: Headers that route a session: ``openai``, ``openai-nosession``, ``openrouter``, ``none``.
        copilot_headers: Wants the headers of GitHub Copilot.
        tool_error_prefix: Put before the text of failed tool results, such as ``"[tool error] "``.
    """

    supports_developer_role: bool = flag(True)
    supports_strict_mode: bool = flag()
    supports_openai_grammar_tools: bool = flag()
    supports_mid_convo_system_messages: bool = flag()
    supports_max_output_tokens: bool = flag(True)
    supports_reasoning_off: bool = flag(True)
    supports_long_cache_retention: bool = flag(True)
    supports_explicit_prompt_cache_mode: bool = flag()
    prompt_cache_key_mode: Literal["auto", "disabled"] = choice("auto", "disabled")
    encrypted_reasoning: Literal["auto", "always", "never"] = choice("auto", "always", "never")
    session_affinity_format: Literal["openai", "openai-nosession", "openrouter", "none"] = choice(
        "openai", "openai-nosession", "openrouter", "none"
    )
    copilot_headers: bool = flag()
    tool_error_prefix: str = words()
    # Of pi-ai's catalog: what belongs to these is not built.
    supports_additional_tools: Any = anything()
    supports_tool_search: Any = anything()
    supports_mid_convo_effort: Any = anything()

    @classmethod
    def of(cls, model: Model) -> Quirks:
        """The quirks of a model's server: its ``compat`` over the defaults of its host, else of its provider.

        Raises:
            ConfigError: ``compat`` has an unknown flag, or a value of the wrong kind.
        """
        return read_flags(cls, model.compat, _defaults(model))


_SPEAKS_ALL: dict[str, Any] = {"supports_strict_mode": True, "supports_openai_grammar_tools": True}
_AZURE = _SPEAKS_ALL | {"supports_long_cache_retention": False, "session_affinity_format": "none"}
_DEFAULTS: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (  # host, provider ids, flags
    ("api.openai.com", ("openai", "openai-responses"), _SPEAKS_ALL),
    ("openrouter.ai", ("openrouter",), {"session_affinity_format": "openrouter"}),
    ("api.x.ai", ("xai",), {"encrypted_reasoning": "always"}),
    ("githubcopilot.com", ("github-copilot",), {"copilot_headers": True, "supports_reasoning_off": False}),
)


def _defaults(model: Model) -> dict[str, Any]:
    if model.api == "azure-openai-responses":
        return _AZURE
    by_host = (flags for host, _, flags in _DEFAULTS if is_host(model.base_url, host))
    by_provider = (flags for _, providers, flags in _DEFAULTS if model.provider in providers)
    return next(by_host, None) or next(by_provider, {})
