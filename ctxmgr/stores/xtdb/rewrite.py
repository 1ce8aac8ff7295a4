"""Replace the documents of stored versions, and evict the old ones. Uses the network.

XTDB evicts an entity with all its versions, and what the same transaction puts under its id goes
with them. So everything that is to stay of an object is put again in further transactions, version
by version, in the order in which it was first put:

    stage     put ctxmgr/rewrite/KEY       the operations of all further transactions
              put ctxmgr/rewrite-piece/…   copies of the pieces that will be evicted
    evict     objects, and the pieces that only replaced versions used; timelines must be as read
    restore   one transaction per version of the objects; the last one evicts plan and copies

``ctxmgr/rewrite-step/KEY`` counts them: each transaction matches it, so none is applied twice. A
rewrite that was interrupted after the eviction is finished by the next one.

The eviction matches the guard of each object at the last instant of every interval of its timeline:
XTDB's puts and deletes without an end reach up to the next version, so each of them changes one of
these. A write with an end changes the mark of the object, which is matched, too.

Guards are not evicted: they hold no content. Other clients remember pieces by the records of the
transactions that stored them (see ``pieces``); those records get another field, so that such a
client sends the pieces again. A transaction before that may have referred to a piece that is
evicted: it is found in the log, and the piece is put again from its copy.
"""

from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Self
from uuid import uuid4

import orjson

from ctxmgr.core.store.contract import INSTANT_MAX, PAGE_MAX
from ctxmgr.core.store.documents import KIND, Document, check_transaction_size
from ctxmgr.errors import Conflict, Corrupt, Incorrect, NotFound
from ctxmgr.stores.edn.values import Keyword, dumps
from ctxmgr.stores.xtdb.as_of import ReadPoints
from ctxmgr.stores.xtdb.commits import Commits
from ctxmgr.stores.xtdb.history import EntityEntry, stored_history
from ctxmgr.stores.xtdb.layout import (
    ORIGIN,
    TX,
    Pieces,
    Stored,
    entity_of,
    guard_id,
    guard_of,
    instant_edn,
    stored_from,
)
from ctxmgr.stores.xtdb.pieces import PARTS, PIECE_PREFIX, reached
from ctxmgr.stores.xtdb.queries import entities_query, plans_query
from ctxmgr.stores.xtdb.reads import PIECES_PER_QUERY, STARTS_AT_ONCE, Reads, all_of
from ctxmgr.stores.xtdb.replies import readable
from ctxmgr.stores.xtdb.transactions import (
    DIGEST,
    EVICTED,
    FIRST,
    ONCE_KIND,
    PLAN,
    REWRITE,
    References,
    document_digest,
    marker_id,
    match_marker,
    match_token,
    once_id,
    put_from_epoch,
    record_edn,
    references_of,
    tx_id,
)
from ctxmgr.stores.xtdb.transport import XtdbTransport

PLAN_BYTES: Final = 4 * 1024 * 1024
"""Objects are rewritten together until their plan has this size."""

_PLAN_PREFIX: Final = "ctxmgr/rewrite/"
_STEP_PREFIX: Final = "ctxmgr/rewrite-step/"
_COPY_PREFIX: Final = "ctxmgr/rewrite-piece/"
_ID, _STEP, _PLAN = Keyword("xt/id"), Keyword("ctxmgr/step"), Keyword(PLAN)
_TX_ID, _TX_TIME = Keyword("xtdb.api/tx-id"), Keyword("xtdb.api/tx-time")

Call = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """One object: what it is now, and what replaces its versions."""

    object_id: str
    marker: Mapping[Any, Any] | None
    """The mark of the last write with an end."""
    entries: tuple[EntityEntry, ...] = field(repr=False)
    documents: Mapping[int, Document] = field(repr=False)
    """Sequence → the new document."""

    def writes(self) -> list[list[EntityEntry]]:
        """Return the entries of each transaction that wrote the object, in their order."""
        by_sequence: dict[int, list[EntityEntry]] = {}
        for entry in self.entries:
            by_sequence.setdefault(entry.sequence, []).append(entry)
        return [by_sequence[sequence] for sequence in sorted(by_sequence)]

    def matches(self) -> Iterator[str]:
        """Write the matches that hold if nobody has written to the object since it was read."""
        # Of several entries of one instant, the last one is visible.
        entries = sorted(self.entries, key=lambda entry: (entry.valid_time, entry.sequence))
        timeline = {entry.valid_time: entry.stored for entry in entries}
        token: str | None = None
        for start, stored in timeline.items():
            if start > 0:
                yield match_token(self.object_id, token, start - 1)
            token = None if stored is None else stored.token
        yield match_token(self.object_id, token, INSTANT_MAX)
        yield match_marker(self.object_id, self.marker)

    def replaced(self) -> Iterator[Stored]:
        """Yield the versions that are replaced."""
        for entry in self.entries:
            if entry.sequence in self.documents and entry.stored is not None:
                yield entry.stored


