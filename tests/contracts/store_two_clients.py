"""The contract of two clients of one database, each with its own handle."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, TypeAlias

import pytest

from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.session_record import SessionRecord
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.contract import (
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
from tests.contracts.namespace import Namespace, day, last_sequence, put, title
from tests.contracts.store_kinds import check_a_race

ANSWERED_WITHIN_S: Final = 60

Reopen: TypeAlias = Callable[[dict[str, Kind]], Awaitable[Store]]
"""Opens another handle on the same database, with other kinds."""


class SharedStoreContract:
    """The further guarantees of a store that several clients can open."""

    crowd: ClassVar[int] = 100
    """More writers than the store accepts at once; raised for a store with a longer queue."""

    async def test_acknowledged_writes_are_visible_to_the_other_client(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """A session paused in one process is resumed in another (003-R006, 003-R113)."""
        for number in range(10):
            commit = await put(store, namespace.note(title=str(number), rank=number))

            assert await title(another_store, namespace.id()) == str(number)
            found = await another_store.find(Query(namespace.kind.name, {"rank": number}))
            assert len(found.versions) == 1
            assert await last_sequence(another_store) == commit.sequence

    async def test_two_clients_of_the_same_source_share_one_history(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """003-R063, 003-R123: a file is one object with one history, whoever indexes it."""
        commits = []
        for number in range(6):
            client = (store, another_store)[number % 2]
            commits.append(await put(client, namespace.note(title=str(number))))

        here = await store.history(namespace.id(), corrections=True)
        there = await another_store.history(namespace.id(), corrections=True)

        assert here == there
        assert [entry.sequence for entry in here.entries] == [commit.sequence for commit in commits]

    async def test_one_file_is_one_object_across_sessions(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """Two sessions that use the same file see each other's versions of it (003-R123)."""
        path = FilesystemSource(filesystem_id="host", path=f"/{namespace.mark}/main.py")
        texts, sessions = (b"print(1)", b"print(2)"), []
        for number, client in enumerate((store, another_store)):
            file = File.read(path, data=texts[number])
            ids = (file.object_id,)
            record = SessionRecord(
                session_id=f"{namespace.mark}-{number}",
                session_index=ids,
                metadata_pool=ids,
                active_set=ids,
            )
            sessions.append(record.object_id)
            await client.commit([Put(to_document(file)), Put(to_document(record))])

        named = await store.get_many(sessions)
        active = {tuple(version.document["active_set"]) for version in named.values()}
        assert active == {(file.object_id,)}
        seen = [await handle.get(file.object_id) for handle in (store, another_store)]
        assert [version and version.document["content"] for version in seen] == ["print(2)"] * 2
        assert len((await store.history(file.object_id, corrections=True)).entries) == 2

    async def test_both_of_two_concurrent_writes_are_kept(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """For content objects the last write wins, and both versions remain (003-R124, 003-A21)."""
        await asyncio.gather(
            put(store, namespace.note(title="here")),
            put(another_store, namespace.note(title="there")),
        )

        entries = (await store.history(namespace.id(), corrections=True)).entries
        titles = [entry.document["title"] for entry in entries if entry.document]
        assert sorted(titles) == ["here", "there"]
        assert await title(store, namespace.id()) == titles[-1]

    async def test_a_token_from_one_client_is_valid_in_the_other(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """A token identifies the version, regardless of the reader (003-A21)."""
        commit = await put(store, namespace.note(title="here"))

        await another_store.commit(
            [Match(namespace.id(), commit.token), Put(namespace.note(title="there"))]
        )

        with pytest.raises(Conflict) as conflict:
            await store.commit(
                [Match(namespace.id(), commit.token), Put(namespace.note(title="lost"))]
            )
        assert conflict.value.object_ids == (namespace.id(),)
        assert await title(store, namespace.id()) == "there"

    async def test_a_retry_by_another_client_writes_nothing(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """If a process dies before the reply, its successor retries (003-R113)."""
        operations: list[Operation] = [
            Match(namespace.id(), None),
            Put(namespace.note(title="once")),
        ]
        first = await store.commit(operations, key=namespace.id("key"))

        second = await another_store.commit(operations, key=namespace.id("key"))

        assert second.repeated
        assert (second.sequence, second.token) == (first.sequence, first.token)

    async def test_a_change_in_one_session_does_not_affect_the_other(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """Each session has its own index, pools, chat and prompt (003-R006, 003-R122, 003-R125)."""
        await put(store, namespace.note("s1", session_index=["f"]))
        await put(another_store, namespace.note("s2", session_index=["f"]))
        before = await store.get(namespace.id("s1"))

        await put(another_store, namespace.note("s2", session_index=["f", "g"]))

        assert await store.get(namespace.id("s1")) == before

    async def test_two_clients_that_increment_under_a_match_lose_no_update(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """Processes race as tasks do (003-A21)."""

        async def count(client: Store, times: int) -> None:
            while times:
                read = await client.get(namespace.id())
                token, rank = (read.token, read.document["rank"] + 1) if read else (None, 1)
                try:
                    await client.commit(
                        [Match(namespace.id(), token), Put(namespace.note(rank=rank))]
                    )
                    times -= 1
                except Conflict:
                    continue

        await asyncio.gather(count(store, 15), count(another_store, 15))

        version = await another_store.get(namespace.id())
        assert version is not None
        assert version.document["rank"] == 30

    async def test_of_two_clients_with_different_calls_for_one_id_one_wins(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """003-R071, 003-A20: processes race as tasks do, and the loser is told."""
        for number in range(3):
            await check_a_race([store, another_store], namespace.id(str(number)))

    async def test_past_points_are_the_same_for_both_clients(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """A turn is reproduced on another machine from its point only (003-R005)."""
        first = await put(store, namespace.note(title="first"), valid_from=day(1))
        await put(another_store, namespace.note(title="second"), valid_from=day(1))
        point = AsOf(sequence=first.sequence, valid_time=day(2))

        assert await title(another_store, namespace.id(), as_of=point) == "first"
        assert await store.get(namespace.id(), as_of=point) == await another_store.get(
            namespace.id(), as_of=point
        )

    async def test_the_feed_is_the_same_for_both_clients(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """A listener may use any handle (003-R010)."""
        before = await last_sequence(store)
        await asyncio.gather(
            *(put(store, namespace.note(f"h{number}")) for number in range(10)),
            *(put(another_store, namespace.note(f"t{number}")) for number in range(10)),
        )

        assert list(await store.feed(after=before)) == list(await another_store.feed(after=before))
        assert len(await store.feed(after=before)) == 20

    async def test_closing_finishes_accepted_transactions(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """Closing loses no acknowledged write and leaves no partial one (003-R113)."""
        tasks = [
            asyncio.create_task(
                store.commit([Put(namespace.note(f"{number}{half}")) for half in "ab"])
            )
            for number in range(20)
        ]
        await asyncio.sleep(0)
        await store.close()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        for number, outcome in enumerate(outcomes):
            ids = [namespace.id(f"{number}{half}") for half in "ab"]
            found = await another_store.get_many(ids)
            assert len(found) in (0, 2)
            assert len(found) == 2 or isinstance(outcome, CtxmgrError)

    async def test_closing_resolves_every_waiting_call(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """Every queued call gets a result or an error, however long the queue (003-R113)."""
        tasks = [
            asyncio.create_task(put(store, namespace.note(f"{number}")))
            for number in range(self.crowd)
        ]
        await asyncio.sleep(0)
        await store.close()
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        found = await another_store.get_many(
            namespace.id(f"{number}") for number in range(self.crowd)
        )
        for number, outcome in enumerate(outcomes):
            assert namespace.id(f"{number}") in found or isinstance(outcome, CtxmgrError)

    async def test_closing_one_client_leaves_the_other_usable(
        self, store: Store, another_store: Store, namespace: Namespace
    ) -> None:
        """Clients open and close independently (003-R006)."""
        await put(store, namespace.note(title="here"))

        await store.close()

        assert await title(another_store, namespace.id()) == "here"
        await put(another_store, namespace.note(title="there"))


class ReopenedStoreContract:
    """The guarantees for handles that open a database with kinds it did not have before."""

    async def test_a_field_declared_later_finds_existing_documents(
        self, store: Store, reopen: Reopen, namespace: Namespace
    ) -> None:
        """A new version of a layer queries documents written by the old one (003-R016)."""
        kind = Kind(f"later-{namespace.mark}", {"title": FieldType.TEXT})
        titles = ["b", "a", None, "d"]
        names = [f"n{number}" for number in range(len(titles))]
        await store.commit(
            [
                Put({"xt/id": namespace.id(name), "type": kind.name, "title": title})
                for name, title in zip(names, titles, strict=True)
            ]
        )

        async with await reopen({kind.name: kind}) as declared:
            found = await declared.find(Query(kind.name, {"title": "a"}))
            ordered = await declared.find(Query(kind.name, order=Order("title")))
            ranged = await declared.find(Query(kind.name, between=Range("title", "a", "c")))
            whole = await declared.find(Query(kind.name))

        assert [version.object_id for version in found.versions] == [namespace.id("n1")]
        assert [version.document["title"] for version in ordered.versions] == ["a", "b", "d"]
        assert [version.object_id for version in ranged.versions] == [
            namespace.id("n0"),
            namespace.id("n1"),
        ]
        assert len(whole.versions) == len(titles)
