"""Invalid arguments of reads: every store raises ``Incorrect``, never an internal error."""

import base64
from typing import Any, Final

import orjson
import pytest

from ctxmgr.core.store.contract import AsOf, Match, Put, Query, Store
from ctxmgr.errors import Incorrect
from tests.contracts.namespace import Namespace, put

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


class InvalidArgumentsContract:
    @pytest.mark.parametrize("position", ALTERED, ids=str)
    async def test_an_altered_cursor_is_refused(
        self, store: Store, namespace: Namespace, position: list[Any]
    ) -> None:
        """Cursors pass through clients, which may damage them (003-R016)."""
        for number in range(3):
            await put(store, namespace.note(rank=number))
        page = await store.history(namespace.id(), limit=1, corrections=True)
        assert page.cursor is not None
        fingerprint, _ = orjson.loads(base64.urlsafe_b64decode(page.cursor))
        altered = base64.urlsafe_b64encode(orjson.dumps([fingerprint, position])).decode()

        with pytest.raises(Incorrect, match="cursor"):
            await store.history(namespace.id(), limit=1, corrections=True, cursor=altered)

    @pytest.mark.parametrize("since", [-5, "x", 1.5, 2**70, True, []], ids=str)
    async def test_the_start_of_a_history_must_be_an_instant(
        self, store: Store, namespace: Namespace, since: Any
    ) -> None:
        """An invalid time would return an empty result that looks like an answer (003-R016)."""
        with pytest.raises(Incorrect, match="since"):
            await store.history(namespace.id(), since=since)

    @pytest.mark.parametrize("after", [-2, "x", 1.5, 2**70, True, []], ids=str)
    async def test_the_start_of_a_feed_must_be_a_sequence(self, store: Store, after: Any) -> None:
        """A listener with an invalid position gets an error instead of starting over (003-R016)."""
        with pytest.raises(Incorrect, match="after"):
            await store.feed(after=after)

    @pytest.mark.parametrize("as_of", POINTS.values(), ids=POINTS.keys())
    async def test_an_invalid_point_is_refused_by_every_read(
        self, store: Store, namespace: Namespace, as_of: Any
    ) -> None:
        """All reads validate the point by the same rules (003-R016)."""
        await put(store, namespace.note())

        for asked in (
            store.get(namespace.id(), as_of=as_of),
            store.get_many([namespace.id()], as_of=as_of),
            store.history(namespace.id(), as_of=as_of),
            store.find(Query(namespace.kind.name), as_of=as_of),
        ):
            with pytest.raises(Incorrect):
                await asked

    @pytest.mark.parametrize("limit", [0, "1", 1.5, None, True], ids=str)
    async def test_a_page_has_a_whole_number_of_entries(
        self, store: Store, namespace: Namespace, limit: Any
    ) -> None:
        """Every paged read validates its limit by the same rule (003-R016)."""
        for asked in (
            store.history(namespace.id(), limit=limit),
            store.find(Query(namespace.kind.name), limit=limit),
            store.feed(limit=limit),
        ):
            with pytest.raises(Incorrect, match="limit"):
                await asked

    async def test_an_invalid_operation_is_refused(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A caller's error is reported as such (003-R016)."""
        invalid: list[Any] = [[{"put": 1}], [None], [Put("x")], [Match(namespace.id(), 5)]]  # type: ignore[arg-type]

        for operations in invalid:
            with pytest.raises(Incorrect):
                await store.commit(operations)
        with pytest.raises(Incorrect, match="key"):
            await store.commit([Put(namespace.note())], key=5)  # type: ignore[arg-type]
