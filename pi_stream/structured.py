"""Structured output: answers that are JSON of a schema, as they grow and as objects at the end.

::

    @define
    class Weather:
        city: str
        degrees: float


    weather = OutputFormat(Weather)
    async with client.stream("openai/gpt-5", "The weather in Oslo?", response_format=weather) as stream:
        async for value in weather.growing(stream):
            print(value)  # {}, {"city": "Os"}, {"city": "Oslo", "degrees": 4}
    print(weather.read(stream.message))  # Weather(city="Oslo", degrees=4.0)

Each provider is asked in its own way. Where it has a strict mode, and that can say what the schema says, it is used; what
the schema leaves optional is then null, which reads as left out.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pi_stream.apis._schema import strict_schema
from pi_stream.events import TextDelta
from pi_stream.exceptions import ConfigError, InvalidOutputError, InvalidToolCallError
from pi_stream.messages import AssistantMessage, JsonObject, TextContent, Tool, ToolCall
from pi_stream.partial_json import PartialJson, parse_arguments
from pi_stream.tools import validate_tool_call
from pi_stream.tools.signature import schema_of, structured

if TYPE_CHECKING:
    from pi_stream.engine.stream import AssistantStream

__all__ = ["OutputFormat"]

T = TypeVar("T")

# Some models put JSON into a fence, whatever they were asked for.
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL | re.IGNORECASE)
_UNFIT_FOR_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class OutputFormat(Generic[T]):
    """The JSON that an answer shall be: an object. It is given as ``response_format`` of a request.

    Args:
        kind: An attrs class or dataclass, whose instances :meth:`read` gives; or a JSON Schema, for plain dicts.
        name: What the provider calls it; by default the name of the class, else ``answer``.
        strict: Whether the provider shall keep to the schema strictly: by default where its strict dialect can say what
            the schema says. True insists.

    Attributes:
        schema: The JSON Schema of the object.
        response_format: The option of a request.

    Raises:
        ConfigError: It has no JSON Schema, or one that is of no object, or cannot be strict although it must.
    """

    @overload
    def __init__(
        self: OutputFormat[JsonObject],
        kind: JsonObject,
        *,
        name: str | None = None,
        strict: bool | None = None,
    ) -> None: ...
    @overload
    def __init__(self, kind: type[T], *, name: str | None = None, strict: bool | None = None) -> None: ...
    def __init__(self, kind: Any, *, name: str | None = None, strict: bool | None = None) -> None:
        self._kind = None if isinstance(kind, dict) else kind
        self.schema: JsonObject = kind if isinstance(kind, dict) else schema_of(kind)
        if self.schema.get("type") != "object":
            raise ConfigError(f"structured output must be an object: {kind!r} is none")
        name = _UNFIT_FOR_NAMES.sub("_", name or str(getattr(kind, "__name__", "answer")))
        sent = self._strict(strict)
        self.response_format: JsonObject = {
            "type": "json_schema",
            "name": name,
            "schema": sent or self.schema,
            **({"strict": True} if sent is not None else {}),
        }

    def _strict(self, wanted: bool | None) -> JsonObject | None:
        if wanted is False:
            return None
        try:
            return strict_schema(self.schema)
        except ConfigError:
            if wanted:
                raise
            return None

    async def growing(self, stream: AssistantStream) -> AsyncGenerator[JsonObject]:
        """The object as far as the stream has told it, for each read that tells more of it.

        It is one object that grows in place: copy it to keep it. Nothing in it is checked yet.

        Args:
            stream: Is read to its end.
        """
        told = PartialJson()
        async for batch in stream.batches():
            deltas = [event.delta for event in batch if isinstance(event, TextDelta)]
            if deltas:
                told.append("".join(deltas))
                yield told.value

    def read(self, answer: AssistantMessage | str) -> T:
        """The object that an answer is.

        Args:
            answer: The final message, or its text.

        Returns:
            An instance of the class, or a dict where a schema was given.

        Raises:
            InvalidOutputError: The text is no JSON object, or not what the schema says; or the answer failed, was
                refused or cut short. Its ``errors`` list ``path: message``.
        """
        if isinstance(answer, AssistantMessage):
            text = "".join(block.text for block in answer.content if isinstance(block, TextContent))
            if answer.stop_reason in ("error", "aborted"):
                raise InvalidOutputError([f"the answer failed: {answer.error_message}"], text)
        else:
            text = answer
        fenced = _FENCED.fullmatch(text)
        arguments, problem = parse_arguments(fenced[1] if fenced else text)
        if not text.strip():
            problem = "there is no text"
        # What a tool may be called with, and what an answer may be, are one question.
        call = ToolCall("", "answer", arguments, arguments_error=problem)
        try:
            value: Any = validate_tool_call([Tool("answer", "", self.schema)], call).arguments
        except InvalidToolCallError as error:
            raise InvalidOutputError(
                [each.removeprefix("arguments: ") for each in error.errors], text
            ) from None
        return structured(value, self._kind) if self._kind is not None else value  # type: ignore[no-any-return]