@dataclass(slots=True)
class _Plan:
    """The operations of a few objects."""

    key: str
    evicted: list[str] = field(default_factory=list)
    matches: list[str] = field(default_factory=list)
    rounds: list[list[str]] = field(default_factory=list)
    """The puts and deletes of each transaction."""
    pieces: dict[str, str] = field(default_factory=dict)
    """EDN of the pieces of the new documents, by id."""
    size: int = 0

    def add(self, rewrite: _Rewrite) -> None:
        """Add an object: its nth version is put in the nth transaction."""
        self.evicted.append(rewrite.object_id)
        matches = list(rewrite.matches())
        self.matches += matches
        self.size += sum(map(len, matches))
        for n, entries in enumerate(rewrite.writes()):
            if n == len(self.rounds):
                self.rounds.append([])
            for position, entry in enumerate(entries):
                # Every put has a token of its own: XTDB takes equal documents for one version.
                token = f"{self.key}-{n}-{position}"
                operations = self._operations(rewrite, entry, token)
                self.rounds[n] += operations
                self.size += sum(map(len, operations))

    def _operations(self, rewrite: _Rewrite, entry: EntityEntry, token: str) -> list[str]:
        object_id, start = rewrite.object_id, instant_edn(entry.valid_time)
        if entry.deleted or entry.stored is None:
            ids = (object_id, guard_id(object_id))
            return [f"[:xtdb.api/delete {dumps(name)} {start}]" for name in ids]
        document = rewrite.documents.get(entry.sequence)
        if document is None:
            text = _kept(entry.stored, token)
        else:
            entity = entity_of(document, token=token, origin=entry.stored.origin)
            text = entity.text
            for pieces in entity.pieces:
                self.pieces |= {name: pieces[name] for name in pieces}
        guard = guard_of(object_id, token=token)
        return [f"[:xtdb.api/put {version} {start}]" for version in (text, guard)]


@dataclass(frozen=True, slots=True)
class _Staged:
    """What is stored of a plan until it is carried out."""

    rounds: Sequence[Sequence[str]]
    parts: Mapping[str, Sequence[str]]
    """Piece that is evicted → the pieces inside it."""
    scanned: int
    """The last sequence that was searched for references to the pieces."""

    @classmethod
    def read(cls, text: str) -> Self:
        fields = orjson.loads(text)
        return cls(fields["rounds"], fields["parts"], fields["scanned"])

    def text(self) -> str:
        fields = {"rounds": self.rounds, "parts": self.parts, "scanned": self.scanned}
        return orjson.dumps(fields).decode()


