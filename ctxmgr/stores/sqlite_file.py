"""The file of a SQLite store: its address, its connections, its layout. Touches the file system.

    sqlite:///x.db        relative
    sqlite:////x.db       absolute
    sqlite://:memory:     gone when closed

Driver errors become ours in ``translate`` and nowhere else.
"""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, unquote

import apsw

from ctxmgr.errors import (
    Corrupt,
    CtxmgrError,
    Denied,
    Incorrect,
    NewerFormat,
    NotFound,
    Unavailable,
)
from ctxmgr.stores.sqlite_statements import migrations

Durability: TypeAlias = Literal["full", "normal"]
"""``full``: a commit survives loss of power. ``normal``: it survives the death of the process."""

APPLICATION_ID: Final = 0x6374786D
"""``ctxm``; in the header, so that a file of another program is never touched."""

BUSY_WAIT_MS: Final = 10_000
"""How long a writer waits for those of other processes; thousands of groups fit into it."""

BUSY_PAUSE_MS: Final = 10
"""Between two tries where SQLite does not wait by itself."""

PAGE_BYTES: Final = 16_384
"""Several texts of 2 KB share a page; on the usual 4 KB each would take one, half of it empty."""

CACHE_KIB: Final = 32_768
"""Page cache per connection."""

FILE_BYTES_MIN: Final = 512
"""SQLite's smallest file. It takes a smaller one for an empty database, and writes over it."""

_SCHEME: Final = "sqlite://"
_MEMORY: Final = ":memory:"
_memory_names = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store lies, in the driver's words and in ours."""

    url: str
    filename: str
    """A path, or a URI of SQLite's memory file system."""
    path: Path | None
    """None: in memory."""


def parse_url(url_or_path: str | Path) -> Address:
    """Read a URL or a plain path; ``Incorrect`` says what is wrong with it."""
    if isinstance(url_or_path, Path):
        return _on_disk(url_or_path)
    if url_or_path == _MEMORY or url_or_path.removeprefix(_SCHEME) in {_MEMORY, "/" + _MEMORY}:
        name = f"file:/ctxmgr-{next(_memory_names)}?vfs=memdb"
        return Address(f"{_SCHEME}{_MEMORY}", name, None)
    if "://" not in url_or_path:
        return _on_disk(Path(url_or_path))
    if not url_or_path.startswith(_SCHEME):
        raise Incorrect(f"{url_or_path}: no SQLite URL; it begins with {_SCHEME}/")
    rest = url_or_path.removeprefix(_SCHEME)
    if not rest.startswith("/") or "?" in rest or "#" in rest:
        raise Incorrect(
            f"{url_or_path}: write sqlite:///relative.db, sqlite:////absolute.db "
            f"or sqlite://{_MEMORY}, without options"
        )
    return _on_disk(Path(unquote(rest[1:])))


def settle(address: Address, *, create: bool) -> Address:
    """Find out how the file can be opened; without ``create`` it must be there.

    SQLite keeps files beside its own, so a folder that cannot be written allows reading only as
    long as nobody writes; it is then told that nobody does.
    """
    path = address.path
    if path is None:
        return address
    if not create and not path.exists():
        raise NotFound(f"{address.url}: there is no store yet; check the path, or save something")
    _check_place(path)
    if os.access(path.parent, os.W_OK):
        return address
    if not path.exists():
        raise Denied(f"{address.url}: its folder cannot be written")
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise Denied(f"{address.url}: has a log to be read, and its folder cannot be written")
    return replace(address, filename=f"file:{quote(str(path))}?immutable=1")


def _on_disk(path: Path) -> Address:
    if not path.name or "\0" in str(path):
        raise Incorrect(f"{str(path)!r} names no file")
    return Address(f"{_SCHEME}/{path}", str(path.absolute()), path.absolute())


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, where) from error


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
        "the file or its folder cannot be written",
    ),
    (
        (apsw.CorruptError, apsw.NotADBError),
        Corrupt,
        "damaged; keep a copy, then restore a backup",
    ),
    ((apsw.CantOpenError,), Unavailable, "cannot be opened"),
    ((apsw.TooBigError,), Incorrect, "a value is larger than SQLite stores"),
)
"""By the driver's error: ours, and what happened. Others are Unavailable."""


def translate(error: apsw.Error, where: str) -> CtxmgrError:
    """Our error for the driver's; for where a context manager would cost too much."""
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHORT_READ:
        return Corrupt(f"{where}: cut off; keep a copy, then restore a backup ({error})")
    for theirs, ours, meaning in _ERRORS:
        if isinstance(error, theirs):
            return ours(f"{where}: {meaning} ({error})")
    return Unavailable(f"{where}: {error}; nothing was written")


def connect(address: Address, *, durability: Durability, writes: bool) -> apsw.Connection:
    """Open a connection that is set up like all others of its store."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(address.filename, flags=flags)
    try:
        connection.set_busy_timeout(BUSY_WAIT_MS)
        connection.execute(f"PRAGMA synchronous = {durability}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute("PRAGMA temp_store = MEMORY")  # where savepoints keep pages
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # sqlite_log does it
        if not writes:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(address: Address) -> apsw.Connection:
    """Make the file if it is not there, bring its layout up to date, and keep it open.

    Of several processes that do this at once one does the work; the others wait for it.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(address.filename, flags=flags)
    try:
        connection.set_busy_timeout(BUSY_WAIT_MS)
        _migrate(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise Incorrect(f"{path}: is a folder, not a file")
    if not path.parent.is_dir():
        raise Incorrect(f"{path}: its folder does not exist")
    if path.exists() and 0 < path.stat().st_size < FILE_BYTES_MIN:
        raise Incorrect(f"{path}: a file of something else; it was not touched")


def _enter_log_mode(connection: apsw.Connection) -> None:
    """Make commits append to a log beside the file. SQLite itself does not wait for a lock here."""
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


def _migrate(connection: apsw.Connection, address: Address) -> None:
    if _pragma(connection, "page_count") == 0:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    version = _check_header(connection, address)
    if version == len(migrations()):
        return
    if address.path is not None:
        _enter_log_mode(connection)
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        version = _check_header(connection, address)
        for script in migrations()[version:]:
            connection.execute(script)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations())}")
    connection.execute("COMMIT")


def _check_header(connection: apsw.Connection, address: Address) -> int:
    """Return the layout's version; refuse what is not ours or newer than us."""
    application, version = (
        _pragma(connection, "application_id"),
        _pragma(connection, "user_version"),
    )
    empty = connection.execute("SELECT count(*) FROM sqlite_schema").get == 0
    if application != APPLICATION_ID:
        if empty and application == 0 and version == 0:
            return 0
        raise Incorrect(f"{address.url}: a SQLite file of another program; it was not touched")
    if version > len(migrations()):
        raise NewerFormat(address.url, version, len(migrations()))
    return version


def _pragma(connection: apsw.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").get
    return value
