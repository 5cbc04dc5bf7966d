"""The scripted provider: answers that are written beforehand, for tests, demonstrations and documentation.

It needs no network and no clock, and gives the same events every time::

    provider = scripted("Hello!", [ThinkingContent("Add."), ToolCall("c1", "add", {"a": 3, "b": 4})], "7.")
    async with Client(providers=[provider]) as client:
        first = await client.complete("scripted", "Hi")

Each request takes the next reply. :class:`Reply` gives control over cutting, pacing, failures and stalls; a function
makes its reply from the request. ``scripted/anything`` works without a script, too: it repeats what was said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any

from attrs import field, frozen

from pi_stream.engine.generator import GeneratorRequest
from pi_stream.exceptions import ConfigError
from pi_stream.messages import ToolCall
from pi_stream.models import Model
from pi_stream.partial_json import parse_arguments
from pi_stream.providers._playback import CHUNK_SIZE, Answer, Reply, ReplyFunction, ReplyLike, play
from pi_stream.providers.base import Provider

__all__ = [
    "Answer",
    "Reply",
    "ReplyFunction",
    "ReplyLike",
    "Script",
    "ScriptedProvider",
    "provider",
    "raw_call",
    "scripted",
]


class Script:
    """A queue of replies, and what was asked.

    Args:
        replies: What is answered, in the order in which requests start.
        default: What is answered when the queue is empty; without it that is an error.
        settings: Cutting and pacing of replies that are no :class:`Reply`.
    """

    def __init__(
        self,
        replies: Iterable[ReplyLike] = (),
        *,
        default: ReplyLike | None = None,
        settings: Reply | None = None,
    ) -> None:
        self._queue = deque(replies)
        self._default = default
        self._settings = settings or Reply()
        self.calls: list[GeneratorRequest] = []

    @property
    def pending(self) -> int:
        """How many replies are left."""
        return len(self._queue)

    def append(self, *replies: ReplyLike) -> None:
        """Add replies at the end of the queue."""
        self._queue.extend(replies)

    def generate(self, request: GeneratorRequest) -> AsyncIterator[Any]:
        """Answer one request: the generator door.

        Raises:
            ConfigError: The queue is empty and there is no default. It becomes the ``error`` event of the stream.
        """
        self.calls.append(request)
        reply = self._queue.popleft() if self._queue else self._default
        if reply is None:
            raise ConfigError("no more scripted replies: the script is used up")
        return play(reply, request, self._settings)


@frozen
class ScriptedProvider(Provider):
    """A provider that answers from a script of its own. Made by :func:`scripted`."""

    script: Script = field(kw_only=True)

    @property
    def pending(self) -> int:
        """How many replies are left."""
        return self.script.pending

    @property
    def calls(self) -> list[GeneratorRequest]:
        """The requests so far, in the order in which they started."""
        return self.script.calls

    def append(self, *replies: ReplyLike) -> None:
        """Add replies at the end of the queue."""
        self.script.append(*replies)


def scripted(
    *replies: ReplyLike,
    id: str = "scripted",
    default: ReplyLike | None = None,
    models: Iterable[Model] = (),
    chunk_size: int = CHUNK_SIZE,
    delay: float = 0.0,
    first_delay: float = 0.0,
) -> ScriptedProvider:
    """A provider that gives these replies, one for each request.

    Args:
        *replies: Strings, content blocks, lists of blocks, assistant messages, :class:`Reply` objects, or functions
            ``(request) -> reply``, async ones too.
        id: The provider's id.
        default: What is answered when the replies are used up; without it that is an error.
        models: Models it has, such as one with prices; any other model name works as well.
        chunk_size: Characters of a piece, for replies that are no :class:`Reply`.
        delay: Seconds between two pieces, likewise.
        first_delay: Seconds before the first, likewise.

    Returns:
        A provider for ``Client(providers=[...])`` with its own queue.
    """
    settings = Reply(chunk_size=chunk_size, delay=delay, first_delay=first_delay)
    script = Script(replies, default=default, settings=settings)
    return ScriptedProvider(
        id,
        name="scripted replies",
        api="scripted",
        key_required=False,
        models=tuple(models),
        default_model="scripted",
        generate=script.generate,
        script=script,
    )


def raw_call(id: str, name: str, text: str) -> ToolCall:
    """A tool call whose argument text is this, valid JSON or not."""
    arguments, error = parse_arguments(text)
    return ToolCall(id, name, arguments, arguments_error=error)


def _echo(request: GeneratorRequest) -> AsyncIterator[Any]:
    said = request.prompt.strip()
    answer = f'You said: "{said}"' if said else "You said nothing yet."
    return play(f"Hello! I am a script, not a model. {answer}", request, Reply())


provider = Provider(
    "scripted", name="an echo, for examples", api="scripted", default_model="echo", generate=_echo
)