class Rewriter:
    """Rewrites objects of one store."""

    def __init__(
        self, http: XtdbTransport, points: ReadPoints, reads: Reads, commits: Commits, *, call: Call
    ) -> None:
        self._http = http
        self._points = points
        self._reads = reads
        self._commits = commits
        self._call = call

    async def run(self, documents: Mapping[tuple[str, int], Document]) -> None:
        """Replace the documents of versions, by object and sequence."""
        await self.finish_interrupted()
        rewrites = await self._read(documents)
        plans = list(_plans(rewrites))
        for plan in plans:
            check_transaction_size(plan.size)
        used = {name for plan in plans for name in plan.pieces}
        pieces, scanned = await self._unused_pieces(rewrites, used)
        await self._update_once(rewrites, plans)
        shares = _shares(rewrites, plans, pieces)
        for plan, share in zip(plans, shares, strict=True):
            anchors = await self._anchors(rewrites, share, key=plan.key)
            await self._carry_out(plan, share, anchors, scanned=scanned)
            self._reads.known.forget()

    async def finish_interrupted(self) -> int:
        """Restore what earlier rewrites evicted, and return how many were not finished."""
        async with self._call():
            rows = await self._http.query(plans_query(), self._points.waiting())
            with readable(self._http.node):
                found = {name: fields[_PLAN] for name, fields in rows}
        for name, text in found.items():
            key = name.removeprefix(_PLAN_PREFIX)
            step, staged = await self._step(key), _Staged.read(text)
            if step:
                await self._restore(key, staged, first=step)
            elif step == 0:  # nothing was evicted, and the objects may have changed since
                await self._advance(key, 0, _ends(key, staged.parts), last=True)
        return len(found)

    async def _read(self, documents: Mapping[tuple[str, int], Document]) -> list[_Rewrite]:
        by_object: dict[str, dict[int, Document]] = {}
        for (object_id, sequence), document in documents.items():
            by_object.setdefault(object_id, {})[sequence] = document
        ids, rewrites = list(by_object), list[_Rewrite]()
        for start in range(0, len(ids), STARTS_AT_ONCE):
            batch = ids[start : start + STARTS_AT_ONCE]
            async with self._call():
                # Marks first: a later write is then found when the objects are evicted.
                marked = await self._http.query(
                    entities_query(map(marker_id, batch)), self._points.waiting()
                )
                histories = await all_of(
                    stored_history(self._http, self._points, object_id) for object_id in batch
                )
            with readable(self._http.node):
                markers = {marker[_ID]: marker for (marker,) in marked}
            for object_id, entries in zip(batch, histories, strict=True):
                _check(object_id, entries, by_object[object_id])
                marker = markers.get(marker_id(object_id))
                rewrites.append(_Rewrite(object_id, marker, tuple(entries), by_object[object_id]))
        return rewrites

    async def _unused_pieces(
        self, rewrites: Iterable[_Rewrite], used: Collection[str]
    ) -> tuple[Pieces, int]:
        """Return the pieces that only replaced versions refer to, and the last sequence read."""
        replaced = [stored for rewrite in rewrites for stored in rewrite.replaced()]
        async with self._call():
            pieces = await self._reads.pieces(replaced)
        if not pieces:
            return {}, -1
        gone = {(item.object_id, sequence) for item in rewrites for sequence in item.documents}
        kept, last = set(used), -1
        parts: dict[str, tuple[str, ...]] = {}
        async for logged in self._log(after=None):
            last = logged.sequence
            parts.update(logged.parts)
            for object_id, roots in logged.roots.items():
                if (object_id, last) not in gone:
                    kept.update(roots)
        kept = _closure(kept, parts)
        return {name: piece for name, piece in pieces.items() if name not in kept}, last

    async def _log(self, *, after: int | None) -> AsyncIterator[References]:
        while True:
            params = {"with-ops?": "true"}
            if after is not None:
                params["after-tx-id"] = str(after)
            async with self._call():
                page, full = await self._http.listed(
                    "tx-log",
                    {**params, **self._points.waiting()},
                    take=references_of,
                    limit=PAGE_MAX,
                )
            for logged in page:
                yield logged
            if not full:
                return
            after = page[-1].sequence

    async def _anchors(
        self, rewrites: Iterable[_Rewrite], unused: Pieces, *, key: str
    ) -> list[str]:
        """Write the records of the transactions that stored an evicted piece, changed.

        They keep the sequence and time of their transaction, for calls that repeat its key.
        """
        keys = {
            stored.origin
            for rewrite in rewrites
            for stored in rewrite.replaced()
            if stored.origin and any(True for _ in reached(stored.roots(), unused))
        }
        if not keys:
            return []
        async with self._call():
            rows = await self._http.query(
                entities_query(map(tx_id, sorted(keys))), self._points.waiting()
            )
            with readable(self._http.node):
                records = [record for (record,) in rows]
            starts = await all_of(
                self._http.get(
                    "entity-tx", {"eid-edn": dumps(record[_ID]), **self._points.waiting()}
                )
                for record in records
            )
        with readable(self._http.node):
            firsts = [
                record.get(FIRST) or [start[_TX_ID], start[_TX_TIME].ms]
                for record, start in zip(records, starts, strict=True)
            ]
            return [
                put_from_epoch(record_edn({**record, FIRST: first, REWRITE: key}))
                for record, first in zip(records, firsts, strict=True)
            ]

    async def _update_once(self, rewrites: Iterable[_Rewrite], plans: Iterable[_Plan]) -> None:
        """Let the records of single versions name the new documents."""
        last = {rewrite.object_id: rewrite.documents for rewrite in rewrites}
        for plan in plans:
            async with self._call():
                rows = await self._http.query(
                    entities_query(map(once_id, plan.evicted)), self._points.waiting()
                )
            with readable(self._http.node):
                kinds = {record[_ID]: record[ONCE_KIND] for (record,) in rows}
            for object_id in plan.evicted:
                if once_id(object_id) in kinds:
                    document = last[object_id][max(last[object_id])]
                    record = {
                        _ID: once_id(object_id),
                        ONCE_KIND: document[KIND],
                        DIGEST: document_digest(document),
                    }
                    plan.rounds[0].append(put_from_epoch(record_edn(record)))

    async def _carry_out(
        self, plan: _Plan, pieces: Pieces, anchors: list[str], *, scanned: int
    ) -> None:
        key = plan.key
        parts = {name: list(piece.get(PARTS, ())) for name, piece in pieces.items()}
        staged = _Staged(plan.rounds, parts, scanned)
        await self._stage(plan, staged)
        await self._put(
            key, 0, (_piece_edn(_copy_id(key, name), piece) for name, piece in pieces.items())
        )
        evict = [
            *plan.matches,
            *(f"[:xtdb.api/evict {dumps(name)}]" for name in (*plan.evicted, *pieces)),
            *anchors,
            put_from_epoch(f"{{:xt/id {dumps(EVICTED)}}}"),
        ]
        if not await self._advance(key, 0, evict):
            await self._advance(key, 0, _ends(key, parts), last=True)
            raise Conflict(tuple(plan.evicted))
        await self._restore(key, staged, first=1)

    async def _stage(self, plan: _Plan, staged: _Staged) -> None:
        """Store the plan, which has not begun then."""
        key, text = plan.key, staged.text()
        operations = [
            f"[:xtdb.api/match {dumps(_STEP_PREFIX + key)} nil {instant_edn(0)}]",
            *map(put_from_epoch, plan.pieces.values()),
            put_from_epoch(f"{{:xt/id {dumps(_PLAN_PREFIX + key)}, :{PLAN} {dumps(text)}}}"),
            put_from_epoch(_step_edn(key, 0)),
        ]
        async with self._call():
            self._http.deadline.extend(writes=len(operations))
            committed = await self._commits.land_guarded(_body(operations))
        if not committed and await self._step(key) is None:
            raise Corrupt("a transaction of a rewrite was refused: nothing was removed")

    async def _restore(self, key: str, staged: _Staged, *, first: int) -> None:
        for step in range(first, len(staged.rounds) + 1):
            operations, last = list(staged.rounds[step - 1]), step == len(staged.rounds)
            if last:
                await self._restore_used(key, step, staged)
                operations += _ends(key, staged.parts)
            if not await self._advance(key, step, operations, last=last):
                raise Conflict((_STEP_PREFIX + key,))

    async def _advance(
        self, key: str, step: int, operations: Iterable[str], *, last: bool = False
    ) -> bool:
        """Apply one step; False if a match failed. It counts as applied if it already was."""
        after = [] if last else [put_from_epoch(_step_edn(key, step + 1))]
        operations = [_match_step(key, step), *operations, *after]
        async with self._call():
            self._http.deadline.extend(writes=len(operations))
            if await self._commits.land_guarded(_body(operations)):
                return True
        return await self._step(key) == (None if last else step + 1)

    async def _put(self, key: str, step: int, entities: Iterable[str]) -> None:
        """Put documents of a plan that is at a step, as many at once as ``PLAN_BYTES`` allows."""
        for batch in _by_size(entities):
            async with self._call():
                self._http.deadline.extend(writes=len(batch))
                operations = [_match_step(key, step), *map(put_from_epoch, batch)]
                if not await self._commits.land_guarded(_body(operations)):
                    raise Conflict((_STEP_PREFIX + key,))

    async def _step(self, key: str) -> int | None:
        async with self._call():
            params = {"eid-edn": dumps(_STEP_PREFIX + key), **self._points.waiting()}
            found = await self._http.get("entity", params)
        with readable(self._http.node):
            return None if found is None else int(found[_STEP])

    async def _restore_used(self, key: str, step: int, staged: _Staged) -> None:
        """Put pieces again that a transaction referred to before they were evicted."""
        if not staged.parts:
            return
        roots, parts = set[str](), {name: tuple(inside) for name, inside in staged.parts.items()}
        async for logged in self._log(after=staged.scanned):
            parts.update(logged.parts)
            roots.update(*logged.roots.values())
        used = sorted(_closure(roots, parts) & staged.parts.keys())
        for start in range(0, len(used), PIECES_PER_QUERY):
            names = {_copy_id(key, name): name for name in used[start : start + PIECES_PER_QUERY]}
            async with self._call():
                rows = await self._http.query(entities_query(names), self._points.waiting())
            with readable(self._http.node):
                copies = [(names[copy[_ID]], stored_from(copy).fields) for (copy,) in rows]
            await self._put(key, step, (_piece_edn(name, fields) for name, fields in copies))


