"""A transaction as XTDB takes it, and as its log gives it back. Pure.

    match   ctxmgr/tx/KEY nil                 the key is new: a transaction sent twice aborts once
    match   ctxmgr/tx/OTHER record            anchors: this database holds the pieces left out
    match   ctxmgr/guard/ID …, ID nil         what the caller's matches say
    put     ctxmgr/piece/… from 1970          pieces not known to be stored
    put     ctxmgr/bounded… from 1970         ids that were ever written between two instants
    put     ctxmgr/tx/KEY from 1970           digest, ids deleted (the log shows those only hashed)
    put     ID, delete ID                     the caller's writes, in their order
    put     guard, delete guard               each over the same valid time as its object

Matches stand first, since XTDB judges them in order, after the operations before them. What was put
from 1970 is there at every valid time anyone can ask about.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.core.documents import ID, check_size, check_sizes
from ctxmgr.core.store import Delete, Instant, Match, Put
from ctxmgr.core.transactions import Checked, written_id
from ctxmgr.errors import Corrupt
from ctxmgr.stores.edn import Inst, Keyword, dumps
from ctxmgr.stores.xtdb_known import KnownPieces
from ctxmgr.stores.xtdb_layout import (
    FORMAT,
    Stored,
    entity_of,
    guard_id,
    guard_of,
    instant_edn,
    stored_from,
)
from ctxmgr.stores.xtdb_pieces import PIECE_PREFIX

BOUNDED: Final = "ctxmgr/bounded"
"""Exists once anything was written between two instants."""

DIGEST: Final = Keyword("ctxmgr/digest")
CALL: Final = Keyword("ctxmgr/call")
_DELETED: Final = Keyword("ctxmgr/deleted")
_TX_PREFIX: Final = "ctxmgr/tx/"
_EPOCH: Final = instant_edn(0)
_PUT, _DELETE = Keyword("xtdb.api/put"), Keyword("xtdb.api/delete")
_ID: Final = Keyword(ID)
_FORMAT: Final = Keyword("ctxmgr/format")


@dataclass(frozen=True, slots=True)
class Submission:
    """A transaction ready to be sent, as often as it takes."""

    key: str
    digest: str
    call: str
    """Names the call that made it, so that this call's own resubmission is no repetition."""
    matches: tuple[Match, ...]
    body: bytes
    pieces: tuple[str, ...]
    """The ids of the pieces that are stored once it is committed, put by it or before."""
    anchor: str
    """Its own record, for transactions after it that leave these pieces out."""
    relies: bool
    """It leaves pieces out, so it can only be committed where its anchors are."""

    @property
    def own_key(self) -> bool:
        """Nobody but this call knows the key."""
        return self.key == self.call


@dataclass(frozen=True, slots=True)
class LoggedWrite:
    """A put or delete of one of our transactions; the entity is not yet joined with its pieces."""

    object_id: str
    stored: Stored | None
    deleted: bool
    valid_from: Instant | None
    valid_to: Instant | None


@dataclass(frozen=True, slots=True)
class Logged:
    """One of our transactions as it stands in the log."""

    sequence: int
    system_time: Instant
    key: str
    writes: tuple[LoggedWrite, ...]
    pieces: Mapping[str, Mapping[str, Any]]
    """Those that this transaction put."""


def submission_of(
    checked: Checked, *, key: str, digest: str, call: str, known: KnownPieces
) -> Submission:
    """Write the transaction out, without the pieces that are known to be stored."""
    pieces: dict[str, str] = {}
    sizes: list[int] = []
    writes = [_write(each, key, pieces, sizes) for each in checked.writes]
    check_sizes(sum(sizes))
    anchored = known.anchored(pieces)
    new = {each: text for each, text in pieces.items() if each not in anchored}
    record = _record(checked.writes, key=key, digest=digest, call=call)
    operations = [
        f"[:xtdb.api/match {dumps(tx_id(key))} nil {_EPOCH}]",
        *dict.fromkeys(anchored.values()),
        *map(_match, checked.matches),
        *map(_put_for_ever, new.values()),
        *map(_put_for_ever, _markers(checked.writes)),
        _put_for_ever(_entity(record)),
        *writes,
        *(_guard_write(each, key) for each in checked.writes),
    ]
    body = f"{{:tx-ops [{' '.join(operations)}]}}"
    return Submission(
        key=key,
        digest=digest,
        call=call,
        matches=checked.matches,
        body=body.encode(),
        pieces=tuple(pieces),
        anchor=anchor_of(record),
        relies=bool(anchored),
    )


def tx_id(key: str) -> str:
    """Name the record of the transaction with that key."""
    return f"{_TX_PREFIX}{key}"


def marker_id(object_id: str) -> str:
    """Name the mark of an object that was ever written between two instants."""
    return f"{BOUNDED}/{object_id}"


