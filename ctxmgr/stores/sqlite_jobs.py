"""A checked transaction on its way to the writer, its documents in bytes. Computes.

The bytes are taken before anyone else has a turn: whatever the caller does to a document after
that changes neither what is written nor what the key stands for.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import orjson

from ctxmgr.core.store import Delete, Instant, Match, Put
from ctxmgr.core.transactions import Checked, digest, written_id
from ctxmgr.stores.sqlite_keys import hash_of_matches
from ctxmgr.stores.sqlite_prepare import Prepared, prepare

_WRITES_BYTES: Final = 24
"""Of a digest: the beginning of the writes' hash. The rest is of the matches."""


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
    """Name the operations by the bytes they were given in, so that naming costs one hash.

    Other bytes may say the same: a retry that wrote its keys in another order. Whoever finds
    another digest asks ``may_be`` and compares what was written.
    """
    hashed = hashlib.sha256()
    for change in changes:
        for part in _parts(change):
            hashed.update(part)
    return hashed.digest()[:_WRITES_BYTES] + hash_of_matches(matches)


def may_be(digest: bytes, job: Job) -> bool:
    """Tell whether operations that were named so had the matches of this job."""
    return job.digest is not None and digest[_WRITES_BYTES:] == job.digest[_WRITES_BYTES:]


def value_digest_of(job: Job) -> bytes:
    """Name the operations by their values, as files of earlier versions have it."""
    writes = tuple(_write(each) for each in job.changes)
    return bytes.fromhex(digest(Checked(job.matches, writes)))


def _parts(change: Change) -> Iterator[bytes]:
    prepared = change.prepared
    size = None if prepared is None else prepared.size
    yield orjson.dumps([change.object_id, change.valid_from, change.valid_to, size])
    if prepared is None:
        return
    if prepared.json is not None:
        yield prepared.json
    for name, raw in prepared.raws:
        yield orjson.dumps(name)
        yield raw


def _change(write: Put | Delete) -> Change:
    prepared = prepare(write.document) if isinstance(write, Put) else None
    return Change(written_id(write), prepared, write.valid_from, write.valid_to)


def _write(change: Change) -> Put | Delete:
    if change.prepared is None:
        return Delete(change.object_id, change.valid_from, change.valid_to)
    return Put(change.prepared.back(), change.valid_from, change.valid_to)
