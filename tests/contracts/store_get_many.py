"""The contract of ``get_many``: many objects in one call, as of one point."""

import asyncio

import pytest

from ctxmgr.core.store.contract import AsOf, Delete, Put, Store
from ctxmgr.errors import Incorrect
from tests.contracts.namespace import Namespace, day, put


class GetManyContract:
    async def test_a_batch_is_returned_in_the_requested_order(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A session's sets are ordered lists, and the prompt uses that order (003-A17)."""
        names = ["c", "a", "d", "b"]
        await store.commit([Put(namespace.note(name, title=name)) for name in sorted(names)])

        versions = await store.get_many([namespace.id(name) for name in names])

        assert list(versions) == [namespace.id(name) for name in names]
        assert [version.document["title"] for version in versions.values()] == names

    async def test_missing_and_deleted_objects_are_omitted(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Reads of the present do not distinguish never written from deleted (003-R115)."""
        await store.commit([Put(namespace.note("a")), Put(namespace.note("b"))])
        await store.commit([Delete(namespace.id("b"))])

        versions = await store.get_many([namespace.id(name) for name in "abc"])

        assert list(versions) == [namespace.id("a")]

    async def test_a_repeated_id_is_returned_once(self, store: Store, namespace: Namespace) -> None:
        """The four sets of a session overlap (003-R114)."""
        await store.commit([Put(namespace.note("a")), Put(namespace.note("b"))])

        versions = await store.get_many([namespace.id(name) for name in "abab"])

        assert list(versions) == [namespace.id("a"), namespace.id("b")]

    async def test_an_empty_batch_returns_nothing(self, store: Store, namespace: Namespace) -> None:
        """A session without objects resumes like any other (003-R115)."""
        assert await store.get_many([]) == {}
        assert await store.get_many(iter([namespace.id("nothing")])) == {}

    async def test_a_batch_returns_the_same_versions_as_single_gets(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Both return the same tokens and valid-time starts (003-R115)."""
        await put(store, namespace.note("a", title="a"), valid_from=day(1))
        middle = await put(
            store, namespace.note("b", title="b"), valid_from=day(2), valid_to=day(5)
        )
        await put(store, namespace.note("a", title="later"))
        ids = [namespace.id(name) for name in "abc"]

        for as_of in (AsOf(), AsOf(valid_time=day(3)), AsOf(sequence=middle.sequence)):
            single = {id_: await store.get(id_, as_of=as_of) for id_ in ids}
            expected = {object_id: version for object_id, version in single.items() if version}
            assert await store.get_many(ids, as_of=as_of) == expected

    async def test_five_thousand_objects_are_returned_in_one_batch(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A session with 5,000 files resumes with one read (003-R115)."""
        names = [f"{number:04}" for number in range(5_000)]
        await store.commit([Put(namespace.note(name, rank=int(name))) for name in names])

        versions = await store.get_many([namespace.id(name) for name in reversed(names)])

        assert list(versions) == [namespace.id(name) for name in reversed(names)]
        assert [version.document["rank"] for version in versions.values()] == list(
            range(4_999, -1, -1)
        )

    async def test_a_batch_never_reads_part_of_a_transaction(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A chat and a session of different turns make a wrong prompt (003-R115)."""
        rounds = 30

        async def write() -> None:
            for number in range(rounds):
                await store.commit([Put(namespace.note(name, rank=number)) for name in "ab"])

        writing = asyncio.create_task(write())
        seen: set[tuple[int, ...]] = set()
        while not writing.done():
            versions = await store.get_many([namespace.id("a"), namespace.id("b")])
            seen.add(tuple(version.document["rank"] for version in versions.values()))
            await asyncio.sleep(0)
        await writing

        assert all(pair == () or pair[0] == pair[1] for pair in seen)
        assert all(len(pair) in (0, 2) for pair in seen)

    @pytest.mark.parametrize("bad", ["", "ctxmgr/own", "\ud800", "x" * 1_025])
    async def test_an_invalid_id_is_refused(
        self, store: Store, namespace: Namespace, bad: str
    ) -> None:
        """An invalid id is a caller's error, not a missing object (003-R016)."""
        with pytest.raises(Incorrect):
            await store.get_many([namespace.id(), bad])
        with pytest.raises(Incorrect):
            await store.get(bad)
        with pytest.raises(Incorrect):
            await store.history(bad)

    async def test_fields_can_be_omitted(self, store: Store, namespace: Namespace) -> None:
        """The index of a large session is slow to read and not needed for its prompt."""
        long = [f"{number:064x}" for number in range(2_000)]
        await store.commit(
            [Put(namespace.note("a", title="kept", others=long, body="x" * 300_000))]
        )

        versions = await store.get_many([namespace.id("a")], without=("others", "body", "xt/id"))

        assert versions[namespace.id("a")].document == namespace.note("a", title="kept")

    async def test_omitted_fields_are_returned_by_a_full_read(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Omitting a field affects one read, not the stored document."""
        whole = namespace.note("a", title="kept", others=[f"{n:064x}" for n in range(2_000)])
        await store.commit([Put(whole)])

        short = await store.get_many([namespace.id("a")], without=("others", "none such"))
        versions = await store.get_many([namespace.id("a")])

        assert versions[namespace.id("a")].document == whole
        assert versions[namespace.id("a")].token == short[namespace.id("a")].token
