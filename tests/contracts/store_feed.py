"""The contract of ``feed``: every transaction once, in order, with its writes."""

import asyncio

import pytest

from ctxmgr.core.store.contract import (
    PAGE_MAX,
    Delete,
    Match,
    Operation,
    Put,
    Store,
    Transaction,
    Write,
)
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Conflict, Incorrect
from tests.contracts.namespace import FUTURE, Namespace, day, last_sequence, put


async def _read_feed(
    store: Store, after: int | None, *, limit: int = PAGE_MAX
) -> list[Transaction]:
    """Everything after that sequence, page after page."""
    transactions: list[Transaction] = []
    while page := await store.feed(after=after, limit=limit):
        assert len(page) <= limit
        transactions.extend(page)
        after = page[-1].sequence
    return transactions


class FeedContract:
    async def test_the_feed_has_every_write_with_its_times(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Every event of a transaction can be rebuilt from stored data (003-R010, 003-R016)."""
        before = await last_sequence(store)
        a, b = namespace.note("a", title="a"), namespace.note("b", title="b")
        first = await store.commit(
            [
                Put(b, day(1), day(2)),
                Delete(namespace.id("c"), day(3)),
                Put(a),
                Put(namespace.note("d")),
            ]
        )
        second = await store.commit(
            [Delete(namespace.id("a")), Put(b, FUTURE)], key=namespace.id("key")
        )

        transactions = await _read_feed(store, before)

        assert [
            (transaction.sequence, transaction.system_time, transaction.key)
            for transaction in transactions
        ] == [
            (transaction.sequence, transaction.system_time, transaction.key)
            for transaction in (first, second)
        ]
        now = first.system_time
        assert transactions[0].writes == (
            _write(b, day(1), day(2)),
            _deleted(namespace.id("c"), day(3)),
            _write(a, now),
            _write(namespace.note("d"), now),
        )
        assert transactions[1].writes == (
            _deleted(namespace.id("a"), second.system_time),
            _write(b, FUTURE),
        )

    async def test_the_feed_continues_after_a_sequence(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A listener that was offline continues where it stopped (003-R016)."""
        before = await last_sequence(store)
        commits = [await put(store, namespace.note(rank=number)) for number in range(7)]
        sequences = [commit.sequence for commit in commits]

        assert [
            transaction.sequence for transaction in await _read_feed(store, before, limit=2)
        ] == sequences
        assert [
            transaction.sequence for transaction in await store.feed(after=sequences[3])
        ] == sequences[4:]
        assert [
            transaction.sequence for transaction in await store.feed(after=before, limit=3)
        ] == sequences[:3]
        assert list(await store.feed(after=sequences[-1])) == []

    async def test_the_feed_from_the_start_has_every_transaction(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A new listener receives the complete history (003-R010)."""
        commits = [await put(store, namespace.note(rank=number)) for number in range(3)]

        transactions = await _read_feed(store, None)

        sequences = [transaction.sequence for transaction in transactions]
        assert sequences == sorted(set(sequences))
        assert sequences[-3:] == [commit.sequence for commit in commits]

    async def test_the_feed_without_documents_has_the_same_writes(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A caller that only needs to know what changed need not load the documents (003-R016)."""
        before = await last_sequence(store)
        await store.commit([Put(namespace.note("a"), day(1)), Delete(namespace.id("b"))])

        (transaction,) = await store.feed(after=before, documents=False)

        assert [
            (entry.object_id, entry.deleted, entry.document) for entry in transaction.writes
        ] == [
            (namespace.id("a"), False, None),
            (namespace.id("b"), True, None),
        ]
        assert transaction.writes[0].valid_from == day(1)

    async def test_conflicts_and_retries_are_not_in_the_feed(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Listeners get only events that happened, and get them once (003-R010)."""
        before = await last_sequence(store)
        once: list[Operation] = [Match(namespace.id(), None), Put(namespace.note())]
        commit = await store.commit(once, key=namespace.id("key"))
        await store.commit(once, key=namespace.id("key"))
        with pytest.raises(Conflict):
            await store.commit(once)

        assert [transaction.sequence for transaction in await _read_feed(store, before)] == [
            commit.sequence
        ]

    async def test_a_corrected_document_is_in_the_feed_as_it_was_put(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A write that was overwritten at the same instant was still a write (003-R010)."""
        before = await last_sequence(store)
        for name in ("one", "two", "three"):
            await put(store, namespace.note(title=name), valid_from=day(1))

        transactions = await _read_feed(store, before)

        titles = [
            write.document["title"]
            for transaction in transactions
            for write in transaction.writes
            if write.document
        ]
        assert titles == ["one", "two", "three"]

    async def test_large_documents_are_complete_in_the_feed(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Events are rebuilt from documents, whatever their layout (003-R010, 003-R016)."""
        before = await last_sequence(store)
        versions = [
            namespace.note(
                content="é" * 400_000 if number % 2 else "short",
                turns=[{"n": turn, "text": "t" * 500} for turn in range(number * 60)],
            )
            for number in range(6)
        ]
        for version in versions:
            await put(store, version)

        transactions = await _read_feed(store, before, limit=2)

        assert [
            write.document for transaction in transactions for write in transaction.writes
        ] == versions

    async def test_new_transactions_never_precede_ones_already_fed(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A listener that remembers one sequence misses nothing under load (003-R010)."""
        before = await last_sequence(store)

        async def write(worker: int) -> list[int]:
            notes = [namespace.note(f"{worker}-{number}") for number in range(8)]
            return [(await put(store, note)).sequence for note in notes]

        writing = asyncio.gather(*(write(worker) for worker in range(8)))
        received: list[int] = []
        while not writing.done():
            last = received[-1] if received else before
            received.extend(
                transaction.sequence for transaction in await store.feed(after=last, limit=5)
            )
            await asyncio.sleep(0)
        written = sorted(sequence for commit in await writing for sequence in commit)
        received.extend(
            transaction.sequence
            for transaction in await _read_feed(store, received[-1] if received else before)
        )

        assert received == written

    @pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
    async def test_an_invalid_feed_limit_is_refused(self, store: Store, limit: int) -> None:
        """Every page is bounded, and an invalid limit is not replaced silently (003-R016)."""
        with pytest.raises(Incorrect, match="limit"):
            await store.feed(limit=limit)


def _write(document: Document, valid_from: int, valid_to: int | None = None) -> Write:
    return Write(
        object_id=document["xt/id"],
        deleted=False,
        document=document,
        valid_from=valid_from,
        valid_to=valid_to,
    )


def _deleted(object_id: str, valid_from: int) -> Write:
    return Write(
        object_id=object_id, deleted=True, document=None, valid_from=valid_from, valid_to=None
    )
