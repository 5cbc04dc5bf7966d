"""What all requests share: cleaning of JSON and text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_stream.apis._request import cache_retention, clean_json, clean_text, merge_deep, merge_headers
from pi_stream.exceptions import ConfigError
from pi_stream.options import StreamOptions


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain ü \U0001f600", "plain ü \U0001f600"),
        ("\ud800", "\ufffd"),
        ("a\ud800b\udc00c", "a\ufffdb\ufffdc"),
        ("\ud800\ud800x", "\ufffd\ufffdx"),
        ("split \ud83d\ude00 pair", "split \U0001f600 pair"),
        ("\udc00\ud800", "\ufffd\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_and_split_pairs_joined(text: str, clean: str) -> None:
    assert clean_text(text) == clean


@given(st.text(st.characters(exclude_categories=[])))
def test_clean_text_can_be_encoded_and_is_stable(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert clean_text(clean) == clean


def test_clean_json_copies_containers_and_cleans_keys_and_numbers() -> None:
    value = {"a\ud800": (1, float("nan"), float("-inf"), True, None, 1.5)}
    clean = clean_json(value)
    assert clean == {"a\ufffd": [1, None, None, True, None, 1.5]}
    assert json.loads(json.dumps(clean, allow_nan=False)) == clean
    nested: dict[str, list[int]] = {"x": []}
    assert clean_json(nested)["x"] is not nested["x"]


@pytest.mark.parametrize("value", [{1: "a"}, {"a": {2, 3}}, [object()], {"a": b""}])
def test_what_is_not_json_is_a_config_error(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^\$"):
        clean_json(value)


def test_merge_deep_changes_neither_side() -> None:
    base = {"a": {"b": 1, "c": 2}, "d": {"e": 1}}
    extra = {"a": {"b": 9}, "d": 3}
    assert merge_deep(base, extra) == {"a": {"b": 9, "c": 2}, "d": 3}
    assert base == {"a": {"b": 1, "c": 2}, "d": {"e": 1}}
    assert extra == {"a": {"b": 9}, "d": 3}


def test_a_removed_header_can_be_set_again_by_a_later_layer() -> None:
    assert merge_headers({"A": "1"}, None, {"a": None}, {"A": "2"}) == {"a": "2"}


@pytest.mark.parametrize(
    ("options", "retention"),
    [
        ({}, "none"),
        ({"session_id": "s"}, "short"),
        ({"session_id": "s", "cache_retention": "none"}, "none"),
        ({"cache_retention": "long"}, "long"),
    ],
)
def test_caching_is_off_unless_asked_for(options: Any, retention: str) -> None:
    assert cache_retention(StreamOptions(**options)) == retention
