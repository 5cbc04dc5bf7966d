"""What a wire protocol is made of: a request builder and a translator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from attrs import field, frozen

from pi_stream.events import Draft
from pi_stream.http import HttpRequest
from pi_stream.messages import Message, Tool
from pi_stream.models import Model
from pi_stream.options import StreamOptions

__all__ = ["Api", "Framing", "RequestBuilder", "Translator", "TranslatorSetup"]

Framing = Literal["sse", "ndjson", "eventstream"]
"""How chunks are cut out of the body."""


@frozen(kw_only=True)
class TranslatorSetup:
    """What a translator is told about the request it answers.

    Attributes:
        model: The model asked for, with the provider's quirks and prices.
        tools: The tools that were sent.
        options: The caller's options.
        timestamp: When the request started, Unix ms; 0 when a recording is decoded.
    """

    model: Model
    tools: tuple[Tool, ...] = ()
    options: StreamOptions = field(factory=StreamOptions)
    timestamp: int = 0


class Translator(Protocol):
    """Turns the chunks of one answer into drafts of events. Plain synchronous state; never touches the message.

    Attributes:
        complete: The provider has said why it stopped.
        ended: Nothing can follow: the stream ends at once.
    """

    complete: bool
    ended: bool

    def translate(self, chunks: list[Any], out: list[Draft]) -> int:
        """Append what the chunks say to ``out``. A chunk is one decoded JSON value.

        Returns:
            How many chunks were taken: all, unless one of them ended the answer.
        """
        ...

    def whole(self, answer: Any, out: list[Draft]) -> None:
        """Translate a whole JSON answer given to a streaming request: the same drafts as its stream would."""
        ...

    def sentinel(self, out: list[Draft]) -> None:
        """The end mark of the framing came, such as ``[DONE]``."""
        ...

    def finish(self, out: list[Draft]) -> None:
        """The answer is over (``ended``, or a clean end after ``complete``): append what is left and a ``Finish``.

        Called once, and only when :attr:`complete` or :attr:`ended` is true.
        """
        ...


RequestBuilder = Callable[[Model, list[Message], StreamOptions], HttpRequest]
"""Context to request: the model with base URL, headers and quirks merged; plain messages; options with the key."""


@frozen(kw_only=True)
class Api:
    """A wire protocol.

    Attributes:
        id: Such as ``openai-completions``.
        framing: How chunks are cut out of the body.
        sentinel: Payload that marks the end, where the protocol has one.
        raw_json: Whether JSON between the events of a body counts as a chunk, as servers of Google send errors.
        build_request: Context to request.
        translator: Makes the translator of one answer.
        handover: Whether histories are handed over before a request is built. Not for a proxy that does so itself: it
            alone knows the model behind it.
    """

    id: str
    framing: Framing = "sse"
    sentinel: bytes | None = None
    raw_json: bool = False
    build_request: RequestBuilder
    translator: Callable[[TranslatorSetup], Translator]
    handover: bool = True
