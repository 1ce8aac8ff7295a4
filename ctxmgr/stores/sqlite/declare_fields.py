"""Opens the file of a store: declares searchable fields and indexes existing documents.

Touches the database. Declarations are only ever added: opening with fewer kinds keeps those that
exist. Declaring is one transaction, so a field is indexed with all its values or not at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw
import orjson

from ctxmgr.core.store.contract import Kind
from ctxmgr.errors import Corrupt
from ctxmgr.stores.sqlite.body_reader import BodyReader
from ctxmgr.stores.sqlite.connection import (
    Durability,
    SqliteAddress,
    connect,
    open_migrated,
    statements,
)
from ctxmgr.stores.sqlite.fields import KIND_FIELD, Fields, load, missing, sort_key, text_order
from ctxmgr.stores.sqlite.reader import key_text


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file that is ready for use."""

    store_name: str
    """The file's random name, which tokens begin with."""
    fields: Fields
    writing: apsw.Connection
    reading: list[apsw.Connection]


def open_file(
    address: SqliteAddress, *, kinds: Sequence[Kind], durability: Durability, readers: int
) -> OpenedFile:
    """Migrate the file and connect to it: one connection for writing, and some for reading."""
    first = open_migrated(address)
    opened: list[apsw.Connection] = []
    try:
        name = _store_name(first, url=address.url)
        fields = _declare(first, kinds, url=address.url)
        opened.extend(
            connect(address, durability=durability, writes=number == 0)
            for number in range(readers + 1)
        )
    except BaseException:
        for connection in opened:
            connection.close()
        raise
    finally:
        first.close()
    return OpenedFile(name, fields, opened[0], opened[1:])


def _store_name(connection: apsw.Connection, *, url: str) -> str:
    name: str | None = connection.execute(statements()["store_name"]).get
    if not name:
        raise Corrupt(f"{url}: the name of the store is missing; restore a backup")
    return name


def _declare(connection: apsw.Connection, kinds: Sequence[Kind], *, url: str) -> Fields:
    """Add the declarations that the file lacks, and return all of them.

    ``Incorrect`` if the file declares a field differently, or holds a value that does not fit. A
    read-only file keeps its declarations.
    """
    fields = load(connection)
    if not missing(fields, kinds) or connection.readonly("main"):
        return fields
    connection.execute("BEGIN IMMEDIATE")
    try:
        fields = load(connection)  # again, now that no other process can add to them
        new: dict[str, set[int]] = {}
        for kind, name, type_name in missing(fields, kinds):
            fid = connection.execute(statements()["insert_field"], (kind, name, type_name)).get
            fields.add(fid, kind, name, type_name)
            if name != KIND_FIELD:
                new.setdefault(kind, set()).add(fid)
        _index(connection, fields, new, url=url)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return fields


def _index(
    connection: apsw.Connection, fields: Fields, new: dict[str, set[int]], *, url: str
) -> None:
    """Index the stored documents by their new fields, given as fids by kind."""
    sql, bodies = statements(), BodyReader(connection.execute, url=url)
    for kind, fids in new.items():
        kind_fid = fields.numbers[kind, KIND_FIELD]
        for (nid,) in connection.execute(sql["objects_ever"], (kind_fid,)).fetchall():
            object_id = key_text(connection.execute(sql["text_of"], (nid,)).get)
            place = text_order(object_id)
            values_by_wid: dict[int, list[tuple[int, Any]]] = {}
            for row in connection.execute(sql["writes_in"], (nid,)).fetchall():
                wid, fmt, body = row
                document = bodies.values(fmt, body, object_id, fields.searched)  # type: ignore[arg-type]
                values_by_wid[wid] = fields.values(document)  # type: ignore[index]
            for values in values_by_wid.values():
                for fid, value in values:
                    if fid in fids:
                        connection.execute(sql["insert_ever"], (fid, sort_key(value), place, nid))
            _, _, visible, _ = connection.execute(sql["head"], (nid,)).get
            if visible is not None:
                values = values_by_wid[visible]
                connection.execute(sql["save_fields"], (orjson.dumps(values).decode(), nid))
                for fid, value in values:
                    connection.execute(sql["insert_present"], (fid, sort_key(value), place, nid))
