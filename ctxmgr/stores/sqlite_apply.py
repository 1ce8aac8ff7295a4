"""One logical transaction, applied inside an open SQLite transaction. Touches the database.

Everything that can refuse a transaction (its key, its matches) is judged before its first write.
What is remembered between transactions is only what can never change once it is committed;
``forget`` drops it when a transaction was rolled back.
"""

from typing import Any, Final, TypeAlias

import apsw
import orjson

from ctxmgr.core.canonical import canonical
from ctxmgr.core.documents import KIND
from ctxmgr.core.store import Commit, Instant, Match
from ctxmgr.errors import Conflict, Incorrect
from ctxmgr.stores.sqlite_bodies import Bodies
from ctxmgr.stores.sqlite_fields import KIND_FIELD, Fields, load, sort_key, text_order
from ctxmgr.stores.sqlite_jobs import Change, Job, may_be, value_digest_of
from ctxmgr.stores.sqlite_keys import MARK_EVERY, Marks, had_matches, is_marked, own_key, read_key
from ctxmgr.stores.sqlite_layout import FORMAT
from ctxmgr.stores.sqlite_names import Names
from ctxmgr.stores.sqlite_pack import Packer
from ctxmgr.stores.sqlite_reader import WID_MAX, Context, key_text
from ctxmgr.stores.sqlite_script import Script
from ctxmgr.stores.sqlite_statements import statements
from ctxmgr.stores.sqlite_timeline import Entry, added, sequence_of, wid_of

_Values: TypeAlias = list[tuple[int, Any]]
"""What a document is found by: (fid, value)."""

TOGETHER_MIN: Final = 16
"""Changes from which a transaction is written table by table: no object is in it twice, so what
one of them writes and reads is no other's."""

STALE_HEADS_MAX: Final = 100
"""Heads renewed by one transaction because a version from the future has begun."""


