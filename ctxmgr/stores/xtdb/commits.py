"""Commit one transaction: submit it and determine its outcome. Uses the network.

submit ──► logged ──► indexed: committed ──► Commit
   │          │                aborted ────► its key exists: the Commit of the first one
   │          │                              it does not: Conflict, with the ids
   │          │                              a second version of an object that has one: Incorrect,
   │          │                              or StoredBefore if the document is the same
   │          │                              no match failed: DatabaseReplaced, see ``pieces``
   │          └── no reply, or an unreadable one ─► OutcomeUnknown
   └── reply lost: submit again, which is safe: the second one finds the key and aborts
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.core.store.contract import Commit, Instant, Match
from ctxmgr.core.store.documents import KIND
from ctxmgr.core.store.transactions import other_kind, second_version
from ctxmgr.errors import Conflict, CtxmgrError, Incorrect, OutcomeUnknown, Unavailable
from ctxmgr.stores.edn.values import Keyword, dumps
from ctxmgr.stores.xtdb.as_of import ReadPoint, ReadPoints
from ctxmgr.stores.xtdb.layout import TOKEN, guard_id
from ctxmgr.stores.xtdb.queries import entities_query, existing_query
from ctxmgr.stores.xtdb.reads import Reads
from ctxmgr.stores.xtdb.replies import (
    DatabaseReplaced,
    NodeBehind,
    NotSent,
    ReplyLost,
    StoredBefore,
    readable,
)
from ctxmgr.stores.xtdb.transactions import (
    CALL,
    DIGEST,
    FIRST,
    ONCE_KIND,
    FreePut,
    Submission,
    document_digest,
    match_token,
    once_id,
    tx_id,
)
from ctxmgr.stores.xtdb.transport import Params, XtdbTransport

RESUBMIT_PAUSES_S: Final = (0.1, 0.5, 2.0)
"""Pauses before resubmissions: a proxy error, another node, a restart by a service manager."""

WAITS_MAX: Final = 6
"""Waits for a transaction to be indexed. Each takes half of the time that is left, so they take up
nearly all of it."""

_TX_ID, _TX_TIME = Keyword("xtdb.api/tx-id"), Keyword("xtdb.api/tx-time")
_COMMITTED: Final = Keyword("tx-committed?")
_ID, _TOKEN = Keyword("xt/id"), Keyword(TOKEN)


@dataclass(frozen=True, slots=True)
class _Landed:
    """The position of a submission in the log."""

    sequence: int
    system_time: Instant
    again: bool
    """An earlier attempt may be in the log, too."""


class Commits:
    """Commits transactions."""

    def __init__(self, http: XtdbTransport, points: ReadPoints, reads: Reads) -> None:
        self._http = http
        self._points = points
        self._reads = reads

    async def land(self, submission: Submission, *, again: bool = False) -> Commit:
        """Send the transaction and return its outcome. ``again``: it was sent before."""
        seen = self._points.seen
        landed = await self._submit(submission, again=again)
        self._points.landed(landed.sequence, seen=seen)
        try:
            outcome = await self._outcome(submission, landed)
        except CtxmgrError as error:
            raise self._unknown(submission, str(error)) from error
        if isinstance(outcome, CtxmgrError):
            raise outcome
        return outcome

    async def land_guarded(self, body: bytes) -> bool:
        """Send a transaction whose matches allow it once, and return whether it was committed.

        If a reply is lost, it is sent again, and False may mean that the first one was committed.
        """
        for pause_s in (*RESUBMIT_PAUSES_S, None):
            seen = self._points.seen
            try:
                sequence, _ = await self._http.submit(body)
            except ReplyLost as error:
                if pause_s is None:
                    raise Unavailable(str(error)) from error
                await asyncio.sleep(pause_s)
            else:
                self._points.landed(sequence, seen=seen)
                committed = await self._committed(sequence)
                self._points.saw(sequence)
                return committed
        raise AssertionError("the loop returns or raises")

    async def _outcome(self, submission: Submission, landed: _Landed) -> Commit | CtxmgrError:
        """Return the outcome, which may be an error; a raised error leaves it unknown."""
        committed = await self._committed(landed.sequence)
        self._points.saw(landed.sequence)
        if not committed:
            return await self._aborted(submission, landed)
        return _commit(submission, landed.sequence, landed.system_time, repeated=False)

    async def _submit(self, submission: Submission, *, again: bool) -> _Landed:
        lost: ReplyLost | None = None
        for pause_s in (*RESUBMIT_PAUSES_S, None):
            try:
                sequence, time = await self._http.submit(submission.body)
                return _Landed(sequence, time, again=again or lost is not None)
            except ReplyLost as error:
                lost = error
            except CtxmgrError as error:
                if lost is None:
                    raise
                if not isinstance(error, NotSent):
                    raise self._unknown(submission, f"{lost}; then {error}") from error
            if pause_s is None or self._http.deadline.left_s <= pause_s:
                break
            await asyncio.sleep(pause_s)
        raise self._unknown(submission, str(lost)) from lost

    def _unknown(self, submission: Submission, reason: str) -> OutcomeUnknown:
        return OutcomeUnknown(submission.key, reason, expired=self._http.deadline.expired)

    async def _committed(self, sequence: int) -> bool:
        for wait in range(WAITS_MAX):
            params = {"tx-id": str(sequence), **self._points.confirming(sequence)}
            try:
                return await is_committed(self._http, params)
            except NodeBehind:
                if wait == WAITS_MAX - 1 or self._http.deadline.expired:
                    raise
        raise AssertionError("the loop returns or raises")

    async def _aborted(self, submission: Submission, landed: _Landed) -> Commit | CtxmgrError:
        sequence = landed.sequence
        record = None
        if landed.again or not submission.own_key:
            record = await self._record("entity", submission.key, sequence)
        if record is None:
            point = ReadPoint(landed.system_time, sequence)
            failed = await self._failed_ids(submission.operations.matches, point)
            refused = None if failed else await self._second_version(submission.free, point)
            if refused is not None:
                return refused
            if not failed and submission.relies:
                return DatabaseReplaced(
                    "the database is not the one that the pieces were stored in"
                )
            return Conflict(failed)
        with readable(self._http.node):
            first_digest, call = record.get(DIGEST), record.get(CALL)
        if not submission.has_digest(first_digest):
            return Incorrect(f"the key {submission.key!r} was already used for other operations")
        entry = await self._record("entity-tx", submission.key, sequence)
        with readable(self._http.node):
            first, time = record.get(FIRST) or (entry[_TX_ID], entry[_TX_TIME].ms)
        return _commit(submission, first, time, repeated=call != submission.call)

    async def _record(self, path: str, key: str, sequence: int) -> Any:
        params = self._points.params(ReadPoint(None, sequence))
        return await self._http.get(path, {"eid-edn": dumps(tx_id(key)), **params})

    async def _second_version(
        self, free: tuple[FreePut, ...], point: ReadPoint
    ) -> CtxmgrError | None:
        """Return the error if an object with a single version prevented one of these puts."""
        if not free:
            return None
        query = entities_query(once_id(put.object_id) for put in free)
        rows = await self._http.query(query, self._points.params(point))
        with readable(self._http.node):
            records = {record[_ID]: (record[ONCE_KIND], record.get(DIGEST)) for (record,) in rows}
        matches: dict[str, str] = {}
        unrecorded: dict[str, FreePut] = {}
        for put in free:
            kind, stored_digest = records.get(once_id(put.object_id), (None, None))
            if kind is not None and stored_digest != put.digest:
                return second_version(put.object_id, str(kind))
            if kind is not None:
                matches[put.object_id] = put.match_record()
            elif put.digest is not None:
                unrecorded[put.object_id] = put
        # A document of an earlier version of ctxmgr, or of another kind, has no record.
        for object_id, version in (await self._reads.get(tuple(unrecorded), point)).items():
            put = unrecorded[object_id]
            if version.document.get(KIND) != put.kind:
                return other_kind(object_id, put.kind)
            if document_digest(version.document) != put.digest:
                return second_version(object_id, put.kind)
            if version.token is None:
                return other_kind(object_id, put.kind)
            matches[object_id] = match_token(object_id, version.token)
        return StoredBefore(matches) if matches else None

    async def _failed_ids(self, matches: tuple[Match, ...], point: ReadPoint) -> tuple[str, ...]:
        """Return the ids whose match did not hold when the transaction was indexed."""
        failed: set[Match] = set()
        for at in dict.fromkeys(match.valid_time for match in matches):
            indexed = ReadPoint(point.valid_time if at is None else at, point.sequence)
            same_time = [match for match in matches if match.valid_time == at]
            failed |= await self._failed_at(same_time, indexed)
        return tuple(dict.fromkeys(match.object_id for match in matches if match in failed))

    async def _failed_at(self, matches: list[Match], point: ReadPoint) -> set[Match]:
        params = self._points.params(point)
        absent = [match.object_id for match in matches if match.token is None]
        guards = [guard_id(match.object_id) for match in matches if match.token is not None]
        id_rows = await self._http.query(existing_query(absent), params) if absent else ()
        guard_rows = await self._http.query(entities_query(guards), params) if guards else ()
        with readable(self._http.node):
            existing = {object_id for (object_id,) in id_rows}
            tokens = {guard[_ID]: guard[_TOKEN] for (guard,) in guard_rows}
        return {match for match in matches if not _holds(match, existing, tokens)}


async def is_committed(http: XtdbTransport, params: Params) -> bool:
    """Return whether a logged transaction was committed; otherwise it was aborted."""
    reply = await http.get("tx-committed", params)
    with readable(http.node):
        return bool(reply[_COMMITTED])


def _holds(match: Match, existing: Iterable[str], tokens: dict[str, str]) -> bool:
    if match.token is None:
        return match.object_id not in existing
    return tokens.get(guard_id(match.object_id)) == match.token


def _commit(
    submission: Submission, sequence: int, system_time: Instant, *, repeated: bool
) -> Commit:
    return Commit(
        sequence=sequence,
        system_time=system_time,
        key=submission.key,
        token=submission.key,
        repeated=repeated,
    )
