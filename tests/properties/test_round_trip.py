"""Whatever is saved loads as it was, and whatever is loaded is saved as it was, or refused with our own error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import strategies as gen

from pi_stream.events import Event
from pi_stream.exceptions import SerializationError
from pi_stream.http import HttpRequest, ResponseHead
from pi_stream.messages import (
    Content,
    Context,
    DeferredHandle,
    Diagnostic,
    ErrorCause,
    Message,
    ProviderData,
    Tool,
)
from pi_stream.models import Model
from pi_stream.options import Limits, RetryPolicy, StreamOptions
from pi_stream.serialization import dumps, from_json, loads, to_json
from pi_stream.usage import Cost, ModelCost, Usage

OBJECTS = [
    pytest.param(gen.costs, Cost, id="Cost"),
    pytest.param(gen.usages, Usage, id="Usage"),
    pytest.param(gen.blocks, Content, id="Content"),
    pytest.param(gen.tools, Tool, id="Tool"),
    pytest.param(gen.diagnostics, Diagnostic, id="Diagnostic"),
    pytest.param(gen.error_causes, ErrorCause, id="ErrorCause"),
    pytest.param(gen.provider_data, ProviderData, id="ProviderData"),
    pytest.param(gen.deferred_handles, DeferredHandle, id="DeferredHandle"),
    pytest.param(gen.messages | gen.custom_messages, Message, id="Message"),
    pytest.param(gen.contexts, Context, id="Context"),
    pytest.param(gen.model_costs, ModelCost, id="ModelCost"),
    pytest.param(gen.models, Model, id="Model"),
    pytest.param(gen.limits, Limits, id="Limits"),
    pytest.param(gen.stream_options, StreamOptions, id="StreamOptions"),
    pytest.param(gen.events, Event, id="Event"),
    pytest.param(st.lists(gen.messages, max_size=3), list[Message], id="list[Message]"),
    pytest.param(st.lists(gen.events, max_size=3), list[Event], id="list[Event]"),
]
DOCUMENTS = [
    pytest.param(gen.json_usages, Usage, id="Usage"),
    pytest.param(gen.json_tools, Tool, id="Tool"),
    pytest.param(gen.json_messages, Message, id="Message"),
    pytest.param(gen.json_contexts, Context, id="Context"),
]
CLASSES = [
    Message,
    Event,
    Content,
    list[Message],
    *(Context, Tool, Usage, Cost, ModelCost, Model, Diagnostic, ErrorCause, ProviderData, DeferredHandle),
    *(StreamOptions, Limits, RetryPolicy, HttpRequest, ResponseHead),
]


def canonical(data: Any) -> str:
    """JSON values as text, so that 1, 1.0 and true differ and the order of keys does not."""
    return json.dumps(data, sort_keys=True)


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a document with each of its keys or indices."""
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, child in children:
        yield data, key
        yield from places(child)


@pytest.mark.parametrize(("objects", "cls"), OBJECTS)
@given(data=st.data())
def test_objects_survive(objects: st.SearchStrategy[Any], cls: Any, data: st.DataObject) -> None:
    """An object that was written is equal when it is read, unknown keys included."""
    obj = data.draw(objects)
    assert from_json(to_json(obj), cls) == obj


@pytest.mark.parametrize(("documents", "cls"), DOCUMENTS)
@given(data=st.data())
def test_documents_survive(documents: st.SearchStrategy[Any], cls: Any, data: st.DataObject) -> None:
    """JSON of another program comes back as it was: absent keys absent, nulls null, unknown keys kept."""
    document = data.draw(documents)
    assert canonical(to_json(from_json(document, cls))) == canonical(document)


@given(gen.json_contexts, st.data())
def test_broken_documents_are_refused_or_survive(document: Any, data: st.DataObject) -> None:
    """With any value in any place a document still comes back as it was, or is refused with our own error."""
    if found := list(places(document)):
        container, key = data.draw(st.sampled_from(found))
        container[key] = data.draw(gen.json_values)
    try:
        context = from_json(document, Context)
    except SerializationError:
        return
    assert canonical(to_json(context)) == canonical(document)


@given(st.sampled_from(CLASSES), gen.json_values)
def test_any_json_gives_an_object_or_our_error(cls: Any, value: Any) -> None:
    """Nothing but ``SerializationError`` comes out of reading, whatever the JSON."""
    try:
        from_json(value, cls)
    except SerializationError:
        pass


@given(st.sampled_from(CLASSES), st.text(max_size=20) | st.binary(max_size=20))
def test_any_text_gives_an_object_or_our_error(cls: Any, text: str | bytes) -> None:
    """Nothing but ``SerializationError`` comes out of reading, whatever the text."""
    try:
        loads(text, cls)
    except SerializationError:
        pass


@given(gen.contexts, st.none() | st.integers(0, 2))
def test_text_survives_and_always_encodes(context: Context, indent: int | None) -> None:
    """Saved text encodes as UTF-8, whatever strings it holds, and loads as the JSON it was made of."""
    text = dumps(context, indent=indent)
    assert canonical(to_json(loads(text.encode(), Context))) == canonical(
        json.loads(canonical(to_json(context)))
    )
