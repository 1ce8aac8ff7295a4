"""Query Parquet files and Arrow tables with DuckDB, in memory. Reads files.

    DuckdbEngine       our own statements, over files that are named explicitly
    run_select         a person's statement: read-only, without access to any other file

DuckDB's errors become those of ``ctxmgr.errors``. Needs the extra ``experience``.
"""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer
from typing import Any, Final

from ctxmgr.errors import Corrupt, Incorrect, Unavailable, requires_extra

with requires_extra("experience", "duckdb", "pyarrow"):
    import duckdb
    import pyarrow as pa

MEMORY: Final = "1GB"
"""What one query may use. Temporary files are off: a query must not fill the disk."""

_CONFIG: Final[Mapping[str, str | bool | int | float | list[str]]] = {
    "threads": 1,
    "memory_limit": MEMORY,
    "temp_directory": "",
    "python_enable_replacements": False,  # a table name must not reach a Python variable
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectResult:
    """The rows of a statement."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool
    """Whether there are more rows than the limit."""


class DuckdbEngine:
    """Runs our own statements. Thread-safe: one at a time."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:", config=dict(_CONFIG))
        self._connection.execute("SET parquet_metadata_cache = true")  # the files never change
        self._lock = Lock()

    def rows(
        self,
        sql: str,
        values: Sequence[object] = (),
        *,
        tables: Mapping[str, pa.Table] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a statement; ``Corrupt`` if a file cannot be read.

        ``Unavailable`` if it needs more memory than ``MEMORY``. Tables that the statement does not
        name are ignored: registering one takes as long as a small query.
        """
        named = {name: table for name, table in (tables or {}).items() if name in sql}
        with self._lock, _registered(self._connection, named):
            try:
                return self._connection.execute(sql, list(values)).fetchall()
            except duckdb.OutOfMemoryException as error:
                raise Unavailable(
                    f"the query needs more than {MEMORY} of memory: ask for fewer steps"
                ) from error
            except duckdb.Error as error:
                raise Corrupt(f"a query of segments failed: {_first_line(error)}") from error

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def run_select(
    sql: str,
    *,
    views: Mapping[str, str],
    tables: Mapping[str, pa.Table],
    files: Sequence[Path],
    rows_max: int,
    seconds_max: float,
) -> SelectResult:
    """Run one SELECT over ``views``, which are made of ``tables`` and ``files``.

    Only these files can be read, and none be written. ``Incorrect`` if the statement is wrong, or
    is anything but one SELECT; ``Unavailable`` if it takes too long.
    """
    with duckdb.connect(":memory:", config=dict(_CONFIG)) as connection:
        try:
            statements = connection.extract_statements(sql)
        except duckdb.Error as error:
            raise Incorrect(_first_line(error)) from error
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise Incorrect("only one SELECT statement can be run: the log is read-only here")
        try:
            for name, table in tables.items():
                connection.register(name, table)
            for name, definition in views.items():
                connection.execute(f"CREATE VIEW {name} AS {definition}")
            _close_off(connection, files)
        except duckdb.Error as error:
            raise Corrupt(f"the log cannot be read: {_first_line(error)}") from error
        return _bounded(connection, sql, rows_max=rows_max, seconds_max=seconds_max)


def copy_views(
    folder: Path, *, views: Mapping[str, str], tables: Mapping[str, pa.Table]
) -> dict[str, int]:
    """Write views as Parquet files into a folder; return the rows of each."""
    with (
        duckdb.connect(":memory:", config=dict(_CONFIG)) as connection,
        _registered(connection, tables),
    ):
        try:
            for name, definition in views.items():
                connection.execute(f"CREATE VIEW {name} AS {definition}")
            return {name: _copy(connection, name, folder / f"{name}.parquet") for name in views}
        except duckdb.Error as error:
            if os.strerror(errno.ENOSPC) in str(error):
                raise Unavailable(f"{folder}: the disk is full; nothing was exported") from error
            raise Corrupt(f"the log cannot be exported: {_first_line(error)}") from error


def _copy(connection: duckdb.DuckDBPyConnection, name: str, path: Path) -> int:
    rows = connection.execute(
        f"COPY (FROM {name}) TO {quoted(str(path))} (FORMAT parquet, COMPRESSION zstd)"
    ).fetchall()
    return int(rows[0][0])


def _close_off(connection: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> None:
    paths = ", ".join(quoted(str(path)) for path in files)
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _bounded(
    connection: duckdb.DuckDBPyConnection, sql: str, *, rows_max: int, seconds_max: float
) -> SelectResult:
    timer = Timer(seconds_max, connection.interrupt)
    timer.start()
    try:
        # As a subquery: DuckDB lets a SELECT write with COPY in a WITH clause, but not in there.
        result = connection.execute(f"FROM query({quoted(sql)})")
        columns = tuple(str(column[0]) for column in result.description or ())
        rows = result.fetchmany(rows_max + 1)
    except duckdb.InterruptException as error:
        raise Unavailable(
            f"the query was stopped after {seconds_max:g} s; ask for less, or give it more time"
        ) from error
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise Unavailable(f"the query failed: {_first_line(error)}") from error
    except duckdb.Error as error:
        raise Incorrect(_first_line(error)) from error
    finally:
        timer.cancel()
    return SelectResult(
        columns=columns, rows=tuple(rows[:rows_max]), truncated=len(rows) > rows_max
    )


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _registered(
    connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]
) -> Iterator[None]:
    for name, table in tables.items():
        connection.register(name, table)
    try:
        yield
    finally:
        for name in tables:
            connection.unregister(name)


def _first_line(error: duckdb.Error) -> str:
    return str(error).partition("\n")[0][:500]
