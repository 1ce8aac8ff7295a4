"""What a transaction promises: all or nothing, in order, kept for ever, seen by the next read."""

import pytest

from ctxmgr.core.store import AsOf, Delete, Match, Put, Query, Store
from ctxmgr.errors import Conflict, Incorrect
from tests.contracts.corner import Corner, day, last_sequence, put, title


class CommitsContract:
    async def test_a_transaction_writes_all_its_documents(
        self, store: Store, corner: Corner
    ) -> None:
        """A tool call and what it found belong together (003-R016, 003-R023)."""
        documents = [corner.note(name, title=name) for name in "abc"]

        await store.commit([Put(each) for each in documents])

        found = await store.get_many([corner.id(name) for name in "abc"])
        assert [each.document for each in found.values()] == documents

    async def test_one_bad_document_keeps_the_whole_transaction_out(
        self, store: Store, corner: Corner
    ) -> None:
        """Half a transaction would be a state nobody ever described (003-R016)."""
        before = await last_sequence(store)

        with pytest.raises(Incorrect):
            await store.commit([Put(corner.note("a")), Put({"xt/id": corner.id("b")})])

        assert await store.get(corner.id("a")) is None
        assert await last_sequence(store) == before

    async def test_one_failed_match_keeps_the_whole_transaction_out(
        self, store: Store, corner: Corner
    ) -> None:
        """Whoever lost a race must not have changed anything (003-A21)."""
        await put(store, corner.note("a", title="first"))

        with pytest.raises(Conflict):
            await store.commit(
                [
                    Match(corner.id("a"), None),
                    Put(corner.note("a", title="second")),
                    Put(corner.note("b", title="beside")),
                    Delete(corner.id("c")),
                ]
            )

        assert await title(store, corner.id("a")) == "first"
        assert await store.get(corner.id("b")) is None
        assert len((await store.history(corner.id("c"))).entries) == 0

    async def test_a_deleted_object_is_gone_and_its_past_stays(
        self, store: Store, corner: Corner
    ) -> None:
        """History is append-only: a deletion is one more version (003-R010, 003-R005)."""
        written = await put(store, corner.note(title="here"))

        deleted = await store.commit([Delete(corner.id())])

        assert await store.get(corner.id()) is None
        past = AsOf(sequence=written.sequence)
        assert await title(store, corner.id(), as_of=past) == "here"
        entries = (await store.history(corner.id(), corrections=True)).entries
        assert [(each.sequence, each.deleted) for each in entries] == [
            (written.sequence, False),
            (deleted.sequence, True),
        ]

    async def test_a_deleted_object_can_be_written_again(
        self, store: Store, corner: Corner
    ) -> None:
        """A file that comes back is the same object, with one history (003-R011)."""
        await put(store, corner.note(title="old"))
        await store.commit([Delete(corner.id())])

        await put(store, corner.note(title="new"))

        assert await title(store, corner.id()) == "new"
        entries = (await store.history(corner.id(), corrections=True)).entries
        assert [each.deleted for each in entries] == [False, True, False]

    async def test_deleting_what_was_never_written_is_no_mistake(
        self, store: Store, corner: Corner
    ) -> None:
        """Whoever cleans up need not ask first (003-R010)."""
        commit = await store.commit([Delete(corner.id())])

        assert await store.get(corner.id()) is None
        entries = (await store.history(corner.id())).entries
        assert [(each.sequence, each.deleted) for each in entries] == [(commit.sequence, True)]

    async def test_without_a_match_the_last_write_wins_and_all_are_kept(
        self, store: Store, corner: Corner
    ) -> None:
        """Two clients that index one file both succeed (003-R124, 003-A21)."""
        commits = [await put(store, corner.note(title=str(number))) for number in range(20)]

        entries = (await store.history(corner.id(), corrections=True)).entries

        assert await title(store, corner.id()) == "19"
        assert [each.sequence for each in entries] == [each.sequence for each in commits]
        assert [each.document["title"] for each in entries if each.document] == [
            str(number) for number in range(20)
        ]

    async def test_writing_the_same_twice_is_two_versions(
        self, store: Store, corner: Corner
    ) -> None:
        """Equal writes are harmless; whether to write is the client's choice (003-R034, R124)."""
        first = await put(store, corner.note(title="same"))
        second = await put(store, corner.note(title="same"))

        entries = (await store.history(corner.id(), corrections=True)).entries

        assert [each.sequence for each in entries] == [first.sequence, second.sequence]
        assert first.token != second.token

    async def test_sequences_grow_and_clocks_never_step_back(
        self, store: Store, corner: Corner
    ) -> None:
        """The sequence alone says which came first (003-A26)."""
        commits = [await put(store, corner.note(title=str(number))) for number in range(10)]

        sequences = [each.sequence for each in commits]
        times = [each.system_time for each in commits]
        assert sequences == sorted(set(sequences))
        assert times == sorted(times)

    async def test_a_write_is_seen_by_every_next_read(self, store: Store, corner: Corner) -> None:
        """An agent that saved a turn must find it, whichever way it asks (003-R112)."""
        before = await last_sequence(store)

        for number in range(5):
            commit = await put(store, corner.note(title=str(number), rank=number))
            many = await store.get_many([corner.id()])
            found = await store.find(Query(corner.kind.name, {"rank": number}))
            newest = await store.history(corner.id(), newest_first=True, corrections=True)
            fed = await store.feed(after=before)

            assert await title(store, corner.id()) == str(number)
            assert many[corner.id()].document["title"] == str(number)
            assert [each.document["title"] for each in found.versions] == [str(number)]
            assert newest.entries[0].sequence == commit.sequence
            assert fed[-1].sequence == commit.sequence

    async def test_documents_are_found_flat_as_they_were_put(
        self, store: Store, corner: Corner
    ) -> None:
        """Envelope and payload fields are all top-level keys (003-R028)."""
        document = corner.note(title="flat", content="text", char_count=4, source=None)

        await put(store, document)

        version = await store.get(corner.id())
        assert version is not None
        assert version.document == document
        assert version.object_id == corner.id()

    async def test_any_kind_of_document_is_versioned_alike(
        self, store: Store, corner: Corner
    ) -> None:
        """Chats, sessions and the records of layers live here like files do (003-R023)."""
        for kind in ("file", "chat", "session", "turn", "memory"):
            document = {"xt/id": corner.id(kind), "type": kind, "content": None}
            await put(store, document)
            await put(store, {**document, "content": "second"})

            entries = (await store.history(corner.id(kind), corrections=True)).entries
            assert [each.document for each in entries] == [
                document,
                {**document, "content": "second"},
            ]

    async def test_what_the_caller_changes_later_is_not_stored(
        self, store: Store, corner: Corner
    ) -> None:
        """A version is a value: a caller's list that grows on must not grow the past (003-R010)."""
        document = corner.note(turns=["one"])
        await put(store, document)

        document["turns"].append("two")
        read = await store.get(corner.id())
        assert read is not None
        read.document["turns"].append("three")

        again = await store.get(corner.id())
        assert again is not None
        assert again.document["turns"] == ["one"]

    async def test_a_transaction_may_say_different_valid_times(
        self, store: Store, corner: Corner
    ) -> None:
        """One scan of a directory finds files that changed on different days (003-A34)."""
        await store.commit(
            [
                Put(corner.note("a", title="a"), day(1)),
                Put(corner.note("b", title="b"), day(2), day(4)),
                Put(corner.note("c", title="c")),
            ]
        )

        on_day_3 = await store.get_many(
            [corner.id(name) for name in "abc"], as_of=AsOf(valid_time=day(3))
        )
        assert [each.document["title"] for each in on_day_3.values()] == ["a", "b"]
        today = await store.get_many([corner.id(name) for name in "abc"])
        assert [each.document["title"] for each in today.values()] == ["a", "c"]
