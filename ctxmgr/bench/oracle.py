"""The rules of valid and system time, as plainly as they can be said. Pure.

A third witness beside two stores: it holds everything in lists, looks at all of it for every
question, and shares no code with any store. The rules are those of ``core/store.py``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ctxmgr.core.documents import Document
from ctxmgr.core.store import Commit, Delete, Instant, Put, Query
from ctxmgr.core.transactions import written_id


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a version starts, and the transaction that said so."""

    valid_time: Instant
    sequence: int
    system_time: Instant
    document: Document | None


@dataclass(slots=True)
class Oracle:
    """Everything that was ever written, by id."""

    _entries: dict[str, dict[tuple[Instant, int], Entry]] = field(default_factory=dict)

    def learn(self, commit: Commit, writes: Iterable[Put | Delete]) -> None:
        """Take in a committed transaction."""
        for write in writes:
            entries = self._entries.setdefault(written_id(write), {})
            document = write.document if isinstance(write, Put) else None
            start = commit.system_time if write.valid_from is None else write.valid_from
            said = Entry(start, commit.sequence, commit.system_time, document)
            known = _newest(entries.values())
            added = _until(known, said, write.valid_to) if write.valid_to else _open(known, said)
            entries.update({(each.valid_time, each.sequence): each for each in added})

    def visible(self, object_id: str, *, valid: Instant, known: int | None) -> Entry | None:
        """The entry in force at that point; None: nothing is, or it is deleted."""
        entry = _at(_newest(self._known(object_id, known)), valid)
        return None if entry is None or entry.document is None else entry

    def history(
        self,
        object_id: str,
        *,
        since: Instant | None,
        until: Instant | None,
        known: int | None,
        corrections: bool,
    ) -> list[Entry]:
        """Where versions start, by (valid time, sequence)."""
        entries = self._known(object_id, known)
        chosen = entries if corrections else _newest(entries)
        return [
            each
            for each in chosen
            if (since is None or each.valid_time >= since)
            and (until is None or each.valid_time <= until)
        ]

    def find(self, query: Query, *, valid: Instant, known: int | None) -> list[tuple[str, Entry]]:
        """What the query describes, in its order."""
        seen = ((each, self.visible(each, valid=valid, known=known)) for each in self._entries)
        found = [
            (object_id, entry)
            for object_id, entry in seen
            if entry is not None and entry.document is not None and _holds(query, entry.document)
        ]
        found.sort(key=lambda each: _utf16(each[0]))
        if query.order is not None:
            name = query.order.field
            found.sort(
                key=lambda each: _sortable(each[1].document, name), reverse=query.order.descending
            )
        return found

    def _known(self, object_id: str, known: int | None) -> list[Entry]:
        entries = self._entries.get(object_id, {})
        return [entries[each] for each in sorted(entries) if known is None or each[1] <= known]


def _newest(entries: Iterable[Entry]) -> list[Entry]:
    by_time: dict[Instant, Entry] = {}
    for each in sorted(entries, key=lambda entry: (entry.valid_time, entry.sequence)):
        by_time[each.valid_time] = each
    return list(by_time.values())


def _at(newest: list[Entry], valid: Instant) -> Entry | None:
    return next((each for each in reversed(newest) if each.valid_time <= valid), None)


def _open(newest: list[Entry], said: Entry) -> list[Entry]:
    """An entry at the start, and over what merely continues the version visible there."""
    interrupted = _at(newest, said.valid_time)
    added = [said]
    for each in newest:
        if each.valid_time <= said.valid_time:
            continue
        if interrupted is None or interrupted.document is None or each.document is None:
            break
        if each.sequence != interrupted.sequence:
            break
        added.append(replace(said, valid_time=each.valid_time))
    return added


def _until(newest: list[Entry], said: Entry, end: Instant) -> list[Entry]:
    """An entry at the start and at every entry before the end, where the former is restored."""
    inside = [each for each in newest if said.valid_time < each.valid_time < end]
    former = _at(newest, end) or replace(said, document=None)
    return [
        said,
        *(replace(said, valid_time=each.valid_time) for each in inside),
        replace(former, valid_time=end),
    ]


def _holds(query: Query, document: Document) -> bool:
    absent = object()
    if document["type"] != query.kind:
        return False
    if any(document.get(name, absent) != value for name, value in query.where.items()):
        return False
    if query.order is not None and document.get(query.order.field) is None:
        return False
    return query.between is None or _within(query, document)


def _within(query: Query, document: Document) -> bool:
    assert query.between is not None
    value = document.get(query.between.field)
    if value is None:
        return False
    low, high = query.between.low, query.between.high
    return (low is None or _key(low) <= _key(value)) and (high is None or _key(value) < _key(high))


def _sortable(document: Document | None, name: str) -> tuple[int, bytes]:
    assert document is not None
    return _key(document[name])


def _key(value: str | int) -> tuple[int, bytes]:
    return (0, _utf16(value)) if isinstance(value, str) else (value, b"")


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be")
