"""The rows that a store wrote, to be written again by hand: the least that storing them takes.

For stores in which every object was put once, so that what lies there is what was inserted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import apsw

Rows: TypeAlias = list[tuple[Any, ...]]

_BY_WRITE: Final = {
    "name": "SELECT n.* FROM write w JOIN name n USING (nid) WHERE w.wid >> 14 = ?",
    "write": "SELECT * FROM write WHERE wid >> 14 = ?",
    "entry": "SELECT e.* FROM write w JOIN entry e USING (nid) WHERE w.wid >> 14 = ?",
    "head": "SELECT h.* FROM write w JOIN head h USING (nid) WHERE w.wid >> 14 = ?",
}
_BY_OBJECT: Final = {table: f"SELECT * FROM {table} ORDER BY nid" for table in ("ever", "present")}  # noqa: S608
_TRANSACTIONS: Final = "SELECT * FROM tx WHERE seq > 0 ORDER BY seq"
_PIECES: Final = "SELECT * FROM piece ORDER BY pid"


@dataclass(frozen=True, slots=True)
class StoredRows:
    """All rows of a store, by transaction and table."""

    transactions: Sequence[Sequence[tuple[str, Rows]]]
    """For each the tables that it wrote to, with the rows of each."""

    @classmethod
    def of(cls, path: Path) -> Self:
        connection = apsw.Connection(str(path))
        try:
            return cls(_by_transaction(connection))
        finally:
            connection.close()

    @property
    def count(self) -> int:
        return sum(len(rows) for each in self.transactions for _, rows in each)

    def insert_into(self, path: Path) -> None:
        """Insert them, each transaction as one, with the durability of a store."""
        connection = apsw.Connection(str(path))
        try:
            connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
            for each in self.transactions:
                connection.execute("BEGIN IMMEDIATE")
                for table, rows in each:
                    places = ", ".join("?" * len(rows[0]))
                    connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608
                connection.execute("COMMIT")
        finally:
            connection.close()


def _by_transaction(connection: apsw.Connection) -> list[list[tuple[str, Rows]]]:
    pieces = iter(_rows(connection, _PIECES))
    found: dict[str, dict[int, Rows]] = {}
    for table, select in _BY_OBJECT.items():
        by_object = found.setdefault(table, {})
        for row in _rows(connection, select):
            by_object.setdefault(row[-1], []).append(row)
    transactions = []
    for tx in _rows(connection, _TRANSACTIONS):
        written = [(table, _rows(connection, sql, tx[0])) for table, sql in _BY_WRITE.items()]
        objects = [row[0] for row in written[0][1]]
        searched = [
            (table, [row for nid in objects for row in by_object.get(nid, ())])
            for table, by_object in found.items()
        ]
        large = [("piece", [row for _, row in zip(objects, pieces, strict=False)])]
        tables = [("tx", [tx]), *written, *searched, *large]
        transactions.append([(table, rows) for table, rows in tables if rows])
    return transactions


def _rows(connection: apsw.Connection, sql: str, *values: int) -> Rows:
    return list(connection.execute(sql, values))
