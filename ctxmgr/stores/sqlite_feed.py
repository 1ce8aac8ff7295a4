"""The feed of a SQLite store: its transactions in their order. Touches the database."""

from collections.abc import Iterator

from ctxmgr.core.store import Instant, Transaction, Write
from ctxmgr.stores.sqlite_keys import MARK_EVERY, own_key
from ctxmgr.stores.sqlite_reader import Reader, Row, key_text
from ctxmgr.stores.sqlite_statements import statements
from ctxmgr.stores.sqlite_timeline import wid_of


def feed(reader: Reader, *, after: int | None, limit: int, documents: bool) -> list[Transaction]:
    """Transactions after that sequence."""
    with reader.snapshot():
        start = 0 if after is None else max(after, 0)
        rows = list(reader.rows(statements()["feed"], (start, limit)))
        found = (_transaction(reader, row, documents=documents) for row in rows)
        return reader.page(found, limit)[0]


def _transaction(reader: Reader, row: Row, *, documents: bool) -> Transaction:
    seq, instant, key = row
    return Transaction(
        sequence=seq,
        system_time=instant,
        key=key or _own_key(reader, seq),
        writes=tuple(_writes(reader, seq, instant, documents=documents)),
    )


def _own_key(reader: Reader, seq: int) -> str:
    found = list(reader.rows(statements()["mark_of"], (seq, MARK_EVERY)))
    return own_key(found[0][0] if found else None, seq)


def _writes(reader: Reader, seq: int, instant: Instant, *, documents: bool) -> Iterator[Write]:
    rows = list(reader.rows(statements()["writes_of"], (wid_of(seq), wid_of(seq + 1))))
    for key, valid_from, valid_to, form, body in rows:
        object_id = key_text(key)
        wanted = documents and body is not None
        yield Write(
            object_id=object_id,
            deleted=body is None,
            document=reader.bodies.document(form, body, object_id) if wanted else None,
            valid_from=instant if valid_from is None else valid_from,
            valid_to=valid_to,
        )