def anchor_of(record: Mapping[Any, Any]) -> str:
    """Write the match that holds only in a database with this very transaction."""
    return f"[:xtdb.api/match {dumps(record[_ID])} {_entity(record)} {_EPOCH}]"


def logged_from(entry: Mapping[Any, Any]) -> Logged | None:
    """Read an entry of the log; None: another program's."""
    operations = entry[Keyword("xtdb.api/tx-ops")]
    record = next(filter(_is_record, _documents(operations)), None)
    if record is None:
        return None
    time = entry[Keyword("xtdb.api/tx-time")].ms
    return Logged(
        sequence=entry[Keyword("xtdb.api/tx-id")],
        system_time=time,
        key=record[_ID].removeprefix(_TX_PREFIX),
        writes=tuple(_logged_writes(operations, iter(record.get(_DELETED, ())))),
        pieces={
            each[_ID]: stored_from(dict(each)).fields
            for each in _documents(operations)
            if _id_begins(each, PIECE_PREFIX)
        },
    )


def _write(write: Put | Delete, key: str, pieces: dict[str, str], sizes: list[int]) -> str:
    if isinstance(write, Delete):
        return f"[:xtdb.api/delete {dumps(write.object_id)}{_range(write)}]"
    entity = entity_of(write.document, token=key)
    check_size(written_id(write), entity.size)
    pieces.update(entity.pieces)
    sizes.append(entity.size)
    return f"[:xtdb.api/put {entity.text}{_range(write)}]"


def _guard_write(write: Put | Delete, key: str) -> str:
    if isinstance(write, Delete):
        return f"[:xtdb.api/delete {dumps(guard_id(write.object_id))}{_range(write)}]"
    return f"[:xtdb.api/put {guard_of(written_id(write), token=key)}{_range(write)}]"


def _range(write: Put | Delete) -> str:
    given = (each for each in (write.valid_from, write.valid_to) if each is not None)
    return "".join(f" {instant_edn(each)}" for each in given)


def _match(match: Match) -> str:
    at = "" if match.valid_time is None else f" {instant_edn(match.valid_time)}"
    if match.token is None:
        return f"[:xtdb.api/match {dumps(match.object_id)} nil{at}]"
    guard = guard_of(match.object_id, token=match.token)
    return f"[:xtdb.api/match {dumps(guard_id(match.object_id))} {guard}{at}]"


def _put_for_ever(entity: str) -> str:
    return f"[:xtdb.api/put {entity} {_EPOCH}]"


def _markers(writes: Iterable[Put | Delete]) -> list[str]:
    bounded = [written_id(each) for each in writes if each.valid_to is not None]
    ids = [BOUNDED, *map(marker_id, bounded)] if bounded else []
    return [f"{{:xt/id {dumps(each)}}}" for each in ids]


def _record(
    writes: Iterable[Put | Delete], *, key: str, digest: str, call: str
) -> dict[Keyword, Any]:
    return {
        _ID: tx_id(key),
        DIGEST: digest,
        CALL: call,
        _DELETED: [each.object_id for each in writes if isinstance(each, Delete)],
        _FORMAT: FORMAT,
    }


def _entity(fields: Mapping[Any, Any]) -> str:
    return f"{{{', '.join(f'{name} {dumps(value)}' for name, value in fields.items())}}}"


def _documents(operations: Iterable[Sequence[Any]]) -> Iterator[Mapping[Any, Any]]:
    return (each[1] for each in operations if each[0] is _PUT and isinstance(each[1], dict))


def _id_begins(document: Mapping[Any, Any], prefix: str) -> bool:
    found = document.get(_ID)
    return isinstance(found, str) and found.startswith(prefix)


def _is_record(document: Mapping[Any, Any]) -> bool:
    return _id_begins(document, _TX_PREFIX)


def _logged_writes(
    operations: Iterable[Sequence[Any]], deleted: Iterator[str]
) -> Iterator[LoggedWrite]:
    """The caller's writes. Guards are deleted after objects, so ``deleted`` has run out by then."""
    for name, subject, *times in operations:
        valid_from, valid_to = (*_instants(times), None, None)[:2]
        if name is _PUT and not _id_begins(subject, "ctxmgr/"):
            yield _logged_put(subject, valid_from, valid_to)
        elif name is _DELETE:
            object_id = next(deleted, None)
            if object_id is None:
                return
            yield LoggedWrite(object_id, None, True, valid_from, valid_to)


def _logged_put(
    subject: Mapping[Any, Any], valid_from: Instant | None, valid_to: Instant | None
) -> LoggedWrite:
    if not isinstance(subject.get(_ID), str):
        raise Corrupt("a document of one of our transactions was evicted by another program")
    stored = stored_from(dict(subject))
    return LoggedWrite(stored.object_id, stored, False, valid_from, valid_to)


def _instants(times: Iterable[Any]) -> Iterator[Instant]:
    return (each.ms for each in times if isinstance(each, Inst))
