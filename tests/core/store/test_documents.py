"""What a stored document may contain."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.documents import (
    DEPTH_MAX,
    INTEGER_BITS_MAX,
    OBJECT_ID_BYTES_MAX,
    check_document,
    check_object_id,
    check_value,
)
from ctxmgr.errors import Incorrect
from tests.core.builders.values import json_values, values


def _nested(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


@given(values)
def test_every_valid_document_has_a_canonical_form(value: Any) -> None:
    """003-A15: so every document can be hashed."""
    check_value(value, where="x")

    assert canonical(value)


@pytest.mark.parametrize(
    "value",
    ["\ud800", ["a\udfff"], {"\udc00": 1}, float("nan"), {"a": float("inf")}, {1: 2}, b"x", (1,)],
)
def test_a_value_without_a_canonical_form_cannot_be_stored(value: object) -> None:
    """003-A15: both checks refuse the same values."""
    with pytest.raises(Incorrect):
        check_value(value, where="x")
    with pytest.raises(Incorrect):
        canonical(value)


_ODD = st.sampled_from(
    ["\ud800", 2**63, -(2**63), 2**14_000, math.nan, math.inf, b"x", (1,), {"\udc00": 1}, {1: 2}]
)


@given(value=json_values(st.integers(), odd=_ODD), depth=st.sampled_from([0, 1, 2, 124, 128]))
def test_a_document_is_refused_exactly_if_one_of_its_values_is(value: Any, depth: int) -> None:
    """003-A15: the fast path for plain documents must not accept invalid values."""
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}

    assert _is_refused(lambda: check_document({"xt/id": "a", "type": "note", "v": value})) == (
        _is_refused(lambda: check_value(value, where="v"))
    )


def _is_refused(check: Callable[[], None]) -> bool:
    try:
        check()
    except Incorrect:
        return True
    return False


@pytest.mark.parametrize(
    "field", ["a", "_a", "A-b_9", "x" * 128, "type2", "file_hash", "stopReason"]
)
def test_a_plain_name_is_a_field(field: str) -> None:
    """003-R028: a field is an attribute in every store."""
    check_document({"xt/id": "a", "type": "note", field: 1})


@pytest.mark.parametrize(
    "field", ["", "9a", "-a", "a b", "ctxmgr/x", "xt/other", "é", "x" * 129, 7]
)
def test_an_invalid_field_name_is_refused(field: Any) -> None:
    """003-R028: namespaces are reserved for the stores."""
    with pytest.raises(Incorrect, match=r"a: invalid field name .* \(use letters, digits, _ and"):
        check_document({"xt/id": "a", "type": "note", field: 1})


@pytest.mark.parametrize("kind", [None, "", 5, ["file"]])
def test_a_document_without_a_kind_is_refused(kind: object) -> None:
    """003-R016: no query could find it."""
    with pytest.raises(Incorrect, match="a: 'type' must be a non-empty string, not"):
        check_document({"xt/id": "a", "type": kind})


@pytest.mark.parametrize(
    ("object_id", "message"),
    [
        (None, "an object id .* must be a non-empty string"),
        ("", "an object id .* must be a non-empty string"),
        (7, "an object id .* must be a non-empty string"),
        ("x" * (OBJECT_ID_BYTES_MAX + 1), "an object id has at most 1024 bytes"),
        ("ü" * (OBJECT_ID_BYTES_MAX // 2 + 1), "an object id has at most 1024 bytes"),
        ("ctxmgr/guard", "ids that start with 'ctxmgr/' are reserved"),
        ("a\ud800", "object id: the text contains a lone surrogate"),
    ],
)
def test_an_invalid_id_is_refused(object_id: object, message: str) -> None:
    """003-R016: an id is permanent, so it is checked before the first write."""
    with pytest.raises(Incorrect, match=message):
        check_object_id(object_id)
    with pytest.raises(Incorrect, match=message):
        check_document({"xt/id": object_id, "type": "note"})


@pytest.mark.parametrize(
    "object_id", ["a", "x" * OBJECT_ID_BYTES_MAX, "chat:ü 😀", "a/b", "ctxmgr"]
)
def test_any_other_text_is_a_valid_id(object_id: str) -> None:
    """003-R064: harnesses choose the ids of their tool calls."""
    check_object_id(object_id)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "a: x: nan cannot be represented in JSON"),
        ([{"deep": float("-inf")}], "a: x: -inf cannot be represented in JSON"),
        ("\udead", "a: x: the text contains a lone surrogate"),
        ({"\ud800": 1}, "a: x: the text contains a lone surrogate"),
        ({"b": {3: 4}}, "a: x: the key 3 is not a string"),
        ((1, 2), "a: x: a tuple cannot be stored"),
        ({1, 2}, "a: x: a set cannot be stored"),
        (b"bytes", "a: x: a bytes cannot be stored"),
    ],
)
def test_a_value_that_cannot_be_stored_names_its_field(value: object, message: str) -> None:
    """003-A15: the message says where to look in a large document."""
    with pytest.raises(Incorrect, match=message):
        check_document({"xt/id": "a", "type": "note", "x": value})


def test_nesting_is_limited() -> None:
    """Parsers and writers recurse, so depth is limited before they see a value."""
    check_value(_nested(DEPTH_MAX), where="x")

    with pytest.raises(Incorrect, match="x: nested more than 128 levels deep"):
        check_value(_nested(DEPTH_MAX + 1), where="x")


def test_integers_are_limited_to_what_python_can_parse() -> None:
    """003-A15: a stored number must be readable, so one that is not is refused first."""
    largest = 2**INTEGER_BITS_MAX - 1
    assert int(str(largest)) == largest
    check_value(largest, where="x")

    with pytest.raises(Incorrect, match="at most 14,000 bits"):
        check_value(largest + 1, where="x")
