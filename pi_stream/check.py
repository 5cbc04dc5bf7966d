"""The connection check: whether key, base URL and model are right, found out without spending tokens.

Two questions, neither of which a provider charges for: its list of models, where the protocol has one, and the operation
itself with an empty body, which is refused for what it lacks, and for a wrong key before that. (A list alone proves no
key: some vendors show it to everybody.) A server that wants no key is asked for its list only.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from attrs import define, field, frozen

from pi_stream.apis._errors import body_error
from pi_stream.exceptions import ConfigError, MissingKeyError, TransportError
from pi_stream.http import HttpRequest, mask_headers, mask_url
from pi_stream.messages import ErrorCause
from pi_stream.models import Model
from pi_stream.providers.base import Provider
from pi_stream.transport.base import Transport
from pi_stream.wire import json

__all__ = ["CheckProblem", "ConnectionCheck", "check_connection", "refused"]

CheckProblem = Literal["key", "address", "model", "limit", "provider", "network", "config"]
"""What can be wrong: the key, the base URL, the model, quota or rate, the provider itself, the way there, the set-up."""

Sign: TypeAlias = Callable[[HttpRequest], Awaitable[HttpRequest]]

# How the list of models is reached: the end of the operation's path, what stands there instead, and its query.
_LISTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "anthropic-messages": (r"messages", "models", {"limit": "1000"}),
    "azure-openai-responses": (r"responses", "models", {}),
    "cohere-chat": (r"v2/chat", "v1/models", {"endpoint": "chat", "page_size": "1000"}),
    "google-generative-ai": (r"models/[^/]+:\w+", "models", {"pageSize": "1000"}),
    "mistral-conversations": (r"chat/completions", "models", {}),
    "ollama": (r"chat", "tags", {}),
    "openai-completions": (r"chat/completions", "models", {}),
    "openai-responses": (r"responses", "models", {}),
}
_NO_MODEL = re.compile(
    r"\bmodel\b.{0,80}(not found|not exist|unknown|invalid)|(invalid|unknown) model|model_not_found",
    re.IGNORECASE | re.DOTALL,
)
_NOT_THERE = (404, 405, 501)
_TIMEOUT = 30.0
_LONGEST_LIST = 16 * 1024 * 1024


@frozen(kw_only=True)
class ConnectionCheck:
    """What a check found.

    Attributes:
        provider: Provider id.
        model: The model that was asked for, if any.
        ok: Whether nothing is wrong.
        problem: What is wrong; None when nothing is.
        message: What was found, in words.
        advice: What to do about it; empty when nothing is to be done.
        url: What was asked, without secrets.
        status: HTTP status of the answer that decided.
        models: Ids of the models that the provider lists; empty where it has no list.
    """

    provider: str
    model: str | None = None
    ok: bool = False
    problem: CheckProblem | None = None
    message: str = ""
    advice: str = ""
    url: str = ""
    status: int | None = None
    models: tuple[str, ...] = field(default=(), repr=lambda ids: f"<{len(ids)} ids>")

    def __str__(self) -> str:
        name = f"{self.provider}/{self.model}" if self.model else self.provider
        advice = f"\n  {self.advice}" if self.advice else ""
        return f"{name}: {'ok' if self.ok else self.problem}: {self.message}{advice}"


def refused(provider: str, model: str | None, error: ConfigError) -> ConnectionCheck:
    """The result when not even a request can be made: the error says what is missing and what to do."""
    problem: CheckProblem = "key" if isinstance(error, MissingKeyError) else "config"
    return ConnectionCheck(provider=provider, model=model, problem=problem, message=str(error))


async def check_connection(
    provider: Provider,
    model: Model,
    request: HttpRequest,
    *,
    sign: Sign,
    transport: Transport,
    asked: str | None = None,
) -> ConnectionCheck:
    """Ask a provider whether key, base URL and model are right.

    Args:
        provider: The provider.
        model: The model, with base URL.
        request: What would be sent for an answer, with the key and without a signature.
        sign: Adds what the provider's credential has to add.
        transport: Sends the requests.
        asked: The model's id, where it is to be checked too.

    Returns:
        What was found. What the network or the provider does wrong is in it.
    """
    check = _Check(provider, model, request, asked, sign, transport)
    try:
        return await check.run()
    except TransportError as error:
        return check.lost(error)
    except ConfigError as error:  # of the credential
        return refused(provider.id, asked, error)


@frozen
class _Answer:
    """An answer: its JSON, or the error that it is."""

    status: int
    value: Any = None
    cause: ErrorCause | None = None
    words: str = ""

    @property
    def kind(self) -> str | None:
        return self.cause.kind if self.cause is not None else None


@define
class _Check:
    """One check: what it was told, and the steps."""

    provider: Provider
    model: Model
    request: HttpRequest
    asked: str | None
    sign: Sign
    transport: Transport

    async def run(self) -> ConnectionCheck:
        listed = await self._list()
        if listed is not None and listed.kind in ("auth", "rate_limit"):
            return self._result(self._problem(listed), listed)
        models = None if listed is None else _ids(listed.value)
        if models is None or self._has_key():
            tried = await self._try(with_model=models is None)
            problem = self._problem(tried)
            # A server that lists its models is well: it just handles an empty request badly.
            if problem and not (models is not None and problem == "provider"):
                return self._result(problem, tried)
        if models is None:
            return self._result(None, message="reached, and not refused; there is no list of models")
        if self.asked and not await self._knows(self.asked, models):
            return self._lacks(self.asked, models)
        return self._result(None, listed, message=f"reached; it lists {_models(models)}", models=models)

    # --- questions ----------------------------------------------------------------------------------------------------

    async def _list(self) -> _Answer | None:
        """The list of models; None where there is none."""
        url = self._list_url()
        answer = None if url is None else await self._ask("GET", url)
        missing = answer is not None and answer.status in (400, *_NOT_THERE) and answer.kind != "auth"
        return None if missing else answer

    def _list_url(self, id: str = "") -> str | None:
        """Where the list of models is, or one of them."""
        if self.model.api not in _LISTS:
            return None
        ending, instead, query = _LISTS[self.model.api]
        parts = urlsplit(self.request.url)
        path, found = re.subn(rf"{ending}$", instead, parts.path)
        if not found:
            return None
        kept = {name: value for name, value in parse_qsl(parts.query) if name != "alt"}
        return urlunsplit(
            parts._replace(
                path=f"{path}/{quote(id)}" if id else path, query=urlencode(kept if id else kept | query)
            )
        )

    async def _try(self, *, with_model: bool) -> _Answer:
        """The operation itself, with nothing to answer."""
        named = with_model and self.asked and "model" in (self.request.body or {})
        return await self._ask("POST", self.request.url, {"model": self.asked} if named else {})

    async def _knows(self, id: str, models: tuple[str, ...]) -> bool:
        """Whether a model is listed, or is an alias that the provider resolves."""
        if {id, id.removeprefix("models/"), f"{id}:latest"} & set(models):
            return True
        url = self._list_url(id)
        return url is not None and (await self._ask("GET", url)).status == 200

    def _has_key(self) -> bool:
        return (
            self.provider.credential is not None or mask_headers(self.request.headers) != self.request.headers
        )

    async def _ask(self, method: str, url: str, body: dict[str, Any] | None = None) -> _Answer:
        left_out = ("accept",) if body is not None else ("accept", "content-type")
        headers = {name: value for name, value in self.request.headers.items() if name not in left_out}
        request = await self.sign(HttpRequest(method=method, url=url, headers=headers, body=body))
        answer = await self.transport.send(request, connect=_TIMEOUT, head=_TIMEOUT)
        received = bytearray()
        try:
            answer.set_deadline(self.transport.time() + _TIMEOUT, "timeout_total")
            while len(received) < _LONGEST_LIST and (data := await answer.receive()):
                received += data
        finally:
            await answer.aclose()
        status = answer.head.status
        if not 200 <= status < 300:
            finish = body_error(answer.head, bytes(received))
            words = request.without_secrets(finish.error_message or "")
            return _Answer(status, cause=finish.error_cause, words=words)
        try:
            return _Answer(status, json.loads(bytes(received)))
        except json.JsonDecodeError:
            return _Answer(status, words="the answer is no JSON: this is a web page, or another service")

    # --- verdicts -----------------------------------------------------------------------------------------------------

    def _problem(self, answer: _Answer) -> CheckProblem | None:
        """What an answer says is wrong: nothing, if it is only the request that it refuses."""
        if answer.kind == "auth":
            return "key"
        if answer.status in (402, 429):
            return "limit"
        if self.asked and _NO_MODEL.search(answer.words):
            return "model"
        if answer.status in _NOT_THERE or 300 <= answer.status < 400:
            # Where the model is part of the URL, it is what is not there.
            return "model" if quote(self.model.id, safe="") in self.request.url else "address"
        if answer.status >= 500:
            return "provider"
        return "address" if answer.status < 300 and answer.value is None else None

    def _result(
        self,
        problem: CheckProblem | None,
        answer: _Answer | None = None,
        *,
        message: str = "",
        advice: str = "",
        models: tuple[str, ...] = (),
    ) -> ConnectionCheck:
        return ConnectionCheck(
            provider=self.provider.id,
            model=self.asked,
            ok=problem is None,
            problem=problem,
            message=message or (answer.words if answer is not None else ""),
            advice=advice or self._advice(problem),
            url=mask_url(self.request.url),
            status=answer.status if answer is not None else None,
            models=models,
        )

    def lost(self, error: TransportError) -> ConnectionCheck:
        """There was no answer."""
        return self._result("network", message=str(error))

    def _lacks(self, id: str, models: tuple[str, ...]) -> ConnectionCheck:
        near = get_close_matches(id, models, n=3, cutoff=0.4)
        return self._result(
            "model",
            message=f"it lists {_models(models)}, and {id!r} is not among them",
            advice=f"did you mean {', '.join(near)}?" if near else "name one of the models that are listed",
            models=models,
        )

    def _advice(self, problem: CheckProblem | None) -> str:
        keys = " or ".join(self.provider.key_env) or "the provider's credentials"
        variables = " or ".join(self.provider.base_url_env)
        change = f"change it with {variables}, or base_urls=" if variables else "change it with base_urls="
        base = mask_url(self.model.base_url)
        return {
            "key": f"look at the key: set {keys}, or pass api_key=; is it of this vendor, project and region?",
            "address": f"look at the base URL {base}, version included; {change}",
            "model": "look at the name of the model, and whether this account may use it",
            "limit": "the key is right: wait, or look at the quota and the billing of the account",
            "provider": "the provider is in trouble: try later, or look at its status page",
            "network": f"look at the base URL {base} ({change}), at proxies and at certificates",
        }.get(problem or "", "")


def _models(ids: tuple[str, ...]) -> str:
    return "1 model" if len(ids) == 1 else f"{len(ids)} models"


def _ids(value: Any) -> tuple[str, ...] | None:
    """The ids in a list of models, of whatever shape; None where it is no list."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("data", "models") if isinstance(value.get(key), list)), None)
    if not isinstance(value, list):
        return None
    entries = (entry for entry in value if isinstance(entry, dict))
    ids = (next((entry[key] for key in ("id", "name", "model") if entry.get(key)), "") for entry in entries)
    return tuple(str(id).removeprefix("models/") for id in ids if id)
