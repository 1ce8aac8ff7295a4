"""Queries and cursors, validated and encoded identically for every store."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.store.contract import PAGE_MAX, FieldType, Kind, Order, Query, Range
from ctxmgr.core.store.queries import (
    check_limit,
    check_query,
    decode_cursor,
    encode_cursor,
    page_of,
    query_value,
)
from ctxmgr.errors import Incorrect
from tests.core.builders.values import texts

KINDS = {
    "note": Kind(
        "note",
        {"topic": FieldType.TEXT, "rank": FieldType.INTEGER, "done": FieldType.BOOLEAN},
    )
}
positions = st.lists(
    texts | st.integers(-(2**63), 2**63 - 1) | st.none() | st.booleans(), max_size=3
)


@pytest.mark.parametrize(
    "query",
    [
        Query("note"),
        Query("undeclared"),
        Query("note", {"topic": "x", "rank": 1, "done": True}),
        Query("note", {"topic": None}),
        Query("note", between=Range("rank", 1, 5), order=Order("topic", descending=True)),
        Query("note", between=Range("topic", None, "x")),
    ],
)
def test_a_query_over_declared_fields_is_allowed(query: Query) -> None:
    """003-R016: a query may use declared fields, or the kind alone."""
    check_query(query, KINDS)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            Query("note", {"x": 1}),
            r"note does not declare the field 'x' \(declared: done, rank, topi",
        ),
        (Query("other", {"x": 1}), r"other does not declare the field 'x' \(declared: none\)"),
        (Query("note", {"topic": 1}), "note.topic is declared as text, not 1"),
        (Query("note", {"rank": "1"}), "note.rank is declared as integer, not '1'"),
        (Query("note", {"rank": True}), "note.rank is declared as integer, not True"),
        (Query("note", {"done": 0}), "note.done is declared as boolean, not 0"),
        (Query("note", between=Range("x", 1)), "note does not declare the field 'x'"),
        (Query("note", between=Range("rank", "a")), "note.rank is declared as integer, not 'a'"),
        (Query("note", between=Range("topic", "a", 5)), "note.topic is declared as text, not 5"),
        (Query("note", between=Range("done")), "note.done is a boolean, which cannot be ordered"),
        (Query("note", order=Order("done")), "note.done is a boolean, which cannot be ordered"),
        (Query("note", order=Order("x")), "note does not declare the field 'x'"),
    ],
)
def test_a_query_over_anything_else_is_refused(query: Query, message: str) -> None:
    """A field without an index would mean an empty result or a full scan."""
    with pytest.raises(Incorrect, match=message):
        check_query(query, KINDS)


@pytest.mark.parametrize("limit", [1, PAGE_MAX])
def test_a_valid_page_length_is_accepted(limit: int) -> None:
    """From one to the limit, both inclusive."""
    check_limit(limit)


@pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
def test_an_invalid_page_length_is_refused(limit: int) -> None:
    """Empty pages would never end, and a huge one fills memory."""
    with pytest.raises(Incorrect, match=f"limit must be 1 to 1000, not {limit}"):
        check_limit(limit)


@given(positions, st.dictionaries(texts, texts | st.integers()))
def test_a_cursor_holds_the_end_of_its_page(position: list[Any], where: dict[str, Any]) -> None:
    """The next page continues exactly there."""
    asked = query_value(Query("note", where))

    cursor = encode_cursor(asked, position)

    assert decode_cursor(asked, cursor) == position
    assert cursor.isascii()


@pytest.mark.parametrize(
    "other",
    [
        Query("other", {"rank": 1}),
        Query("note", {"rank": 2}),
        Query("note", {"rank": 1}, between=Range("rank", 1)),
        Query("note", {"rank": 1}, order=Order("rank")),
        Query("note", {"rank": 1}, order=Order("rank", descending=True)),
    ],
)
def test_a_cursor_of_another_query_is_refused(other: Query) -> None:
    """Mixed pages of two queries would look like one result."""
    cursor = encode_cursor(query_value(Query("note", {"rank": 1})), ["a"])

    with pytest.raises(Incorrect, match="this cursor belongs to another query"):
        decode_cursor(query_value(other), cursor)


@pytest.mark.parametrize(
    "cursor", ["", "x", "!!!!", "é", "bnVsbA==", "W10=", "WzEsMiwzXQ==", "MTI="]
)
def test_a_malformed_cursor_is_refused(cursor: str) -> None:
    """Cursors come from clients through three surfaces."""
    with pytest.raises(Incorrect, match="invalid cursor"):
        decode_cursor(["note"], cursor)


def test_a_cursor_without_a_position_is_refused() -> None:
    """An altered cursor is refused, not trusted."""
    whole = base64.urlsafe_b64decode(encode_cursor(["note"], []))
    altered = base64.urlsafe_b64encode(whole.replace(b"[]", b"17")).decode()

    with pytest.raises(Incorrect, match="this cursor belongs to another query"):
        decode_cursor(["note"], altered)


def test_pages_of_a_list_hold_every_entry_once() -> None:
    """An entry that appears or goes between two pages moves no other one."""
    entries = [(place // 2, f"id-{place}") for place in range(7)]

    def page(cursor: str | None) -> tuple[list[tuple[int, str]], str | None]:
        found, following = page_of(["list"], entries, key=lambda each: each, limit=3, cursor=cursor)
        return list(found), following

    first, cursor = page(None)
    entries.insert(0, (-1, "earlier"))
    entries.remove((1, "id-2"))
    second, cursor = page(cursor)
    third, end = page(cursor)

    assert [place for _, place in (*first, *second, *third)] == [f"id-{n}" for n in range(7)]
    assert end is None


@pytest.mark.parametrize("position", [["0", "id"], [0], [0, "id", 1]])
def test_a_position_that_does_not_fit_is_refused(position: list[Any]) -> None:
    """A cursor is data of a caller."""
    cursor = encode_cursor(["list"], position)

    with pytest.raises(Incorrect, match="altered"):
        page_of(["list"], [(0, "id-0")], key=lambda each: each, limit=3, cursor=cursor)
    with pytest.raises(Incorrect, match="another query"):
        page_of(["other"], [], key=tuple, limit=3, cursor=cursor)
