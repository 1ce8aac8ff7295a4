"""What the feed promises: every transaction, once, in order, with what it said."""

import asyncio

import pytest

from ctxmgr.core.documents import Document
from ctxmgr.core.store import PAGE_MAX, Delete, Match, Operation, Put, Store, Transaction, Write
from ctxmgr.errors import Conflict, Incorrect
from tests.contracts.corner import FUTURE, Corner, day, last_sequence, put


async def _fed(store: Store, after: int | None, *, limit: int = PAGE_MAX) -> list[Transaction]:
    """Everything after that sequence, page after page."""
    transactions: list[Transaction] = []
    while page := await store.feed(after=after, limit=limit):
        assert len(page) <= limit
        transactions.extend(page)
        after = page[-1].sequence
    return transactions


class FeedContract:
    async def test_the_feed_tells_every_write_with_its_times(
        self, store: Store, corner: Corner
    ) -> None:
        """Every event of a transaction can be rebuilt from what is stored (003-R010, 003-R016)."""
        before = await last_sequence(store)
        a, b = corner.note("a", title="a"), corner.note("b", title="b")
        first = await store.commit(
            [Put(b, day(1), day(2)), Delete(corner.id("c"), day(3)), Put(a), Put(corner.note("d"))]
        )
        second = await store.commit([Delete(corner.id("a")), Put(b, FUTURE)], key=corner.id("key"))

        fed = await _fed(store, before)

        assert [(each.sequence, each.system_time, each.key) for each in fed] == [
            (each.sequence, each.system_time, each.key) for each in (first, second)
        ]
        now = first.system_time
        assert fed[0].writes == (
            _write(b, day(1), day(2)),
            _deleted(corner.id("c"), day(3)),
            _write(a, now),
            _write(corner.note("d"), now),
        )
        assert fed[1].writes == (
            _deleted(corner.id("a"), second.system_time),
            _write(b, FUTURE),
        )

    async def test_the_feed_goes_on_after_a_sequence(self, store: Store, corner: Corner) -> None:
        """A listener that was away starts where it stopped (003-R016)."""
        before = await last_sequence(store)
        commits = [await put(store, corner.note(rank=number)) for number in range(7)]
        sequences = [each.sequence for each in commits]

        assert [each.sequence for each in await _fed(store, before, limit=2)] == sequences
        assert [each.sequence for each in await store.feed(after=sequences[3])] == sequences[4:]
        assert [each.sequence for each in await store.feed(after=before, limit=3)] == sequences[:3]
        assert list(await store.feed(after=sequences[-1])) == []

    async def test_the_feed_from_the_beginning_has_everything(
        self, store: Store, corner: Corner
    ) -> None:
        """Whoever starts with nothing is given all (003-R010)."""
        commits = [await put(store, corner.note(rank=number)) for number in range(3)]

        fed = await _fed(store, None)

        sequences = [each.sequence for each in fed]
        assert sequences == sorted(set(sequences))
        assert sequences[-3:] == [each.sequence for each in commits]

    async def test_the_feed_without_documents_has_the_same_writes(
        self, store: Store, corner: Corner
    ) -> None:
        """Who only wants to know what changed need not carry it (003-R016)."""
        before = await last_sequence(store)
        await store.commit([Put(corner.note("a"), day(1)), Delete(corner.id("b"))])

        (fed,) = await store.feed(after=before, documents=False)

        assert [(each.object_id, each.deleted, each.document) for each in fed.writes] == [
            (corner.id("a"), False, None),
            (corner.id("b"), True, None),
        ]
        assert fed.writes[0].valid_from == day(1)

    async def test_neither_conflicts_nor_retries_are_fed(
        self, store: Store, corner: Corner
    ) -> None:
        """An event that did not happen, or not twice, must not be told (003-R010)."""
        before = await last_sequence(store)
        once: list[Operation] = [Match(corner.id(), None), Put(corner.note())]
        commit = await store.commit(once, key=corner.id("key"))
        await store.commit(once, key=corner.id("key"))
        with pytest.raises(Conflict):
            await store.commit(once)

        assert [each.sequence for each in await _fed(store, before)] == [commit.sequence]

    async def test_a_corrected_document_is_fed_as_it_was_put(
        self, store: Store, corner: Corner
    ) -> None:
        """What was overwritten at its own instant was still said once (003-R010)."""
        before = await last_sequence(store)
        for name in ("one", "two", "three"):
            await put(store, corner.note(title=name), valid_from=day(1))

        fed = await _fed(store, before)

        titles = [
            write.document["title"] for each in fed for write in each.writes if write.document
        ]
        assert titles == ["one", "two", "three"]

    async def test_large_documents_are_fed_whole(self, store: Store, corner: Corner) -> None:
        """Events are rebuilt from documents however they are laid out (003-R010, 003-R016)."""
        before = await last_sequence(store)
        versions = [
            corner.note(
                content="é" * 400_000 if number % 2 else "short",
                turns=[{"n": turn, "text": "t" * 500} for turn in range(number * 60)],
            )
            for number in range(6)
        ]
        for each in versions:
            await put(store, each)

        fed = await _fed(store, before, limit=2)

        assert [write.document for each in fed for write in each.writes] == versions

    async def test_nothing_new_ever_precedes_what_was_fed(
        self, store: Store, corner: Corner
    ) -> None:
        """A listener that remembers one number misses nothing under load (003-R010)."""
        before = await last_sequence(store)

        async def write(worker: int) -> list[int]:
            notes = [corner.note(f"{worker}-{number}") for number in range(8)]
            return [(await put(store, each)).sequence for each in notes]

        writing = asyncio.gather(*(write(worker) for worker in range(8)))
        heard: list[int] = []
        while not writing.done():
            last = heard[-1] if heard else before
            heard.extend(each.sequence for each in await store.feed(after=last, limit=5))
            await asyncio.sleep(0)
        written = sorted(sequence for each in await writing for sequence in each)
        heard.extend(each.sequence for each in await _fed(store, heard[-1] if heard else before))

        assert heard == written

    @pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
    async def test_a_feed_of_no_size_is_refused(self, store: Store, limit: int) -> None:
        """Every page has a bound, and it is not quietly another one (003-R016)."""
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
