"""Applies one logical transaction inside an open SQLite transaction. Touches the database.

Everything that can refuse a transaction (its key, its matches, an object that has a single version)
is checked before its first write.
State is remembered between transactions only if it can never change once it is committed;
``forget`` drops it after a rollback.

Writes are collected in a ``StatementBatch`` and executed together:

    few rows     one script in one call of the driver, in two thirds of the time of single calls
    many rows    each statement with dozens of rows per call: as fast as the driver's own loop,
                 and other threads can run between calls

A batch runs statement by statement, each with its rows in order. So no row may depend on a row of
another statement, and no statement may return rows: the driver would stop there and leave the rest
of the script for later.

An insert of several rows with ``OR ABORT`` (SQLite's default) or ``OR REPLACE`` keeps a copy of
each page that it changes, to undo itself if one row fails, which takes longer than inserting the
rows. The writer undoes the whole transaction, so our inserts say ``OR FAIL``.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias

import apsw
import orjson

from ctxmgr.core.store.canonical import canonical
from ctxmgr.core.store.contract import Commit, IdForm, Instant, Match
from ctxmgr.core.store.documents import KIND
from ctxmgr.core.store.transactions import is_single_version, other_kind, second_version
from ctxmgr.errors import Conflict, Incorrect
from ctxmgr.stores.sqlite.body_format import FORMAT
from ctxmgr.stores.sqlite.body_reader import BodyReader
from ctxmgr.stores.sqlite.body_writer import BodyWriter, Names
from ctxmgr.stores.sqlite.connection import statements
from ctxmgr.stores.sqlite.fields import KIND_FIELD, Fields, load, sort_key, text_order
from ctxmgr.stores.sqlite.reader import WID_MAX, StoreContext, key_text
from ctxmgr.stores.sqlite.submission import (
    MARK_EVERY,
    Change,
    GeneratedKey,
    Job,
    Marks,
    generated_key,
    mark_has_matches,
    may_be_same,
    value_digest,
)
from ctxmgr.stores.sqlite.timeline import VersionStart, entries_added, sequence_of, wid_of

BATCHED_CHANGES_MIN: Final = 16
"""Changes from which a transaction is written table by table. That is safe because a transaction
has no object twice, so no change reads what another one writes."""

STALE_HEADS_MAX: Final = 100
"""Heads that one transaction refreshes because a version with a future valid time has begun."""

SCRIPT_ROWS_MAX: Final = 64
"""Rows that are executed as one script. A script is parsed again whenever its text changes."""

ROWS_PER_CALL: Final = (64, 8, 1)
"""Rows of one insert, largest that fits first. Few sizes make few texts, which the driver keeps
parsed; it keeps none above 16 KB."""

_SQL_TEXTS_MAX: Final = 256
"""Cached texts: a dozen statements, for as many rows as documents have searchable values."""

_FieldValues: TypeAlias = list[tuple[int, Any]]
"""The searchable values of a document: (fid, value)."""


class Applier:
    """Applies transactions, one after the other, on the writer's connection."""

    def __init__(self, connection: apsw.Connection, context: StoreContext) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._clock = context.clock
        self._sql = statements()
        self._store_name = context.store_name
        self._kinds = context.kinds
        self._batch = StatementBatch(connection)
        self._names = Names(self._execute)
        self._fields = Fields()
        self._body_reader = BodyReader(self._execute, url=context.url)
        self._body_writer = BodyWriter(
            self._execute, reader=self._body_reader, number_of=self._names.number
        )
        self._marks = Marks()
        self.wrote = False
        """Whether the last transaction, if it failed, left something to roll back."""
        self._last: tuple[int, Instant] = (0, 0)
        self._next_until: Instant | None = None
        """When the first head expires; None: no head does."""
        self._data_version: int | None = None
        """SQLite's ``data_version`` when the state above was read; None: read it again."""

    def begin(self) -> None:
        """Read what other processes have written since, if they have; the write lock is held."""
        data_version = self._connection.data_version()
        if data_version == self._data_version:
            return
        self._last = self._execute(self._sql["last_tx"]).get or (0, 0)
        self._marks.begin(self._last[0])
        self._names.begin()
        self._fields = load(self._connection)
        self._next_until = self._execute(self._sql["next_until"]).get
        self._data_version = data_version

    def end(self) -> None:
        """Record that everything applied is committed: the state is current until others write."""
        self._data_version = self._connection.data_version()

    def forget(self) -> None:
        """Drop state that comes from writes that were rolled back."""
        self._names.forget()
        self._marks.renew()
        self._body_writer.forget()
        self._data_version = None

    def undo(self) -> None:
        """Continue after the last transaction was rolled back to its savepoint."""
        if self.wrote:
            self.forget()
            self.begin()

    def apply(self, job: Job) -> Commit:
        """Write the transaction, or raise and leave the rollback to the caller."""
        self.wrote = False
        if job.key is not None and (repeated := self._repeated_commit(job.key, job)) is not None:
            return repeated
        sequence = self._last[0] + 1
        # System times never decrease, even if the machine's clock is set back.
        instant = max(self._clock(), self._last[1])
        batched = len(job.changes) >= BATCHED_CHANGES_MIN
        if batched:
            matched = [match.object_id for match in job.matches]
            self._names.preload({*matched, *(change.object_id for change in job.changes)})
        failed = [match.object_id for match in job.matches if not self._holds(match, instant)]
        if failed:
            raise Conflict(tuple(dict.fromkeys(failed)))
        for change in job.changes:
            self._refuse_second_version(change, instant)
        self.wrote = True
        self._names.trim()
        self._batch.clear()  # what an earlier transaction that failed has left
        mark = self._marks.next(sequence, job.matches) if job.key is None else job.digest
        self._batch.add(self._sql["insert_tx"], (sequence, instant, job.key, mark))
        for number, change in enumerate(job.changes):
            self._write(wid_of(sequence, number), change, instant)
            if not batched:
                self._batch.run()
        self._batch.run()
        self._refresh_stale_heads(instant)
        self._last = (sequence, instant)
        self._marks.follow(sequence)
        token = f"{self._store_name}-{sequence}"
        key = job.key or generated_key(self._marks.nonce, sequence)
        return Commit(sequence=sequence, system_time=instant, key=key, token=token)

    def _repeated_commit(self, key: str, job: Job) -> Commit | None:
        """Return the earlier commit of this key; ``Incorrect`` if it had other operations."""
        row = self._execute(self._sql["tx_by_key"], (key,)).get
        same = row is not None and self._has_same_operations(row[0], row[2], job)
        if row is None and (row := self._find_by_generated_key(key)) is not None:
            same = mark_has_matches(row[2], job.matches) and self._wrote_same(row[0], job.changes)
        if row is None:
            return None
        if not same:
            raise Incorrect(f"the key {key!r} was used for other operations; use a new key")
        sequence, instant, _ = row
        token = f"{self._store_name}-{sequence}"
        return Commit(sequence=sequence, system_time=instant, key=key, token=token, repeated=True)

    def _has_same_operations(self, sequence: int, digest: bytes, job: Job) -> bool:
        """Whether the transaction with a caller's key had the operations of this job."""
        if digest == job.digest or digest == value_digest(job):
            return True
        return may_be_same(digest, job) and self._wrote_same(sequence, job.changes)

    def _find_by_generated_key(self, key: str) -> tuple[int, Instant, bytes | None] | None:
        """Find the transaction that was committed without a key and got this one."""
        generated = GeneratedKey.parse(key)
        row = generated and self._execute(self._sql["tx_by_seq"], (generated.sequence,)).get
        if generated is None or row is None or row[2] is not None:
            return None
        mark = self._execute(self._sql["mark_of"], (generated.sequence, MARK_EVERY)).get
        return (row[0], row[1], row[3]) if generated.has_mark(mark) else None

    def _wrote_same(self, sequence: int, changes: tuple[Change, ...]) -> bool:
        """Whether that transaction wrote exactly these changes."""
        rows: list[Any] = self._execute(
            self._sql["writes_of"], (wid_of(sequence), wid_of(sequence + 1))
        ).fetchall()
        stored = [
            [name, *times, None if body is None else self._body_reader.document(form, body, name)]
            for name, *times, form, body in ((key_text(row[0]), *row[1:]) for row in rows)
        ]
        wanted = [
            [object_id, valid_from, valid_to, encoded and encoded.decode()]
            for object_id, encoded, valid_from, valid_to in changes
        ]
        return canonical(stored) == canonical(wanted)

    def _holds(self, match: Match, instant: Instant) -> bool:
        nid = self._names.find(match.object_id)
        at = instant if match.valid_time is None else match.valid_time
        row = nid and self._execute(self._sql["visible"], (nid, at, WID_MAX)).get
        if not row or row[2]:
            return match.token is None
        return match.token == f"{self._store_name}-{sequence_of(row[1])}"

    def _refuse_second_version(self, change: Change, instant: Instant) -> None:
        """Raise ``Incorrect`` if this would change an object that has a single version.

        An id of a reserved form belongs to one kind, and ids that are new belong to none yet, so
        most documents need no query here.
        """
        if change.encoded is None:
            return
        kind, object_id = change.encoded.document[KIND], change.object_id
        if kind in self._kinds and self._kinds[kind].ids is not IdForm.FREE:
            return
        nid = self._names.find(object_id)
        head = nid and self._execute(self._sql["head"], (nid,)).get
        if not head:
            return
        wid = head[2] or self._execute(self._sql["last_put"], (nid,)).get
        if wid is None:  # it was only ever deleted
            return
        stored_kind = self._fields.kind_of(head[3]) if head[2] else self._kind_of(wid, object_id)
        if is_single_version(stored_kind, self._kinds):
            document = self._body_reader.document(
                *self._body_reader.stored(wid, object_id), object_id
            )
            if canonical(document) != canonical(change.encoded.decode()):
                raise second_version(object_id, stored_kind)
        elif is_single_version(kind, self._kinds):
            visible = self._execute(self._sql["visible"], (nid, instant, WID_MAX)).get
            if visible and not visible[2]:
                raise other_kind(object_id, kind)

    def _kind_of(self, wid: int, object_id: str) -> str:
        stored = self._body_reader.stored(wid, object_id)
        kind: str = self._body_reader.values(*stored, object_id, {KIND})[KIND]
        return kind

    def _write(self, wid: int, change: Change, instant: Instant) -> None:
        encoded, object_id = change.encoded, change.object_id
        start = instant if change.valid_from is None else change.valid_from
        nid = self._names.find(object_id)
        head = nid and self._execute(self._sql["head"], (nid,)).get
        nid = nid or self._names.add(object_id, self._batch.add)
        body = None
        values: _FieldValues = []
        if encoded is not None:
            body = self._body_writer.body(encoded, nid=nid, wid=wid, previous=head and head[2])
            values = self._field_values(encoded.document)
        self._batch.add(
            self._sql["insert_write"], (wid, nid, change.valid_from, change.valid_to, FORMAT, body)
        )
        if change.valid_to is None and start <= instant and _is_newest(head, start):
            # The usual case: a version that is visible from now on. No timeline has to be read.
            self._batch.add(self._sql["insert_entry"], (nid, start, wid, body is None))
            visible = None if body is None else wid
            self._save_head(nid, object_id, (start, None, visible), values, head)
        else:
            rows = _index_rows(nid, text_order(object_id), values)
            self._batch.add(self._sql["insert_ever"], rows)
            self._batch.run()
            self._insert_entries(nid, wid, change, start)
            self._refresh_head(nid, object_id, instant, head, {wid: values})

    def _insert_entries(self, nid: int, wid: int, change: Change, start: Instant) -> None:
        rows = self._execute(self._sql["timeline"], (nid, start))
        timeline = [VersionStart(*row) for row in rows]
        gone = change.encoded is None
        for entry in entries_added(timeline, wid=wid, gone=gone, start=start, end=change.valid_to):
            self._execute(self._sql["insert_entry"], (nid, *entry))

    def _refresh_stale_heads(self, instant: Instant) -> None:
        if self._next_until is None or self._next_until > instant:
            return
        stale = self._execute(self._sql["stale_heads"], (instant, STALE_HEADS_MAX)).fetchall()
        for nid in (int(row[0]) for row in stale):  # type: ignore[arg-type]
            object_id = key_text(self._execute(self._sql["text_of"], (nid,)).get)
            head = self._execute(self._sql["head"], (nid,)).get
            self._refresh_head(nid, object_id, instant, head, {})
        self._batch.run()
        self._next_until = self._execute(self._sql["next_until"]).get

    def _refresh_head(
        self,
        nid: int,
        object_id: str,
        instant: Instant,
        old: Any,
        values_by_wid: dict[int, _FieldValues],
    ) -> None:
        """Read from the timeline what is visible at that instant, and until when."""
        row = self._execute(self._sql["visible"], (nid, instant, WID_MAX)).get
        until = self._execute(self._sql["next_start"], (nid, instant)).get
        since, wid, gone = row or (0, 0, 1)
        values: _FieldValues = []
        if not gone and wid in values_by_wid:
            values = values_by_wid[wid]
        elif not gone:
            stored = self._body_reader.stored(wid, object_id)
            searched = self._body_reader.values(*stored, object_id, self._fields.searched)
            values = self._field_values(searched)
        self._save_head(nid, object_id, (since, until, None if gone else wid), values, old)

    def _save_head(
        self, nid: int, object_id: str, head: tuple[Any, ...], values: _FieldValues, old: Any
    ) -> None:
        fields = orjson.dumps(values).decode()
        self._batch.add(self._sql["save_head"], (nid, *head, fields))
        if (until := head[1]) is not None:
            self._next_until = min(until, self._next_until or until)
        if not old:
            rows = _index_rows(nid, text_order(object_id), values)
            self._batch.add(self._sql["insert_ever"], rows)
            self._batch.add(self._sql["insert_present"], rows)
        elif old[3] != fields:
            self._update_index(nid, object_id, old[3], values)

    def _update_index(
        self, nid: int, object_id: str, old_fields: str, values: _FieldValues
    ) -> None:
        """Replace the values of the old head in ``present``; ``ever`` has them already."""
        place = text_order(object_id)
        old = [(fid, sort_key(value)) for fid, value in orjson.loads(old_fields)]
        new = [(fid, sort_key(value)) for fid, value in values]
        for fid, key in old:
            if (fid, key) not in new:
                self._batch.add(self._sql["delete_present"], (fid, key, place))
        added = [value for value, key in zip(values, new, strict=True) if key not in old]
        rows = _index_rows(nid, place, added)
        self._batch.add(self._sql["insert_ever"], rows)
        self._batch.add(self._sql["insert_present"], rows)

    def _field_values(self, document: dict[str, Any]) -> _FieldValues:
        kind = document[KIND]
        if (kind, KIND_FIELD) not in self._fields.numbers:
            fid = self._execute(self._sql["insert_field"], (kind, KIND_FIELD, KIND)).get
            self._fields.add(fid, kind, KIND_FIELD, KIND)
        return self._fields.values(document)


