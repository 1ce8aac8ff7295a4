"""A checked transaction on its way to the writer, its documents in bytes. Computes.

The bytes are taken before anyone else has a turn: whatever the caller does to a document after
that changes neither what is written nor what the key stands for.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ctxmgr.core.store import Delete, Instant, Match, Put
from ctxmgr.core.transactions import Checked, digest, written_id
from ctxmgr.stores.sqlite_prepare import Prepared, prepare


class Change(NamedTuple):
    """A put or a delete with its document in bytes; None: deleted."""

    object_id: str
    prepared: Prepared | None
    valid_from: Instant | None
    valid_to: Instant | None


class Job(NamedTuple):
    """A checked transaction."""

    matches: tuple[Match, ...]
    changes: tuple[Change, ...]
    key: str | None
    digest: bytes | None
    size: int
    """Bytes of JSON."""


def changes_of(checked: Checked) -> tuple[Change, ...]:
    """Encode the documents of a transaction."""
    return tuple(_change(write) for write in checked.writes)


def size_of(changes: Sequence[Change]) -> int:
    """Bytes of JSON."""
    return sum(each.prepared.size for each in changes if each.prepared is not None)


def digest_of(matches: tuple[Match, ...], changes: Sequence[Change]) -> bytes:
    """Name the operations as they were when they were given."""
    return bytes.fromhex(digest(Checked(matches, tuple(_write(each) for each in changes))))


def _change(write: Put | Delete) -> Change:
    prepared = prepare(write.document) if isinstance(write, Put) else None
    return Change(written_id(write), prepared, write.valid_from, write.valid_to)


def _write(change: Change) -> Put | Delete:
    if change.prepared is None:
        return Delete(change.object_id, change.valid_from, change.valid_to)
    return Put(change.prepared.back(), change.valid_from, change.valid_to)
