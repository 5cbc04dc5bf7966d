"""``pi-stream payload``: the request that would be sent."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, TypeVar

from pi_stream.cli._console import OK, Commands, note, read_input, use_utf8
from pi_stream.exceptions import SerializationError

if TYPE_CHECKING:
    from pi_stream.client import ContextLike
    from pi_stream.options import StreamOptions

__all__ = ["add_to", "execute"]

T = TypeVar("T")

_DESCRIPTION = """\
Show the request that would be sent for a conversation, as JSON: method, url, headers, body.
Nothing is sent, and secrets are masked. On stderr stands how many tokens the conversation takes.

CONTEXT.json holds one of
  {"systemPrompt": "...", "messages": [...], "tools": [...]}      a context
  [{"role": "user", "content": "..."}, ...]                       a list of messages
  {"context": one of these, "options": {"maxTokens": 100, ...}}   with options
"""


def add_to(commands: Commands, parent: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser = commands.add_parser(
        "payload",
        help="show the request that would be sent",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[parent],
    )
    parser.add_argument("file", metavar="CONTEXT.json", help="the conversation; - reads standard input")
    parser.add_argument("-m", "--model", required=True, metavar="PROVIDER/MODEL", help="whom to ask")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Build the request and print it."""
    from pi_stream.client import build_request
    from pi_stream.serialization import dumps

    context, options = _read(read_input(arguments.file))
    request = build_request(arguments.model, context, options).masked()
    use_utf8()
    print(dumps(request, indent=2))
    note(f"pi-stream payload: {_size(arguments.model, context)}")
    return OK


def _size(name: str, context: ContextLike) -> str:
    """How much of the model's window the conversation takes."""
    from pi_stream.client import as_context
    from pi_stream.context_size import context_tokens
    from pi_stream.providers.registry import Registry

    _, model, _ = Registry().model(name)
    size = context_tokens(as_context(context), model)
    room = (
        f"{size.left:,} of {size.window:,} left" if size.left is not None else "the context window is unknown"
    )
    return f"about {size.tokens:,} tokens, {room}"


def _read(text: bytes) -> tuple[ContextLike, StreamOptions]:
    """The conversation and the options in a file.

    Raises:
        SerializationError: Something in it is not what it should be; the message begins with its JSON path.
    """
    from pi_stream.options import StreamOptions

    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SerializationError(f"not JSON: {error}") from None
    if not isinstance(data, dict) or "context" not in data:
        return _context(data, "$"), StreamOptions()
    options = _value(data.get("options", {}), StreamOptions, "$.options")
    return _context(data["context"], "$.context"), options


def _context(data: Any, path: str) -> ContextLike:
    from pi_stream.messages import Context, Message

    return _value(data, list[Message], path) if isinstance(data, list) else _value(data, Context, path)


def _value(data: Any, cls: type[T], path: str) -> T:
    """What a part of the file says; ``path`` leads to that part."""
    from pi_stream.serialization import from_json

    try:
        return from_json(data, cls)
    except SerializationError as error:
        others = error.reason.replace("; $", f"; {path}")
        raise SerializationError(others, path + error.path[1:]) from None
