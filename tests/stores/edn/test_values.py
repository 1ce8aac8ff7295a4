"""The guarantees of the EDN codec: values and documents are read back unchanged."""

import copy
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.store.documents import DEPTH_MAX
from ctxmgr.errors import Incorrect
from ctxmgr.stores.edn.reader import loads
from ctxmgr.stores.edn.values import (
    NESTING_MAX,
    Char,
    EdnError,
    Inst,
    Keyword,
    Raw,
    Symbol,
    Tagged,
    dumps,
    edn_to_document,
)

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}(/[a-z][a-z0-9-]{0,5})?", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
INSTANTS = st.integers(-62_135_596_800_000, 253_402_300_799_999).map(Inst)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
ATOMS = (
    PLAIN
    | NAMES.map(Keyword)
    | INSTANTS
    | st.builds(Tagged, NAMES.map("x".__add__), TEXTS)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.characters(codec="ascii").map(Char)
)
KEYS = TEXTS | NAMES.map(Keyword)
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.frozensets(TEXTS, max_size=4)
    ),
    max_leaves=20,
)
FIELDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,12}", fullmatch=True) | st.just("xt/id")
DOCUMENTS = st.dictionaries(
    FIELDS,
    st.recursive(
        PLAIN,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=15,
    ),
    max_size=8,
)


def edn_of(document: dict[str, Any]) -> str:
    return dumps({Keyword(name): value for name, value in document.items()})


@given(VALUES)
def test_every_value_is_read_back_unchanged(value: Any) -> None:
    """A codec that changes a value corrupts documents silently (003-R017)."""
    decoded = loads(dumps(value))

    assert decoded == value
    assert repr(decoded) == repr(value) or "set" in repr(value)


@given(DOCUMENTS)
def test_every_document_is_read_back_unchanged(document: dict[str, Any]) -> None:
    """A document stored in XTDB must keep its hash (003-R017)."""
    decoded = edn_to_document(loads(edn_of(document).encode()))

    assert decoded == document
    assert repr(decoded) == repr(document)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**63 - 1, "9223372036854775807"),
        (2**63, "9223372036854775808N"),
        (-(2**63), "-9223372036854775808"),
        (-(2**63) - 1, "-9223372036854775809N"),
        (5e-324, "5e-324"),
        (-0.0, "-0.0"),
        (1e22, "1e+22"),
        (Fraction(1, 3), "1/3"),
        (Decimal("1.50"), "1.50M"),
        (Char("\n"), "\\u000a"),
        (Symbol("?e"), "?e"),
        (Keyword("xt/id"), ":xt/id"),
        (Inst(1_794_787_675_188), '#inst "2026-11-16T00:07:55.188-00:00"'),
        (Tagged("xtdb/id", "ab" * 20), f'#xtdb/id "{"ab" * 20}"'),
        ((1, [2]), "(1 [2 ] )"),
        ({Keyword("a"): None, "b": True}, '{:a nil, "b" true}'),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_a_value_is_written_in_the_form_the_server_reads(value: object, text: str) -> None:
    """The server refuses a whole transaction for one unknown form (003-R017)."""
    written = dumps(value)

    assert written == text
    assert repr(loads(written)) == repr(value)


@pytest.mark.parametrize(
    "text", ["\x00\x01\x1f\x7f", 'a"b\\c\n\t\r\b\f', "😀𝄞", "\\", '\\"', "/\\/", "\\u0041", " "]
)
def test_special_characters_are_kept(text: str) -> None:
    """Files may contain any character, including those that need quoting (003-R017)."""
    document = {"xt/id": "f", "content": text * 3, "more": [text, {text: text}]}

    assert edn_to_document(loads(edn_of(document))) == document


def test_a_long_text_is_kept() -> None:
    """Content is the largest thing stored, and mostly source code (003-R017)."""
    text = 'print("é\\n")\n\t😀' * 20_000

    assert loads(dumps({"content": text})) == {"content": text}


@pytest.mark.parametrize(
    "value",
    [
        chr(0xD800),
        [chr(0xDFFF)],
        {chr(0xD800): 1},
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        object(),
        b"bytes",
        Inst(10**18),
        [10**5_000],
    ],
)
def test_a_value_without_an_edn_form_is_refused(value: object) -> None:
    """An error now is better than a document that cannot be read (003-R017)."""
    with pytest.raises(Incorrect):
        dumps(value)


def test_a_document_of_the_maximum_depth_is_written_and_read() -> None:
    """The codec must support the depth that core allows (003-R017)."""
    value: Any = "x"
    for _ in range(DEPTH_MAX):
        value = [value]

    assert edn_to_document(loads(edn_of({"deep": value}))) == {"deep": value}


def test_greater_depth_is_an_error_not_a_crash() -> None:
    """A deeply nested reply or value must not exhaust the stack."""
    value: Any = "x"
    for _ in range(NESTING_MAX + 1):
        value = [value]

    with pytest.raises(Incorrect, match="nested more than"):
        dumps(value)
    with pytest.raises(EdnError, match="nested more than"):
        loads("[" * 100_000 + "]" * 100_000)


def test_raw_text_is_embedded_unchanged() -> None:
    """Queries are built once and sent many times with other arguments."""
    query = Raw("{:find [?e], :where [[?e :type t]], :in [t]}")

    assert dumps({Keyword("query"): query}) == "{:query " + query.text + "}"


def test_keywords_of_one_name_are_one_object() -> None:
    """Maps compare keywords by identity, which makes reading many rows fast."""
    keyword = Keyword("xt/id")

    assert Keyword("xt/" + "id") is keyword
    assert pickle.loads(pickle.dumps(keyword)) is keyword
    assert copy.deepcopy(keyword) is keyword
    assert keyword != "xt/id"
    with pytest.raises(AttributeError, match="immutable"):
        keyword.name = "other"


def test_foreign_values_in_a_document_become_text() -> None:
    """Other programs may store values that a document cannot hold; reading must not fail."""
    stored = loads(
        '{:xt/id "a", :state :open, :when #inst "2026-11-16", :half 1/2, :set #{2 1},'
        ' :map {:k (1 x), 3 ##NaN}, :ref #uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}'
    )

    assert edn_to_document(stored) == {
        "xt/id": "a",
        "state": ":open",
        "when": '#inst "2026-11-16T00:00:00.000-00:00"',
        "half": "1/2",
        "set": [1, 2],
        "map": {":k": [1, "x"], "3": "##NaN"},
        "ref": '#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"',
    }


def test_keys_of_equal_text_are_not_merged() -> None:
    """Losing a field silently is worse than an error."""
    with pytest.raises(EdnError, match="same text"):
        edn_to_document({Keyword("m"): {Keyword("a"): 1, ":a": 2}})
