"""``pi-stream run``: ask a model and stream its answer."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from pi_stream.cli._console import FAILED, INTERRUPTED, OK, Commands, note, read_input, replace_unprintable
from pi_stream.exceptions import ConfigError
from pi_stream.models import REASONING_LEVELS

if TYPE_CHECKING:
    from pi_stream.messages import AssistantMessage
    from pi_stream.providers.base import Provider

__all__ = ["add_to", "choose_model", "execute"]

_DESCRIPTION = """\
Ask a model and stream its answer.

  pi-stream run "Why is the sky blue?"
  pi-stream run -m openai/gpt-4o-mini --max-tokens 200 "Why is the sky blue?"
  git diff | pi-stream run --system "Review this change." > review.txt

At a terminal, thinking is dimmed and tool calls show as they grow; in a pipe stdout gets the text alone.
The last line, on stderr, says how it ended: stop reason, tokens in and out, time from the request to the first
token, tokens per second, cost. Ctrl-C stops the answer and keeps what came.
Exit code: 0, 1 when the answer is an error, 2 for misuse, 130 after Ctrl-C.
"""

_KEYLESS = "local"


def add_to(commands: Commands, parent: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser = commands.add_parser(
        "run",
        help="ask a model and stream its answer",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[parent],
    )
    parser.add_argument(
        "prompt", metavar="PROMPT", nargs="*", help="what to ask; - or nothing reads standard input"
    )
    parser.add_argument(
        "-m",
        "--model",
        metavar="PROVIDER/MODEL",
        help="whom to ask, such as openai/gpt-4o-mini, local, or local/path/to/model.gguf; "
        "by default the first provider whose key is set, else local",
    )
    parser.add_argument("--system", metavar="TEXT", help="system prompt")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="most tokens of the answer")
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="0 for the likeliest answer, more for variety"
    )
    parser.add_argument(
        "--reasoning", metavar="LEVEL", choices=REASONING_LEVELS, help=", ".join(REASONING_LEVELS)
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Stream an answer."""
    import asyncio

    from pi_stream.options import StreamOptions

    options = StreamOptions(
        max_tokens=arguments.max_tokens, temperature=arguments.temperature, reasoning=arguments.reasoning
    )
    prompt = _prompt(arguments.prompt)
    model = arguments.model
    if model is None:
        model, reason = choose_model()
        note(f"{model} answers, since {reason} (-m provider/model chooses another)")
    return asyncio.run(_answer(model, prompt, arguments.system, options))


def choose_model() -> tuple[str, str]:
    """Whom to ask when nobody said: the first provider with a key in the environment, else the local model.

    Returns:
        The model as ``provider/id``, and the reason in words.
    """
    from pi_stream.providers.registry import Registry

    registry = Registry()
    for name in registry.ids():
        try:
            provider = registry.provider(name)
            variable = _key_variable(provider)
            if variable is not None:
                return _default_model(registry, name), f"{variable} is set"
        except (ConfigError, ImportError):
            continue  # it cannot be loaded or has no default model: the next one may do
    return _default_model(registry, _KEYLESS), "no API key is set"


async def _answer(model: str, prompt: str, system: str | None, options: Any) -> int:
    """Stream one answer to the screen, and say how it ended."""
    from attrs import evolve

    from pi_stream.cli._display import display_on
    from pi_stream.cli._summary import Meter, closing_line
    from pi_stream.client import Client

    meter = Meter()
    replace_unprintable()
    display = display_on(sys.stdout)
    options = evolve(options, on_request=meter.sent)
    async with (
        Client() as client,
        client.stream(model, prompt, system_prompt=system, options=options) as stream,
    ):
        with _ctrl_c(lambda: stream.abort("interrupted")):
            async for events in stream.batches():
                meter.saw(events)
                display.show(events)
    display.close()
    message = stream.message
    if message.stop_reason == "error":
        _explain(message)
    if message.stop_reason != "error" or message.content:
        note(closing_line(message, meter))
    return {"error": FAILED, "aborted": INTERRUPTED}.get(message.stop_reason, OK)


def _prompt(words: list[str]) -> str:
    """What to ask: the words, or standard input.

    Raises:
        ConfigError: There is nothing to ask.
    """
    if words and words != ["-"]:
        prompt = " ".join(words)
    elif not words and (sys.stdin is None or sys.stdin.isatty()):
        raise ConfigError('what shall I ask? Give a prompt: pi-stream run "Why is the sky blue?"')
    else:
        prompt = read_input("-").decode("utf-8", "replace")
    if not prompt.strip():
        raise ConfigError("the prompt is empty")
    return prompt


@contextlib.contextmanager
def _ctrl_c(stop: Callable[[], None]) -> Generator[None]:
    """Have the first Ctrl-C call ``stop`` in the running loop; a second one interrupts as it always does."""
    import asyncio

    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if before in (None, signal.SIG_IGN) or not in_main_thread:  # a background job, or somebody else's program
        yield
        return

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        loop.call_soon_threadsafe(stop)

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- providers --------------------------------------------------------------------------------------------------------


def _key_variable(provider: Provider) -> str | None:
    from pi_stream.providers.base import from_environment

    return next((name for name in provider.key_env if from_environment([name]) is not None), None)


def _default_model(registry: Any, name: str) -> str:
    _, model, _ = registry.model(name)
    return f"{name}/{model.id}"


def _explain(message: AssistantMessage) -> None:
    """Say what went wrong, and what to do where we know it."""
    from pi_stream.providers.registry import Registry

    note(f"pi-stream run: {message.error_message}")
    cause = message.error_cause
    try:
        provider = Registry().provider(message.provider)
    except ConfigError:
        note("`pi-stream models` lists the providers.")
        return
    if cause is None or cause.kind != "auth" or not provider.key_env:
        return
    found = _key_variable(provider)
    if found is None:
        note(f"The model on this machine needs no key: -m {_KEYLESS}")
    else:
        note(f"The key is that of {found}.")
