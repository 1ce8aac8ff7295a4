"""Append to the tail, and read what is in it. Touches ``log.sqlite``.

    steps ─► batches ─► one transaction: the batches, the session's last tick, the size of the tail

What an append returned for is on disk. Ticks are given under the write lock, so that several
processes can append to one session.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ctxmgr.core.events.events import EventOrigin
from ctxmgr.errors import Conflict, Incorrect
from ctxmgr.experience.log.batches import (
    BATCH_STEPS_MAX,
    FORMAT,
    TOP_K,
    Body,
    batch_parts,
    check_steps,
    decode,
    encode,
    highest,
    to_batch,
)
from ctxmgr.experience.log.concept_codes import ConceptCodes
from ctxmgr.experience.records.timestep import TICK_MAX, NewTimestep, check_session_id
from ctxmgr.stores.layer_file import LayerFile, SqlConnection, rows_of

CACHED_STEPS_MAX: Final = 1_000_000
"""Decoded steps of the tail that a reader keeps, some 250 MB with ten activations each."""

ROWS: Final = "id, session, tick0, n, ts0, ts1, acts, format, raw"


class AppendedSteps(NamedTuple):
    """What an append has done, and how much the tail holds since."""

    first_tick: int
    last_tick: int
    tail_batches: int
    tail_steps: int


class TailRow(NamedTuple):
    """A batch of the tail, without its body."""

    id: int
    session: str
    tick0: int
    n: int
    ts0: int
    ts1: int
    acts: int
    format: int
    raw: int


class _Prepared(NamedTuple):
    n: int
    ts0: int
    ts1: int
    acts: int
    body: Body


class Tail:
    """The tail of one log. Thread-safe; several processes may each have one."""

    def __init__(self, file: LayerFile, codes: ConceptCodes, *, top_k: int = TOP_K) -> None:
        self._file = file
        self._codes = codes
        self._top_k = top_k
        self._decoded: dict[int, pa.RecordBatch] = {}

    def append(
        self,
        session_id: str,
        steps: Sequence[NewTimestep],
        *,
        first_tick: int | None = None,
        origin: EventOrigin | None = None,
        origin_time: int = 0,
    ) -> AppendedSteps | None:
        """Store steps durably; None if the event of ``origin`` was recorded before, or has none.

        Without ``first_tick`` they continue the session. A tick that is not after the session's
        last one is a ``Conflict``.
        """
        check_session_id(session_id)
        check_steps(steps)
        kept = [highest(step.concept_activations, top_k=self._top_k) for step in steps]
        codes = self._codes.codes_of({concept for scores in kept for concept in scores})
        batches = [
            to_batch(steps[part], codes=codes, activations=kept[part])
            for part in batch_parts(steps, kept)
        ]
        return self.append_batches(
            session_id, batches, first_tick=first_tick, origin=origin, origin_time=origin_time
        )

    def append_batches(
        self,
        session_id: str,
        batches: Iterable[pa.RecordBatch],
        *,
        first_tick: int | None = None,
        origin: EventOrigin | None = None,
        origin_time: int = 0,
    ) -> AppendedSteps | None:
        """Store batches durably, as ``append`` does."""
        prepared = [_prepare(batch) for batch in batches]
        steps = sum(each.n for each in prepared)
        if not steps and origin is None:
            raise Incorrect("there is nothing to append")
        with self._file.writing() as connection:
            if origin is not None and not _advance(connection, origin, origin_time):
                return None
            if not steps:
                return None
            first = _begin(connection, session_id, steps, first_tick)
            tick = first
            for each in prepared:
                connection.execute(
                    "INSERT INTO tail (session, tick0, n, ts0, ts1, acts, format, raw, body)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (session_id, tick, each.n, each.ts0, each.ts1, each.acts, FORMAT, *each.body),
                )
                tick += each.n
            size = rows_of(
                connection,
                "UPDATE tail_size SET batches = batches + ?, steps = steps + ?"
                " RETURNING batches, steps",
                (len(prepared), steps),
            )
        return AppendedSteps(first, tick - 1, *size[0])

    def batch(self, connection: SqlConnection, row: TailRow) -> pa.RecordBatch:
        """Return the batch of a row that this transaction sees; decoded ones are kept."""
        batch = self._decoded.get(row.id)
        if batch is None:
            body: bytes = connection.execute("SELECT body FROM tail WHERE id = ?", (row.id,)).get
            batch = decode(
                body, raw_bytes=row.raw, file_format=row.format, where=f"{self._file.path}"
            )
            self._decoded[row.id] = batch
        return batch

    def forget_folded(self, connection: SqlConnection) -> None:
        """Drop decoded batches that are no longer in the tail, and too many of them."""
        oldest = connection.execute("SELECT min(id) FROM tail").get
        kept, steps = dict[int, pa.RecordBatch](), 0
        for row_id, batch in reversed(self._decoded.items()):
            if oldest is not None and row_id >= oldest:
                steps += batch.num_rows
                if steps <= CACHED_STEPS_MAX:
                    kept[row_id] = batch
        self._decoded = dict(reversed(kept.items()))


def tail_rows(
    connection: SqlConnection,
    *,
    session_id: str | None = None,
    ticks: tuple[int, int] | None = None,
    times: tuple[int, int] | None = None,
) -> list[TailRow]:
    """Return the batches that can hold such steps, in the order they were appended."""
    conditions, values = ["1"], list[object]()
    if session_id is not None:
        conditions.append("session = ?")
        values.append(session_id)
    if ticks is not None:
        conditions.append("tick0 <= ? AND tick0 + n > ?")
        values += [ticks[1], ticks[0]]
    if times is not None:
        conditions.append("ts0 <= ? AND ts1 >= ?")
        values += [times[1], times[0]]
    sql = f"SELECT {ROWS} FROM tail WHERE {' AND '.join(conditions)} ORDER BY id"
    return [TailRow(*row) for row in connection.execute(sql, values)]


def last_tick(connection: SqlConnection, session_id: str) -> int:
    """Return the last tick of a session; 0 if it has none."""
    row = connection.execute(
        "SELECT last_tick FROM session WHERE session_id = ?", (session_id,)
    ).fetchone()
    return 0 if row is None else int(row[0])


def _prepare(batch: pa.RecordBatch) -> _Prepared:
    if not 0 < batch.num_rows <= BATCH_STEPS_MAX:
        raise Incorrect(f"a batch has 1 to {BATCH_STEPS_MAX:,} steps, not {batch.num_rows:,}")
    times = pc.min_max(batch.column("ts")).as_py()
    acts = len(batch.column("codes").flatten())
    return _Prepared(batch.num_rows, times["min"], times["max"], acts, encode(batch))


def _begin(connection: SqlConnection, session_id: str, steps: int, first_tick: int | None) -> int:
    last = last_tick(connection, session_id)
    first = last + 1 if first_tick is None else first_tick
    if first <= last:
        raise Conflict((f"tick {first} of session {session_id}",))
    if not 0 < first <= first + steps - 1 <= TICK_MAX:
        raise Incorrect(f"tick {first} is not a tick: the first is 1, the last {TICK_MAX}")
    connection.execute(
        "INSERT INTO session VALUES (?, ?, ?) ON CONFLICT (session_id) DO UPDATE"
        " SET last_tick = excluded.last_tick, steps = steps + excluded.steps",
        (session_id, first + steps - 1, steps),
    )
    return first


def _advance(connection: SqlConnection, origin: EventOrigin, time: int) -> bool:
    """Remember the event that is recorded; False if it, or a later one, was recorded before."""
    row = connection.execute(
        "SELECT sequence, position FROM listened WHERE store = ?", (origin.store,)
    ).fetchone()
    if row is not None and tuple(row) >= (origin.sequence, origin.position):
        return False
    connection.execute(
        "INSERT OR REPLACE INTO listened VALUES (?, ?, ?, ?)",
        (origin.store, origin.sequence, origin.position, time),
    )
    return True
