"""The file of a concept pack: SQLite, read-only once written. Touches the file.

A pack comes from other people, so the file decides nothing: it is opened without its triggers,
views or functions having any effect, its layout must be exactly that of the format, and a value
longer than ``VALUE_BYTES_MAX`` is not read. Rows are checked by the caller.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final, Self, TypeAlias
from urllib.parse import quote

import apsw

from ctxmgr.errors import Corrupt, Incorrect, NewerFormat, NotFound
from ctxmgr.stores.sqlite.connection import statements, translate_errors

APPLICATION_ID: Final = 0x63747870
"""``ctxp`` in the file header."""

FORMAT: Final = 1

FILE_BYTES_MAX: Final = 4 << 30
"""WordNet with vectors takes some 50 MB."""

VALUE_BYTES_MAX: Final = 1_000_000
"""A row that is longer is refused. The longest of WordNet has 3 KB."""

Value: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = tuple[Value, ...]

_SQL: Final = "concept_pack.sql"


class ConceptPackFile:
    """An open pack."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._sql = statements(_SQL)
        self._lock = Lock()
        self.path = path

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a pack; ``Incorrect`` or ``Corrupt`` if the file is something else."""
        if not path.is_file():
            raise NotFound(f"no concept pack at {path}")
        if path.stat().st_size > FILE_BYTES_MAX:
            raise Incorrect(f"{path} has {path.stat().st_size} bytes, more than {FILE_BYTES_MAX}")
        name = f"file:{quote(str(path.absolute()))}?immutable=1"
        with translate_errors(str(path)):
            connection = apsw.Connection(
                name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            )
            try:
                _distrust(connection)
                _check_layout(connection, path)
            except BaseException:
                connection.close()
                raise
        return cls(connection, path)

    def select(self, statement: str, parameters: Mapping[str, Value] | None = None) -> list[Row]:
        """Return the rows of a named statement."""
        with self._lock, translate_errors(str(self.path)):
            return self._connection.execute(self._sql[statement], parameters or {}).fetchall()

    def check_integrity(self) -> None:
        """Read the whole file; ``Corrupt`` if SQLite finds damage."""
        with self._lock, translate_errors(str(self.path)):
            result = self._connection.execute("PRAGMA integrity_check(1)").fetchall()
        if result != [("ok",)]:
            raise Corrupt(f"{self.path} is damaged: {result[0][0] if result else 'no answer'}")

    def close(self) -> None:
        with self._lock:
            self._connection.close()


class ConceptPackWriter:
    """Writes a pack to a temporary file, which takes its name when the writer is closed."""

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise Incorrect(f"there is no directory {path.parent}; create it first")
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
        self._sql = statements(_SQL)
        self._partial.unlink(missing_ok=True)
        with translate_errors(str(path)):
            self._connection = apsw.Connection(str(self._partial))
            self._connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
            self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._connection.execute(f"PRAGMA user_version = {FORMAT}")
            self._connection.execute("BEGIN")
            self._connection.execute(self._sql["layout"])

    def add(self, statement: str, rows: Iterable[Row]) -> None:
        """Insert rows with a named statement."""
        with translate_errors(str(self._path)):
            self._connection.executemany(self._sql[statement], rows)

    def commit(self) -> None:
        """Finish the file and move it to its place, replacing an earlier one."""
        with translate_errors(str(self._path)):
            self._connection.execute("COMMIT")
            self._connection.execute("VACUUM")
            self._connection.close()
        with self._partial.open("rb") as file:
            os.fsync(file.fileno())
        self._partial.replace(self._path)

    def discard(self) -> None:
        """Remove what was written. Does nothing after a commit."""
        self._connection.close()
        self._partial.unlink(missing_ok=True)


def _distrust(connection: apsw.Connection) -> None:
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
    connection.execute("PRAGMA cell_size_check = ON")


def _check_layout(connection: apsw.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").get
    if application != APPLICATION_ID:
        raise Incorrect(f"{path} is not a concept pack")
    found = connection.execute("PRAGMA user_version").get
    assert isinstance(found, int)
    if found > FORMAT:
        raise NewerFormat(f"the concept pack {path}", found, FORMAT)
    if _layout(connection) != _expected_layout():
        raise Corrupt(f"{path}: the tables are not those of a concept pack of format {FORMAT}")


def _layout(connection: apsw.Connection) -> frozenset[Row]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    return frozenset(rows)


@cache
def _expected_layout() -> frozenset[Row]:
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(statements(_SQL)["layout"])
        return _layout(connection)
