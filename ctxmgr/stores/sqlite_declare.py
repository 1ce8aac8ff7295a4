"""Opening a file with what it shall be searched by: declaring fields and indexing what it holds.

Touches the database. Declarations are only ever added: opening with fewer keeps what is there. It
is one transaction, so a file has a field with all its values or not at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw
import orjson

from ctxmgr.core.store import Kind
from ctxmgr.errors import Corrupt
from ctxmgr.stores.sqlite_bodies import Bodies
from ctxmgr.stores.sqlite_fields import KIND_FIELD, Fields, load, missing, sort_key, text_order
from ctxmgr.stores.sqlite_file import Address, Durability, connect, prepare
from ctxmgr.stores.sqlite_reader import key_text
from ctxmgr.stores.sqlite_statements import statements


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that is ready for use."""

    store_name: str
    """The file's random name, which tokens begin with."""
    fields: Fields
    writing: apsw.Connection
    reading: list[apsw.Connection]


def open_file(
    address: Address, *, kinds: Sequence[Kind], durability: Durability, readers: int
) -> Opened:
    """Prepare the file and connect to it: one connection that writes, and readers."""
    first = prepare(address)
    opened: list[apsw.Connection] = []
    try:
        name = _store_name(first, url=address.url)
        fields = declare(first, kinds, url=address.url)
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
    return Opened(name, fields, opened[0], opened[1:])


def declare(connection: apsw.Connection, kinds: Sequence[Kind], *, url: str) -> Fields:
    """Bring the file's declarations up to ``kinds`` and return them all.

    ``Incorrect`` if the file declares a field otherwise, or holds a value that does not fit. In a
    file that cannot be written the declarations stay as they are.
    """
    fields = load(connection)
    if not missing(fields, kinds) or connection.readonly("main"):
        return fields
    connection.execute("BEGIN IMMEDIATE")
    try:
        fields = load(connection)
        new = _add(connection, fields, kinds)
        _index(connection, fields, new, url=url)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return fields


def _store_name(connection: apsw.Connection, *, url: str) -> str:
    name: str | None = connection.execute(statements()["store_name"]).get
    if not name:
        raise Corrupt(f"{url}: has lost its name; restore a backup")
    return name


def _add(connection: apsw.Connection, fields: Fields, kinds: Sequence[Kind]) -> dict[str, set[int]]:
    """Add what is missing; return the new fields by kind."""
    new: dict[str, set[int]] = {}
    for kind, name, type_name in missing(fields, kinds):
        fid = connection.execute(statements()["insert_field"], (kind, name, type_name)).get
        fields.add(fid, kind, name, type_name)
        if name != KIND_FIELD:
            new.setdefault(kind, set()).add(fid)
    return new


def _index(
    connection: apsw.Connection, fields: Fields, new: dict[str, set[int]], *, url: str
) -> None:
    sql, bodies = statements(), Bodies(connection.execute, url=url)
    for kind, fids in new.items():
        of_kind = fields.numbers[kind, KIND_FIELD]
        for (nid,) in connection.execute(sql["objects_ever"], (of_kind,)).fetchall():
            object_id = key_text(connection.execute(sql["text_of"], (nid,)).get)
            place = text_order(object_id)
            values: dict[int, list[tuple[int, Any]]] = {}
            for row in connection.execute(sql["writes_in"], (nid,)).fetchall():
                wid, form, body = row
                document = bodies.values(form, body, object_id, fields.searched)  # type: ignore[arg-type]
                values[wid] = fields.values(document)  # type: ignore[index]
            for fid, value in (each for found in values.values() for each in found):
                if fid in fids:
                    connection.execute(sql["insert_ever"], (fid, sort_key(value), place, nid))
            _, _, shown, _ = connection.execute(sql["head"], (nid,)).get
            if shown is not None:
                now = values[shown]
                connection.execute(sql["save_fields"], (orjson.dumps(now).decode(), nid))
                for fid, value in now:
                    connection.execute(sql["insert_present"], (fid, sort_key(value), place, nid))
