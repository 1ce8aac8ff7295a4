"""Values are found and replaced in JSON text without touching the rest."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.errors import Incorrect
from ctxmgr.proxy.validator import check_message
from ctxmgr.proxy.wire.json_spans import (
    ByteSpan,
    Edit,
    Located,
    edited,
    elements,
    encoded,
    fields,
    located,
)
from ctxmgr.proxy.wire.message import StringPlace

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def check_spans(text: bytes, found: Located, value: Any) -> None:
    """Assert that every span holds the value that a parser finds there."""
    assert json.loads(text[found.span.start : found.span.end]) == value
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in members:
            check_spans(text, found.members[key], inner)


@given(VALUES, st.sampled_from([{}, {"indent": 1}, {"ensure_ascii": False}]))
def test_spans_agree_with_the_parser(value: Any, style: dict[str, Any]) -> None:
    """One scanner of positions has to agree with the JSON parser, whatever the writer's style."""
    text = json.dumps(value, **style).encode()

    check_spans(text, located(text), value)
    if isinstance(value, dict):
        spans = fields(text)
        assert {name: json.loads(text[a:b]) for name, (a, b) in spans.items()} == value
    if isinstance(value, list):
        spans, end = elements(text, 0)
        assert [json.loads(text[a:b]) for a, b in spans] == value
        assert end == len(text)


@given(st.lists(st.dictionaries(st.text(), st.text()), max_size=5), st.integers(0, 5))
def test_known_elements_are_not_scanned_again(values: list[dict[str, str]], known: int) -> None:
    """What was in the last request has the spans that were found then."""
    text = json.dumps(values).encode()
    spans, _ = elements(text, 0)

    assert elements(text, 0, known=spans[:known]) == elements(text, 0)


@given(VALUES, st.text())
def test_an_edit_changes_nothing_else(value: Any, new: str) -> None:
    """Unknown fields, order and numbers stay as the client wrote them."""
    text = json.dumps({"a": 1.50, "text": "old", "z": value}, indent=1).encode()
    span = located(text).at(("text",)).span

    after = edited(text, [Edit(span, encoded(new))])

    assert after[: span.start] == text[: span.start]
    assert after.endswith(text[span.end :])
    assert json.loads(after)["text"] == new


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"a" 1}', b'{"a": 1, "a": 2}', b'{"a": 1} x', b"[1", b'{"a": }']
)
def test_text_that_is_not_json_is_refused(text: bytes) -> None:
    """The caller then forwards it as it is."""
    with pytest.raises(ValueError, match=r"byte|twice"):
        fields(text)


def test_overlapping_edits_are_refused() -> None:
    """They would garble the text."""
    with pytest.raises(ValueError, match="overlap"):
        edited(b"0123456789", [Edit(ByteSpan(0, 5), b""), Edit(ByteSpan(4, 6), b"")])


@pytest.mark.parametrize(
    "after",
    [
        {"id": "2", "text": "x", "n": [1]},
        {"id": "1", "text": 7, "n": [1]},
        {"id": "1", "text": "x", "n": [1, 2]},
        {"id": "1", "text": "x", "n": [True]},
        {"id": "1", "text": "x"},
        {"id": "1", "text": "x", "n": [1], "new": 1},
    ],
)
def test_the_validator_refuses_any_other_change(after: Any) -> None:
    """Rule 16: ids, types, order and fields must be those that the client sent."""
    before = json.dumps({"id": "1", "text": "long", "n": [1]}).encode()
    places = [StringPlace(("text",))]

    check_message(before, before.replace(b"long", b"short"), places=places)
    with pytest.raises(Incorrect, match="shaping changed"):
        check_message(before, json.dumps(after).encode(), places=places)
