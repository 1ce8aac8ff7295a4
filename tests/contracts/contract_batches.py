"""What a batch get promises: every object of a session in one question, as of one point."""

import asyncio

import pytest

from ctxmgr.core.store import AsOf, Delete, Put, Store
from ctxmgr.errors import Incorrect
from tests.contracts.corner import Corner, day, put


class BatchesContract:
    async def test_a_batch_comes_back_in_the_order_asked(
        self, store: Store, corner: Corner
    ) -> None:
        """A session's sets are ordered lists, and their order is the prompt's (003-A17)."""
        names = ["c", "a", "d", "b"]
        await store.commit([Put(corner.note(name, title=name)) for name in sorted(names)])

        found = await store.get_many([corner.id(name) for name in names])

        assert list(found) == [corner.id(name) for name in names]
        assert [each.document["title"] for each in found.values()] == names

    async def test_what_is_not_there_is_left_out(self, store: Store, corner: Corner) -> None:
        """Never written and deleted look alike to a reader of the present (003-R115)."""
        await store.commit([Put(corner.note("a")), Put(corner.note("b"))])
        await store.commit([Delete(corner.id("b"))])

        found = await store.get_many([corner.id(name) for name in "abc"])

        assert list(found) == [corner.id("a")]

    async def test_an_id_given_twice_comes_back_once(self, store: Store, corner: Corner) -> None:
        """Four sets of a session name the same objects again and again (003-R114)."""
        await store.commit([Put(corner.note("a")), Put(corner.note("b"))])

        found = await store.get_many([corner.id(name) for name in "abab"])

        assert list(found) == [corner.id("a"), corner.id("b")]

    async def test_an_empty_batch_is_empty(self, store: Store, corner: Corner) -> None:
        """A session that has met nothing resumes like any other (003-R115)."""
        assert await store.get_many([]) == {}
        assert await store.get_many(iter([corner.id("nothing")])) == {}

    async def test_a_batch_says_what_single_gets_say(self, store: Store, corner: Corner) -> None:
        """Two ways to ask are one answer, tokens and starts included (003-R115)."""
        await put(store, corner.note("a", title="a"), valid_from=day(1))
        middle = await put(store, corner.note("b", title="b"), valid_from=day(2), valid_to=day(5))
        await put(store, corner.note("a", title="later"))
        ids = [corner.id(name) for name in "abc"]

        for as_of in (AsOf(), AsOf(valid_time=day(3)), AsOf(sequence=middle.sequence)):
            single = {each: await store.get(each, as_of=as_of) for each in ids}
            expected = {each: version for each, version in single.items() if version}
            assert await store.get_many(ids, as_of=as_of) == expected

    async def test_five_thousand_objects_come_in_one_batch(
        self, store: Store, corner: Corner
    ) -> None:
        """A session that met 5,000 files resumes in one question (003-R115)."""
        names = [f"{number:04}" for number in range(5_000)]
        await store.commit([Put(corner.note(name, rank=int(name))) for name in names])

        found = await store.get_many([corner.id(name) for name in reversed(names)])

        assert list(found) == [corner.id(name) for name in reversed(names)]
        assert [each.document["rank"] for each in found.values()] == list(range(4_999, -1, -1))

    async def test_a_batch_never_sees_half_a_transaction(
        self, store: Store, corner: Corner
    ) -> None:
        """Chat and session that do not belong together would be a prompt of no turn (003-R115)."""
        rounds = 30

        async def write() -> None:
            for number in range(rounds):
                await store.commit([Put(corner.note(name, rank=number)) for name in "ab"])

        writing = asyncio.create_task(write())
        seen: set[tuple[int, ...]] = set()
        while not writing.done():
            found = await store.get_many([corner.id("a"), corner.id("b")])
            seen.add(tuple(each.document["rank"] for each in found.values()))
            await asyncio.sleep(0)
        await writing

        assert all(pair == () or pair[0] == pair[1] for pair in seen)
        assert all(len(pair) in (0, 2) for pair in seen)

    @pytest.mark.parametrize("bad", ["", "ctxmgr/own", "\ud800", "x" * 1_025])
    async def test_what_can_be_no_id_is_refused(
        self, store: Store, corner: Corner, bad: str
    ) -> None:
        """A question about an impossible id is a mistake, not an absence (003-R016)."""
        with pytest.raises(Incorrect):
            await store.get_many([corner.id(), bad])
        with pytest.raises(Incorrect):
            await store.get(bad)
        with pytest.raises(Incorrect):
            await store.history(bad)

    async def test_fields_can_be_left_out(self, store: Store, corner: Corner) -> None:
        """The index of a large session is not needed for its prompt, and takes long to read."""
        long = [f"{number:064x}" for number in range(2_000)]
        await store.commit([Put(corner.note("a", title="kept", others=long, body="x" * 300_000))])

        found = await store.get_many([corner.id("a")], without=("others", "body", "xt/id"))

        assert found[corner.id("a")].document == corner.note("a", title="kept")

    async def test_what_was_left_out_is_there_when_asked_for(
        self, store: Store, corner: Corner
    ) -> None:
        """Leaving a field out is a way of reading, and says nothing about the document."""
        whole = corner.note("a", title="kept", others=[f"{n:064x}" for n in range(2_000)])
        await store.commit([Put(whole)])

        short = await store.get_many([corner.id("a")], without=("others", "none such"))
        found = await store.get_many([corner.id("a")])

        assert found[corner.id("a")].document == whole
        assert found[corner.id("a")].token == short[corner.id("a")].token
