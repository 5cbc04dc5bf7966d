"""The command line ``pi-stream``: stream an answer, decode a recording, show a request, list what there is.

One module per command. Each has ``add_to(commands)``, which declares its arguments, and a function that runs it and
returns the exit code. What a command needs is imported when it runs, so that ``pi-stream decode`` loads no HTTP client.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Generator

from pi_stream import __version__
from pi_stream.cli import decode, models, payload, run
from pi_stream.cli._console import BROKEN_PIPE, FAILED, INTERRUPTED, MISUSE, note, silence_stdout
from pi_stream.exceptions import PiStreamError

__all__ = ["main"]

_DESCRIPTION = """\
Stream the answer of any LLM provider, or of a small model on this machine.

  pi-stream run "Why is the sky blue?"              the first provider with a key, else the local model
  pi-stream run -m local "Why is the sky blue?"     the local model: needs no key and no network
  pi-stream models                                  what there is, and which keys are set
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments; those of the process when not given.

    Returns:
        The exit code: 0 when it went well, 1 when the answer is an error, 2 for misuse, 130 after Ctrl-C, 141 when
        nobody reads the output any more.
    """
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as leaving:  # argparse has said what there is to say
        return leaving.code if isinstance(leaving.code, int) else MISUSE
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return MISUSE
    if sys.stdout is None:
        note("pi-stream: standard output is closed")
        return FAILED
    try:
        with _logging(verbose="verbose" in arguments):
            code: int = arguments.execute(arguments)
        sys.stdout.flush()
        return code
    except PiStreamError as error:
        note(f"pi-stream {arguments.command}: {error}")
        return MISUSE
    except BrokenPipeError:
        silence_stdout()
        return BROKEN_PIPE
    except OSError as error:  # a full disk
        silence_stdout()
        note(f"pi-stream {arguments.command}: cannot write the output: {error.strerror or error}")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    verbose = argparse.ArgumentParser(add_help=False)
    verbose.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        default=argparse.SUPPRESS,  # a default of the command would undo what stands before it
        help="say on stderr what is being done",
    )
    parser = argparse.ArgumentParser(
        prog="pi-stream",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="pi-stream COMMAND --help explains a command.",
        parents=[verbose],
    )
    parser.add_argument("--version", action="version", version=f"pi-stream {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in (run, decode, payload, models):
        command.add_to(commands, verbose)
    return parser


@contextlib.contextmanager
def _logging(*, verbose: bool) -> Generator[None]:
    """Show the debug lines of the library on stderr while a command runs, if that is wanted."""
    if not verbose:
        yield
        return
    logger = logging.getLogger("pi_stream")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(relativeCreated)6d ms  %(message)s"))
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
