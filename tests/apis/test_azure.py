"""Azure OpenAI: addresses, versions, deployments and keys of both protocols, and what the content filter says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from recording_checks import recordings

from pi_stream import AssistantMessage, build_request
from pi_stream.apis import get_api
from pi_stream.apis.azure_openai_completions import api as azure_chat
from pi_stream.apis.base import Api, TranslatorSetup
from pi_stream.engine.pipeline import Pipeline
from pi_stream.exceptions import ConfigError, MissingExtraError
from pi_stream.guard import Guard
from pi_stream.http import HttpRequest, ResponseHead
from pi_stream.messages import TextContent, ThinkingContent, ToolCall, ToolResultMessage, UserMessage
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.providers import azure
from pi_stream.testing import check_events

CHAT, RESPONSES = "openai-completions", "azure-openai-responses"
VARIABLES = (
    *("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_RESOURCE_NAME"),
    *("AZURE_OPENAI_API_VERSION", "AZURE_OPENAI_DEPLOYMENT_NAME_MAP"),
)
HOST = "https://res.openai.azure.com"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")


def request_for(
    api: str, base_url: str = HOST, *, id: str = "gpt-x", options: StreamOptions | None = None, **compat: Any
) -> HttpRequest:
    model = Model(id=id, api=api, provider="azure", base_url=base_url, compat=compat)
    return build_request(model, "hi", options)


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "base_url",
    [
        HOST,
        HOST + "/",
        HOST + "/openai",
        HOST + "/openai/v1",
        HOST + "/openai/v1/",
        HOST + "/openai/v1/responses",
        HOST + "/openai/v1/chat/completions",
    ],
)
def test_a_bare_address_of_azure_is_that_of_the_v1_api(base_url: str) -> None:
    assert request_for(RESPONSES, base_url).url == f"{HOST}/openai/v1/responses?api-version=v1"
    assert request_for(CHAT, base_url).url == f"{HOST}/openai/v1/chat/completions?api-version=v1"


@pytest.mark.parametrize("host", ["x.cognitiveservices.azure.com", "x.services.ai.azure.com"])
def test_other_hosts_of_azure_are_known(host: str) -> None:
    assert (
        request_for(RESPONSES, f"https://{host}").url == f"https://{host}/openai/v1/responses?api-version=v1"
    )


def test_a_host_that_only_looks_like_azure_is_left_as_it_is() -> None:
    url = request_for(RESPONSES, "https://openai.azure.com.evil.test/v1").url
    assert url == "https://openai.azure.com.evil.test/v1/responses?api-version=v1"


def test_a_gateway_keeps_its_path_and_query() -> None:
    url = request_for(CHAT, "https://gateway.test/azure?tenant=7").url
    assert url == "https://gateway.test/azure/chat/completions?tenant=7&api-version=v1"


@pytest.mark.parametrize("version", ["2024-10-21", "2025-04-01-preview"])
def test_a_dated_version_takes_the_path_it_belongs_to(version: str) -> None:
    chat = request_for(CHAT, apiVersion=version, deployment="my dep").url
    assert chat == f"{HOST}/openai/deployments/my%20dep/chat/completions?api-version={version}"
    assert request_for(RESPONSES, api_version=version).url == f"{HOST}/openai/responses?api-version={version}"


def test_preview_is_a_version_of_the_v1_api() -> None:
    assert request_for(RESPONSES, api_version="preview").url.endswith(
        "/openai/v1/responses?api-version=preview"
    )


def test_the_version_in_the_address_counts_unless_another_is_given() -> None:
    address = HOST + "/openai/responses?api-version=2025-04-01-preview"
    assert request_for(RESPONSES, address).url == address
    assert (
        request_for(RESPONSES, address, api_version="v1").url == f"{HOST}/openai/v1/responses?api-version=v1"
    )


def test_the_address_of_a_deployment_stays() -> None:
    address = HOST + "/openai/deployments/dep"
    assert request_for(CHAT, address).url == f"{address}/chat/completions?api-version=2024-10-21"


def test_without_an_address_the_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="AZURE_OPENAI_RESOURCE_NAME"):
        build_request("azure/gpt-x", "hi")


# --- the environment --------------------------------------------------------------------------------------------------


def test_the_resource_name_makes_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_RESOURCE_NAME", "res")
    assert build_request("azure/gpt-x", "hi").url == f"{HOST}/openai/v1/chat/completions?api-version=v1"
    request = build_request("azure-openai-responses/gpt-x", "hi")
    assert request.url == f"{HOST}/openai/v1/responses?api-version=v1"
    by_api = build_request(Model(id="gpt-x", provider="azure", api=RESPONSES), "hi")
    assert (by_api.url, by_api.body) == (request.url, request.body)


@pytest.mark.parametrize("name", ["AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"])
def test_an_address_in_the_environment_wins(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("AZURE_OPENAI_RESOURCE_NAME", "other")
    monkeypatch.setenv(name, HOST)
    assert build_request("azure/gpt-x", "hi").url.startswith(HOST)


def test_version_and_deployment_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_RESOURCE_NAME", "res")
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2024-10-21")
    monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "a=b, gpt-x = dep ,broken,=c,d=")
    request = build_request("azure/gpt-x", "hi")
    assert request.url == f"{HOST}/openai/deployments/dep/chat/completions?api-version=2024-10-21"
    assert (request.body or {})["model"] == "dep"
    assert (build_request("azure/other", "hi").body or {})["model"] == "other"
    own = Model(id="gpt-x", provider="azure", compat={"deployment": "mine", "apiVersion": "v1"})
    assert build_request(own, "hi").url.startswith(HOST + "/openai/v1/")
    assert (build_request(own, "hi").body or {})["model"] == "mine"


# --- keys, headers, body ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_the_key_has_a_header_of_its_own(api: str) -> None:
    headers = request_for(api).headers
    assert headers["api-key"] == "k"
    assert "authorization" not in headers


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_the_caller_s_headers_win(api: str) -> None:
    given = StreamOptions(headers={"Api-Key": None, "authorization": "Bearer t"})
    headers = request_for(api, options=given).headers
    assert ("api-key" in headers, headers["authorization"]) == (False, "Bearer t")


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_the_deployment_stands_for_the_model_unless_the_caller_says_otherwise(api: str) -> None:
    assert (request_for(api, deployment="dep").body or {})["model"] == "dep"
    given = StreamOptions(extra_body={"model": "own"})
    assert (request_for(api, deployment="dep", options=given).body or {})["model"] == "own"


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_flags_of_azure_are_checked_and_others_go_on(api: str) -> None:
    with pytest.raises(ConfigError, match="deployment"):
        request_for(api, deployment=7)
    with pytest.raises(ConfigError, match="supports_developer_role"):
        request_for(api, supports_developer_rule=False)


def test_responses_on_azure_has_no_session_headers_and_no_long_caching() -> None:
    request = request_for(RESPONSES, options=StreamOptions(session_id="s", cache_retention="long"))
    assert request.headers.keys() == {"accept", "content-type", "api-key"}
    assert (request.body or {})["prompt_cache_key"] == "s"
    assert "prompt_cache_retention" not in (request.body or {})
    none = request_for(RESPONSES, options=StreamOptions(session_id="s", cache_retention="none"))
    assert "prompt_cache_key" not in (none.body or {})


def test_chat_on_azure_speaks_as_openai_does_and_does_not_mention_storing() -> None:
    body = request_for(CHAT, options=StreamOptions(max_tokens=9)).body or {}
    assert body["max_completion_tokens"] == 9
    assert "store" not in body


def test_answers_of_azure_go_back_to_azure_as_they_came() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}
    content = [
        ThinkingContent("", thinking_signature=json.dumps(item)),
        TextContent("x", text_signature='{"v":1,"id":"msg_1"}'),
        ToolCall("c1|fc_1", "read", {}),
    ]
    model = Model(id="gpt-x", api=RESPONSES, provider="azure", base_url=HOST, compat={"deployment": "dep"})
    turn = AssistantMessage(content, api=RESPONSES, provider="azure", model="gpt-x", stop_reason="toolUse")
    transcript = [UserMessage("hi"), turn, ToolResultMessage("c1|fc_1", "read", [])]
    items = (build_request(model, transcript).body or {})["input"]
    assert [entry.get("id") for entry in items[1:4]] == ["rs_1", "msg_1", "fc_1"]


# --- Microsoft Entra --------------------------------------------------------------------------------------------------


class Token:
    token = "t"


class Identity:
    async def get_token(self, *scopes: str) -> Token:
        assert scopes == ("https://cognitiveservices.azure.com/.default",)
        return Token()


@pytest.mark.anyio
async def test_entra_signs_requests_that_have_no_key() -> None:
    entra = azure.Entra(Identity())
    request = request_for(CHAT)
    assert await entra.headers(request) == {}
    keyless = evolve(request, headers={})
    assert await entra.headers(keyless) == {"authorization": "Bearer t"}


def test_entra_without_its_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(azure, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"pi-stream\[azure\]"):
        azure.Entra()


# --- filter results ---------------------------------------------------------------------------------------------------


def play(api: Api, body: bytes, cut: int | None = None) -> AssistantMessage:
    model = Model(id="gpt-x", api=api.id, provider="azure", compat={"deployment": "dep"})
    head = AssistantMessage(api=api.id, provider="azure", model="gpt-x", timestamp=0)
    pipeline = Pipeline(api, TranslatorSetup(model=model), ResponseHead(status=200), Guard(head))
    events = [
        event
        for start in range(0, len(body), cut or len(body))
        for event in pipeline.feed(body[start : start + (cut or len(body))])
    ]
    return check_events(events if pipeline.finished else [*events, *pipeline.end()])


def test_the_filter_results_of_a_chat_answer_are_kept(shared: Path) -> None:
    names = {"azure-openai-gpt-4o-mini-text", "azure-openai-gpt-4o-mini-tool"}
    cases = [case for case in recordings(shared, "openai-completions", CHAT) if case.name in names]
    assert len(cases) == len(names)
    for case in cases:
        given = play(azure_chat, case.body)
        assert all(play(azure_chat, case.body, cut) == given for cut in (1, 7, 64))
        plain = check_events(case.decode())
        assert (given.content, given.stop_reason, given.usage) == (
            plain.content,
            plain.stop_reason,
            plain.usage,
        )
        expected: dict[str, Any] = {}
        for line in case.body.splitlines():
            for choice in json.loads(line[6:])["choices"] if line.startswith(b"data: {") else ():
                expected |= choice.get("content_filter_results") or {}
        kept = {key: value for entry in given.provider_data or () for key, value in entry.data.items()}
        assert kept.get("content_filter_results", {}) == expected, case.name
        assert kept["prompt_filter_results"], case.name


def test_the_last_filter_result_of_each_category_counts() -> None:
    def chunk(text: str, results: Any, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
        value = {"choices": [choice | {"content_filter_results": results}]}
        return b"data: " + json.dumps(value).encode() + b"\n\n"

    body = (
        chunk("a", {})
        + chunk("b", {"hate": {"severity": "safe"}})
        + chunk("c", {"hate": {"severity": "low"}, "violence": {"severity": "safe"}})
        + chunk("", {}, "stop")
        + b"data: [DONE]\n\n"
    )
    given = play(azure_chat, body)
    assert (given.text, given.stop_reason) == ("abc", "stop")
    (entry,) = given.provider_data or ()
    assert entry.after == 1
    assert entry.data == {
        "content_filter_results": {"hate": {"severity": "low"}, "violence": {"severity": "safe"}}
    }


def test_the_answers_of_responses_are_those_of_openai() -> None:
    body = b'data: {"type":"response.completed","response":{"status":"completed","output":[]}}\n\n'
    assert play(get_api(RESPONSES), body).stop_reason == "stop"
