"""Claude by Bedrock's invoke stream: events of the Messages api inside frames of AWS."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from anthropic_bodies import CUTS, STOP, end, start, text
from hypothesis import given
from hypothesis import strategies as st

from pi_stream import decode
from pi_stream.apis import get_api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.events import Draft, Event, Finish
from pi_stream.exceptions import DecodeError
from pi_stream.guard import Guard
from pi_stream.messages import AssistantMessage
from pi_stream.models import Model
from pi_stream.testing import check_events

API = get_api("bedrock-invoke")
MODEL = Model(id="anthropic.claude-x-v1:0", api="bedrock-invoke", provider="amazon-bedrock")


def payload(event: Any) -> dict[str, Any]:
    return {"bytes": b64encode(json.dumps(event).encode()).decode(), "p": "abc"}


def run(chunks: list[Any]) -> tuple[list[Event], AssistantMessage]:
    translator = API.translator(TranslatorSetup(model=MODEL))
    drafts: list[Draft] = []
    translator.translate(chunks, drafts)
    if not any(isinstance(draft, Finish) for draft in drafts):
        assert translator.complete and translator.ended
        translator.finish(drafts)
    events = Guard(AssistantMessage(timestamp=0)).check(drafts)
    return events, check_events(events)


EVENTS = [start(), *text(0, "Hel", "lo"), end(), STOP]


def test_payloads_with_and_without_the_type_of_their_frame() -> None:
    named = run([{"chunk": payload(event)} for event in EVENTS])
    assert named == run([payload(event) for event in EVENTS]) == run(EVENTS)
    assert (named[1].text, named[1].stop_reason) == ("Hello", "stop")


@pytest.mark.parametrize(
    ("exception", "kind", "retryable"),
    [
        ("throttlingException", "rate_limit", True),
        ("serviceUnavailableException", "overloaded", True),
        ("internalServerException", "provider_error", True),
        ("validationException", "provider_error", False),
    ],
)
def test_exception_frame(exception: str, kind: str, retryable: bool) -> None:
    _, message = run([payload(start()), {"exception": {"type": exception, "message": "no"}}])
    assert (message.stop_reason, message.error_message) == ("error", "no")
    cause = message.error_cause
    assert cause is not None
    assert (cause.kind, cause.retryable, cause.provider_code) == (kind, retryable, exception)


@pytest.mark.parametrize("broken", ["%%%", b64encode(b"{").decode(), "a"])
def test_payload_that_is_no_base64_of_json(broken: str) -> None:
    """What came before it was translated."""
    translator = API.translator(TranslatorSetup(model=MODEL))
    drafts: list[Draft] = []
    with pytest.raises(DecodeError):
        translator.translate([payload(start()), payload(text(0, "a")[0]), {"bytes": broken}], drafts)
    assert drafts


def test_recorded_answer(shared: Path) -> None:
    place = shared / "recordings" / "other" / "amazon-bedrock-claude-sonnet-4-5-v1-after-tool" / "body.bin"
    if not place.exists():
        pytest.skip(f"no recording: {place}")
    body = place.read_bytes()
    events = decode(body, api="bedrock-invoke")
    for cut in CUTS:
        assert decode(body, api="bedrock-invoke", cut=cut) == events
    message = check_events(events)
    assert (message.text, message.stop_reason) == ("umbrella", "stop")
    assert (message.usage.input, message.usage.output) == (791, 5)


@given(
    st.recursive(
        st.none() | st.text(),
        lambda inner: st.dictionaries(st.sampled_from(["chunk", "bytes", "exception", "type"]), inner),
    )
)
def test_hostile_chunks(chunk: Any) -> None:
    translator = API.translator(TranslatorSetup(model=MODEL))
    try:
        translator.translate([chunk], [])
    except DecodeError:
        pass
