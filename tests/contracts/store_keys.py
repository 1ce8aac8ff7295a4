"""The contract of idempotency keys: a transaction that is retried is written at most once."""

import asyncio
import uuid

import pytest

from ctxmgr.core.store.contract import KEY_LENGTH_MAX, Match, Operation, Put, Store
from ctxmgr.errors import Conflict, Incorrect
from tests.contracts.namespace import Namespace, last_sequence, put, title


class KeysContract:
    async def test_a_retry_with_the_same_key_writes_nothing(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A client that lost the reply can simply retry (003-R112)."""
        operations = [Put(namespace.note(title="once"))]
        first = await store.commit(operations, key=namespace.id("key"))

        second = await store.commit(operations, key=namespace.id("key"))

        assert (first.repeated, second.repeated) == (False, True)
        assert (second.sequence, second.system_time) == (first.sequence, first.system_time)
        assert (second.key, second.token) == (first.key, first.token)
        assert len((await store.history(namespace.id(), corrections=True)).entries) == 1
        assert list(await store.feed(after=first.sequence)) == []

    async def test_a_retry_succeeds_even_if_its_match_would_now_fail(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The first attempt changed the version; its retry must not be a conflict (003-A21)."""
        read = await put(store, namespace.note(title="read"))
        operations: list[Operation] = [
            Match(namespace.id(), read.token),
            Put(namespace.note(title="written")),
        ]
        first = await store.commit(operations, key=namespace.id("key"))

        second = await store.commit(operations, key=namespace.id("key"))

        assert second.repeated
        assert second.sequence == first.sequence

    async def test_a_retry_after_later_writes_writes_nothing(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A late retry must not restore an old version (003-A21)."""
        operations = [Put(namespace.note(title="early"))]
        first = await store.commit(operations, key=namespace.id("key"))
        await put(store, namespace.note(title="late"))

        second = await store.commit(operations, key=namespace.id("key"))

        assert second.sequence == first.sequence
        assert await title(store, namespace.id()) == "late"

    @pytest.mark.parametrize(
        "change",
        [
            lambda namespace: [Put(namespace.note(title="other"))],
            lambda namespace: [Put(namespace.note("b", title="once"))],
            lambda namespace: [Put(namespace.note(title="once"), 1_000)],
            lambda namespace: [Match(namespace.id("b"), None), Put(namespace.note(title="once"))],
            lambda namespace: [],
        ],
        ids=["document", "id", "valid-time", "match", "nothing"],
    )
    async def test_a_key_is_refused_for_other_operations(
        self, store: Store, namespace: Namespace, change: object
    ) -> None:
        """One key for two different transactions is an error (003-R112)."""
        assert callable(change)
        first = await store.commit([Put(namespace.note(title="once"))], key=namespace.id("key"))

        with pytest.raises(Incorrect, match="key"):
            await store.commit(change(namespace), key=namespace.id("key"))

        assert await title(store, namespace.id()) == "once"
        assert list(await store.feed(after=first.sequence)) == []

    async def test_a_retry_may_order_document_fields_differently(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Documents are compared by value: a client that rebuilds one is not refused (003-R112)."""
        document = namespace.note(title="once", extra={"a": 1, "b": [1, 2]})
        first = await store.commit([Put(document)], key=namespace.id("key"))
        turned = dict(reversed({**document, "extra": {"b": [1, 2], "a": 1}}.items()))

        again = await store.commit([Put(turned)], key=namespace.id("key"))

        assert again.repeated
        assert again.sequence == first.sequence

    async def test_a_failed_match_does_not_use_up_its_key(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A client that reads again and retries may keep the key (003-A21)."""
        read = await put(store, namespace.note(title="read"))
        with pytest.raises(Conflict):
            await store.commit(
                [Match(namespace.id(), None), Put(namespace.note(title="lost"))],
                key=namespace.id("key"),
            )

        retried = await store.commit(
            [Match(namespace.id(), read.token), Put(namespace.note(title="merged"))],
            key=namespace.id("key"),
        )

        assert not retried.repeated
        assert await title(store, namespace.id()) == "merged"

    async def test_many_tasks_with_one_key_write_once(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A retry may overtake the first attempt; still only one of them writes (003-R112)."""
        operations = [Put(namespace.note(title="once"))]

        commits = await asyncio.gather(
            *(store.commit(operations, key=namespace.id("key")) for _ in range(10))
        )

        assert sorted(commit.repeated for commit in commits) == [False] + [True] * 9
        assert len({commit.sequence for commit in commits}) == 1
        assert len((await store.history(namespace.id(), corrections=True)).entries) == 1

    async def test_a_key_covers_the_operations_as_passed_despite_later_changes(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A caller may keep changing its lists while a long document is written (003-R112)."""
        document = namespace.note(turns=["x" * 100] * 3_000)
        task = asyncio.create_task(store.commit([Put(document)], key=namespace.id("key")))
        await asyncio.sleep(0)
        document["turns"].append("later")
        await task
        document["turns"].pop()

        again = await store.commit([Put(document)], key=namespace.id("key"))

        assert again.repeated

    async def test_a_commit_without_a_key_gets_a_generated_one(
        self, store: Store, namespace: Namespace
    ) -> None:
        """An unknown outcome can be looked up even if the caller passed no key (003-R112)."""
        first = await put(store, namespace.note(title="same"))
        second = await put(store, namespace.note(title="same"))

        assert first.key
        assert first.key != second.key

    async def test_a_generated_key_identifies_only_its_transaction(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A retry with that key succeeds, and other operations under it are refused (003-R112)."""
        operations = [Match(namespace.id(), None), Put(namespace.note(title="once"))]
        first = await store.commit(operations)

        second = await store.commit(operations, key=first.key)

        assert second.repeated
        assert second.sequence == first.sequence
        for others in ([Put(namespace.note(title="other"))], operations[1:], []):
            with pytest.raises(Incorrect, match="key"):
                await store.commit(others, key=first.key)

    @pytest.mark.parametrize("number", ["0", "1", "9" * 15, "9" * 40])
    async def test_a_callers_key_that_looks_generated_is_accepted(
        self, store: Store, namespace: Namespace, number: str
    ) -> None:
        """A caller's key identifies the caller's transaction whatever its form (003-R112)."""
        key = f"{uuid.uuid4().hex[:16]}-{number}"

        first = await store.commit([Put(namespace.note(title="mine"))], key=key)

        assert not first.repeated
        assert await title(store, namespace.id()) == "mine"

    async def test_the_given_key_is_returned_and_is_in_the_feed(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A listener uses the key to relate events to requests (003-R112)."""
        before = await last_sequence(store)
        key = namespace.mark + "k" * (KEY_LENGTH_MAX - len(namespace.mark))

        commit = await store.commit([Put(namespace.note())], key=key)

        assert commit.key == key
        assert [transaction.key for transaction in await store.feed(after=before)] == [key]

    @pytest.mark.parametrize("key", ["", "k" * (KEY_LENGTH_MAX + 1), "schlüssel", "a\nb", "\x00"])
    async def test_an_invalid_key_is_refused(
        self, store: Store, namespace: Namespace, key: str
    ) -> None:
        """Keys appear in logs and URLs, so they are short and printable (003-R112)."""
        with pytest.raises(Incorrect, match="key"):
            await store.commit([Put(namespace.note())], key=key)

        assert await store.get(namespace.id()) is None
