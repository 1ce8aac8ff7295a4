"""What every store refuses to answer: questions that break the law, never with a raw error."""

import base64
from typing import Any, Final

import orjson
import pytest

from ctxmgr.core.store import AsOf, Match, Put, Query, Store
from ctxmgr.errors import Incorrect
from tests.contracts.corner import Corner, put

ALTERED: Final[list[list[Any]]] = [
    [],
    [1],
    ["a", "b"],
    [None, None],
    [1, 2, 3],
    [{}, []],
    [True, False],
    [1.5, 1],
    [2**63, 1],
    [1, 2**64 - 1],
]

POINTS: Final[dict[str, Any]] = {
    "no-point": 5,
    "nothing": None,
    "sequence-text": AsOf(sequence="1"),  # type: ignore[arg-type]
    "sequence-float": AsOf(sequence=1.0),  # type: ignore[arg-type]
    "sequence-boolean": AsOf(sequence=True),
    "sequence-negative": AsOf(sequence=-1),
    "sequence-large": AsOf(sequence=2**70),
    "valid-time-text": AsOf(valid_time="x"),  # type: ignore[arg-type]
    "system-time-list": AsOf(system_time=[]),  # type: ignore[arg-type]
    "system-time-negative": AsOf(system_time=-1),
}


class QuestionsContract:
    @pytest.mark.parametrize("position", ALTERED, ids=str)
    async def test_a_cursor_that_was_altered_is_refused(
        self, store: Store, corner: Corner, position: list[Any]
    ) -> None:
        """A cursor travels through clients, who may break it (003-R016)."""
        for number in range(3):
            await put(store, corner.note(rank=number))
        page = await store.history(corner.id(), limit=1, corrections=True)
        assert page.cursor is not None
        fingerprint, _ = orjson.loads(base64.urlsafe_b64decode(page.cursor))
        altered = base64.urlsafe_b64encode(orjson.dumps([fingerprint, position])).decode()

        with pytest.raises(Incorrect, match="cursor"):
            await store.history(corner.id(), limit=1, corrections=True, cursor=altered)

    @pytest.mark.parametrize("since", [-5, "x", 1.5, 2**70, True, []], ids=str)
    async def test_a_history_begins_at_an_instant(
        self, store: Store, corner: Corner, since: Any
    ) -> None:
        """A time that is none would find nothing, and that would pass for an answer (003-R016)."""
        with pytest.raises(Incorrect, match="since"):
            await store.history(corner.id(), since=since)

    @pytest.mark.parametrize("after", [-2, "x", 1.5, 2**70, True, []], ids=str)
    async def test_a_feed_goes_on_after_a_sequence(self, store: Store, after: Any) -> None:
        """A listener with a broken bookmark must be told, not start anew (003-R016)."""
        with pytest.raises(Incorrect, match="after"):
            await store.feed(after=after)

    @pytest.mark.parametrize("as_of", POINTS.values(), ids=POINTS.keys())
    async def test_what_is_no_point_in_time_is_refused(
        self, store: Store, corner: Corner, as_of: Any
    ) -> None:
        """Every read judges the point by the same law (003-R016)."""
        await put(store, corner.note())

        for asked in (
            store.get(corner.id(), as_of=as_of),
            store.get_many([corner.id()], as_of=as_of),
            store.history(corner.id(), as_of=as_of),
            store.find(Query(corner.kind.name), as_of=as_of),
        ):
            with pytest.raises(Incorrect):
                await asked

    @pytest.mark.parametrize("limit", [0, "1", 1.5, None, True], ids=str)
    async def test_a_page_has_a_whole_number_of_entries(
        self, store: Store, corner: Corner, limit: Any
    ) -> None:
        """Every page judges its limit by the same law (003-R016)."""
        for asked in (
            store.history(corner.id(), limit=limit),
            store.find(Query(corner.kind.name), limit=limit),
            store.feed(limit=limit),
        ):
            with pytest.raises(Incorrect, match="limit"):
                await asked

    async def test_what_is_no_operation_is_refused(self, store: Store, corner: Corner) -> None:
        """A mistake of the caller's is told as one (003-R016)."""
        odd: list[Any] = [[{"put": 1}], [None], [Put("x")], [Match(corner.id(), 5)]]  # type: ignore[arg-type]

        for operations in odd:
            with pytest.raises(Incorrect):
                await store.commit(operations)
        with pytest.raises(Incorrect, match="key"):
            await store.commit([Put(corner.note())], key=5)  # type: ignore[arg-type]
