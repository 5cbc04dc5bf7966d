"""What a terminal and a pipe see of an answer."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.cli._display import PipeDisplay, TerminalDisplay, display_on
from pi_stream.events import TextDelta, TextStart, ThinkingDelta, ToolCallDelta, ToolCallStart


class Terminal(io.StringIO):
    """A terminal that remembers what it was sent."""

    def isatty(self) -> bool:
        """It says it is one."""
        return True


def shown(events: list[Any], **options: Any) -> str:
    """What a terminal shows, or with ``pipe`` what a pipe gets."""
    out = io.StringIO()
    display = (
        PipeDisplay(out) if options.pop("pipe", False) else TerminalDisplay(out, **{"dim": True, **options})
    )
    for event in events:
        display.show([event])
    display.close()
    return out.getvalue()


PIECES: list[Callable[[str], Any]] = [
    lambda text: TextDelta(0, text),
    lambda text: ThinkingDelta(1, text),
    lambda text: ToolCallStart(2, "c", text),
]
ANSWER = [
    ThinkingDelta(0, "Let me "),
    ThinkingDelta(0, "see."),
    TextStart(1),
    TextDelta(1, "Three plus "),
    TextDelta(1, "four:"),
    ToolCallStart(2, "c", "add"),
    ToolCallDelta(2, '{"a":'),
    ToolCallDelta(2, " 3}"),
]


def test_terminal_dims_thinking_and_shows_calls() -> None:
    assert shown(ANSWER) == (
        '\x1b[2mLet me \x1b[0m\x1b[2msee.\x1b[0m\n\nThree plus four:\n\n→ add \x1b[2m{"a":\x1b[0m\x1b[2m 3}\x1b[0m\n'
    )


def test_terminal_without_codes_labels_thinking() -> None:
    assert shown(ANSWER, dim=False) == '[thinking] Let me see.\n\nThree plus four:\n\n→ add {"a": 3}\n'


def test_pipe_gets_the_text_alone() -> None:
    assert shown(ANSWER, pipe=True) == "Three plus four:\n"


def test_calls_side_by_side_take_turns() -> None:
    """Two calls that grow at once each keep their name in front."""
    events = [
        ToolCallStart(0, "a", "first"),
        ToolCallStart(1, "b", "second"),
        ToolCallDelta(0, "{}"),
        ToolCallDelta(1, "[1,"),
        ToolCallDelta(1, "2]"),
    ]
    assert shown(events, dim=False) == "→ first \n→ second \n→ first {}\n→ second [1,2]\n"


@pytest.mark.parametrize("pipe", [True, False])
def test_text_blocks_in_a_row_are_one_text(pipe: bool) -> None:
    """Some providers cut a sentence into blocks, one for each source they name."""
    assert (
        shown([TextDelta(0, "One "), TextStart(1), TextDelta(1, "sentence.")], pipe=pipe) == "One sentence.\n"
    )


def test_text_after_another_block_is_a_line_of_its_own() -> None:
    events = [
        TextDelta(0, "Before"),
        ToolCallStart(1, "c", "t"),
        TextDelta(2, "After"),
        ThinkingDelta(3, "…"),
    ]
    assert shown([*events, TextDelta(4, "End")], pipe=True) == "Before\nAfter\nEnd\n"


@pytest.mark.parametrize("pipe", [True, False])
def test_nothing_for_nothing(pipe: bool) -> None:
    assert shown([], pipe=pipe) == ""


def test_terminal_obeys_no_answer() -> None:
    """Codes in an answer, a name or an argument are shown, not sent."""
    events = [
        ThinkingDelta(0, "\x1b[31m"),
        TextDelta(1, "\x1b]52;c;c2VjcmV0\x07"),
        ToolCallStart(2, "c", "n\x1b[2J"),
        ToolCallDelta(2, "\x9b1m"),
    ]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown(events, dim=False))
    assert shown(events[1:2], pipe=True) == "\x1b]52;c;c2VjcmV0\x07\n"  # a pipe gets what was said


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.data())
def test_text_arrives_whole_however_it_is_cut(text: str, data: st.DataObject) -> None:
    """Also when a server cuts between the halves of a surrogate pair."""
    pieces: list[str] = []
    rest = text.encode("utf-16-le")
    while rest:
        size = 2 * data.draw(st.integers(1, len(rest) // 2))
        pieces.append(rest[:size].decode("utf-16-le", "surrogatepass"))
        rest = rest[size:]
    for pipe in (True, False):
        assert shown([TextDelta(0, piece) for piece in pieces], pipe=pipe) == (f"{text}\n" if text else "")


HALVES = st.text(st.sampled_from("a\n\ud83d\ude00"), max_size=4)


@given(st.lists(st.builds(lambda make, text: make(text), st.sampled_from(PIECES), HALVES), max_size=6))
def test_output_can_always_be_encoded(events: list[Any]) -> None:
    """Whatever halves of pairs an answer holds, in whatever order its blocks come."""
    for options in ({"pipe": True}, {"dim": True}, {"dim": False}):
        out = shown(events, **options)
        assert out.encode().decode() == out
        assert out == "" or out.removesuffix("\x1b[0m").endswith("\n")


def test_half_a_character_that_stays_alone_is_marked() -> None:
    events = [
        ThinkingDelta(0, "a\ud83d"),
        ThinkingDelta(0, "\ude00"),
        ThinkingDelta(0, "\ud83d"),
        TextDelta(1, "b"),
    ]
    assert shown(events, dim=False) == "[thinking] a😀\ufffd\n\nb\n"
    assert shown(events[:1]) == "\x1b[2ma\x1b[0m\ufffd\n"


def test_a_block_that_ends_with_a_line_feed_gets_no_second_one() -> None:
    assert shown([ThinkingDelta(0, "a\n"), TextDelta(1, "b\n")]) == "\x1b[2ma\n\x1b[0m\nb\n"


@pytest.mark.parametrize(
    ("environment", "codes"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_codes_only_where_they_are_wanted(
    environment: dict[str, str], codes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://no-color.org: any value but the empty one."""
    for name, value in ({"NO_COLOR": "", "TERM": "xterm"} | environment).items():
        monkeypatch.setenv(name, value)
    out = Terminal()
    display = display_on(out)
    display.show([ThinkingDelta(0, "hm")])
    assert ("\x1b" in out.getvalue()) == codes
    assert "hm" in out.getvalue()


def test_a_file_is_no_terminal() -> None:
    assert type(display_on(io.StringIO())) is PipeDisplay
