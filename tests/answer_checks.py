"""Answers of any api through the whole pipeline: whole and cut, cut off anywhere, with every guarantee checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from pi_stream.apis import get_api
from pi_stream.apis.base import TranslatorSetup
from pi_stream.engine.pipeline import Pipeline
from pi_stream.events import Event
from pi_stream.guard import Guard
from pi_stream.http import ResponseHead
from pi_stream.messages import AssistantMessage
from pi_stream.models import Model
from pi_stream.options import StreamOptions
from pi_stream.testing import check_events

CUTS = (1, 2, 3, 7, 64)


def events_of(
    body: bytes, model: Model, cut: int | None = None, status: int = 200, **options: Any
) -> list[Event]:
    """All events of a body, fed whole or ``cut`` bytes at a time; the model names the api."""
    setup = TranslatorSetup(model=model, options=StreamOptions(**options))
    head = AssistantMessage(api=model.api, provider=model.provider, model=model.id, timestamp=0)
    pipeline = Pipeline(get_api(model.api), setup, ResponseHead(status=status), Guard(head))
    events: list[Event] = []
    for start in range(0, len(body), cut or len(body) or 1):
        events += pipeline.feed(body[start : start + (cut or len(body))])
    return events + pipeline.end()


def checked(body: bytes, model: Model, **setup: Any) -> list[Event]:
    """All events of a body: they keep the guarantees, and are the same however the body is cut."""
    events = events_of(body, model, **setup)
    check_events(events)
    for cut in CUTS:
        assert events_of(body, model, cut, **setup) == events, f"other events when cut at {cut}"
    return events


def message_of(body: bytes, model: Model, **setup: Any) -> AssistantMessage:
    """The final message of a body, checked as :func:`checked` does."""
    return check_events(checked(body, model, **setup))


def check_every_prefix(body: bytes, complete_at: int, model: Model, begin: int = 0) -> None:
    """Cut off before ``complete_at`` the answer is a truncated one that keeps its content; from there on a success."""
    whole = events_of(body, model)
    for end in range(begin, len(body)):
        events = events_of(body[:end], model)
        message = check_events(events)
        streamed = deltas(events)
        assert streamed == deltas(whole)[: len(streamed)], f"other content when cut off at {end}"
        if end < complete_at:
            assert message.error_cause is not None, f"cut off at {end}, it looks finished"
            assert (message.error_cause.kind, message.error_cause.retryable) == ("truncated", True)
        else:
            assert message.stop_reason == check_events(whole).stop_reason


def deltas(events: Iterable[Event]) -> list[Event]:
    """What was streamed: the pieces of text, thinking and arguments."""
    return [event for event in events if event.type.endswith("_delta")]


def types(events: Iterable[Event]) -> list[str]:
    """What kinds of events there are, in their order."""
    return [event.type for event in events]


def made_calls(message: AssistantMessage) -> list[tuple[str, str, Any]]:
    """Each call: id, name and arguments, or the error where there are none."""
    return [(call.id, call.name, call.arguments_error or call.arguments) for call in message.tool_calls]


def diagnostics(message: AssistantMessage) -> list[str]:
    """The types of a message's diagnostics."""
    return [diagnostic.type for diagnostic in message.diagnostics or ()]


def failure(message: AssistantMessage) -> tuple[str, str | None, bool]:
    """Kind and code of the error, and whether it is worth a retry."""
    assert message.error_cause is not None
    return message.error_cause.kind, message.error_cause.provider_code, message.error_cause.retryable


def kept(message: AssistantMessage) -> list[tuple[int, Any]]:
    """The provider's content that was kept, and the number of blocks before each."""
    return [(entry.after, entry.data) for entry in message.provider_data or ()]


def anything(names: Iterable[str]) -> st.SearchStrategy[Any]:
    """JSON of any shape, in which these names and words occur often."""
    words = st.sampled_from(sorted(names))
    leaves = st.one_of(
        st.none(), st.booleans(), st.integers(-1, 2), st.floats(allow_nan=False), st.text(max_size=2), words
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.one_of(words, st.text(max_size=1)), inner, max_size=4),
        ),
        max_leaves=8,
    )
