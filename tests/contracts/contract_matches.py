"""What a match promises: a transaction goes through only if nobody else wrote first."""

import pytest

from ctxmgr.core.store import AsOf, Delete, Match, Operation, Put, Store
from ctxmgr.errors import Conflict
from tests.contracts.corner import FUTURE, Corner, day, last_sequence, put, title


async def _tokens(store: Store, corner: Corner, names: str) -> list[str | None]:
    found = await store.get_many([corner.id(name) for name in names])
    return [each.token for each in found.values()]


class MatchesContract:
    async def test_the_token_that_get_returned_lets_the_next_write_through(
        self, store: Store, corner: Corner
    ) -> None:
        """Read, change, write: the guard of every session and chat (003-A21)."""
        await put(store, corner.note(title="first"))
        read = await store.get(corner.id())
        assert read is not None

        await store.commit([Match(corner.id(), read.token), Put(corner.note(title="second"))])

        assert await title(store, corner.id()) == "second"

    async def test_the_token_that_commit_returned_saves_the_read(
        self, store: Store, corner: Corner
    ) -> None:
        """A session saved every turn need not be read every turn (003-R112, 003-A21)."""
        token: str | None = None
        for number in range(5):
            commit = await store.commit(
                [Match(corner.id(), token), Put(corner.note(title=str(number)))]
            )
            token = commit.token

        read = await store.get(corner.id())
        assert read is not None
        assert read.token == token

    async def test_one_commit_token_stands_for_every_document_it_put(
        self, store: Store, corner: Corner
    ) -> None:
        """Chat and session are saved together and guarded together next turn (003-R112)."""
        commit = await store.commit([Put(corner.note("a")), Put(corner.note("b"))])

        assert await _tokens(store, corner, "ab") == [commit.token, commit.token]
        await store.commit(
            [
                Match(corner.id("a"), commit.token),
                Match(corner.id("b"), commit.token),
                Put(corner.note("b", title="next")),
            ]
        )
        assert await title(store, corner.id("b")) == "next"

    async def test_a_stale_token_is_a_conflict_that_names_the_id(
        self, store: Store, corner: Corner
    ) -> None:
        """The loser of a race learns what to read again (003-A21)."""
        stale = await put(store, corner.note(title="mine"))
        await put(store, corner.note(title="theirs"))
        before = await last_sequence(store)

        with pytest.raises(Conflict) as conflict:
            await store.commit([Match(corner.id(), stale.token), Put(corner.note(title="lost"))])

        assert conflict.value.object_ids == (corner.id(),)
        assert await title(store, corner.id()) == "theirs"
        fed = await store.feed(after=before)
        assert len(fed) == 0

    async def test_equal_content_written_again_is_another_version(
        self, store: Store, corner: Corner
    ) -> None:
        """There and back again is a change someone made: A-B-A must not pass (003-A21)."""
        first = await put(store, corner.note(title="same"))
        await put(store, corner.note(title="same"))

        with pytest.raises(Conflict):
            await store.commit([Match(corner.id(), first.token), Put(corner.note(title="next"))])

    async def test_every_failed_match_is_named_in_order(self, store: Store, corner: Corner) -> None:
        """A batch of stubs drops exactly the known ones and retries the rest (003-R063)."""
        fresh = await store.commit([Put(corner.note(name)) for name in "db"])

        with pytest.raises(Conflict) as conflict:
            await store.commit(
                [
                    Match(corner.id("d"), None),
                    Match(corner.id("c"), None),
                    Match(corner.id("b"), "no-such-token"),
                    Put(corner.note("c")),
                    Match(corner.id("a"), fresh.token),
                ]
            )

        assert conflict.value.object_ids == tuple(corner.id(name) for name in "dba")
        assert await store.get(corner.id("c")) is None

    async def test_absent_creates_once(self, store: Store, corner: Corner) -> None:
        """Of two clients that meet a file, one creates it (003-R063)."""
        create: list[Operation] = [Match(corner.id(), None), Put(corner.note(title="created"))]
        await store.commit(create)

        with pytest.raises(Conflict) as conflict:
            await store.commit(create)

        assert conflict.value.object_ids == (corner.id(),)

    async def test_a_deleted_object_is_absent(self, store: Store, corner: Corner) -> None:
        """What was deleted may be created again under the same guard (003-R010)."""
        written = await put(store, corner.note(title="old"))
        await store.commit([Match(corner.id(), written.token), Delete(corner.id())])

        await store.commit([Match(corner.id(), None), Put(corner.note(title="new"))])

        assert await title(store, corner.id()) == "new"

    async def test_the_token_of_a_deleted_version_is_stale(
        self, store: Store, corner: Corner
    ) -> None:
        """A deletion is a change like any other (003-R010, 003-A21)."""
        written = await put(store, corner.note())
        await store.commit([Delete(corner.id())])

        with pytest.raises(Conflict):
            await store.commit([Match(corner.id(), written.token), Put(corner.note())])

    async def test_a_match_is_judged_before_the_transaction_whatever_its_place(
        self, store: Store, corner: Corner
    ) -> None:
        """The order in which a caller lists its guards cannot matter (003-A21)."""
        await store.commit([Put(corner.note(title="created")), Match(corner.id(), None)])

        assert await title(store, corner.id()) == "created"

    async def test_a_match_may_guard_other_documents(self, store: Store, corner: Corner) -> None:
        """A turn record is written only if the session is still the one it was made for (A21)."""
        session = await put(store, corner.note("session"))
        await store.commit([Match(corner.id("session"), session.token), Put(corner.note("turn"))])
        await put(store, corner.note("session", title="moved"))

        with pytest.raises(Conflict):
            await store.commit(
                [Match(corner.id("session"), session.token), Put(corner.note("turn", title="late"))]
            )

        turn = await store.get(corner.id("turn"))
        assert turn is not None
        assert "title" not in turn.document

    async def test_a_transaction_of_matches_only_asks_whether_they_hold(
        self, store: Store, corner: Corner
    ) -> None:
        """To check without writing is allowed (003-A21)."""
        commit = await put(store, corner.note())

        await store.commit([Match(corner.id(), commit.token)])
        with pytest.raises(Conflict):
            await store.commit([Match(corner.id(), None)])

    async def test_a_match_can_be_at_another_valid_time(self, store: Store, corner: Corner) -> None:
        """A correction of the past is guarded by what the past said (003-A34)."""
        early = await put(store, corner.note(title="early"), valid_from=day(1))
        late = await put(store, corner.note(title="late"), valid_from=day(5))

        with pytest.raises(Conflict):
            await store.commit([Match(corner.id(), late.token, day(3)), Put(corner.note())])
        await store.commit(
            [
                Match(corner.id(), early.token, day(3)),
                Match(corner.id(), late.token),
                Match(corner.id(), None, day(0)),
                Put(corner.note(title="corrected"), day(3), day(4)),
            ]
        )

        assert await title(store, corner.id(), as_of=AsOf(valid_time=day(3))) == "corrected"

    async def test_what_is_still_to_come_is_absent_now(self, store: Store, corner: Corner) -> None:
        """A match without a time is about this moment (003-A34)."""
        planned = await put(store, corner.note(title="planned"), valid_from=FUTURE)

        with pytest.raises(Conflict):
            await store.commit([Match(corner.id(), None, FUTURE), Put(corner.note())])
        await store.commit(
            [
                Match(corner.id(), None),
                Match(corner.id(), planned.token, FUTURE),
                Put(corner.note(title="now")),
            ]
        )

        assert await title(store, corner.id()) == "now"

    async def test_a_restored_version_keeps_its_token(self, store: Store, corner: Corner) -> None:
        """What holds again after a bounded write is the version it was (003-A34)."""
        base = await put(store, corner.note(title="base"), valid_from=day(1))
        await put(store, corner.note(title="between"), valid_from=day(2), valid_to=day(3))

        read = await store.get(corner.id())
        assert read is not None
        assert read.token == base.token
        await store.commit([Match(corner.id(), base.token), Put(corner.note(title="next"))])
