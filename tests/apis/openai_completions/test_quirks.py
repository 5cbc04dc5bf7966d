"""Quirks of servers: detection, overrides, mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import fields

from pi_stream.apis.openai_completions.quirks import PROFILES, Quirks, is_host
from pi_stream.exceptions import ConfigError
from pi_stream.models import Model


def quirks(
    provider: str = "", base_url: str = "http://localhost/v1", model_id: str = "m", **compat: Any
) -> Quirks:
    return Quirks.of(Model(id=model_id, provider=provider, base_url=base_url, compat=compat or None))


def test_an_unknown_server_gets_the_defaults() -> None:
    assert quirks("somebody") == Quirks()


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_each_profile_is_found_by_provider_host_and_name(profile: Any) -> None:
    expected = Quirks(**profile.quirks)
    assert expected != Quirks()
    for provider in profile.providers:
        assert quirks(provider) == expected
    for host in profile.hosts:
        assert quirks(base_url=f"https://{host}/v1") == expected
        assert quirks(base_url=f"https://eu.{host}:8443/v1") == expected
    assert quirks(profile=profile.name) == expected


@pytest.mark.parametrize(
    "base_url",
    [
        "https://proxy.example/api.deepseek.com",
        "https://proxy.example/?to=deepseek.com",
        "https://notdeepseek.com",
        "https://deepseek.com.example",
        "https://deepseek.com@proxy.example",
        "https://[deepseek.com",
    ],
)
def test_a_host_s_name_elsewhere_in_the_url_means_nothing(base_url: str) -> None:
    assert not is_host(base_url, "deepseek.com")
    assert quirks(base_url=base_url) == Quirks()


def test_the_host_decides_before_the_provider_id() -> None:
    """A provider entry pointed at another vendor's server talks to that server."""
    pointed = quirks("openai", "https://api.deepseek.com")
    assert pointed.thinking_format == "deepseek"
    assert not pointed.supports_developer_role


def test_anthropic_models_of_openrouter_take_cache_markers() -> None:
    assert quirks("openrouter", model_id="anthropic/claude").cache_control_format == "anthropic"
    assert quirks("openrouter", model_id="openai/gpt").cache_control_format is None


def test_compat_wins_flag_by_flag_in_either_spelling() -> None:
    made = quirks(
        "deepseek",
        supportsStore=True,
        max_tokens_field="max_completion_tokens",
        supportsOpenAIGrammarTools=True,
    )
    assert made.supports_store
    assert made.max_tokens_field == "max_completion_tokens"
    assert made.supports_openai_grammar_tools
    assert made.thinking_format == "deepseek"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("supportsStores", "supportsStore"),
        ("supports_stor", "supports_store"),
        ("thinkingFormatt", "thinkingFormat"),
        ("supportsOpenAiGrammer", "supportsOpenAIGrammarTools"),
    ],
)
def test_an_unknown_flag_names_near_ones_in_its_own_spelling(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*{near}"):
        Quirks.of(Model(id="m", compat={name: True}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("supportsStore", "false"),
        ("supportsStore", None),
        ("thinkingFormat", "telepathy"),
        ("maxTokensField", "tokens"),
        ("chatTemplateKwargs", ["a"]),
        ("vllmPriority", True),
        ("toolErrorPrefix", 1),
        ("profile", "nobody"),
    ],
)
def test_a_value_of_the_wrong_kind_is_a_config_error(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"must be|unknown compat profile") as caught:
        quirks(**{name: value})
    assert repr(value) in str(caught.value)


def test_every_flag_has_a_line_in_the_docstring() -> None:
    for flag in fields(Quirks):
        assert f"        {flag.name}: " in (Quirks.__doc__ or "") or f"    {flag.name}: " in (
            Quirks.__doc__ or ""
        )
