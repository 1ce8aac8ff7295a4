"""A reference implementation of valid and system time, for comparison with stores. Pure.

It keeps all entries in memory, scans them for every question, and shares no code with any store.
The rules are those of ``core.store.contract``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ctxmgr.core.store.contract import Commit, Delete, Instant, Put, Query
from ctxmgr.core.store.documents import Document
from ctxmgr.core.store.transactions import written_id


@dataclass(frozen=True, slots=True)
class OracleEntry:
    """The start of a version, and the transaction that wrote it."""

    valid_time: Instant
    sequence: int
    system_time: Instant
    document: Document | None


@dataclass(slots=True)
class Oracle:
    """All entries that were ever written, by id."""

    _entries: dict[str, dict[tuple[Instant, int], OracleEntry]] = field(default_factory=dict)

    def add(self, commit: Commit, writes: Iterable[Put | Delete]) -> None:
        """Add a committed transaction."""
        for write in writes:
            entries = self._entries.setdefault(written_id(write), {})
            document = write.document if isinstance(write, Put) else None
            start = commit.system_time if write.valid_from is None else write.valid_from
            entry = OracleEntry(start, commit.sequence, commit.system_time, document)
            newest = _newest(entries.values())
            end = write.valid_to
            added = _bounded(newest, entry, end) if end else _unbounded(newest, entry)
            entries.update({(new.valid_time, new.sequence): new for new in added})

    def visible(self, object_id: str, *, valid: Instant, known: int | None) -> OracleEntry | None:
        """Return the entry that is valid then; None if there is none, or it is a deletion."""
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
    ) -> list[OracleEntry]:
        """Return the starts of versions, ordered by valid time and sequence."""
        entries = self._known(object_id, known)
        chosen = entries if corrections else _newest(entries)
        return [
            entry
            for entry in chosen
            if (since is None or entry.valid_time >= since)
            and (until is None or entry.valid_time <= until)
        ]

    def find(
        self, query: Query, *, valid: Instant, known: int | None
    ) -> list[tuple[str, OracleEntry]]:
        """Return the objects that the query matches, in its order."""
        visible = (
            (object_id, self.visible(object_id, valid=valid, known=known))
            for object_id in self._entries
        )
        matching = [
            (object_id, entry, entry.document)
            for object_id, entry in visible
            if entry is not None and entry.document is not None and _matches(query, entry.document)
        ]
        matching.sort(key=lambda row: _utf16(row[0]))
        if query.order is not None:
            name = query.order.field
            matching.sort(key=lambda row: _key(row[2][name]), reverse=query.order.descending)
        return [(object_id, entry) for object_id, entry, _ in matching]

    def _known(self, object_id: str, known: int | None) -> list[OracleEntry]:
        entries = self._entries.get(object_id, {})
        return [entries[key] for key in sorted(entries) if known is None or key[1] <= known]


def _newest(entries: Iterable[OracleEntry]) -> list[OracleEntry]:
    by_time: dict[Instant, OracleEntry] = {}
    for entry in sorted(entries, key=lambda entry: (entry.valid_time, entry.sequence)):
        by_time[entry.valid_time] = entry
    return list(by_time.values())


def _at(newest: list[OracleEntry], valid: Instant) -> OracleEntry | None:
    return next((entry for entry in reversed(newest) if entry.valid_time <= valid), None)


def _unbounded(newest: list[OracleEntry], new: OracleEntry) -> list[OracleEntry]:
    """Return the entry at its start, and over entries that continue the version visible there."""
    interrupted = _at(newest, new.valid_time)
    added = [new]
    for entry in newest:
        if entry.valid_time <= new.valid_time:
            continue
        if interrupted is None or interrupted.document is None or entry.document is None:
            break
        if entry.sequence != interrupted.sequence:
            break
        added.append(replace(new, valid_time=entry.valid_time))
    return added


def _bounded(newest: list[OracleEntry], new: OracleEntry, end: Instant) -> list[OracleEntry]:
    """Return the entry at its start and over all entries before the end; restore the rest there."""
    inside = [entry for entry in newest if new.valid_time < entry.valid_time < end]
    former = _at(newest, end) or replace(new, document=None)
    return [
        new,
        *(replace(new, valid_time=entry.valid_time) for entry in inside),
        replace(former, valid_time=end),
    ]


def _matches(query: Query, document: Document) -> bool:
    absent = object()
    if document["type"] != query.kind:
        return False
    if any(document.get(name, absent) != value for name, value in query.where.items()):
        return False
    if query.order is not None and document.get(query.order.field) is None:
        return False
    if query.between is None:
        return True
    value = document.get(query.between.field)
    if value is None:
        return False
    low, high = query.between.low, query.between.high
    return (low is None or _key(low) <= _key(value)) and (high is None or _key(value) < _key(high))


def _key(value: str | int) -> tuple[int, bytes]:
    return (0, _utf16(value)) if isinstance(value, str) else (value, b"")


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be")
