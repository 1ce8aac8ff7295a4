"""Reads the sessions in opencode's database. Reads a SQLite file, which it never changes.

    session    id, parent, what was undone
    message    one JSON object each, in the order of the ids
    part       one JSON object each: text, tool calls with results, steps

``read_session`` returns a session as ``opencode export`` writes it. The file is somebody else's:
only tables of these names are read, never views, and no code in its schema runs. It may be in use.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw
import orjson

from ctxmgr.errors import Incorrect

BUSY_MS: Final = 5_000
"""How long reading waits for opencode, which may be writing."""

_TABLES: Final = ("session", "message", "part")


def session_ids(path: Path, *, limit: int) -> list[str]:
    """Return the ids of its sessions, in their order; ``Incorrect`` if it is another file."""
    with _reading(path) as connection:
        rows = connection.execute("SELECT id FROM session ORDER BY id LIMIT ?", (limit,))
        return [str(row[0]) for row in rows]


def read_session(path: Path, session_id: str, *, bytes_max: int) -> bytes:
    """Return a session as JSON, as ``opencode export`` writes it.

    ``Incorrect`` if there is no such session, if it is larger, or if a row is not an object.
    """
    with _reading(path) as connection, connection:
        row = connection.execute(
            "SELECT parent_id, revert FROM session WHERE id = ?", (session_id,)
        ).get
        if row is None:
            raise Incorrect(f"{path} has no session {session_id!r:.80}")
        _refuse_large(connection, path, session_id, bytes_max)
        messages: dict[str, dict[str, Any]] = {}
        for message_id, data in connection.execute(
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
            (session_id,),
        ):
            info = _object(data, f"message {message_id}") | {"id": message_id}
            messages[str(message_id)] = {"info": info | {"sessionID": session_id}, "parts": []}
        for part_id, message_id, data in connection.execute(
            "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id",
            (session_id,),
        ):
            part = _object(data, f"part {part_id}") | {"id": part_id, "sessionID": session_id}
            if message_id in messages:
                messages[message_id]["parts"].append(part | {"messageID": message_id})
    parent, revert = row
    info = {"id": session_id}
    info |= {} if parent is None else {"parentID": parent}
    info |= {} if revert is None else {"revert": _object(revert, "the field revert")}
    return orjson.dumps({"info": info, "messages": list(messages.values())})


def _refuse_large(connection: apsw.Connection, path: Path, session_id: str, bytes_max: int) -> None:
    for table in _TABLES[1:]:
        size = connection.execute(
            f"SELECT coalesce(sum(length(data)), 0) FROM {table} WHERE session_id = ?",  # noqa: S608 (one of our own names)
            (session_id,),
        ).get
        if size > bytes_max:
            raise Incorrect(f"{path}: session {session_id} has more than {bytes_max:,} bytes")


@contextmanager
def _reading(path: Path) -> Iterator[apsw.Connection]:
    try:
        connection = apsw.Connection(
            f"file:{quote(str(path.absolute()))}?mode=ro",
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
        )
        try:
            connection.set_busy_timeout(BUSY_MS)
            connection.execute("PRAGMA trusted_schema = OFF")
            names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            missing = set(_TABLES) - {str(row[0]) for row in names}
            if missing:
                raise Incorrect(
                    f"{path} is not a database of opencode: it has no table {min(missing)}"
                )
            yield connection
        finally:
            connection.close()
    except apsw.Error as error:
        raise Incorrect(f"{path} cannot be read as a database of opencode: {error}") from error


def _object(data: object, where: str) -> dict[str, Any]:
    try:
        value = orjson.loads(data) if isinstance(data, str | bytes) else None
    except ValueError as error:
        raise Incorrect(f"{where}: invalid JSON: {error}") from error
    if not isinstance(value, dict):
        raise Incorrect(f"{where}: an object is expected, not {value!r:.80}")
    return value
