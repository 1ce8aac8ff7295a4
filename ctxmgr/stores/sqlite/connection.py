"""The file of a SQLite store: address, connections, layout, SQL. Touches the file system.

    sqlite:///x.db        relative path
    sqlite:////x.db       absolute path
    sqlite://:memory:     in memory, until it is closed

Driver errors are translated in ``translate_error`` and nowhere else.

SQL is in package files, which are read once. A migration is a whole file with a number; other
statements have a name and a description:

    -- name: visible
    -- The entry in force at a valid time.
    SELECT …;
"""

import itertools
import os
import random
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, unquote

import apsw

from ctxmgr.core.private_files import make_private_file
from ctxmgr.core.store.urls import redact_url, shown_store
from ctxmgr.errors import (
    Corrupt,
    CtxmgrError,
    Denied,
    Incorrect,
    NewerFormat,
    NotFound,
    Unavailable,
)

_STORES: Final = Path(__file__).parent.parent
"""Importing ``importlib.resources`` would take longer than opening a store."""

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^--.*\n?", re.MULTILINE)
_MIGRATION: Final = re.compile(r"(\d{3})_\w+\.sql")


@cache
def statements(file: str = "sqlite/sql/statements.sql") -> Mapping[str, str]:
    """Return the statements of an SQL file by name."""
    text = (_STORES / file).read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: _COMMENT.sub("", body).strip().rstrip(";") for name, body in pairs}


@cache
def migrations() -> tuple[str, ...]:
    """Return the scripts that lead from an empty file to the current layout, in order."""
    folder = _STORES / "sqlite" / "sql"
    numbered = {
        int(match[1]): script.read_text(encoding="utf-8")
        for script in folder.iterdir()
        if (match := _MIGRATION.fullmatch(script.name))
    }
    assert sorted(numbered) == list(range(1, len(numbered) + 1)), "migrations have gaps"
    return tuple(numbered[number] for number in sorted(numbered))


Durability: TypeAlias = Literal["full", "normal"]
"""``full``: a commit survives a power loss. ``normal``: it survives a crash of the process."""

APPLICATION_ID: Final = 0x6374786D
"""``ctxm`` in the file header; a file with another id is never changed."""

BUSY_WAIT_MS: Final = 10_000
"""How long a writer waits for other processes, which is enough for thousands of groups."""

BUSY_PAUSE_MS: Final = 10
"""Between two attempts, where SQLite's busy timeout does not apply."""

LOCK_PAUSES_MS: Final = (0.2, 2.0)
"""Between two attempts to get another process's lock: a COMMIT takes one to five milliseconds."""

PAGE_BYTES: Final = 16_384
"""Several texts of 2 KB share a page. With SQLite's 4 KB each would take one and leave half of it
empty."""

CACHE_KIB: Final = 32_768
"""Page cache per connection."""

FILE_BYTES_MIN: Final = 512
"""SQLite's smallest file. It treats a smaller one as an empty database and overwrites it."""

_HEADER: Final = b"SQLite format 3\0"
_SCHEME: Final = "sqlite://"
_MEMORY: Final = ":memory:"
_memory_names = itertools.count(1)


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    """Where a store is."""

    url: str
    filename: str
    """The driver's name for it: a path, or a URI."""
    path: Path | None
    """None: in memory."""


def parse_url(url_or_path: str | Path) -> SqliteAddress:
    """Parse a URL or a path; ``Incorrect`` if it is malformed."""
    if isinstance(url_or_path, Path):
        return _file_address(url_or_path)
    if url_or_path == _MEMORY or url_or_path.removeprefix(_SCHEME) in {_MEMORY, "/" + _MEMORY}:
        name = f"file:/ctxmgr-{next(_memory_names)}?vfs=memdb"
        return SqliteAddress(f"{_SCHEME}{_MEMORY}", name, None)
    if "://" not in url_or_path:
        return _file_address(Path(url_or_path))
    if not url_or_path.startswith(_SCHEME):
        raise Incorrect(
            f"{redact_url(url_or_path)}: not a SQLite URL; it must start with {_SCHEME}/"
        )
    rest = url_or_path.removeprefix(_SCHEME)
    if not rest.startswith("/") or "?" in rest or "#" in rest:
        raise Incorrect(
            f"{redact_url(url_or_path)}: not a SQLite URL; write sqlite:///relative.db, "
            f"sqlite:////absolute.db or sqlite://{_MEMORY}, without options"
        )
    return _file_address(Path(unquote(rest[1:])))


def resolve_access(address: SqliteAddress, *, create: bool) -> SqliteAddress:
    """Check that the file can be opened and return how; without ``create`` it must exist.

    SQLite needs to write files beside the database. In a read-only folder a store can be read only
    while it does not change, so it is opened as immutable.
    """
    path = address.path
    if path is None:
        return address
    if not create and not path.exists():
        shown = shown_store(address.url)
        raise NotFound(f"no store at {shown}; create one with `ctxmgr demo --store {shown}`")
    if path.is_dir():
        raise Incorrect(f"{path} is a directory, not a ctxmgr store")
    if not path.parent.is_dir():
        raise Incorrect(f"there is no directory {path.parent}; create it first")
    if path.exists() and not _may_be_database(path):
        raise Incorrect(f"{path} is not a ctxmgr store")
    if os.access(path.parent, os.W_OK):
        return address
    if not path.exists():
        raise Denied(f"{address.url}: the folder is not writable")
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size:
        raise Denied(f"{address.url}: has a write-ahead log, and the folder is not writable")
    return replace(address, filename=f"file:{quote(str(path))}?immutable=1")


