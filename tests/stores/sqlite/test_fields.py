"""Declared fields, and queries that use them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxmgr.core.store.contract import AsOf, FieldType, Kind, Order, Put, Query, Range
from ctxmgr.core.store.queries import encode_cursor, query_value
from ctxmgr.errors import Incorrect
from ctxmgr.stores.sqlite.fields import text_order
from ctxmgr.stores.sqlite.store import SqliteStore

NOTE = {"note": Kind("note", {"title": FieldType.TEXT})}
RANKED = {"note": Kind("note", {"rank": FieldType.INTEGER})}
texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, texts)
def test_text_is_ordered_by_utf_16_code_units(one, other):
    """Canonical JSON uses this order, and all stores must agree."""
    by_units = one.encode("utf-16-be") < other.encode("utf-16-be")

    assert (text_order(one) < text_order(other)) == by_units


async def test_a_field_declared_later_finds_existing_documents(tmp_path: Path):
    """A layer may start to query a field years after it was written."""
    async with await SqliteStore.open(tmp_path / "s.db", kinds=NOTE) as store:
        first = await store.commit([Put(_note("a", 1)), Put(_note("b", 2))])
        await store.commit([Put(_note("a", 3))])

    async with await SqliteStore.open(tmp_path / "s.db", kinds=RANKED) as store:
        now = await store.find(Query("note", between=Range("rank", 2), order=Order("rank")))
        then = await store.find(Query("note", {"rank": 1}), as_of=AsOf(sequence=first.sequence))
        verified = await store.verify()

    assert [version.object_id for version in now.versions] == ["b", "a"]
    assert [version.object_id for version in then.versions] == ["a"]
    assert verified.faults == ()


async def test_opening_with_fewer_fields_keeps_the_declared_ones(tmp_path: Path):
    """One program must not remove the declarations of another."""
    async with await SqliteStore.open(tmp_path / "s.db", kinds=NOTE):
        pass

    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.commit([Put(_note("a", 1))])
        page = await store.find(Query("note", {"title": "t"}))
        with pytest.raises(Incorrect, match="declares title as text"):
            await store.commit([Put({**_note("b", 1), "title": 5})])

    assert [version.object_id for version in page.versions] == ["a"]


async def test_a_field_keeps_its_type(tmp_path: Path):
    """An index of text cannot be used for integers."""
    async with await SqliteStore.open(tmp_path / "s.db", kinds=NOTE):
        pass

    with pytest.raises(Incorrect, match="this file has it as text"):
        await SqliteStore.open(
            tmp_path / "s.db", kinds={"note": Kind("note", {"title": FieldType.INTEGER})}
        )


async def test_a_declaration_that_stored_documents_violate_is_refused(tmp_path: Path):
    """A field that finds only some documents would give wrong results silently."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.commit([Put({"xt/id": "a", "type": "note", "rank": "high"})])

    with pytest.raises(Incorrect, match="a: note declares rank as integer"):
        await SqliteStore.open(tmp_path / "s.db", kinds=RANKED)

    async with await SqliteStore.open(tmp_path / "s.db") as store:
        with pytest.raises(Incorrect, match="declared: none"):
            await store.find(Query("note", {"rank": 1}))


async def test_a_process_indexes_fields_that_another_declared_meanwhile(tmp_path: Path):
    """Declarations belong to the file, not to the process that opened it first."""
    early = await SqliteStore.open(tmp_path / "s.db")
    late = await SqliteStore.open(tmp_path / "s.db", kinds=RANKED)
    async with early, late:
        await early.commit([Put(_note("a", 1))])
        page = await late.find(Query("note", {"rank": 1}))
        with pytest.raises(Incorrect, match="declares rank"):
            await early.commit([Put({**_note("b", 1), "rank": "high"})])

    assert [version.object_id for version in page.versions] == ["a"]


async def test_a_future_version_is_found_once_it_is_valid():
    """No write happens at that moment, so the query must account for the time."""
    now = [1_000]
    async with await SqliteStore.open(
        "sqlite://:memory:", kinds=RANKED, clock=lambda: now[0]
    ) as store:
        await store.commit([Put(_note("a", 1)), Put(_note("b", 1), 5_000)])
        await store.commit([Put(_note("a", 2), 5_000)])
        before = await store.find(Query("note", {"rank": 1}))
        now[0] = 6_000
        after = await store.find(Query("note", order=Order("rank")))
        version = await store.get("a")
        await store.commit([])
        refreshed = await store.find(Query("note", order=Order("rank")))
        verified = await store.verify()

    assert [version.object_id for version in before.versions] == ["a"]
    assert [version.object_id for version in after.versions] == ["b", "a"]
    assert version is not None
    assert version.document["rank"] == 2
    assert list(refreshed.versions) == list(after.versions)
    assert verified.faults == ()


async def test_an_altered_cursor_is_refused():
    """Cursors pass through clients, which may damage them."""
    query = Query("note")
    request = ["find", query_value(query), None, None, None]
    async with await SqliteStore.open("sqlite://:memory:") as store:
        for position in ([], [None], [None, 5], [[], "a"]):
            with pytest.raises(Incorrect, match="altered"):
                await store.find(query, cursor=encode_cursor(request, position))


def _note(object_id, rank):
    return {"xt/id": object_id, "type": "note", "title": "t", "rank": rank}
