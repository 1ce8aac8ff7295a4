"""Canonical JSON: one byte form for equal values, in every language."""

import json
from enum import IntEnum, StrEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from ctxmgr.core.store.canonical import canonical, checked_canonical
from ctxmgr.core.store.documents import DEPTH_MAX
from ctxmgr.errors import Incorrect
from tests.core.builders.values import floats, reordered, safe_values, values


class _Colour(StrEnum):
    RED = "red"


class _Number(IntEnum):
    TWO = 2


@given(safe_values)
@example({"\ufb33": 1, "😀": 2})
@example([1.0, 1e21, -0.0, 1e-7, 5e-324])
def test_an_independent_implementation_gives_the_same_bytes(value: Any) -> None:
    """003-A15, 003-R059: hashes must not depend on the JSON library."""
    assert canonical(value) == rfc8785.dumps(value)


@given(floats)
def test_floats_are_written_as_ecmascript_writes_them(number: float) -> None:
    """003-A15: a float has one form in every language."""
    assert canonical(number) == rfc8785.dumps(number)


@given(st.floats(1e-5, 1e16), st.sampled_from([1, -1]))
@example(1e-4, 1)
@example(999999999999999.9, -1)
@example(0.00012345678901234567, 1)
def test_floats_on_the_fast_path_have_the_same_form(number: float, sign: int) -> None:
    """003-A15: floats of ordinary size take a fast path, so they are tested separately."""
    assert canonical([sign * number]) == rfc8785.dumps([sign * number])


@given(values)
def test_the_order_of_keys_never_changes_the_bytes(value: Any) -> None:
    """003-R059: at every level."""
    assert canonical(reordered(value)) == canonical(value)


@given(values)
def test_a_parsed_value_has_the_same_canonical_bytes(value: Any) -> None:
    """003-A15: a parser may read a whole float as an integer; the hash must not change."""
    assert canonical(json.loads(canonical(value))) == canonical(value)


@given(st.integers())
@example(2**53 + 1)
@example(-(2**63) - 1)
@example(2**64)
def test_an_integer_of_any_size_is_written_as_its_digits(number: int) -> None:
    """003-A15: tool arguments may contain 64-bit numbers."""
    assert canonical({"n": [number]}) == b'{"n":[%s]}' % str(number).encode()


def test_an_integer_beyond_pythons_digit_limit_is_written_too() -> None:
    """003-A15: Python's limit of 4,300 digits must not apply."""
    assert canonical(-(10**9_999) - 7) == b"-1" + b"0" * 9_998 + b"7"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, b"1"),
        (1e21, b"1e+21"),
        (-0.0, b"0"),
        (True, b"true"),
        (1, b"1"),
        ({}, b"{}"),
        ([], b"[]"),
        ([0.5, {}, []], b"[0.5,{},[]]"),
        ("é\u2028\x7f/", '"é\u2028\x7f/"'.encode()),
        ('\b\t\n\f\r\x00\x1f"\\', b'"\\b\\t\\n\\f\\r\\u0000\\u001f\\"\\\\"'),
        ({"b": 1, "a": 2}, b'{"a":2,"b":1}'),
        ({"\ufb33": 1, "😀": 2}, '{"😀":2,"\ufb33":1}'.encode()),
        ({"colour": _Colour.RED, "n": _Number.TWO}, b'{"colour":"red","n":2}'),
        ({_Colour.RED: [_Number.TWO, 0.5]}, b'{"red":[2,0.5]}'),
    ],
)
def test_a_value_has_this_canonical_form(value: object, expected: bytes) -> None:
    """003-A15: the cases that writers disagree on."""
    assert canonical(value) == expected


@pytest.mark.parametrize("bottom", ["text", 0.5, 2**70])
def test_nesting_up_to_the_depth_of_a_document_works(bottom: object) -> None:
    """003-A15: every stored document can be hashed, including its wrapping."""
    value = bottom
    for level in range(DEPTH_MAX + 10):
        value = [value] if level % 2 else {"k": value}

    assert json.loads(canonical(value)) == value


def test_unbounded_nesting_is_refused() -> None:
    """A value that contains itself must raise a clear error, not crash."""
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(Incorrect, match="nested more than 256 levels deep"):
        canonical(endless)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "nan has no canonical form"),
        ([float("inf")], "inf has no canonical form"),
        ({"a": float("-inf")}, "-inf has no canonical form"),
        ("\ud800", "lone surrogate"),
        (["\udfff", 1], "lone surrogate"),
        ({"\ud83d": 1}, "lone surrogate"),
        ({1: 2}, "the key 1 is not a string"),
        ([{"a": 0.5}, {None: 2}], "the key None is not a string"),
        ((1, 2), "a tuple has no canonical form"),
        (b"bytes", "a bytes has no canonical form"),
        ({"a": {1, 2}}, "a set has no canonical form"),
        ([object], "a type has no canonical form"),
    ],
)
def test_a_value_without_a_canonical_form_is_refused(value: object, message: str) -> None:
    """003-A15: a hash of a value that cannot be reproduced proves nothing."""
    with pytest.raises(Incorrect, match=message):
        canonical(value)


@pytest.mark.parametrize("inner", [[], {}, [1], {"a": None}])
@pytest.mark.parametrize("depth", [0, 1])
def test_what_a_document_must_not_hold_has_no_bytes(inner: Any, depth: int) -> None:
    """003-A15: at the limit a list may be empty or not, one level deeper neither is stored."""
    value = inner
    for _ in range(DEPTH_MAX - depth - 1):
        value = [value]
    assert checked_canonical(value, where="x", depth=depth) == canonical(value)
    with pytest.raises(Incorrect, match="x: nested more than 128 levels deep"):
        checked_canonical([value], where="x", depth=depth)
