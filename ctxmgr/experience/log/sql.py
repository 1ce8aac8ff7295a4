"""Live SQL over the log, under the names of its tables. Reads ``log.sqlite`` and Parquet files.

    timesteps              segments and tail, without what is gone; fidelity from the windows
    activations            one row per timestep and concept
    tags, tag_applications, comments, time_windows, compressed_records, compactions

A statement sees the log as of one moment, also while agents write. It cannot change anything, and
reads no other file. Times are UTC.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from ctxmgr.errors import CtxmgrError, Incorrect
from ctxmgr.experience.log.batches import decode
from ctxmgr.experience.log.concept_codes import ConceptCodes
from ctxmgr.experience.log.folder import LogFolder
from ctxmgr.experience.log.reader import matching_segments, parquet
from ctxmgr.experience.log.segments import (
    ACTIVATIONS_SCHEMA,
    TIMESTEPS_SCHEMA,
    SessionRun,
    activations_table,
    timesteps_table,
)
from ctxmgr.experience.log.tail import ROWS, TailRow
from ctxmgr.stores.duckdb_engine import SelectResult, copy_views, run_select
from ctxmgr.stores.layer_file import LayerFile, SqlConnection, rows_of

ROWS_MAX: Final = 1_000
SECONDS_MAX: Final = 60.0
ATTEMPTS: Final = 3
"""How often a statement is run again because files were merged meanwhile."""

T = TypeVar("T")

_TIMES: Final = frozenset(
    {"created_at", "updated_at", "start_time", "end_time", "timestamp", "submitted_at"}
)
"""Columns of the small tables that are shown as times."""

_TABLES: Final = (
    *("tags", "tag_applications", "comments", "time_windows", "compressed_records"),
    "compactions",
)

_NOT_GONE: Final = (
    "NOT EXISTS (FROM gone_ranges AS g WHERE g.session = t.session_id"
    " AND t.tick BETWEEN g.tick0 AND g.tick1)"
)

_FIDELITY: Final = (
    "LEFT JOIN (SELECT session_id, start_tick, end_tick, fidelity, compression_level"
    " FROM stored_time_windows WHERE superseded_by IS NULL) AS w"
    " ON w.session_id = t.session_id AND t.tick BETWEEN w.start_tick AND w.end_tick"
)


class LogSql:
    """Answers SQL about one log. Thread-safe; each statement opens its own engine."""

    def __init__(self, folder: LogFolder, file: LayerFile, codes: ConceptCodes) -> None:
        self._folder = folder
        self._file = file
        self._codes = codes

    def select(
        self,
        sql: str,
        *,
        rows_max: int = ROWS_MAX,
        seconds_max: float = SECONDS_MAX,
        check: Callable[[], object],
    ) -> SelectResult:
        """Run one SELECT; ``check`` raises if a file of the log is missing or altered."""
        if rows_max < 1 or seconds_max <= 0:
            raise Incorrect("a query returns at least one row, in more than 0 seconds")
        return self._retried(
            lambda tables, views, files: run_select(
                sql,
                views=views,
                tables=tables,
                files=files,
                rows_max=rows_max,
                seconds_max=seconds_max,
            ),
            check=check,
        )

    def export(self, folder: Path, *, check: Callable[[], object]) -> dict[str, int]:
        """Write each table as a Parquet file into a new folder; return their rows by name."""
        folder = folder.absolute()
        if folder.exists():
            raise Incorrect(f"{folder} exists; name a folder that does not")
        partial = folder.with_name(f"{folder.name}.partial")
        try:
            partial.mkdir(mode=0o700)
        except OSError as error:
            raise Incorrect(f"{partial} cannot be created: {error.strerror}") from error
        try:
            counts = self._retried(
                lambda tables, views, _: copy_views(partial, views=views, tables=tables),
                check=check,
            )
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial)
            raise
        return counts

    def _retried(
        self,
        run: Callable[[dict[str, pa.Table], dict[str, str], list[Path]], T],
        *,
        check: Callable[[], object],
    ) -> T:
        """Run something as of a moment, again if files were merged meanwhile."""
        for attempt in range(1, ATTEMPTS + 1):
            tables, views, files = self._moment()
            try:
                return run(tables, views, files)
            except CtxmgrError:
                check()
                if attempt == ATTEMPTS or all(file.exists() for file in files):
                    raise
        raise AssertionError

    def _moment(self) -> tuple[dict[str, pa.Table], dict[str, str], list[Path]]:
        with self._file.reading() as connection:
            segments = matching_segments(connection)
            runs = _tail_runs(connection, where=str(self._file.path))
            names = dict(self._codes.names(connection))
            tables = {f"stored_{name}": _small(connection, name) for name in _TABLES}
            gone = connection.execute("SELECT session, tick0, tick1 FROM gone").fetchall()
        tail = timesteps_table(runs, names) if runs else TIMESTEPS_SCHEMA.empty_table()
        tables["tail_timesteps"] = tail
        tables["tail_activations"] = (
            activations_table(tail) if runs else ACTIVATIONS_SCHEMA.empty_table()
        )
        tables["gone_ranges"] = pa.table(
            {
                "session": pa.array([row[0] for row in gone], pa.string()),
                "tick0": pa.array([row[1] for row in gone], pa.int64()),
                "tick1": pa.array([row[2] for row in gone], pa.int64()),
            }
        )
        timesteps = [self._folder.timesteps(segment.name) for segment in segments]
        activations = [self._folder.activations(segment.name) for segment in segments]
        views = _views(
            timesteps,
            activations,
            gone=bool(gone),
            windows=tables["stored_time_windows"].num_rows > 0,
        )
        views |= {name: _with_times(name, tables[f"stored_{name}"]) for name in _TABLES}
        return tables, views, [*timesteps, *activations]


def _views(
    timesteps: Sequence[Path], activations: Sequence[Path], *, gone: bool, windows: bool
) -> dict[str, str]:
    where = f" WHERE {_NOT_GONE}" if gone else ""
    columns = ", ".join(f"t.{name}" for name in TIMESTEPS_SCHEMA.names if name != _MAP)
    fidelity = (
        "coalesce(w.fidelity, 'hot') AS fidelity,"
        " coalesce(w.compression_level, 0)::INTEGER AS compression_level"
        if windows
        else "'hot' AS fidelity, 0 AS compression_level"
    )
    joined = f" {_FIDELITY}" if windows else ""
    return {
        "timesteps": f"SELECT {columns}, {fidelity}, t.{_MAP}"
        f" FROM ({_both('tail_timesteps', timesteps, TIMESTEPS_SCHEMA)}) AS t{joined}{where}",
        "activations": "SELECT 'ts-' || t.session_id || '-' || t.tick AS timestep_id,"
        " t.concept_id, t.session_id, t.tick, t.day, t.score"
        f" FROM ({_both('tail_activations', activations, ACTIVATIONS_SCHEMA)}) AS t{where}",
    }


_MAP: Final = "concept_activations"


def _both(tail: str, files: Sequence[Path], schema: pa.Schema) -> str:
    columns = ", ".join(schema.names)
    if not files:
        return f"SELECT {columns} FROM {tail}"
    return f"SELECT {columns} FROM {parquet(files)} UNION ALL SELECT {columns} FROM {tail}"


def _tail_runs(connection: SqlConnection, *, where: str) -> list[SessionRun]:
    sessions: dict[str, list[tuple[int, pa.RecordBatch]]] = {}
    for *values, body in connection.execute(f"SELECT {ROWS}, body FROM tail ORDER BY id"):
        row = TailRow(*values)
        batch = decode(body, raw_bytes=row.raw, file_format=row.format, where=where)
        sessions.setdefault(row.session, []).append((row.tick0, batch))
    return [
        SessionRun(
            session_id=session,
            ticks=tuple(tick0 for tick0, _ in batches),
            batches=tuple(batch for _, batch in batches),
        )
        for session, batches in sessions.items()
    ]


def _small(connection: SqlConnection, name: str) -> pa.Table:
    """Return a small table of ``log.sqlite`` as it is."""
    info = rows_of(connection, f"PRAGMA table_info({name})")
    rows = rows_of(connection, f"SELECT * FROM {name}")
    columns = zip(*rows, strict=True) if rows else [() for _ in info]
    return pa.table(
        {
            column[1]: pa.array(list(values), _ARROW[column[2]])
            for column, values in zip(info, columns, strict=True)
        }
    )


_ARROW: Final[Mapping[str, Any]] = {
    "TEXT": pa.string(),
    "INTEGER": pa.int64(),
    "REAL": pa.float64(),
}


def _with_times(name: str, table: pa.Table) -> str:
    shown = ", ".join(
        f'make_timestamp_ms("{column}") AS "{column}"' if column in _TIMES else f'"{column}"'
        for column in table.column_names
    )
    return f"SELECT {shown} FROM stored_{name}"
