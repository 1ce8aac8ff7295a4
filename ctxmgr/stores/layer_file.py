"""A SQLite file that belongs to one layer, with a layout of its own. Touches the file.

    open ─► migrations that are missing ─► a connection that writes, and one that reads

Several processes may have the file open. A commit is durable (WAL, ``synchronous=FULL``). Reading
never waits for writing. The migrations are the ``NNN_name.sql`` files of a folder, in their order.
Driver errors become those of ``ctxmgr.errors``.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, TypeAlias, TypeVar

import apsw

from ctxmgr.core.private_files import make_private_file
from ctxmgr.errors import Incorrect, NewerFormat, NotFound
from ctxmgr.stores.sqlite.connection import (
    enable_wal,
    translate_errors,
    wait_for_lock,
)

SqlConnection: TypeAlias = apsw.Connection
"""A connection inside a transaction; for annotations outside ``stores``."""

CHECKPOINT_PAGES: Final = 8_000
"""The write-ahead log is copied to the file when it has grown by these pages: 32 MB."""

_HEADER_BYTES: Final = 100

_MIGRATION: Final = re.compile(r"(\d{3})_\w+\.sql")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LayerLayout:
    """What a layer keeps in its file."""

    application_id: int
    """In the file's header; a file with another id is never changed."""
    migrations: Path
    """The folder with the scripts that lead from an empty file to the current layout."""
    what: str
    """What the file is, for messages."""

    def scripts(self) -> tuple[str, ...]:
        numbered = {
            int(match[1]): script.read_text(encoding="utf-8")
            for script in self.migrations.iterdir()
            if (match := _MIGRATION.fullmatch(script.name))
        }
        assert sorted(numbered) == list(range(1, len(numbered) + 1)), "migrations have gaps"
        return tuple(numbered[number] for number in sorted(numbered))


class LayerFile:
    """An open file. Thread-safe: one transaction writes and one reads at a time."""

    def __init__(self, path: Path, writer: SqlConnection, reader: SqlConnection) -> None:
        self.path = path
        self._writer, self._reader = writer, reader
        self._write_lock, self._read_lock = Lock(), Lock()

    @classmethod
    def open(
        cls,
        path: Path,
        layout: LayerLayout,
        *,
        create: bool = True,
        prepare: Callable[[SqlConnection], object] = lambda _: None,
    ) -> Self:
        """Open the file and bring its layout up to date; ``NotFound`` without ``create``.

        ``prepare`` is called with each connection, for instance to load an extension.
        """
        if not create and not path.exists():
            raise NotFound(f"there is no {layout.what} at {path}")
        if not path.parent.is_dir():
            raise Incorrect(f"{path}: the folder does not exist; create it first")
        with translate_errors(str(path)):
            writer = _connect(path, create=create)
            try:
                _migrate(writer, path, layout)
                reader = _connect(path, create=False)
                reader.execute("PRAGMA query_only = ON")
                prepare(writer)
                prepare(reader)
            except BaseException:
                writer.close()
                raise
        return cls(path, writer, reader)

    @contextmanager
    def writing(self) -> Iterator[SqlConnection]:
        """Write in one transaction, which an exception undoes. Waits for other writers."""
        with self._write_lock, translate_errors(str(self.path)):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[SqlConnection]:
        """Read in one transaction: everything is as of one moment."""
        with self._read_lock, translate_errors(str(self.path)):
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                self._reader.execute("ROLLBACK")

    async def write(self, change: Callable[[SqlConnection], T]) -> T:
        """Run a function in a thread, in one writing transaction."""

        def run() -> T:
            with self.writing() as connection:
                return change(connection)

        return await asyncio.to_thread(run)

    async def read(self, query: Callable[[SqlConnection], T]) -> T:
        """Run a function in a thread, in one reading transaction."""

        def run() -> T:
            with self.reading() as connection:
                return query(connection)

        return await asyncio.to_thread(run)

    async def vacuum(self) -> None:
        """Return the space of deleted rows to the filesystem. Waits for other writers."""

        def run() -> None:
            with self._write_lock, translate_errors(str(self.path)):
                self._writer.execute("VACUUM")

        await asyncio.to_thread(run)

    def close(self) -> None:
        with self._write_lock, self._read_lock, translate_errors(str(self.path)):
            self._reader.close()
            self._writer.close()


def application_of(path: Path) -> int | None:
    """Return the application id in the header of an SQLite file; None if it is not one."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return None
    if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
        return None
    return int.from_bytes(header[68:72], "big")


def remove_file(path: Path) -> None:
    """Delete a file of derived data; who has it open keeps what it has."""
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def file_identity(path: Path) -> tuple[int, int] | None:
    """Identify the file at a path; None: there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def rows_of(
    connection: SqlConnection, sql: str, values: Sequence[object] = ()
) -> list[tuple[Any, ...]]:
    """Return all rows of a statement."""
    return connection.execute(sql, tuple(values)).fetchall()


def _connect(path: Path, *, create: bool) -> SqlConnection:
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    if create:
        with suppress(OSError):  # SQLite says what is wrong
            make_private_file(path)
    connection = apsw.Connection(str(path.absolute()), flags=flags)
    try:
        wait_for_lock(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: SqlConnection, path: Path, layout: LayerLayout) -> None:
    scripts = layout.scripts()
    if _version(connection, path, layout, len(scripts)) == len(scripts):
        return
    enable_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        # Read again under the write lock: another process may have migrated meanwhile.
        for script in scripts[_version(connection, path, layout, len(scripts)) :]:
            connection.execute(script)
        connection.execute(f"PRAGMA application_id = {layout.application_id}")
        connection.execute(f"PRAGMA user_version = {len(scripts)}")
    connection.execute("COMMIT")


def _version(connection: SqlConnection, path: Path, layout: LayerLayout, known: int) -> int:
    """Return the version of the layout; refuse other programs' files and newer layouts."""
    application: int = connection.execute("PRAGMA application_id").get
    version: int = connection.execute("PRAGMA user_version").get
    if application != layout.application_id:
        is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").get == 0
        if is_empty and application == 0 and version == 0:
            return 0
        raise Incorrect(f"{path} is not a {layout.what}; it was not changed")
    if version > known:
        raise NewerFormat(str(path), version, known)
    return version
