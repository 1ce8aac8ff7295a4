"""The contract of transactions: atomic, ordered, durable, and visible to the next read."""

import pytest

from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.session_record import SessionRecord
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.store.contract import AsOf, Delete, Match, Put, Query, Store
from ctxmgr.errors import Conflict, Incorrect
from tests.contracts.namespace import Namespace, day, last_sequence, put, title


class CommitsContract:
    async def test_a_transaction_writes_all_its_documents(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A tool call and the objects it discovered belong together (003-R016, 003-R023)."""
        documents = [namespace.note(name, title=name) for name in "abc"]

        await store.commit([Put(document) for document in documents])

        found = await store.get_many([namespace.id(name) for name in "abc"])
        assert [version.document for version in found.values()] == documents

    async def test_one_invalid_document_rejects_the_whole_transaction(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A partial transaction would be a state that no caller intended (003-R016)."""
        before = await last_sequence(store)

        with pytest.raises(Incorrect):
            await store.commit([Put(namespace.note("a")), Put({"xt/id": namespace.id("b")})])

        assert await store.get(namespace.id("a")) is None
        assert await last_sequence(store) == before

    async def test_one_failed_match_rejects_the_whole_transaction(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A client that loses a race must not change anything (003-A21)."""
        await put(store, namespace.note("a", title="first"))

        with pytest.raises(Conflict):
            await store.commit(
                [
                    Match(namespace.id("a"), None),
                    Put(namespace.note("a", title="second")),
                    Put(namespace.note("b", title="beside")),
                    Delete(namespace.id("c")),
                ]
            )

        assert await title(store, namespace.id("a")) == "first"
        assert await store.get(namespace.id("b")) is None
        assert len((await store.history(namespace.id("c"))).entries) == 0

    async def test_a_deleted_object_is_hidden_and_its_history_remains(
        self, store: Store, namespace: Namespace
    ) -> None:
        """History is append-only: a deletion is one more version (003-R010, 003-R005)."""
        written = await put(store, namespace.note(title="here"))

        deleted = await store.commit([Delete(namespace.id())])

        assert await store.get(namespace.id()) is None
        past = AsOf(sequence=written.sequence)
        assert await title(store, namespace.id(), as_of=past) == "here"
        entries = (await store.history(namespace.id(), corrections=True)).entries
        assert [(entry.sequence, entry.deleted) for entry in entries] == [
            (written.sequence, False),
            (deleted.sequence, True),
        ]

    async def test_a_deleted_object_can_be_written_again(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A file that reappears is the same object, with one history (003-R011)."""
        await put(store, namespace.note(title="old"))
        await store.commit([Delete(namespace.id())])

        await put(store, namespace.note(title="new"))

        assert await title(store, namespace.id()) == "new"
        entries = (await store.history(namespace.id(), corrections=True)).entries
        assert [entry.deleted for entry in entries] == [False, True, False]

    async def test_deleting_an_unknown_id_is_not_an_error(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Cleanup code need not check first (003-R010)."""
        commit = await store.commit([Delete(namespace.id())])

        assert await store.get(namespace.id()) is None
        entries = (await store.history(namespace.id())).entries
        assert [(entry.sequence, entry.deleted) for entry in entries] == [(commit.sequence, True)]

    async def test_without_a_match_the_last_write_wins_and_all_versions_remain(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Two clients that index the same file both succeed (003-R124, 003-A21)."""
        commits = [await put(store, namespace.note(title=str(number))) for number in range(20)]

        entries = (await store.history(namespace.id(), corrections=True)).entries

        assert await title(store, namespace.id()) == "19"
        assert [entry.sequence for entry in entries] == [commit.sequence for commit in commits]
        assert [entry.document["title"] for entry in entries if entry.document] == [
            str(number) for number in range(20)
        ]

    async def test_writing_equal_content_twice_makes_two_versions(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-R034, 003-R124: equal writes are harmless; the client chooses whether to write."""
        first = await put(store, namespace.note(title="same"))
        second = await put(store, namespace.note(title="same"))

        entries = (await store.history(namespace.id(), corrections=True)).entries

        assert [entry.sequence for entry in entries] == [first.sequence, second.sequence]
        assert first.token != second.token

    async def test_sequences_increase_and_system_times_never_decrease(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Only the sequence decides the order of transactions (003-A26)."""
        commits = [await put(store, namespace.note(title=str(number))) for number in range(10)]

        sequences = [commit.sequence for commit in commits]
        times = [commit.system_time for commit in commits]
        assert sequences == sorted(set(sequences))
        assert times == sorted(times)

    async def test_a_write_is_visible_to_every_later_read(
        self, store: Store, namespace: Namespace
    ) -> None:
        """An agent that saved a turn must find it through every read method (003-R112)."""
        before = await last_sequence(store)

        for number in range(5):
            commit = await put(store, namespace.note(title=str(number), rank=number))
            many = await store.get_many([namespace.id()])
            found = await store.find(Query(namespace.kind.name, {"rank": number}))
            newest = await store.history(namespace.id(), newest_first=True, corrections=True)
            fed = await store.feed(after=before)

            assert await title(store, namespace.id()) == str(number)
            assert many[namespace.id()].document["title"] == str(number)
            assert [version.document["title"] for version in found.versions] == [str(number)]
            assert newest.entries[0].sequence == commit.sequence
            assert fed[-1].sequence == commit.sequence

    async def test_documents_are_returned_flat_as_they_were_put(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Envelope and payload fields are all top-level keys (003-R028)."""
        document = namespace.note(title="flat", content="text", char_count=4, source=None)

        await put(store, document)

        version = await store.get(namespace.id())
        assert version is not None
        assert version.document == document
        assert version.object_id == namespace.id()

    async def test_every_kind_of_document_is_versioned_the_same_way(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Chats, sessions and records of layers are stored like files (003-R023)."""
        source = FilesystemSource(filesystem_id="host", path=f"/{namespace.mark}")
        for document in (
            to_document(File.stub(source)),
            to_document(Chat(session_id=namespace.mark)),
            to_document(SessionRecord(session_id=namespace.mark)),
            {"xt/id": f"turn:{namespace.mark}:1", "type": "turn", "content": None},
            {"xt/id": namespace.id("memory"), "type": "memory", "content": None},
        ):
            await put(store, document)
            await put(store, {**document, "content": "second"})

            entries = (await store.history(document["xt/id"], corrections=True)).entries
            assert [entry.document for entry in entries] == [
                document,
                {**document, "content": "second"},
            ]
            await put(store, document)  # other tests of this server read all its sessions

    async def test_later_changes_by_the_caller_are_not_stored(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A version is a value.

        A list that the caller extends later must not change the past (003-R010).
        """
        document = namespace.note(turns=["one"])
        await put(store, document)

        document["turns"].append("two")
        read = await store.get(namespace.id())
        assert read is not None
        read.document["turns"].append("three")

        again = await store.get(namespace.id())
        assert again is not None
        assert again.document["turns"] == ["one"]

    async def test_a_transaction_may_have_several_valid_times(
        self, store: Store, namespace: Namespace
    ) -> None:
        """One directory scan finds files that changed on different days (003-A34)."""
        await store.commit(
            [
                Put(namespace.note("a", title="a"), day(1)),
                Put(namespace.note("b", title="b"), day(2), day(4)),
                Put(namespace.note("c", title="c")),
            ]
        )

        on_day_3 = await store.get_many(
            [namespace.id(name) for name in "abc"], as_of=AsOf(valid_time=day(3))
        )
        assert [version.document["title"] for version in on_day_3.values()] == ["a", "b"]
        today = await store.get_many([namespace.id(name) for name in "abc"])
        assert [version.document["title"] for version in today.values()] == ["a", "c"]