def _plans(rewrites: Iterable[_Rewrite]) -> Iterator[_Plan]:
    plan: _Plan | None = None
    for rewrite in rewrites:
        if plan is None:
            plan = _Plan(uuid4().hex)
        plan.add(rewrite)
        if plan.size > PLAN_BYTES:
            yield plan
            plan = None
    if plan is not None:
        yield plan


def _shares(rewrites: Iterable[_Rewrite], plans: Sequence[_Plan], pieces: Pieces) -> list[Pieces]:
    """Return the pieces that each plan evicts: those that no later one still refers to."""
    replaced = {rewrite.object_id: list(rewrite.replaced()) for rewrite in rewrites}
    last: dict[str, int] = {}
    for n, plan in enumerate(plans):
        for object_id in plan.evicted:
            for stored in replaced[object_id]:
                last.update(dict.fromkeys(reached(stored.roots(), pieces), n))
    return [
        {name: pieces[name] for name, owner in last.items() if owner == n}
        for n in range(len(plans))
    ]


def _check(object_id: str, entries: Iterable[EntityEntry], wanted: Mapping[int, Document]) -> None:
    put = {entry.sequence for entry in entries if entry.stored is not None}
    for sequence in wanted:
        if sequence not in put:
            raise NotFound(f"{object_id} has no version of transaction {sequence}")
    if any(entry.stored is not None and entry.stored.token is None for entry in entries):
        raise Incorrect(
            f"{object_id} has versions that another program wrote, which cannot be put again"
        )


