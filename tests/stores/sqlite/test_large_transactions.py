"""Large transactions are written table by table, and leave the same rows as small ones."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctxmgr.core.store.contract import Commit, Delete, FieldType, Kind, Operation, Put
from ctxmgr.core.store.transactions import written_id
from ctxmgr.errors import Unavailable
from ctxmgr.stores.sqlite import apply
from ctxmgr.stores.sqlite.store import SqliteStore

KINDS = {"note": Kind("note", {"rank": FieldType.INTEGER, "word": FieldType.TEXT})}
TABLES = ("name", "write", "entry", "head", "field", "ever", "present", "piece", "list", "item")
NOW = 1_000

_ids = st.sampled_from([f"{n:064x}" for n in range(3)] + [f"id-{n}" for n in range(5)])
_times = st.none() | st.integers(1, 2 * NOW)
_fields = st.fixed_dictionaries(
    {},
    optional={
        "rank": st.none() | st.integers(0, 3),
        "word": st.sampled_from(["", "a", "é", "😀"]),
        "content": st.sampled_from(["", "x" * 700, "y" * 9_000]),
        "refs": st.lists(_ids, max_size=40),
    },
)
_puts = st.builds(
    lambda object_id, fields, time: Put(
        {"xt/id": object_id, "type": "note", **fields}, valid_from=time
    ),
    _ids,
    _fields,
    _times,
)
_writes = _puts | st.builds(Delete, _ids, _times)
_transactions = st.lists(st.lists(_writes, max_size=6, unique_by=written_id), max_size=4)


def rows_after(transactions: list[list[Operation]], *, together: bool) -> dict[str, list[Any]]:
    """Commit them on the chosen path, and read every table."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "BATCHED_CHANGES_MIN", 0 if together else 1_000)
        patch.setattr(apply, "SCRIPT_ROWS_MAX", 0 if together else 1_000)
        file = Path(folder) / "store.db"
        asyncio.run(_commit(file, transactions))
        connection = apsw.Connection(str(file))
        try:
            return {table: _rows(connection, table) for table in TABLES}
        finally:
            connection.close()


async def _commit(file: Path, transactions: list[list[Operation]]) -> None:
    async with await SqliteStore.open(file, kinds=KINDS, clock=lambda: NOW) as store:
        for transaction in transactions:
            await store.commit(transaction)


def _rows(connection: apsw.Connection, table: str) -> list[Any]:
    return sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_transactions)
def test_both_write_paths_leave_the_same_rows(transactions: list[list[Operation]]) -> None:
    """The number of changes selects the path, which must not be visible."""
    one_by_one = rows_after(transactions, together=False)

    assert rows_after(transactions, together=True) == one_by_one


async def test_an_id_first_seen_in_a_list_can_be_written_as_an_object(tmp_path: Path) -> None:
    """It gets its number from the list, after numbers were looked up and before its own write."""
    refs = [f"later-{number}" for number in range(40)]
    first = Put({"xt/id": "first", "type": "note", "refs": refs, "content": "x" * 2_000})
    later = [Put({"xt/id": ref, "type": "note"}) for ref in refs]

    async with await SqliteStore.open(tmp_path / "store.db", kinds=KINDS) as store:
        await store.commit([first, *later])
        versions = await store.get_many(["first", *refs])

    assert [version.document for version in versions.values()] == [
        put.document for put in (first, *later)
    ]


async def test_a_failing_row_rolls_back_its_whole_transaction(tmp_path: Path) -> None:
    """Earlier rows of the statement stay written until the writer rolls back."""
    file = tmp_path / "store.db"
    puts = [Put({"xt/id": f"id-{number}", "type": "note", "rank": 1}) for number in range(100)]
    async with await SqliteStore.open(file, kinds=KINDS) as store:
        connection = apsw.Connection(str(file))
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON write WHEN NEW.nid = 40 "
            "BEGIN SELECT RAISE(FAIL, 'refused'); END"
        )
        first, second = await asyncio.gather(
            store.commit(puts), store.commit([Put(_small("alone"))]), return_exceptions=True
        )
        connection.execute("DROP TRIGGER refuse")
        connection.close()
        left = await store.get_many([put.document["xt/id"] for put in puts])
        verified = await store.verify()

    assert isinstance(first, Unavailable)
    assert isinstance(second, Commit)
    assert left == {}
    assert verified.faults == ()


@pytest.mark.parametrize("count", [1, 8, 63, 64, 65, 137])
async def test_any_number_of_rows_is_written(tmp_path: Path, count: int) -> None:
    """Rows are written in batches, and the last batch may have a single row."""
    puts = [Put(_small(f"id-{number}")) for number in range(count)]

    async with await SqliteStore.open(tmp_path / "store.db", kinds=KINDS) as store:
        await store.commit(puts)
        versions = await store.get_many([put.document["xt/id"] for put in puts])
        verified = await store.verify()

    assert [version.document for version in versions.values()] == [put.document for put in puts]
    assert verified.faults == ()


def _small(object_id: str) -> dict[str, Any]:
    return {"xt/id": object_id, "type": "note", "rank": 1, "word": "w"}