class StatementBatch:
    """Collects writes until they are run."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self._bound: dict[str, list[Any]] = {}
        """Values by statement, row after row: a tuple per row would cost more."""

    def add(self, text: str, values: Sequence[Any]) -> None:
        """Add the values of any number of rows to a statement."""
        bound = self._bound.get(text)
        if bound is not None:
            bound += values
        elif values:
            self._bound[text] = list(values)

    def run(self) -> None:
        """Execute everything that was added."""
        batch = self._bound
        self.clear()
        counts = {text: len(bound) // text.count("?") for text, bound in batch.items()}
        if sum(counts.values()) > SCRIPT_ROWS_MAX:
            for text, bound in batch.items():
                for count, values in _slices(bound, text.count("?")):
                    self._execute(for_rows(text, count), values)
        elif batch:
            texts = [for_rows(text, count) for text, count in counts.items()]
            self._execute(";".join(texts), [*chain(*batch.values())])

    def clear(self) -> None:
        """Drop what was not run."""
        self._bound = {}


@lru_cache(_SQL_TEXTS_MAX)
def for_rows(text: str, count: int) -> str:
    """Return the statement for that many rows: one multi-row insert, or the text repeated."""
    row = f"({', '.join('?' * text.count('?'))})"
    if row not in text:
        return ";".join([text] * count)
    return text.replace(row, ", ".join([row] * count))


def _slices(bound: list[Any], width: int) -> Iterator[tuple[int, list[Any]]]:
    """Divide rows of that width into calls, each with its number of rows."""
    start = 0
    for count in ROWS_PER_CALL:
        while len(bound) - start >= count * width:
            yield count, bound[start : start + count * width]
            start += count * width


def _index_rows(nid: int, place: bytes, values: _FieldValues) -> list[Any]:
    """Return the rows of ``ever`` or ``present`` for an object, as one flat list."""
    rows: list[Any] = []
    for fid, value in values:
        rows += (fid, sort_key(value), place, nid)
    return rows


def _is_newest(head: Any, start: Instant) -> bool:
    """Whether the object's timeline has nothing after that valid time."""
    return head is None or (head[1] is None and start >= head[0])