def _closure(names: Iterable[str], parts: Mapping[str, tuple[str, ...]]) -> set[str]:
    found: set[str] = set()
    open_names = list(names)
    while open_names:
        name = open_names.pop()
        if name not in found:
            found.add(name)
            open_names += parts.get(name, ())
    return found


def _kept(stored: Stored, token: str) -> str:
    fields = {**stored.fields, TX: token}
    if stored.is_cut:
        fields[ORIGIN] = stored.origin
    return f"{{{', '.join(f':{name} {dumps(value)}' for name, value in fields.items())}}}"


def _copy_id(key: str, piece_id: str) -> str:
    return f"{_COPY_PREFIX}{key}/{piece_id.removeprefix(PIECE_PREFIX)}"


def _piece_edn(name: str, fields: Mapping[str, Any]) -> str:
    values = {**fields, "xt/id": name}
    return f"{{{', '.join(f':{key} {dumps(value)}' for key, value in values.items())}}}"


def _step_edn(key: str, step: int) -> str:
    return record_edn({_ID: _STEP_PREFIX + key, _STEP: step})


def _match_step(key: str, step: int) -> str:
    return f"[:xtdb.api/match {dumps(_STEP_PREFIX + key)} {_step_edn(key, step)}]"


def _ends(key: str, pieces: Iterable[str]) -> list[str]:
    """Write the evictions of everything that a plan stored for itself."""
    names = (_PLAN_PREFIX + key, _STEP_PREFIX + key, *(_copy_id(key, name) for name in pieces))
    return [f"[:xtdb.api/evict {dumps(name)}]" for name in names]


def _by_size(texts: Iterable[str]) -> Iterator[list[str]]:
    batch, size = list[str](), 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size > PLAN_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _body(operations: Iterable[str]) -> bytes:
    return f"{{:tx-ops [{' '.join(operations)}]}}".encode()
