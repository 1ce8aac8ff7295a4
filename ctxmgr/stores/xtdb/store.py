"""XtdbStore: a bitemporal store shared by several machines, in XTDB 1. Uses the network.

    commit         ─► transactions ─► commits ┐
    get, find      ─► queries ─► reads        ├─► transport ─► nodes, over HTTP with EDN
    history, feed  ─► history                 ┘

``layout`` defines how documents are stored in XTDB. Works with any XTDB 1.24 server that implements
the documented HTTP API.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

from ctxmgr.core.store.contract import (
    LATEST,
    PAGE_MAX,
    AsOf,
    Commit,
    FoundPage,
    HistoryEntry,
    HistoryPage,
    Instant,
    Kind,
    Operation,
    Query,
    Rewritten,
    StoreStatus,
    Transaction,
    Version,
)
from ctxmgr.core.store.documents import ID, KIND, Document, check_document, check_object_id
from ctxmgr.core.store.queries import (
    check_batch,
    check_limit,
    check_query,
    decode_position,
    encode_cursor,
    query_value,
)
from ctxmgr.core.store.transactions import (
    CheckedOperations,
    check_after,
    check_as_of,
    check_key,
    check_operations,
    check_since,
    short_digest,
)
from ctxmgr.errors import Unavailable
from ctxmgr.stores.edn.values import Keyword
from ctxmgr.stores.xtdb.address import XtdbAddress, check_timeout, read_address
from ctxmgr.stores.xtdb.as_of import ReadPoints
from ctxmgr.stores.xtdb.commits import Commits
from ctxmgr.stores.xtdb.deadline import call_deadline
from ctxmgr.stores.xtdb.history import (
    HistoryRequest,
    last_transaction,
    read_feed,
    read_histories,
    read_history,
)
from ctxmgr.stores.xtdb.queries import FindPosition, find_query
from ctxmgr.stores.xtdb.reads import Reads
from ctxmgr.stores.xtdb.replies import (
    DatabaseReplaced,
    NodeBehind,
    StoredBefore,
    public_errors,
    readable,
)
from ctxmgr.stores.xtdb.rewrite import Rewriter
from ctxmgr.stores.xtdb.transactions import submission_of
from ctxmgr.stores.xtdb.transport import XtdbTransport, ingester_failure, tls_context

TIMEOUT_S: Final = 10.0
"""Default time of a call, retries included: an agent waits for it. Large calls get more, see
``deadline``."""

SUBMISSIONS_MAX: Final = 3
"""Submissions of one transaction: the first may rely on pieces of a database that was replaced, and
the second may put single versions that another client has just stored."""


class XtdbStore:
    """A ``Store`` in XTDB. Create it with ``open``; ``async with`` closes it."""

    def __init__(
        self, address: XtdbAddress, *, kinds: Mapping[str, Kind], http: XtdbTransport
    ) -> None:
        self._address = address
        self._kinds = kinds
        self._http = http
        self._points = ReadPoints(http)
        self._reads = Reads(http, self._points)
        self._commits = Commits(http, self._points, self._reads)
        self._rewriter = Rewriter(http, self._points, self._reads, self._commits, call=self._call)
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        kinds: Iterable[Kind] | Mapping[str, Kind] = (),
        timeout_s: float | None = None,
        token: str | None = None,
        verify: bool = True,
        ca_file: Path | str | None = None,
    ) -> Self:
        """Open the store and check that a node responds.

        ``timeout_s`` bounds every call, retries included; by default it is the ``timeout`` of the
        URL, or 10 s. Calls that transfer much get more time. Within it, a call waits for a server
        that restarts; opening does not wait for one that is down.

        ``token`` is sent as a bearer token; a user and password are given in the URL. ``ca_file``
        contains the certificates to trust instead of the system's.

        Raises ``Incorrect`` for a bad address, ``Denied`` for wrong credentials, and
        ``Unavailable`` if no node responds like an XTDB server.
        """
        address = read_address(url, token=token)
        declared = kinds.values() if isinstance(kinds, Mapping) else kinds
        by_name = {kind.name: _with_field_names(kind) for kind in declared}
        tls = tls_context(verify=verify, ca_file=ca_file)
        if timeout_s is None:
            timeout_s = address.timeout_s or TIMEOUT_S
        check_timeout(timeout_s)
        store = cls(
            address, kinds=by_name, http=XtdbTransport(address, timeout_s=timeout_s, tls=tls)
        )
        try:
            with public_errors(), call_deadline(timeout_s):
                await store._node_status()
                store._http.waits_for_restart = True
        except BaseException:
            await store.close()
            raise
        return store

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        checked = check_operations(operations, self._kinds)
        if key is not None:
            check_key(key)
        async with self._call():
            return await self._land(checked, key)

    async def get(self, object_id: str, *, as_of: AsOf = LATEST) -> Version | None:
        return (await self.get_many((object_id,), as_of=as_of)).get(object_id)

    async def get_many(
        self,
        object_ids: Iterable[str],
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
    ) -> dict[str, Version]:
        wanted = check_batch(object_ids)
        check_as_of(as_of)
        async with self._call():
            point = await self._points.resolve(as_of) if wanted else None
            versions = (
                {}
                if point is None
                else await self._reads.get(wanted, point, without=frozenset(without) - {ID})
            )
        return {each: versions[each] for each in wanted if each in versions}

    async def history(
        self,
        object_id: str,
        *,
        as_of: AsOf = LATEST,
        since: Instant | None = None,
        newest_first: bool = False,
        corrections: bool = False,
        documents: bool = True,
        limit: int = PAGE_MAX,
        cursor: str | None = None,
    ) -> HistoryPage:
        check_object_id(object_id)
        check_as_of(as_of)
        check_since(since)
        check_limit(limit)
        request = HistoryRequest(
            object_id=object_id,
            as_of=as_of,
            since=since,
            newest_first=newest_first,
            corrections=corrections,
            documents=documents,
        )
        after: tuple[Instant, int] | None = None
        if cursor is not None:
            valid_time, sequence = decode_position(request.value(), cursor, int, int)
            after = valid_time, sequence
        async with self._call():
            page, more = await read_history(
                self._http, self._points, self._reads, request=request, after=after, limit=limit
            )
        last = [page[-1].valid_time, page[-1].sequence] if more else []
        return HistoryPage(
            entries=page, cursor=encode_cursor(request.value(), last) if more else None
        )

    async def history_many(
        self,
        object_ids: Iterable[str],
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
        limit: int,
    ) -> dict[str, Sequence[HistoryEntry]]:
        wanted = check_batch(object_ids)
        check_as_of(as_of)
        check_limit(limit)
        async with self._call():
            return dict(
                await read_histories(
                    self._http,
                    self._points,
                    self._reads,
                    object_ids=wanted,
                    as_of=as_of,
                    without=frozenset(without) - {ID},
                    limit=limit,
                )
            )

    async def find(
        self,
        query: Query,
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
        limit: int = 100,
        cursor: str | None = None,
    ) -> FoundPage:
        check_query(query, self._kinds)
        check_as_of(as_of)
        check_limit(limit)
        request = ["find", *query_value(query), as_of.valid_time, as_of.sequence, as_of.system_time]
        after = None
        if cursor is not None:
            after = FindPosition(*decode_position(request, cursor, str | int | None, str))
        kind = self._kinds.get(query.kind, Kind(query.kind))
        text = find_query(query, kind, after=after, limit=limit + 1)
        left_out = frozenset(without) - {ID, query.order and query.order.field}
        rows = partial(self._reads.rows, text, without=left_out)
        async with self._call():
            point = await self._points.resolve(as_of)
            versions = [] if point is None else await self._reads.versions(rows, point)
        page = versions[:limit]
        more = len(versions) > limit
        last: list[Any] = []
        if more:
            order = None if query.order is None else page[-1].document[query.order.field]
            last = [order, page[-1].object_id]
        return FoundPage(versions=page, cursor=encode_cursor(request, last) if more else None)

    async def feed(
        self, *, after: int | None = None, limit: int = PAGE_MAX, documents: bool = True
    ) -> Sequence[Transaction]:
        check_after(after)
        check_limit(limit)
        async with self._call():
            return await read_feed(
                self._http,
                self._points,
                self._reads,
                after=after,
                limit=limit,
                documents=documents,
            )

    async def rewrite(self, documents: Mapping[tuple[str, int], Document]) -> Rewritten:
        """Replace the documents of versions, by object and sequence, and evict the old ones.

        Every version of these objects gets a new sequence, and they are missing for a moment. An
        index store keeps values over 224 bytes that were evicted, until it is rebuilt.
        """
        await self._rewriter.run(documents)
        return Rewritten(versions=len(documents), bytes_before=None, bytes_after=None)

    async def finish_rewrites(self) -> int:
        """Finish rewrites that were interrupted, and return how many there were."""
        return await self._rewriter.finish_interrupted()

    async def status(self) -> StoreStatus:
        async with self._call():
            node = await self._node_status()
            last = await last_transaction(self._http, self._points)
        return StoreStatus(
            url=self._address.shown,
            engine=f"XTDB {node.get('xtdb.version/version', '1')}",
            sequence=None if last is None else last[0],
            system_time=None if last is None else last[1],
            details={
                "node": self._http.node,
                "nodes": len(self._address.nodes),
                "kv_store": node.get("xtdb.kv/kv-store"),
                "index_version": node.get("xtdb.index/index-version"),
                "estimated_keys": node.get("xtdb.kv/estimate-num-keys"),
                "bytes": node.get("xtdb.kv/size"),
            },
        )

    async def close(self) -> None:
        self._closed = True
        await self._idle.wait()
        await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _land(self, checked: CheckedOperations, key: str | None) -> Commit:
        call, known = uuid4().hex, self._reads.known
        self._http.deadline.extend(writes=len(checked.writes))
        stored: dict[str, str] = {}
        write = partial(
            submission_of,
            checked,
            key=key or call,
            digest=short_digest(checked),
            call=call,
            kinds=self._kinds,
            known=known,
            stored=stored,
        )
        for sent in range(SUBMISSIONS_MAX):
            submission = write()
            try:
                commit = await self._commits.land(submission, again=sent > 0)
            except DatabaseReplaced:
                known.forget()
                if sent == SUBMISSIONS_MAX - 1:
                    raise
            except StoredBefore as error:
                stored.update(error.matches)
                if sent == SUBMISSIONS_MAX - 1:
                    raise
            else:
                break
        if not commit.repeated:
            known.learn(submission.pieces, anchor=submission.anchor)
        return commit

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        """Count the calls in progress, which ``close`` waits for."""
        if self._closed:
            raise Unavailable(f"the store {self._address.shown} is closed")
        self._calls += 1
        self._idle.clear()
        try:
            with public_errors(), call_deadline(self._http.timeout_s):
                try:
                    yield
                except NodeBehind as error:
                    await self._points.refuse_replaced(error)
                    raise
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def _node_status(self) -> dict[str, Any]:
        node = self._http.node
        reply = await self._http.get("status", {})
        failure = ingester_failure(reply, node)
        if failure is not None:
            raise Unavailable(failure)
        with readable(node):
            return {key.name: value for key, value in reply.items() if isinstance(key, Keyword)}


def _with_field_names(kind: Kind) -> Kind:
    """Check the names of the indexed fields, since they become part of query texts."""
    check_document({ID: "declared", KIND: kind.name, **dict.fromkeys(kind.indexed)})
    return kind
