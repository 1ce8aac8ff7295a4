"""What find refuses: questions beyond what a kind declares, and pages that belong to others."""

from typing import Any

import pytest

from ctxmgr.core.store import PAGE_MAX, Order, Put, Query, Range, Store
from ctxmgr.errors import Incorrect
from tests.contracts.corner import Corner, put


class FindRefusalsContract:
    @pytest.mark.parametrize(
        ("where", "between", "order"),
        [
            ({"content": "x"}, None, None),
            ({"title": 1}, None, None),
            ({"rank": "1"}, None, None),
            ({"rank": True}, None, None),
            ({"done": 1}, None, None),
            ({"rank": 2**63}, None, None),
            ({}, Range("content", "a"), None),
            ({}, Range("rank", "a"), None),
            ({}, Range("title", "a", 2), None),
            ({}, Range("done"), None),
            ({}, None, Order("content")),
            ({}, None, Order("done")),
        ],
    )
    async def test_a_question_beyond_what_is_declared_is_refused(
        self,
        store: Store,
        corner: Corner,
        where: dict[str, Any],
        between: Range | None,
        order: Order | None,
    ) -> None:
        """A question that no index answers must not come back empty (003-R122)."""
        await put(store, corner.note(title="a", rank=1, done=True, content="x"))

        with pytest.raises(Incorrect):
            await store.find(Query(corner.kind.name, where, between, order))

    async def test_a_cursor_of_another_query_is_refused(self, store: Store, corner: Corner) -> None:
        """Pages of two questions mixed would look like one answer (003-R122)."""
        await store.commit([Put(corner.note(name, rank=1)) for name in "ab"])
        query = Query(corner.kind.name, order=Order("rank"))
        cursor = (await store.find(query, limit=1)).cursor
        assert cursor is not None

        for other in (
            Query(corner.kind.name),
            Query(corner.kind.name, order=Order("rank", True)),
            Query(corner.kind.name, {"rank": 1}, order=Order("rank")),
            Query(corner.kind.name, between=Range("rank", 0), order=Order("rank")),
        ):
            with pytest.raises(Incorrect):
                await store.find(other, cursor=cursor)

    @pytest.mark.parametrize("cursor", ["", "x", "bm90IGEgY3Vyc29y", "W10=", "\u00e4"])
    async def test_what_is_no_cursor_finds_nothing(
        self, store: Store, corner: Corner, cursor: str
    ) -> None:
        """A mangled cursor must not quietly start from the first page (003-R122)."""
        with pytest.raises(Incorrect):
            await store.find(Query(corner.kind.name), cursor=cursor)

    @pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
    async def test_a_page_of_no_size_finds_nothing(
        self, store: Store, corner: Corner, limit: int
    ) -> None:
        """Every page has a bound, and it is not quietly another one (003-R122)."""
        with pytest.raises(Incorrect, match="limit"):
            await store.find(Query(corner.kind.name), limit=limit)
