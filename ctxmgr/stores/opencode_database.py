"""Reads the sessions in opencode's database. Reads a SQLite file, which it never changes.

    session    id, parent, what was undone
    message    one JSON object each, in the order of the ids
    part       one JSON object each: text, tool calls with results, steps

``read_session`` returns a session as ``opencode export`` writes it. The file is somebody else's:
only ordinary tables of these names are read, neither views nor virtual tables nor columns that are
computed, so no code in its schema runs. It may be in use.
"""

import json
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

ROWS_MAX: Final = 1_000_000
"""Messages, or parts, of one session; one of weeks has some ten thousand."""

_TABLES: Final = ("session", "message", "part")
_COLUMNS: Final = ("id", "parent_id", "revert", "session_id", "message_id", "data", "time_created")
_ORDINARY_TABLES: Final = f"""
SELECT name FROM sqlite_schema AS found
WHERE type = 'table' AND rootpage > 0 AND NOT EXISTS (
    SELECT 1 FROM pragma_table_xinfo(found.name) AS field
    WHERE field.hidden > 1 AND field.name COLLATE NOCASE IN {_COLUMNS}
)
"""  # noqa: S608 (our own names)
"""Virtual tables have no root page; hidden columns are computed."""


def session_ids(path: Path, *, limit: int) -> list[str]:
    """Return the ids of its sessions, in their order; ``Incorrect`` if it is another file.

    One that is not UTF-8 is returned with replacements, and not found by ``read_session``.
    """
    with _reading(path) as connection:
        rows: Any = connection.execute(
            "SELECT CAST(id AS BLOB) FROM session WHERE id IS NOT NULL ORDER BY id LIMIT ?",
            (limit,),
        )
        return [row[0].decode(errors="replace") for row in rows]


def read_session(path: Path, session_id: str, *, bytes_max: int) -> bytes:
    """Return a session as JSON, as ``opencode export`` writes it.

    ``Incorrect`` if there is no such session, if it is larger, or if a row is damaged.
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
            name = _text(message_id, "the id of a message")
            info = _object(data, f"message {name}") | {"id": name, "sessionID": session_id}
            messages[name] = {"info": info, "parts": []}
        for part_id, message_id, data in connection.execute(
            "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id",
            (session_id,),
        ):
            name = _text(part_id, "the id of a part")
            part = _object(data, f"part {name}") | {"id": name, "sessionID": session_id}
            if message_id in messages:
                messages[message_id]["parts"].append(part | {"messageID": message_id})
    parent, revert = row
    info = {"id": session_id}
    info |= {} if parent is None else {"parentID": _text(parent, "the parent")}
    info |= {} if revert is None else {"revert": _object(revert, "the field revert")}
    return _dumps({"info": info, "messages": list(messages.values())})


def _refuse_large(connection: apsw.Connection, path: Path, session_id: str, bytes_max: int) -> None:
    for table in _TABLES[1:]:
        rows, *sizes = connection.execute(
            f"SELECT count(*), sum(octet_length(data)), sum(octet_length(id)) FROM {table} "  # noqa: S608 (one of our own names)
            "WHERE session_id = ?",
            (session_id,),
        ).get
        if rows > ROWS_MAX:
            raise Incorrect(f"{path}: session {session_id} has more than {ROWS_MAX:,} {table}s")
        if sum(size or 0 for size in sizes) > bytes_max:
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
            missing = set(_TABLES) - {str(row[0]) for row in connection.execute(_ORDINARY_TABLES)}
            if missing:
                raise Incorrect(
                    f"{path} is not a database of opencode: it has no table {min(missing)}"
                )
            yield connection
        finally:
            connection.close()
    except (apsw.Error, UnicodeDecodeError) as error:
        raise Incorrect(f"{path} cannot be read as a database of opencode: {error}") from error


def _object(data: object, where: str) -> dict[str, Any]:
    try:
        value = _loads(data) if isinstance(data, str | bytes) else None
    except (ValueError, RecursionError) as error:
        raise Incorrect(f"{where}: invalid JSON: {error}") from error
    if not isinstance(value, dict):
        raise Incorrect(f"{where}: an object is expected, not {value!r:.80}")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise Incorrect(f"{where}: a text is expected, not {value!r:.80}")
    return value


def _loads(data: str | bytes) -> Any:
    """Parse JSON; JavaScript writes half an emoji as a lone surrogate, which orjson refuses."""
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)


def _dumps(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()
