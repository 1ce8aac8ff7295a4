"""What an idempotency key promises: a transaction whose reply was lost is written once at most."""

import asyncio
import uuid

import pytest

from ctxmgr.core.store import KEY_LENGTH_MAX, Match, Operation, Put, Store
from ctxmgr.errors import Conflict, Incorrect
from tests.contracts.corner import Corner, last_sequence, put, title


class KeysContract:
    async def test_a_retry_with_the_same_key_writes_nothing(
        self, store: Store, corner: Corner
    ) -> None:
        """A client that lost the reply may simply ask again (003-R112)."""
        operations = [Put(corner.note(title="once"))]
        first = await store.commit(operations, key=corner.id("key"))

        second = await store.commit(operations, key=corner.id("key"))

        assert (first.repeated, second.repeated) == (False, True)
        assert (second.sequence, second.system_time) == (first.sequence, first.system_time)
        assert (second.key, second.token) == (first.key, first.token)
        assert len((await store.history(corner.id(), corrections=True)).entries) == 1
        assert list(await store.feed(after=first.sequence)) == []

    async def test_a_retry_is_known_though_its_match_would_fail_now(
        self, store: Store, corner: Corner
    ) -> None:
        """The first try moved the version on; its retry must not be a conflict (003-A21)."""
        read = await put(store, corner.note(title="read"))
        operations: list[Operation] = [
            Match(corner.id(), read.token),
            Put(corner.note(title="written")),
        ]
        first = await store.commit(operations, key=corner.id("key"))

        second = await store.commit(operations, key=corner.id("key"))

        assert second.repeated
        assert second.sequence == first.sequence

    async def test_a_retry_is_known_after_later_writes(self, store: Store, corner: Corner) -> None:
        """A late retry must not bring an old version back on top (003-A21)."""
        operations = [Put(corner.note(title="early"))]
        first = await store.commit(operations, key=corner.id("key"))
        await put(store, corner.note(title="late"))

        second = await store.commit(operations, key=corner.id("key"))

        assert second.sequence == first.sequence
        assert await title(store, corner.id()) == "late"

    @pytest.mark.parametrize(
        "change",
        [
            lambda corner: [Put(corner.note(title="other"))],
            lambda corner: [Put(corner.note("b", title="once"))],
            lambda corner: [Put(corner.note(title="once"), 1_000)],
            lambda corner: [Match(corner.id("b"), None), Put(corner.note(title="once"))],
            lambda corner: [],
        ],
        ids=["document", "id", "valid-time", "match", "nothing"],
    )
    async def test_a_key_is_refused_for_other_operations(
        self, store: Store, corner: Corner, change: object
    ) -> None:
        """Two different things under one key is a mistake that must not pass (003-R112)."""
        assert callable(change)
        first = await store.commit([Put(corner.note(title="once"))], key=corner.id("key"))

        with pytest.raises(Incorrect, match="key"):
            await store.commit(change(corner), key=corner.id("key"))

        assert await title(store, corner.id()) == "once"
        assert list(await store.feed(after=first.sequence)) == []

    async def test_a_retry_may_write_its_keys_in_another_order(
        self, store: Store, corner: Corner
    ) -> None:
        """A document is its values: a client that builds it anew is not refused (003-R112)."""
        document = corner.note(title="once", extra={"a": 1, "b": [1, 2]})
        first = await store.commit([Put(document)], key=corner.id("key"))
        turned = dict(reversed({**document, "extra": {"b": [1, 2], "a": 1}}.items()))

        again = await store.commit([Put(turned)], key=corner.id("key"))

        assert again.repeated
        assert again.sequence == first.sequence

    async def test_a_failed_match_leaves_no_trace_of_its_key(
        self, store: Store, corner: Corner
    ) -> None:
        """Whoever reads again and retries may keep the key (003-A21)."""
        read = await put(store, corner.note(title="read"))
        with pytest.raises(Conflict):
            await store.commit(
                [Match(corner.id(), None), Put(corner.note(title="lost"))], key=corner.id("key")
            )

        retried = await store.commit(
            [Match(corner.id(), read.token), Put(corner.note(title="merged"))],
            key=corner.id("key"),
        )

        assert not retried.repeated
        assert await title(store, corner.id()) == "merged"

    async def test_many_tasks_with_one_key_write_once(self, store: Store, corner: Corner) -> None:
        """A retry may overtake the first try; still one of them is the write (003-R112)."""
        operations = [Put(corner.note(title="once"))]

        commits = await asyncio.gather(
            *(store.commit(operations, key=corner.id("key")) for _ in range(10))
        )

        assert sorted(each.repeated for each in commits) == [False] + [True] * 9
        assert len({each.sequence for each in commits}) == 1
        assert len((await store.history(corner.id(), corrections=True)).entries) == 1

    async def test_a_key_stands_for_what_was_given_though_it_is_changed_meanwhile(
        self, store: Store, corner: Corner
    ) -> None:
        """A harness goes on filling its lists while a long document is written (003-R112)."""
        document = corner.note(turns=["x" * 100] * 3_000)
        task = asyncio.create_task(store.commit([Put(document)], key=corner.id("key")))
        await asyncio.sleep(0)
        document["turns"].append("later")
        await task
        document["turns"].pop()

        again = await store.commit([Put(document)], key=corner.id("key"))

        assert again.repeated

    async def test_a_commit_without_a_key_gets_one_of_its_own(
        self, store: Store, corner: Corner
    ) -> None:
        """An unknown outcome can be asked about even if the caller named no key (003-R112)."""
        first = await put(store, corner.note(title="same"))
        second = await put(store, corner.note(title="same"))

        assert first.key
        assert first.key != second.key

    async def test_a_key_of_the_stores_own_names_only_its_transaction(
        self, store: Store, corner: Corner
    ) -> None:
        """A retry by that key is known, and other operations under it are refused (003-R112)."""
        operations = [Match(corner.id(), None), Put(corner.note(title="once"))]
        first = await store.commit(operations)

        second = await store.commit(operations, key=first.key)

        assert second.repeated
        assert second.sequence == first.sequence
        for others in ([Put(corner.note(title="other"))], operations[1:], []):
            with pytest.raises(Incorrect, match="key"):
                await store.commit(others, key=first.key)

    @pytest.mark.parametrize("number", ["0", "1", "9" * 15, "9" * 40])
    async def test_a_key_that_looks_like_the_stores_own_is_the_callers(
        self, store: Store, corner: Corner, number: str
    ) -> None:
        """Whatever a caller's key looks like, it names what the caller wrote (003-R112)."""
        key = f"{uuid.uuid4().hex[:16]}-{number}"

        first = await store.commit([Put(corner.note(title="mine"))], key=key)

        assert not first.repeated
        assert await title(store, corner.id()) == "mine"

    async def test_the_key_given_is_the_key_returned_and_fed(
        self, store: Store, corner: Corner
    ) -> None:
        """A listener joins what it hears to what was asked for by the key (003-R112)."""
        before = await last_sequence(store)
        key = corner.mark + "k" * (KEY_LENGTH_MAX - len(corner.mark))

        commit = await store.commit([Put(corner.note())], key=key)

        assert commit.key == key
        assert [each.key for each in await store.feed(after=before)] == [key]

    @pytest.mark.parametrize("key", ["", "k" * (KEY_LENGTH_MAX + 1), "schlüssel", "a\nb", "\x00"])
    async def test_what_can_be_no_key_is_refused(
        self, store: Store, corner: Corner, key: str
    ) -> None:
        """A key travels in logs and URLs, so it is short and printable (003-R112)."""
        with pytest.raises(Incorrect, match="key"):
            await store.commit([Put(corner.note())], key=key)

        assert await store.get(corner.id()) is None
