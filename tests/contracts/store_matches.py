"""The contract of matches: a transaction is refused if another write came first."""

import pytest

from ctxmgr.core.store.contract import AsOf, Delete, Match, Operation, Put, Store
from ctxmgr.errors import Conflict
from tests.contracts.namespace import FUTURE, Namespace, day, last_sequence, put, title


async def _tokens(store: Store, namespace: Namespace, names: str) -> list[str | None]:
    found = await store.get_many([namespace.id(name) for name in names])
    return [version.token for version in found.values()]


class MatchesContract:
    async def test_a_write_that_matches_the_token_from_get_succeeds(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Read, change, write: every session and chat is guarded this way (003-A21)."""
        await put(store, namespace.note(title="first"))
        read = await store.get(namespace.id())
        assert read is not None

        await store.commit([Match(namespace.id(), read.token), Put(namespace.note(title="second"))])

        assert await title(store, namespace.id()) == "second"

    async def test_the_token_from_commit_makes_another_read_unnecessary(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A session saved every turn need not be read every turn (003-R112, 003-A21)."""
        token: str | None = None
        for number in range(5):
            commit = await store.commit(
                [Match(namespace.id(), token), Put(namespace.note(title=str(number)))]
            )
            token = commit.token

        read = await store.get(namespace.id())
        assert read is not None
        assert read.token == token

    async def test_a_commit_token_matches_every_document_of_the_commit(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Chat and session are saved together and guarded together in the next turn (003-R112)."""
        commit = await store.commit([Put(namespace.note("a")), Put(namespace.note("b"))])

        assert await _tokens(store, namespace, "ab") == [commit.token, commit.token]
        await store.commit(
            [
                Match(namespace.id("a"), commit.token),
                Match(namespace.id("b"), commit.token),
                Put(namespace.note("b", title="next")),
            ]
        )
        assert await title(store, namespace.id("b")) == "next"

    async def test_a_stale_token_is_a_conflict_that_names_the_id(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The loser of a race learns which object to read again (003-A21)."""
        stale = await put(store, namespace.note(title="mine"))
        await put(store, namespace.note(title="theirs"))
        before = await last_sequence(store)

        with pytest.raises(Conflict) as conflict:
            await store.commit(
                [Match(namespace.id(), stale.token), Put(namespace.note(title="lost"))]
            )

        assert conflict.value.object_ids == (namespace.id(),)
        assert await title(store, namespace.id()) == "theirs"
        fed = await store.feed(after=before)
        assert len(fed) == 0

    async def test_equal_content_written_again_is_another_version(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Changing a value and changing it back (A-B-A) must be detected (003-A21)."""
        first = await put(store, namespace.note(title="same"))
        await put(store, namespace.note(title="same"))

        with pytest.raises(Conflict):
            await store.commit(
                [Match(namespace.id(), first.token), Put(namespace.note(title="next"))]
            )

    async def test_every_failed_match_is_named_in_order(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A batch of stubs drops exactly the existing ones and retries the rest (003-R063)."""
        fresh = await store.commit([Put(namespace.note(name)) for name in "db"])

        with pytest.raises(Conflict) as conflict:
            await store.commit(
                [
                    Match(namespace.id("d"), None),
                    Match(namespace.id("c"), None),
                    Match(namespace.id("b"), "no-such-token"),
                    Put(namespace.note("c")),
                    Match(namespace.id("a"), fresh.token),
                ]
            )

        assert conflict.value.object_ids == tuple(namespace.id(name) for name in "dba")
        assert await store.get(namespace.id("c")) is None

    async def test_absent_creates_once(self, store: Store, namespace: Namespace) -> None:
        """If two clients discover a file, one of them creates it (003-R063)."""
        create: list[Operation] = [
            Match(namespace.id(), None),
            Put(namespace.note(title="created")),
        ]
        await store.commit(create)

        with pytest.raises(Conflict) as conflict:
            await store.commit(create)

        assert conflict.value.object_ids == (namespace.id(),)

    async def test_a_deleted_object_is_absent(self, store: Store, namespace: Namespace) -> None:
        """A deleted object may be created again under the same match (003-R010)."""
        written = await put(store, namespace.note(title="old"))
        await store.commit([Match(namespace.id(), written.token), Delete(namespace.id())])

        await store.commit([Match(namespace.id(), None), Put(namespace.note(title="new"))])

        assert await title(store, namespace.id()) == "new"

    async def test_the_token_of_a_deleted_version_is_stale(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A deletion is a change like any other (003-R010, 003-A21)."""
        written = await put(store, namespace.note())
        await store.commit([Delete(namespace.id())])

        with pytest.raises(Conflict):
            await store.commit([Match(namespace.id(), written.token), Put(namespace.note())])

    async def test_a_match_is_evaluated_before_the_transaction_regardless_of_position(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The order in which a caller lists its matches does not matter (003-A21)."""
        await store.commit([Put(namespace.note(title="created")), Match(namespace.id(), None)])

        assert await title(store, namespace.id()) == "created"

    async def test_a_match_may_guard_other_documents(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A turn record is written only if its session is still at the same version (A21)."""
        session = await put(store, namespace.note("session"))
        await store.commit(
            [Match(namespace.id("session"), session.token), Put(namespace.note("turn"))]
        )
        await put(store, namespace.note("session", title="moved"))

        with pytest.raises(Conflict):
            await store.commit(
                [
                    Match(namespace.id("session"), session.token),
                    Put(namespace.note("turn", title="late")),
                ]
            )

        turn = await store.get(namespace.id("turn"))
        assert turn is not None
        assert "title" not in turn.document

    async def test_a_transaction_of_matches_checks_without_writing(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A transaction may consist of matches only (003-A21)."""
        commit = await put(store, namespace.note())

        await store.commit([Match(namespace.id(), commit.token)])
        with pytest.raises(Conflict):
            await store.commit([Match(namespace.id(), None)])

    async def test_a_match_can_be_at_another_valid_time(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A correction of the past is guarded by the past version (003-A34)."""
        early = await put(store, namespace.note(title="early"), valid_from=day(1))
        late = await put(store, namespace.note(title="late"), valid_from=day(5))

        with pytest.raises(Conflict):
            await store.commit([Match(namespace.id(), late.token, day(3)), Put(namespace.note())])
        await store.commit(
            [
                Match(namespace.id(), early.token, day(3)),
                Match(namespace.id(), late.token),
                Match(namespace.id(), None, day(0)),
                Put(namespace.note(title="corrected"), day(3), day(4)),
            ]
        )

        assert await title(store, namespace.id(), as_of=AsOf(valid_time=day(3))) == "corrected"

    async def test_a_future_version_is_absent_now(self, store: Store, namespace: Namespace) -> None:
        """A match without a time applies to the present (003-A34)."""
        planned = await put(store, namespace.note(title="planned"), valid_from=FUTURE)

        with pytest.raises(Conflict):
            await store.commit([Match(namespace.id(), None, FUTURE), Put(namespace.note())])
        await store.commit(
            [
                Match(namespace.id(), None),
                Match(namespace.id(), planned.token, FUTURE),
                Put(namespace.note(title="now")),
            ]
        )

        assert await title(store, namespace.id()) == "now"

    async def test_a_restored_version_keeps_its_token(
        self, store: Store, namespace: Namespace
    ) -> None:
        """After a bounded write the previous version becomes visible again, unchanged (003-A34)."""
        base = await put(store, namespace.note(title="base"), valid_from=day(1))
        await put(store, namespace.note(title="between"), valid_from=day(2), valid_to=day(3))

        read = await store.get(namespace.id())
        assert read is not None
        assert read.token == base.token
        await store.commit([Match(namespace.id(), base.token), Put(namespace.note(title="next"))])
