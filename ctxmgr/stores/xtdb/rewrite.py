"""Replace the documents of stored versions, and evict the old ones. Uses the network.

XTDB evicts an entity with all its versions, and what the same transaction puts under its id goes
with them. So everything that is to stay of an object is put again in further transactions, version
by version, in the order in which it was first put:

    stage     put ctxmgr/rewrite/KEY       the operations of all further transactions
    evict     objects, and the pieces that only replaced versions used; guards must be as they were
    restore   one transaction per version of the objects; the last one evicts the plan

``ctxmgr/rewrite-step/KEY`` counts them: each transaction matches it, so none is applied twice. A
rewrite that was interrupted after the eviction is finished by the next one.

Guards are not evicted: they hold no content. Other clients remember pieces by the records of the
transactions that stored them (see ``pieces``); those records get another field, so that such a
client sends the pieces again.
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
from typing import Any, Final
from uuid import uuid4

import orjson

from ctxmgr.core.store.contract import PAGE_MAX
from ctxmgr.core.store.documents import KIND, Document, check_transaction_size
from ctxmgr.errors import Conflict, Corrupt, Incorrect, NotFound
from ctxmgr.stores.edn.values import Keyword, dumps
from ctxmgr.stores.xtdb.as_of import ReadPoints
from ctxmgr.stores.xtdb.commits import Commits
from ctxmgr.stores.xtdb.history import EntityEntry, stored_history
from ctxmgr.stores.xtdb.layout import (
    TOKEN,
    TX,
    Entity,
    Pieces,
    Stored,
    entity_of,
    guard_id,
    guard_of,
    instant_edn,
)
from ctxmgr.stores.xtdb.pieces import reached
from ctxmgr.stores.xtdb.queries import entities_query, plans_query
from ctxmgr.stores.xtdb.reads import STARTS_AT_ONCE, Reads, all_of
from ctxmgr.stores.xtdb.replies import readable
from ctxmgr.stores.xtdb.transactions import (
    DIGEST,
    EVICTED,
    FIRST,
    ONCE_KIND,
    PLAN,
    References,
    document_digest,
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
_ID, _STEP, _PLAN = Keyword("xt/id"), Keyword("ctxmgr/step"), Keyword(PLAN)
_TOKEN: Final = Keyword(TOKEN)
_TX_ID, _TX_TIME = Keyword("xtdb.api/tx-id"), Keyword("xtdb.api/tx-time")

Call = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """One object: what it is now, and what replaces its versions."""

    object_id: str
    token: str | None
    """Of the version that is visible now; None if there is none."""
    entries: tuple[EntityEntry, ...] = field(repr=False)
    documents: Mapping[int, Document] = field(repr=False)
    """Sequence → the new document."""

    def writes(self) -> list[list[EntityEntry]]:
        """Return the entries of each transaction that wrote the object, in their order."""
        by_sequence: dict[int, list[EntityEntry]] = {}
        for entry in self.entries:
            by_sequence.setdefault(entry.sequence, []).append(entry)
        return [by_sequence[sequence] for sequence in sorted(by_sequence)]

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
        object_id = rewrite.object_id
        self.evicted.append(object_id)
        self.matches.append(
            f"[:xtdb.api/match {dumps(object_id)} nil]"
            if rewrite.token is None
            else match_token(object_id, rewrite.token)
        )
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
            entity: Entity = entity_of(document, token=token)
            text = entity.text
            for pieces in entity.pieces:
                self.pieces |= {name: pieces[name] for name in pieces}
        guard = guard_of(object_id, token=token)
        return [f"[:xtdb.api/put {version} {start}]" for version in (text, guard)]


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
            await self._carry_out(plan, share, await self._anchors(rewrites, share))
        self._reads.known.forget()
        await self._restore_used(pieces, scanned)

    async def finish_interrupted(self) -> int:
        """Restore what earlier rewrites evicted, and return how many were not finished."""
        async with self._call():
            rows = await self._http.query(plans_query(), self._points.waiting())
            with readable(self._http.node):
                found = {name: fields[_PLAN] for name, fields in rows}
        for name, text in found.items():
            key = name.removeprefix(_PLAN_PREFIX)
            step = await self._step(key)
            if step:
                await self._restore(key, orjson.loads(text), first=step)
            elif step == 0:  # nothing was evicted, and the objects may have changed since
                await self._advance(key, 0, [], last=True)
        return len(found)

    async def _read(self, documents: Mapping[tuple[str, int], Document]) -> list[_Rewrite]:
        by_object: dict[str, dict[int, Document]] = {}
        for (object_id, sequence), document in documents.items():
            by_object.setdefault(object_id, {})[sequence] = document
        ids, rewrites = list(by_object), list[_Rewrite]()
        for start in range(0, len(ids), STARTS_AT_ONCE):
            batch = ids[start : start + STARTS_AT_ONCE]
            async with self._call():
                # Tokens first: a later write is then found when the objects are evicted.
                guards = await self._http.query(
                    entities_query(map(guard_id, batch)), self._points.waiting()
                )
                histories = await all_of(
                    stored_history(self._http, self._points, object_id) for object_id in batch
                )
            with readable(self._http.node):
                tokens = {guard[_ID]: guard[_TOKEN] for (guard,) in guards}
            for object_id, entries in zip(batch, histories, strict=True):
                _check(object_id, entries, by_object[object_id])
                token = tokens.get(guard_id(object_id))
                rewrites.append(_Rewrite(object_id, token, tuple(entries), by_object[object_id]))
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

    async def _anchors(self, rewrites: Iterable[_Rewrite], unused: Pieces) -> list[str]:
        """Write the records of the transactions that stored an evicted piece, with one more field.

        They keep the sequence and time of their transaction, for calls that repeat its key.
        """
        keys = {
            stored.token
            for rewrite in rewrites
            for stored in rewrite.replaced()
            if stored.token and any(True for _ in reached(stored.roots(), unused))
        }
        if not keys:
            return []
        async with self._call():
            rows = await self._http.query(
                entities_query(map(tx_id, sorted(keys))), self._points.waiting()
            )
            with readable(self._http.node):
                records = [record for (record,) in rows if FIRST not in record]
            starts = await all_of(
                self._http.get(
                    "entity-tx", {"eid-edn": dumps(record[_ID]), **self._points.waiting()}
                )
                for record in records
            )
        with readable(self._http.node):
            return [
                put_from_epoch(record_edn({**record, FIRST: [start[_TX_ID], start[_TX_TIME].ms]}))
                for record, start in zip(records, starts, strict=True)
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

    async def _carry_out(self, plan: _Plan, pieces: Pieces, anchors: list[str]) -> None:
        key, text = plan.key, orjson.dumps(plan.rounds).decode()
        staged = [
            *map(put_from_epoch, plan.pieces.values()),
            put_from_epoch(f"{{:xt/id {dumps(_PLAN_PREFIX + key)}, :{PLAN} {dumps(text)}}}"),
            put_from_epoch(_step_edn(key, 0)),
        ]
        unclaimed = f"[:xtdb.api/match {dumps(_STEP_PREFIX + key)} nil {instant_edn(0)}]"
        async with self._call():
            self._http.deadline.extend(writes=len(staged))
            committed = await self._commits.land_guarded(_body([unclaimed, *staged]))
        if not committed and await self._step(key) is None:
            raise Corrupt("a transaction of a rewrite was refused: nothing was removed")
        evict = [
            *plan.matches,
            *(f"[:xtdb.api/evict {dumps(name)}]" for name in (*plan.evicted, *pieces)),
            *anchors,
            put_from_epoch(f"{{:xt/id {dumps(EVICTED)}}}"),
        ]
        if not await self._advance(key, 0, evict):
            await self._advance(key, 0, [], last=True)
            raise Conflict(tuple(plan.evicted))
        await self._restore(key, plan.rounds, first=1)

    async def _restore(self, key: str, rounds: list[list[str]], *, first: int) -> None:
        for step in range(first, len(rounds) + 1):
            if not await self._advance(key, step, rounds[step - 1], last=step == len(rounds)):
                raise Conflict((_STEP_PREFIX + key,))

    async def _advance(
        self, key: str, step: int, operations: Iterable[str], *, last: bool = False
    ) -> bool:
        """Apply one step; False if a match failed. It counts as applied if it already was."""
        guard = f"[:xtdb.api/match {dumps(_STEP_PREFIX + key)} {_step_edn(key, step)}]"
        ends = [f"[:xtdb.api/evict {dumps(name + key)}]" for name in (_PLAN_PREFIX, _STEP_PREFIX)]
        after = ends if last else [put_from_epoch(_step_edn(key, step + 1))]
        operations = [guard, *operations, *after]
        async with self._call():
            self._http.deadline.extend(writes=len(operations))
            if await self._commits.land_guarded(_body(operations)):
                return True
        return await self._step(key) == (None if last else step + 1)

    async def _step(self, key: str) -> int | None:
        async with self._call():
            params = {"eid-edn": dumps(_STEP_PREFIX + key), **self._points.waiting()}
            found = await self._http.get("entity", params)
        with readable(self._http.node):
            return None if found is None else int(found[_STEP])

    async def _restore_used(self, pieces: Pieces, scanned: int) -> None:
        """Put pieces again that a transaction referred to while they were being evicted."""
        if not pieces:
            return
        used = set[str]()
        async for logged in self._log(after=scanned):
            for roots in logged.roots.values():
                used.update(reached(roots, pieces))
        texts = [_piece_edn(name, pieces[name]) for name in sorted(used & pieces.keys())]
        if texts:
            async with self._call():
                await self._commits.land_guarded(_body(map(put_from_epoch, texts)))


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
    return f"{{{', '.join(f':{name} {dumps(value)}' for name, value in fields.items())}}}"


def _piece_edn(name: str, fields: Mapping[str, Any]) -> str:
    values = {**fields, "xt/id": name}
    return f"{{{', '.join(f':{key} {dumps(value)}' for key, value in values.items())}}}"


def _step_edn(key: str, step: int) -> str:
    return record_edn({_ID: _STEP_PREFIX + key, _STEP: step})


def _body(operations: Iterable[str]) -> bytes:
    return f"{{:tx-ops [{' '.join(operations)}]}}".encode()
