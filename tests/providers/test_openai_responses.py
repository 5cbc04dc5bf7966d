"""Vendors that are spoken to through Responses."""

from __future__ import annotations

import pytest

from pi_stream import build_request
from pi_stream.models import Model


@pytest.fixture(autouse=True)
def no_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_openai_speaks_chat_unless_asked_for_responses() -> None:
    assert build_request("openai/gpt-4o-mini", "hi").url == "https://api.openai.com/v1/chat/completions"
    by_provider = build_request("openai-responses/gpt-4o-mini", "hi")
    by_api = build_request(Model(id="gpt-4o-mini", provider="openai", api="openai-responses"), "hi")
    assert by_provider.url == by_api.url == "https://api.openai.com/v1/responses"
    assert by_provider.body == by_api.body


def test_xai_speaks_responses_and_gives_its_reasoning_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XAI_API_KEY", "k")
    request = build_request("xai/grok-4", "hi")
    assert request.url == "https://api.x.ai/v1/responses"
    assert request.headers["authorization"] == "Bearer k"
    assert (request.body or {})["include"] == ["reasoning.encrypted_content"]