class Applier:
    """Applies transactions, one after the other, on the writer's connection."""

    def __init__(self, connection: apsw.Connection, context: Context) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._clock = context.clock
        self._sql = statements()
        self._store_name = context.store_name
        self._script = Script(connection)
        self._names = Names(self._execute)
        self._fields = Fields()
        self._bodies = Bodies(self._execute, url=context.url)
        self._packer = Packer(self._execute, bodies=self._bodies, name=self._names.number)
        self._marks = Marks()
        self.wrote = False
        """Whether the last transaction, if it failed, left something to be rolled back."""
        self._last: tuple[int, Instant] = (0, 0)
        self._next_until: Instant | None = None
        self._seen: int | None = None
        """SQLite's number for the state that all this was learnt from; None: look again."""

    def begin(self) -> None:
        """Learn what others have done since, if they have; the write lock is held."""
        seen = self._connection.data_version()
        if seen == self._seen:
            return
        self._last = self._execute(self._sql["last_tx"]).get or (0, 0)
        self._marks.begin(self._last[0])
        self._names.begin()
        self._fields = load(self._connection)
        self._next_until = self._execute(self._sql["next_until"]).get
        self._seen = seen

    def end(self) -> None:
        """Note that what was applied is committed: the state is ours until others write."""
        self._seen = self._connection.data_version()

    def forget(self) -> None:
        """Drop what was learnt from writes that were rolled back."""
        self._names.forget()
        self._marks.renew()
        self._packer.forget()
        self._seen = None

    def undo(self) -> None:
        """Go on after the last transaction was rolled back."""
        if self.wrote:
            self.forget()
            self.begin()

    def apply(self, job: Job) -> Commit:
        """Write the transaction, or raise and leave it to the caller to roll back."""
        self.wrote = False
        if job.key is not None and (known := self._known(job.key, job)) is not None:
            return known
        sequence = self._last[0] + 1
        instant = max(self._clock(), self._last[1])
        together = len(job.changes) >= TOGETHER_MIN
        if together:
            matched = [each.object_id for each in job.matches]
            self._names.look_up({*matched, *(each.object_id for each in job.changes)})
        self._judge(job.matches, instant)
        self.wrote = True
        self._names.trim()
        self._script.clear()
        mark = self._marks.mark(sequence, job.matches) if job.key is None else job.digest
        self._script.add(self._sql["insert_tx"], (sequence, instant, job.key, mark))
        for place, change in enumerate(job.changes):
            self._write(wid_of(sequence, place), change, instant)
            if not together:
                self._script.run()
        self._script.run()
        self._renew_heads(instant)
        self._last = (sequence, instant)
        self._marks.follow(sequence)
        token = f"{self._store_name}-{sequence}"
        key = job.key or own_key(self._marks.chance, sequence)
        return Commit(sequence=sequence, system_time=instant, key=key, token=token)

    def _known(self, key: str, job: Job) -> Commit | None:
        row = self._execute(self._sql["tx_by_key"], (key,)).get
        same = row is not None and self._is_of(row[0], row[2], job)
        if row is None and (row := self._own(key)) is not None:
            same = had_matches(row[2], job.matches) and self._wrote_same(row[0], job.changes)
        if row is None:
            return None
        if not same:
            raise Incorrect(f"the key {key} was used for other operations before")
        sequence, instant, _ = row
        token = f"{self._store_name}-{sequence}"
        return Commit(sequence=sequence, system_time=instant, key=key, token=token, repeated=True)

    def _is_of(self, sequence: int, digest: bytes, job: Job) -> bool:
        """Tell whether a transaction with a key is of this job's operations."""
        if digest == job.digest or digest == value_digest_of(job):
            return True
        return may_be(digest, job) and self._wrote_same(sequence, job.changes)

    def _own(self, key: str) -> tuple[int, Instant, bytes | None] | None:
        """The transaction that was committed without a key and got this one."""
        own = read_key(key)
        row = own and self._execute(self._sql["tx_by_seq"], (own.sequence,)).get
        if own is None or row is None or row[2] is not None:
            return None
        mark = self._execute(self._sql["mark_of"], (own.sequence, MARK_EVERY)).get
        return (row[0], row[1], row[3]) if is_marked(mark, own) else None

    def _wrote_same(self, sequence: int, changes: tuple[Change, ...]) -> bool:
        """Tell whether that transaction wrote what is to be written now."""
        rows: list[Any] = self._execute(
            self._sql["writes_of"], (wid_of(sequence), wid_of(sequence + 1))
        ).fetchall()
        stored = [
            [name, *times, None if body is None else self._bodies.document(form, body, name)]
            for name, *times, form, body in ((key_text(row[0]), *row[1:]) for row in rows)
        ]
        asked = [
            [each.object_id, each.valid_from, each.valid_to, each.prepared and each.prepared.back()]
            for each in changes
        ]
        return canonical(stored) == canonical(asked)

    def _judge(self, matches: tuple[Match, ...], instant: Instant) -> None:
        failed = [each.object_id for each in matches if not self._holds(each, instant)]
        if failed:
            raise Conflict(tuple(dict.fromkeys(failed)))

    def _holds(self, match: Match, instant: Instant) -> bool:
        nid = self._names.find(match.object_id)
        at = instant if match.valid_time is None else match.valid_time
        row = nid and self._execute(self._sql["visible"], (nid, at, WID_MAX)).get
        if not row or row[2]:
            return match.token is None
        return match.token == f"{self._store_name}-{sequence_of(row[1])}"

    def _write(self, wid: int, change: Change, instant: Instant) -> None:
        prepared, object_id = change.prepared, change.object_id
        start = instant if change.valid_from is None else change.valid_from
        nid = self._names.find(object_id)
        head = nid and self._execute(self._sql["head"], (nid,)).get
        nid = nid or self._names.add(object_id, self._script.add)
        body = None
        values: _Values = []
        if prepared is not None:
            body = self._packer.body(prepared, nid=nid, wid=wid, before=head and head[2])
            values = self._field_values(prepared.document)
        self._script.add(
            self._sql["insert_write"], (wid, nid, change.valid_from, change.valid_to, FORMAT, body)
        )
        if change.valid_to is None and start <= instant and _is_last(head, start):
            self._script.add(self._sql["insert_entry"], (nid, start, wid, body is None))
            shown = None if body is None else wid
            self._save_head(nid, object_id, (start, None, shown), values, head)
        else:
            self._save_ever(nid, object_id, values)
            self._script.run()
            self._rearrange(nid, wid, change, start)
            self._renew_head(nid, object_id, instant, head, {wid: values})

    def _rearrange(self, nid: int, wid: int, change: Change, start: Instant) -> None:
        known = [Entry(*row) for row in self._execute(self._sql["timeline"], (nid, start))]
        gone = change.prepared is None
        for entry in added(known, wid=wid, gone=gone, start=start, end=change.valid_to):
            self._execute(self._sql["insert_entry"], (nid, *entry))

    def _renew_heads(self, instant: Instant) -> None:
        if self._next_until is None or self._next_until > instant:
            return
        stale = self._execute(self._sql["stale_heads"], (instant, STALE_HEADS_MAX)).fetchall()
        for nid in (int(row[0]) for row in stale):  # type: ignore[arg-type]
            object_id = key_text(self._execute(self._sql["text_of"], (nid,)).get)
            head = self._execute(self._sql["head"], (nid,)).get
            self._renew_head(nid, object_id, instant, head, {})
        self._script.run()
        self._next_until = self._execute(self._sql["next_until"]).get

    def _renew_head(
        self, nid: int, object_id: str, instant: Instant, old: Any, known: dict[int, _Values]
    ) -> None:
        """Look up what is visible at that instant, and until when."""
        row = self._execute(self._sql["visible"], (nid, instant, WID_MAX)).get
        until = self._execute(self._sql["next_start"], (nid, instant)).get
        since, wid, gone = row or (0, 0, 1)
        values: _Values = []
        if not gone:
            values = known[wid] if wid in known else self._stored_values(wid, object_id)
        self._save_head(nid, object_id, (since, until, None if gone else wid), values, old)

    def _save_head(
        self, nid: int, object_id: str, head: tuple[Any, ...], values: _Values, old: Any
    ) -> None:
        fields = orjson.dumps(values).decode()
        self._script.add(self._sql["save_head"], (nid, *head, fields))
        if (until := head[1]) is not None:
            self._next_until = min(until, self._next_until or until)
        if not old:
            found = _found_by(nid, text_order(object_id), values)
            self._script.add(self._sql["insert_ever"], found)
            self._script.add(self._sql["insert_present"], found)
        elif old[3] != fields:
            self._save_present(nid, object_id, old[3], values)

    def _save_ever(self, nid: int, object_id: str, values: _Values) -> None:
        found = _found_by(nid, text_order(object_id), values)
        self._script.add(self._sql["insert_ever"], found)

    def _save_present(self, nid: int, object_id: str, old: str, values: _Values) -> None:
        """Let the object be found by what its head shows now; what it showed it has ever had."""
        place = text_order(object_id)
        was = [(fid, sort_key(value)) for fid, value in orjson.loads(old)]
        now = [(fid, sort_key(value)) for fid, value in values]
        for fid, key in was:
            if (fid, key) not in now:
                self._script.add(self._sql["delete_present"], (fid, key, place))
        new = [each for each, key in zip(values, now, strict=True) if key not in was]
        found = _found_by(nid, place, new)
        self._script.add(self._sql["insert_ever"], found)
        self._script.add(self._sql["insert_present"], found)

    def _stored_values(self, wid: int, object_id: str) -> _Values:
        stored = self._bodies.stored(wid, object_id)
        names = self._fields.searched
        return self._field_values(self._bodies.values(*stored, object_id, names))

    def _field_values(self, document: dict[str, Any]) -> _Values:
        kind = document[KIND]
        if (kind, KIND_FIELD) not in self._fields.numbers:
            fid = self._execute(self._sql["insert_field"], (kind, KIND_FIELD, KIND)).get
            self._fields.add(fid, kind, KIND_FIELD, KIND)
        return self._fields.values(document)


def _found_by(nid: int, place: bytes, values: _Values) -> list[Any]:
    """What an object is found by, as it is written: row after row."""
    found: list[Any] = []
    for fid, value in values:
        found += (fid, sort_key(value), place, nid)
    return found


def _is_last(head: Any, start: Instant) -> bool:
    """Tell whether nothing in the object's timeline lies after that valid time."""
    return head is None or (head[1] is None and start >= head[0])
