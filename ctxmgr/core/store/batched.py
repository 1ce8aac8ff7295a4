"""A store whose transactions become durable in batches, for work that can be done again. Commits.

    commit ─► applied at once, and answered     sequence, token and time are final
    batch  ─► made durable together             when it is full, before a read, and at the end

Until its batch has ended, a transaction is visible to nobody, and lost if the process dies. What
is durable is always the beginning of what was committed. If a batch cannot be made durable, that
call and all later ones raise ``Unavailable``.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, Self, runtime_checkable

from ctxmgr.core.store.contract import (
    LATEST,
    PAGE_MAX,
    AsOf,
    Commit,
    FoundPage,
    HistoryEntry,
    HistoryPage,
    Instant,
    Operation,
    Query,
    Rewritten,
    Store,
    StoreStatus,
    Transaction,
    Version,
)
from ctxmgr.core.store.documents import Document


@runtime_checkable
class BatchingStore(Protocol):
    """What a store has that can make several transactions durable together."""

    async def commit_in_batch(
        self, operations: Iterable[Operation], *, key: str | None = None
    ) -> Commit:
        """Apply a transaction as ``Store.commit`` does, without making it durable yet.

        A batch that is full is made durable before this returns.
        """
        ...

    async def end_batch(self) -> None:
        """Make durable what was committed in the batch; ``Unavailable`` if it is lost."""
        ...


@asynccontextmanager
async def in_batches(store: Store) -> AsyncIterator[Store]:
    """Return a store that commits in batches until the block ends.

    A store that has no batches, such as XTDB, is returned as it is.
    """
    if not isinstance(store, BatchingStore):
        yield store
        return
    try:
        yield BatchedStore(store, store)
    finally:
        await store.end_batch()


class BatchedStore:
    """A ``Store`` that commits in batches. Reading ends a batch, so that it sees everything."""

    def __init__(self, store: Store, batching: BatchingStore) -> None:
        """Both are the same store."""
        self._store = store
        self._batching = batching

    async def commit(self, operations: Iterable[Operation], *, key: str | None = None) -> Commit:
        return await self._batching.commit_in_batch(operations, key=key)

    async def get(self, object_id: str, *, as_of: AsOf = LATEST) -> Version | None:
        await self._batching.end_batch()
        return await self._store.get(object_id, as_of=as_of)

    async def get_many(
        self,
        object_ids: Iterable[str],
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
    ) -> dict[str, Version]:
        await self._batching.end_batch()
        return await self._store.get_many(object_ids, as_of=as_of, without=without)

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
        await self._batching.end_batch()
        return await self._store.history(
            object_id,
            as_of=as_of,
            since=since,
            newest_first=newest_first,
            corrections=corrections,
            documents=documents,
            limit=limit,
            cursor=cursor,
        )

    async def history_many(
        self,
        object_ids: Iterable[str],
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
        limit: int,
    ) -> dict[str, Sequence[HistoryEntry]]:
        await self._batching.end_batch()
        return await self._store.history_many(object_ids, as_of=as_of, without=without, limit=limit)

    async def find(
        self,
        query: Query,
        *,
        as_of: AsOf = LATEST,
        without: Collection[str] = (),
        limit: int = 100,
        cursor: str | None = None,
    ) -> FoundPage:
        await self._batching.end_batch()
        return await self._store.find(
            query, as_of=as_of, without=without, limit=limit, cursor=cursor
        )

    async def feed(
        self, *, after: int | None = None, limit: int = PAGE_MAX, documents: bool = True
    ) -> Sequence[Transaction]:
        await self._batching.end_batch()
        return await self._store.feed(after=after, limit=limit, documents=documents)

    async def rewrite(self, documents: Mapping[tuple[str, int], Document]) -> Rewritten:
        await self._batching.end_batch()
        return await self._store.rewrite(documents)

    async def finish_rewrites(self) -> int:
        await self._batching.end_batch()
        return await self._store.finish_rewrites()

    async def status(self) -> StoreStatus:
        await self._batching.end_batch()
        return await self._store.status()

    async def close(self) -> None:
        """End the batch; the store is closed by its owner."""
        await self._batching.end_batch()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
