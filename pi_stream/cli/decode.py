"""``pi-stream decode``: a recorded body as events, one JSON object a line."""

from __future__ import annotations

import argparse

from pi_stream.cli._console import FAILED, OK, Commands, read_input, use_utf8

__all__ = ["add_to", "execute"]

_DESCRIPTION = """\
Turn a recorded answer of a provider into events: one JSON object a line, the last one `done` or `error`.

  curl -sN https://api.openai.com/v1/chat/completions ... > answer.sse
  pi-stream decode --api openai-completions answer.sse

The bytes go through the same decoder, translator and checks as those of a live connection.
Exit code: 0 when the last event is `done`, 1 when it is `error`, 2 for misuse.
"""


def add_to(commands: Commands, parent: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser = commands.add_parser(
        "decode",
        help="turn a recorded answer into events",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[parent],
    )
    parser.add_argument("file", metavar="FILE", help="the body as it was received; - reads standard input")
    parser.add_argument("--api", required=True, help="wire protocol, such as openai-completions")
    parser.add_argument("--provider", default="", metavar="P", help="provider, for the message")
    parser.add_argument("--model", default="", metavar="M", help="model that was asked for, for the message")
    parser.add_argument(
        "--status", type=_status, default=200, metavar="N", help="HTTP status of the answer (200)"
    )
    parser.add_argument("--content-type", metavar="T", help="content type of the answer")
    parser.add_argument(
        "--cut", type=_count, metavar="N", help="feed N bytes at a time; the events are the same"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Decode and print."""
    from pi_stream.engine.decode import decode
    from pi_stream.serialization import dumps

    events = decode(
        read_input(arguments.file),
        api=arguments.api,
        provider=arguments.provider,
        model=arguments.model,
        status=arguments.status,
        content_type=arguments.content_type,
        cut=arguments.cut,
    )
    use_utf8()
    for event in events:
        print(dumps(event))
    return OK if events[-1].type == "done" else FAILED


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _status(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 100 <= int(text) <= 999:
        raise argparse.ArgumentTypeError(f"{text!r} is not an HTTP status")
    return int(text)
