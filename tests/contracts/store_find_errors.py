"""What ``find`` refuses: undeclared fields, and cursors of other queries."""

from typing import Any

import pytest

from ctxmgr.core.store.contract import PAGE_MAX, Order, Put, Query, Range, Store
from ctxmgr.errors import Incorrect
from tests.contracts.namespace import Namespace, put


class FindErrorsContract:
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
    async def test_a_query_of_undeclared_fields_is_refused(
        self,
        store: Store,
        namespace: Namespace,
        where: dict[str, Any],
        between: Range | None,
        order: Order | None,
    ) -> None:
        """A query that no index can answer must not return an empty result (003-R122)."""
        await put(store, namespace.note(title="a", rank=1, done=True, content="x"))

        with pytest.raises(Incorrect):
            await store.find(Query(namespace.kind.name, where, between, order))

    async def test_a_cursor_of_another_query_is_refused(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Mixed pages of two queries would look like one result (003-R122)."""
        await store.commit([Put(namespace.note(name, rank=1)) for name in "ab"])
        query = Query(namespace.kind.name, order=Order("rank"))
        cursor = (await store.find(query, limit=1)).cursor
        assert cursor is not None

        for other in (
            Query(namespace.kind.name),
            Query(namespace.kind.name, order=Order("rank", True)),
            Query(namespace.kind.name, {"rank": 1}, order=Order("rank")),
            Query(namespace.kind.name, between=Range("rank", 0), order=Order("rank")),
        ):
            with pytest.raises(Incorrect):
                await store.find(other, cursor=cursor)

    @pytest.mark.parametrize("cursor", ["", "x", "bm90IGEgY3Vyc29y", "W10=", "\u00e4"])
    async def test_an_invalid_cursor_is_refused_by_find(
        self, store: Store, namespace: Namespace, cursor: str
    ) -> None:
        """A damaged cursor must not silently restart at the first page (003-R122)."""
        with pytest.raises(Incorrect):
            await store.find(Query(namespace.kind.name), cursor=cursor)

    @pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
    async def test_an_invalid_limit_is_refused_by_find(
        self, store: Store, namespace: Namespace, limit: int
    ) -> None:
        """Every page is bounded, and an invalid limit is not replaced silently (003-R122)."""
        with pytest.raises(Incorrect, match="limit"):
            await store.find(Query(namespace.kind.name), limit=limit)