def _may_be_database(path: Path) -> bool:
    """Return whether a file is empty or begins as SQLite's files do.

    One whose first page was overwritten with zeros counts as a damaged database.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(_HEADER))
    except OSError:
        return True  # the driver reports why it cannot be opened
    return not start or (
        path.stat().st_size >= FILE_BYTES_MIN and (start == _HEADER or not any(start))
    )


def _file_address(path: Path) -> SqliteAddress:
    if not path.name or "\0" in str(path):
        raise Incorrect(f"{str(path)!r} is not the path of a file")
    return SqliteAddress(f"{_SCHEME}/{path}", str(path.absolute()), path.absolute())


@contextmanager
def translate_errors(where: str) -> Iterator[None]:
    """Raise the driver's errors as ours."""
    try:
        yield
    except apsw.Error as error:
        raise translate_error(error, where) from error


_ERRORS: Final[tuple[tuple[tuple[type[apsw.Error], ...], type[CtxmgrError], str], ...]] = (
    (
        (apsw.BusyError, apsw.LockedError),
        Unavailable,
        f"locked by another process for {BUSY_WAIT_MS} ms; retry later",
    ),
    ((apsw.FullError,), Unavailable, "the disk is full; nothing was written"),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError),
        Denied,
        "the file or its folder is not writable",
    ),
    (
        (apsw.CorruptError, apsw.NotADBError),
        Corrupt,
        "the file is damaged; keep a copy, then restore a backup",
    ),
    ((apsw.CantOpenError,), Unavailable, "cannot be opened"),
    ((apsw.TooBigError,), Incorrect, "a value is too large for SQLite"),
)
"""By the driver's error: ours, and its message. Others are Unavailable."""


def translate_error(error: apsw.Error, where: str) -> CtxmgrError:
    """Return our error for a driver's; for callers on a path too hot for a context manager."""
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHORT_READ:
        return Corrupt(
            f"{where}: the file is truncated; keep a copy, then restore a backup ({error})"
        )
    for theirs, ours, meaning in _ERRORS:
        if isinstance(error, theirs):
            return ours(f"{where}: {meaning} ({error})")
    return Unavailable(f"{where}: {error}; nothing was written")


def connect(address: SqliteAddress, *, durability: Durability, writes: bool) -> apsw.Connection:
    """Open a connection with the settings that all connections of a store have."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(address.filename, flags=flags)
    try:
        wait_for_lock(connection)
        connection.execute(f"PRAGMA synchronous = {durability}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute("PRAGMA temp_store = MEMORY")  # savepoints copy pages there
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # see the module ``checkpoint``
        if not writes:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def wait_for_lock(connection: apsw.Connection) -> None:
    """Make statements wait for other processes' locks, up to ``BUSY_WAIT_MS``."""
    connection.set_busy_handler(_LockWait())


class _LockWait:
    """SQLite's busy handler, with short random pauses.

    SQLite's own pauses grow to 100 ms. Of several processes that write all the time, one that has
    waited long then asks less often than those that have just written, and may wait for seconds.
    """

    def __init__(self) -> None:
        self._until = 0.0

    def __call__(self, earlier_calls: int) -> bool:
        """Wait a little; False: give up."""
        now = time.monotonic()
        if not earlier_calls:
            self._until = now + BUSY_WAIT_MS / 1_000
        if now >= self._until:
            return False
        time.sleep(random.uniform(*LOCK_PAUSES_MS) / 1_000)  # noqa: S311 -- not a secret
        return True


def open_migrated(address: SqliteAddress) -> apsw.Connection:
    """Open the file, creating a private one if needed, and bring its layout up to date.

    If several processes do this at once, one does the work and the others wait for it.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    if address.path is not None:
        with suppress(OSError):  # SQLite says what is wrong
            make_private_file(address.path)
    connection = apsw.Connection(address.filename, flags=flags)
    try:
        connection.set_busy_timeout(BUSY_WAIT_MS)
        _migrate(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def enable_wal(connection: apsw.Connection) -> None:
    """Switch the file to write-ahead logging; waits for other processes."""
    # SQLite ignores its busy timeout here.
    deadline = time.monotonic() + BUSY_WAIT_MS / 1_000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(BUSY_PAUSE_MS / 1_000)
        else:
            return


def _migrate(connection: apsw.Connection, address: SqliteAddress) -> None:
    if _pragma(connection, "page_count") == 0:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    version = _check_header(connection, address)
    if version == len(migrations()):
        return
    if address.path is not None:
        enable_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        # Read again under the write lock: another process may have migrated meanwhile.
        version = _check_header(connection, address)
        for script in migrations()[version:]:
            connection.execute(script)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations())}")
    connection.execute("COMMIT")


def _check_header(connection: apsw.Connection, address: SqliteAddress) -> int:
    """Return the version of the layout; refuse other programs' files and newer layouts."""
    application = _pragma(connection, "application_id")
    version = _pragma(connection, "user_version")
    is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").get == 0
    if application != APPLICATION_ID:
        if is_empty and application == 0 and version == 0:
            return 0
        raise Incorrect(f"{shown_store(address.url)} is not a ctxmgr store, but of another program")
    if version > len(migrations()):
        raise NewerFormat(address.url, version, len(migrations()))
    return version


def _pragma(connection: apsw.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").get
    return value
