"""How an answer appears while it streams: everything at a terminal, the text alone in a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal, TextIO, TypeAlias

from pi_stream.apis._request import clean_text
from pi_stream.cli._console import visible
from pi_stream.events import Event, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallStart

__all__ = ["PipeDisplay", "TerminalDisplay", "display_on"]

_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_Kind: TypeAlias = Literal["text", "thinking", "call"]


def display_on(out: TextIO) -> PipeDisplay:
    """The display that fits a stream. Colours are off with ``NO_COLOR`` (https://no-color.org) and on a dumb terminal."""
    if not out.isatty():
        return PipeDisplay(out)
    return TerminalDisplay(out, dim=not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


class PipeDisplay:
    """The text of an answer and nothing else, with a line feed at its end.

    Text blocks that follow each other are one text; a block of another kind between them makes a line of its own.

    Args:
        out: Where it goes. Flushed after each call of :meth:`show`.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._kind: _Kind | None = None  # of the block that came last
        self._at_line_start = True
        self._half = ""  # first half of a surrogate pair: some servers split a character over two deltas

    def show(self, events: Iterable[Event]) -> None:
        """Show what came."""
        for event in events:
            self._show(event)
        self._out.flush()

    def close(self) -> None:
        """End the last line."""
        self._end_line()
        self._out.flush()

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(delta=delta):
                if self._kind != "text":
                    self._end_line()
                self._kind = "text"
                self._put(self._whole(delta))
            case ThinkingDelta():
                self._kind = "thinking"
            case ToolCallStart():
                self._kind = "call"
            case _:
                pass

    def _whole(self, delta: str) -> str:
        """The piece with what was held back before it, as text that can be encoded; half a character is held back."""
        text = self._half + delta
        self._half = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return clean_text(text[: len(text) - len(self._half)])

    def _put(self, text: str, *, dim: bool = False) -> None:
        if text:
            self._out.write(f"{_DIM}{text}{_RESET}" if dim else text)
            self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if self._half:  # its other half never came
            self._half = ""
            self._put("\ufffd")
        if not self._at_line_start:
            self._put("\n")


class TerminalDisplay(PipeDisplay):
    """Text as it is, thinking dimmed, tool calls as they grow, each kind set apart by an empty line.

    Args:
        out: A terminal.
        dim: Whether escape codes may be used; without them thinking gets a label.
    """

    def __init__(self, out: TextIO, *, dim: bool) -> None:
        super().__init__(out)
        self._dim = dim
        self._call = -1  # the tool call on the line
        self._names: dict[int, str] = {}

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(delta=delta):
                self._turn_to("text")
                self._put(visible(self._whole(delta)))
            case ThinkingDelta(delta=delta):
                self._turn_to("thinking")
                self._put(visible(self._whole(delta)), dim=self._dim)
            case ToolCallStart(content_index=index, name=name):
                self._names[index] = visible(clean_text(name))
                self._turn_to_call(index)
            case ToolCallDelta(content_index=index, delta=delta):
                self._turn_to_call(index)
                self._put(visible(self._whole(delta)), dim=self._dim)
            case _:
                pass

    def _turn_to(self, kind: _Kind) -> None:
        """Set a block apart from what came before it, if that is of another kind."""
        if kind == self._kind:
            return
        if self._kind is not None:
            self._end_line()
            self._put("\n")
        self._kind = kind
        self._call = -1
        if kind == "thinking" and not self._dim:
            self._put("[thinking] ")

    def _turn_to_call(self, index: int) -> None:
        """Begin the line of a tool call; calls that grow side by side take turns."""
        self._turn_to("call")
        if index != self._call:
            self._end_line()
            self._call = index
            self._put(f"→ {self._names[index]} ")
