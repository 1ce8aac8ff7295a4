"""What two clients of one database are promised. They have a handle each, as two machines would."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, TypeAlias

import pytest

from ctxmgr.core.contents import File
from ctxmgr.core.infrastructure import SessionRecord
from ctxmgr.core.objects import to_document
from ctxmgr.core.sources import FilesystemSource
from ctxmgr.core.store import (
    AsOf,
    FieldType,
    Kind,
    Match,
    Operation,
    Order,
    Put,
    Query,
    Range,
    Store,
)
from ctxmgr.errors import Conflict, CtxmgrError
from tests.contracts.corner import Corner, day, last_sequence, put, title

ANSWERED_WITHIN_S: Final = 60

Reopen: TypeAlias = Callable[[dict[str, Kind]], Awaitable[Store]]
"""Opens another handle on the same database, with other kinds."""


class SharedStoreContract:
    """Every Store that several clients can open keeps these promises as well."""

    crowd: ClassVar[int] = 100
    """More writers than the store takes at once; more where its queue has more places."""

    async def test_what_is_acknowledged_to_one_client_is_seen_by_the_other(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """A session paused here is resumed there (003-R006, 003-R113)."""
        for number in range(10):
            commit = await put(store, corner.note(title=str(number), rank=number))

            assert await title(another_store, corner.id()) == str(number)
            found = await another_store.find(Query(corner.kind.name, {"rank": number}))
            assert len(found.versions) == 1
            assert await last_sequence(another_store) == commit.sequence

    async def test_two_clients_of_one_source_share_one_history(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """The same file is one object with one history, whoever indexes it (003-R063, R123)."""
        commits = []
        for number in range(6):
            client = (store, another_store)[number % 2]
            commits.append(await put(client, corner.note(title=str(number))))

        here = await store.history(corner.id(), corrections=True)
        there = await another_store.history(corner.id(), corrections=True)

        assert here == there
        assert [each.sequence for each in here.entries] == [each.sequence for each in commits]

    async def test_one_file_is_one_object_across_sessions(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """Two sessions that name the same file see each other's news of it (003-R123)."""
        path = FilesystemSource(filesystem_id="host", path=f"/{corner.mark}/main.py")
        texts, sessions = (b"print(1)", b"print(2)"), []
        for number, client in enumerate((store, another_store)):
            file = File.read(path, data=texts[number])
            ids = (file.object_id,)
            record = SessionRecord(
                session_id=f"{corner.mark}-{number}",
                session_index=ids,
                metadata_pool=ids,
                active_set=ids,
            )
            sessions.append(record.object_id)
            await client.commit([Put(to_document(file)), Put(to_document(record))])

        named = await store.get_many(sessions)
        active = {tuple(each.document["active_set"]) for each in named.values()}
        assert active == {(file.object_id,)}
        seen = [await each.get(file.object_id) for each in (store, another_store)]
        assert [each and each.document["content"] for each in seen] == ["print(2)"] * 2
        assert len((await store.history(file.object_id, corrections=True)).entries) == 2

    async def test_both_of_two_concurrent_writes_are_kept(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """Content objects: last write wins, both versions stay (003-R124, 003-A21)."""
        await asyncio.gather(
            put(store, corner.note(title="here")), put(another_store, corner.note(title="there"))
        )

        entries = (await store.history(corner.id(), corrections=True)).entries
        told = [each.document["title"] for each in entries if each.document]
        assert sorted(told) == ["here", "there"]
        assert await title(store, corner.id()) == told[-1]

    async def test_a_token_of_one_client_is_good_in_the_other(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """The guard is about the version, not about who read it (003-A21)."""
        commit = await put(store, corner.note(title="here"))

        await another_store.commit(
            [Match(corner.id(), commit.token), Put(corner.note(title="there"))]
        )

        with pytest.raises(Conflict) as conflict:
            await store.commit([Match(corner.id(), commit.token), Put(corner.note(title="lost"))])
        assert conflict.value.object_ids == (corner.id(),)
        assert await title(store, corner.id()) == "there"

    async def test_a_retry_by_another_client_writes_nothing(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """The process died before the reply; its successor asks again (003-R113)."""
        operations: list[Operation] = [
            Match(corner.id(), None),
            Put(corner.note(title="once")),
        ]
        first = await store.commit(operations, key=corner.id("key"))

        second = await another_store.commit(operations, key=corner.id("key"))

        assert second.repeated
        assert (second.sequence, second.token) == (first.sequence, first.token)

    async def test_a_change_in_one_session_leaves_the_other_alone(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """Each session has its own index, pools, chat and prompt (003-R006, R122, R125)."""
        await put(store, corner.note("s1", session_index=["f"]))
        await put(another_store, corner.note("s2", session_index=["f"]))
        before = await store.get(corner.id("s1"))

        await put(another_store, corner.note("s2", session_index=["f", "g"]))

        assert await store.get(corner.id("s1")) == before

    async def test_two_clients_that_count_under_a_guard_lose_nothing(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """Processes race as tasks do (003-A21)."""

        async def count(client: Store, times: int) -> None:
            while times:
                read = await client.get(corner.id())
                token, rank = (read.token, read.document["rank"] + 1) if read else (None, 1)
                try:
                    await client.commit([Match(corner.id(), token), Put(corner.note(rank=rank))])
                    times -= 1
                except Conflict:
                    continue

        await asyncio.gather(count(store, 15), count(another_store, 15))

        version = await another_store.get(corner.id())
        assert version is not None
        assert version.document["rank"] == 30

    async def test_the_past_is_the_same_for_both(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """A turn is reproduced on another machine from its point alone (003-R005)."""
        first = await put(store, corner.note(title="first"), valid_from=day(1))
        await put(another_store, corner.note(title="second"), valid_from=day(1))
        point = AsOf(sequence=first.sequence, valid_time=day(2))

        assert await title(another_store, corner.id(), as_of=point) == "first"
        assert await store.get(corner.id(), as_of=point) == await another_store.get(
            corner.id(), as_of=point
        )

    async def test_the_feed_is_the_same_for_both(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """A listener may follow any handle (003-R010)."""
        before = await last_sequence(store)
        await asyncio.gather(
            *(put(store, corner.note(f"h{number}")) for number in range(10)),
            *(put(another_store, corner.note(f"t{number}")) for number in range(10)),
        )

        assert list(await store.feed(after=before)) == list(await another_store.feed(after=before))
        assert len(await store.feed(after=before)) == 20

    async def test_closing_finishes_what_was_accepted(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """Nothing acknowledged is lost by going away, nothing half done stays (003-R113)."""
        tasks = [
            asyncio.create_task(
                store.commit([Put(corner.note(f"{number}{half}")) for half in "ab"])
            )
            for number in range(20)
        ]
        await asyncio.sleep(0)
        await store.close()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        for number, outcome in enumerate(outcomes):
            ids = [corner.id(f"{number}{half}") for half in "ab"]
            found = await another_store.get_many(ids)
            assert len(found) in (0, 2)
            assert len(found) == 2 or isinstance(outcome, CtxmgrError)

    async def test_closing_answers_all_who_wait(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """However long the queue, nobody is left without an answer (003-R113)."""
        tasks = [
            asyncio.create_task(put(store, corner.note(f"{number}")))
            for number in range(self.crowd)
        ]
        await asyncio.sleep(0)
        await store.close()
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        found = await another_store.get_many(corner.id(f"{number}") for number in range(self.crowd))
        for number, outcome in enumerate(outcomes):
            assert corner.id(f"{number}") in found or isinstance(outcome, CtxmgrError)

    async def test_one_client_closing_leaves_the_other_working(
        self, store: Store, another_store: Store, corner: Corner
    ) -> None:
        """Clients come and go (003-R006)."""
        await put(store, corner.note(title="here"))

        await store.close()

        assert await title(another_store, corner.id()) == "here"
        await put(another_store, corner.note(title="there"))


class ReopenedStoreContract:
    """What a database promises to whoever opens it with kinds that it did not know."""

    async def test_a_field_declared_later_finds_what_was_there_before(
        self, store: Store, reopen: Reopen, corner: Corner
    ) -> None:
        """A new version of a layer asks about documents of the old one (003-R016)."""
        kind = Kind(f"later-{corner.mark}", {"title": FieldType.TEXT})
        titles = ["b", "a", None, "d"]
        names = [f"n{number}" for number in range(len(titles))]
        await store.commit(
            [
                Put({"xt/id": corner.id(name), "type": kind.name, "title": title})
                for name, title in zip(names, titles, strict=True)
            ]
        )

        async with await reopen({kind.name: kind}) as declared:
            found = await declared.find(Query(kind.name, {"title": "a"}))
            ordered = await declared.find(Query(kind.name, order=Order("title")))
            ranged = await declared.find(Query(kind.name, between=Range("title", "a", "c")))
            whole = await declared.find(Query(kind.name))

        assert [each.object_id for each in found.versions] == [corner.id("n1")]
        assert [each.document["title"] for each in ordered.versions] == ["a", "b", "d"]
        assert [each.object_id for each in ranged.versions] == [corner.id("n0"), corner.id("n1")]
        assert len(whole.versions) == len(titles)
