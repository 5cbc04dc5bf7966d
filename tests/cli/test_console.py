"""What the commands share."""

from __future__ import annotations

import pytest

from pi_stream.cli._console import visible
from pi_stream.http import mask_url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nnext line", "plain\ttext\nnext line"),
        ("windows\r\nline", "windows\nline"),
        ("over\rwritten", "overwritten"),
        ("\x1b[2J\x1b]0;title\x07", "\ufffd[2J\ufffd]0;title\ufffd"),
        ("\x9b2J \x7f \x00", "\ufffd2J \ufffd \ufffd"),
        ("Grüße 🌍", "Grüße 🌍"),
    ],
)
def test_nothing_that_a_terminal_obeys_is_left(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://host:8443/v1?api-version=1&key=k", "https://host:8443/v1?api-version=***&key=***"),
        ("https://user:p%40ss@host/v1", "https://***@host/v1"),
        ("https://token@host/v1", "https://***@host/v1"),
        ("http://[broken", "http://[broken"),
        ("", ""),
    ],
)
def test_secrets_of_a_url_are_masked(url: str, masked: str) -> None:
    assert mask_url(url) == masked
