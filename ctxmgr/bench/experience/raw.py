"""What the experience log is compared with: raw engines, with a durable commit per batch.

They get the same steps in the form that suits them, which is made before the clock starts.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

import apsw
import duckdb
import orjson
import pyarrow as pa

from ctxmgr.bench.experience.steps import StepBatch, concept_names
from ctxmgr.experience.log.batches import encode
from ctxmgr.experience.log.concept_codes import ConceptCodes
from ctxmgr.experience.log.fold import FOLD_STEPS, Folding
from ctxmgr.experience.log.folder import LogFolder
from ctxmgr.experience.log.open_file import open_log_file
from ctxmgr.experience.log.segments import SessionRun, segment_rows, timesteps_table
from ctxmgr.experience.log.tail import Tail
from ctxmgr.stores.layer_file import LayerFile

_NAMES: Final = dict(enumerate(concept_names(), 1))

_SCHEMA: Final = """
CREATE TABLE timesteps (id VARCHAR PRIMARY KEY, session_id VARCHAR NOT NULL, tick BIGINT NOT NULL,
  ts TIMESTAMP NOT NULL, event_type VARCHAR NOT NULL, content VARCHAR, event_id VARCHAR,
  event_start BOOLEAN, event_end BOOLEAN, token_id BIGINT, role VARCHAR, fidelity VARCHAR,
  compression_level INTEGER, concept_activations JSON);
CREATE INDEX idx_timesteps_session_tick ON timesteps (session_id, tick);
CREATE INDEX idx_timesteps_fidelity ON timesteps (fidelity);
CREATE INDEX idx_timesteps_ts ON timesteps (ts);
"""


class BenchedStore(Protocol):
    """Something that stores batches durably."""

    def prepare(self, batch: StepBatch) -> Any: ...

    def append(self, prepared: Any) -> None: ...

    def bytes(self) -> int:
        """Bytes on disk, after everything was written."""
        ...

    def close(self) -> None: ...


class LogParts(NamedTuple):
    """The parts of a log that write, without threads."""

    tail: Tail
    folding: Folding
    folder: LogFolder
    file: LayerFile

    @classmethod
    def open(cls, root: Path) -> Self:
        folder, file = LogFolder(root), open_log_file(root)
        folder.create()
        codes = ConceptCodes(file)
        codes.codes_of(concept_names())
        return cls(Tail(file, codes), Folding(folder, file, codes), folder, file)


class OurLog:
    """The experience log; every append that fills the tail folds it."""

    def __init__(self, root: Path) -> None:
        self._parts = LogParts.open(root)

    def prepare(self, batch: StepBatch) -> StepBatch:
        return batch

    def append(self, prepared: StepBatch) -> None:
        appended = self._parts.tail.append_batches(prepared.session, [prepared.columns])
        assert appended is not None
        if appended.tail_steps >= FOLD_STEPS:
            self._parts.folding.fold()

    def bytes(self) -> int:
        while self._parts.folding.fold():
            pass
        self._parts.folding.merge()  # as a log does after a fold
        with self._parts.file.reading() as connection:
            segments = segment_rows(connection)
        return sum(each.timesteps_bytes + each.activations_bytes for each in segments)

    def close(self) -> None:
        pass


class DuckdbTable:
    """Raw DuckDB without an index, activations as a MAP."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self._file = root / "raw.duckdb"
        self._connection = duckdb.connect(str(self._file), config={"threads": 1})
        self._first = True

    def prepare(self, batch: StepBatch) -> pa.Table:
        return as_table(batch)

    def append(self, prepared: pa.Table) -> None:
        self._connection.register("batch", prepared)
        if self._first:
            self._connection.execute("CREATE TABLE timesteps AS FROM batch WITH NO DATA")
            self._first = False
        self._connection.execute("INSERT INTO timesteps FROM batch").fetchall()
        self._connection.unregister("batch")

    def bytes(self) -> int:
        self._connection.execute("CHECKPOINT").fetchall()
        return self._file.stat().st_size

    def close(self) -> None:
        self._connection.close()


class DuckdbRowsSchema(DuckdbTable):
    """DuckDB with the table of the requirements: a primary key, three indexes, JSON."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._connection.execute(_SCHEMA)
        self._first = False

    def rows(self, statement: str, values: list[object]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(statement, values).fetchall()
        return found

    def prepare(self, batch: StepBatch) -> pa.Table:
        table = as_table(batch)
        texts = [
            orjson.dumps(dict(pairs)).decode()
            for pairs in table.column("concept_activations").to_pylist()
        ]
        table = table.drop_columns(["concept_activations"])
        table = table.append_column("fidelity", pa.array(["hot"] * len(texts)))
        table = table.append_column("compression_level", pa.array([0] * len(texts), pa.int32()))
        return table.append_column("concept_activations", pa.array(texts))


class SqliteRows:
    """SQLite with a row per step, and its activations as a blob."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self._file = root / "raw.db"
        self._connection = apsw.Connection(str(self._file))
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE TABLE timesteps (session_id, tick, ts, event_type, content, event_id, token_id,"
            " activations BLOB, PRIMARY KEY (session_id, tick)) WITHOUT ROWID"
        )

    def prepare(self, batch: StepBatch) -> list[tuple[Any, ...]]:
        columns = batch.columns.to_pydict()
        activations = zip(columns["codes"], columns["scores"], strict=True)
        blobs = [
            b"".join(code.to_bytes(4, "little") for code in codes)
            + b"".join(round(score * 10_000).to_bytes(2, "little") for score in scores)
            for codes, scores in activations
        ]
        names = ("ts", "event_type", "content", "event_id", "token_id")
        rows = zip(*(columns[name] for name in names), blobs, strict=True)
        return [(batch.session, tick, *row) for tick, row in enumerate(rows, batch.tick0)]

    def append(self, prepared: list[tuple[Any, ...]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            "INSERT INTO timesteps VALUES (?, ?, ?, ?, ?, ?, ?, ?)", prepared
        )
        self._connection.execute("COMMIT")

    def bytes(self) -> int:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self._file.stat().st_size

    def close(self) -> None:
        self._connection.close()


class SqliteBlobs:
    """SQLite with a row per batch: the smallest durable commit of the same bytes."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self._connection = apsw.Connection(str(root / "raw.db"))
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE batch (id INTEGER PRIMARY KEY, body BLOB)")

    def append(self, body: bytes) -> None:
        self._connection.execute("INSERT INTO batch (body) VALUES (?)", (body,))

    def close(self) -> None:
        self._connection.close()


def as_table(batch: StepBatch) -> pa.Table:
    """Return a batch with plain columns, and activations as a MAP."""
    run = SessionRun(session_id=batch.session, ticks=(batch.tick0,), batches=(batch.columns,))
    table = timesteps_table([run], _NAMES)
    plain = {
        name: table.column(name).cast(pa.string()) for name in ("session_id", "event_type", "role")
    }
    for name, column in plain.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def body_of(batch: StepBatch) -> bytes:
    """Return the bytes that the tail stores of a batch."""
    return encode(batch.columns).data
