"""The contract of ``find``: documents of a kind by declared fields, ordered, in pages."""

from typing import Any

import pytest

from ctxmgr.core.store.contract import (
    LATEST,
    PAGE_MAX,
    AsOf,
    Delete,
    Order,
    Put,
    Query,
    Range,
    Store,
)
from ctxmgr.errors import Incorrect
from tests.contracts.namespace import FUTURE, Namespace, day, put

TEXTS = [
    "",
    " ",
    "A",
    "B",
    "a",
    "aa",
    "b",
    "z",
    "é",
    "ß",
    "中",
    "\ue000",
    "\uffee",
    "😀",
    "😀a",
    "\U0001d538",
]


async def _find_names(
    store: Store, query: Query, *, as_of: AsOf = LATEST, limit: int = PAGE_MAX
) -> list[str]:
    """Return the names that match, over all pages."""
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.find(query, as_of=as_of, limit=limit, cursor=cursor)
        assert len(page.versions) <= limit
        names.extend(version.object_id.partition(":")[2] for version in page.versions)
        cursor = page.cursor
        if cursor is None:
            return names


async def _notes(store: Store, namespace: Namespace, **fields: Any) -> None:
    """One note per name and value, given as name=dict of fields."""
    await store.commit([Put(namespace.note(name, **given)) for name, given in fields.items()])


class FindContract:
    async def test_documents_are_found_by_kind_and_ordered_by_id(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A query returns documents of one kind, such as all sessions (003-R122)."""
        await _notes(store, namespace, c={}, a={}, b={})
        await put(store, {"xt/id": namespace.id("other"), "type": namespace.kind.name + "-other"})

        assert await _find_names(store, Query(namespace.kind.name)) == ["a", "b", "c"]

    async def test_equalities_must_all_hold(self, store: Store, namespace: Namespace) -> None:
        """Every equality narrows the query (003-R122)."""
        await _notes(
            store,
            namespace,
            a={"title": "x", "rank": 1, "done": True},
            b={"title": "x", "rank": 2, "done": True},
            c={"title": "y", "rank": 1, "done": False},
        )
        kind = namespace.kind.name

        assert await _find_names(store, Query(kind, {"title": "x"})) == ["a", "b"]
        assert await _find_names(store, Query(kind, {"title": "x", "rank": 1})) == ["a"]
        assert await _find_names(store, Query(kind, {"done": True, "rank": 2})) == ["b"]
        assert await _find_names(store, Query(kind, {"done": False})) == ["c"]
        assert await _find_names(store, Query(kind, {"title": "z"})) == []

    async def test_a_null_field_matches_null_and_an_absent_field_does_not(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A field that is null differs from a field that is absent (003-R028)."""
        await _notes(store, namespace, a={"title": None}, b={}, c={"title": ""})

        assert await _find_names(store, Query(namespace.kind.name, {"title": None})) == ["a"]
        assert await _find_names(store, Query(namespace.kind.name, {"title": ""})) == ["c"]

    async def test_true_does_not_match_one(self, store: Store, namespace: Namespace) -> None:
        """Types are distinct in queries as they are in documents (003-R028)."""
        await _notes(store, namespace, a={"rank": 1}, b={"done": True}, c={"rank": 0})

        assert await _find_names(store, Query(namespace.kind.name, {"rank": 1})) == ["a"]
        assert await _find_names(store, Query(namespace.kind.name, {"done": True})) == ["b"]

    async def test_a_range_includes_its_start_and_excludes_its_end(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Adjacent ranges neither overlap nor leave a gap (003-R122)."""
        numbers = {f"n{rank}": {"rank": rank} for rank in range(5)}
        await _notes(store, namespace, **numbers, none={"rank": None}, absent={})
        kind = namespace.kind.name

        assert await _find_names(store, Query(kind, between=Range("rank", 1, 3))) == ["n1", "n2"]
        assert await _find_names(store, Query(kind, between=Range("rank", 3))) == ["n3", "n4"]
        assert await _find_names(store, Query(kind, between=Range("rank", None, 1))) == ["n0"]
        assert len(await _find_names(store, Query(kind, between=Range("rank")))) == 5
        assert await _find_names(store, Query(kind, between=Range("rank", 3, 3))) == []

    async def test_integers_are_ordered_as_numbers_up_to_64_bits(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Nine comes before ten, and both ends of the range are supported (003-R122)."""
        ranks = [9, 10, -1, 0, 2**63 - 1, -(2**63) + 1, 1_000_000]
        await _notes(store, namespace, **{f"n{rank}": {"rank": rank} for rank in ranks})

        for descending in (False, True):
            query = Query(namespace.kind.name, order=Order("rank", descending))
            expected = sorted(ranks, reverse=descending)
            assert await _find_names(store, query) == [f"n{rank}" for rank in expected]

    async def test_text_is_ordered_by_utf_16_code_unit(
        self, store: Store, namespace: Namespace
    ) -> None:
        """All stores and languages use one order, with emoji before U+E000 (003-A15)."""
        await _notes(store, namespace, **{text: {"title": text} for text in TEXTS})
        in_order = sorted(TEXTS, key=lambda text: text.encode("utf-16-be"))

        up = await _find_names(store, Query(namespace.kind.name, order=Order("title")))
        down = await _find_names(
            store, Query(namespace.kind.name, order=Order("title", True)), limit=3
        )
        middle = Query(namespace.kind.name, between=Range("title", "b", "\ue000"))

        assert up == in_order
        assert down == in_order[::-1]
        assert set(await _find_names(store, middle)) == set(
            in_order[in_order.index("b") : in_order.index("\ue000")]
        )

    async def test_ids_are_ordered_by_utf_16_code_unit(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Without ``order_by`` results are ordered by id, under the same rule (003-A15)."""
        await _notes(store, namespace, **{text: {"rank": 1} for text in TEXTS if text})
        in_order = sorted(filter(None, TEXTS), key=lambda text: text.encode("utf-16-be"))

        assert await _find_names(store, Query(namespace.kind.name), limit=4) == in_order
        query = Query(namespace.kind.name, order=Order("rank", descending=True))
        assert await _find_names(store, query, limit=4) == in_order

    async def test_ordering_by_a_field_omits_documents_without_a_value(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Null and absent values cannot be ordered (003-R122)."""
        await _notes(store, namespace, a={"rank": None}, b={}, c={"rank": 1})

        assert await _find_names(store, Query(namespace.kind.name, order=Order("rank"))) == ["c"]

    async def test_ties_are_ordered_by_id_ascending(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A page boundary inside a tie must not lose a document (003-R122)."""
        await _notes(store, namespace, d={"rank": 1}, b={"rank": 2}, a={"rank": 2}, c={"rank": 1})
        kind = namespace.kind.name

        for limit in (1, 2, 3, 4):
            up = await _find_names(store, Query(kind, order=Order("rank")), limit=limit)
            down = await _find_names(store, Query(kind, order=Order("rank", True)), limit=limit)
            assert up == ["c", "d", "a", "b"]
            assert down == ["a", "b", "c", "d"]

    async def test_equality_range_and_order_can_be_combined(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Each of them may use a different field (003-R122)."""
        await _notes(
            store,
            namespace,
            **{
                f"{rank}{title}": {"rank": rank, "title": title, "done": rank % 2 == 0}
                for rank in range(6)
                for title in "ab"
            },
        )
        query = Query(
            namespace.kind.name,
            {"done": True},
            between=Range("rank", 1, 6),
            order=Order("title", descending=True),
        )

        assert await _find_names(store, query, limit=3) == ["2b", "4b", "2a", "4a"]

    async def test_pages_together_return_every_document_once(
        self, store: Store, namespace: Namespace
    ) -> None:
        """This holds for every page size (003-R122)."""
        await _notes(
            store, namespace, **{f"n{number:02}": {"rank": number} for number in range(25)}
        )
        point = AsOf(sequence=(await store.status()).sequence, valid_time=FUTURE)

        for query in (
            Query(namespace.kind.name),
            Query(namespace.kind.name, order=Order("rank")),
            Query(namespace.kind.name, between=Range("rank", 3, 20)),
        ):
            whole = await _find_names(store, query, as_of=point)
            for limit in (1, 5, 24, 25, 26):
                assert await _find_names(store, query, as_of=point, limit=limit) == whole

    async def test_only_the_visible_version_is_found(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Renamed notes are not found by their old name, nor deleted ones at all (003-R010)."""
        await _notes(store, namespace, a={"title": "old"}, b={"title": "old"}, c={"title": "old"})
        await put(store, namespace.note("a", title="new"))
        await store.commit([Delete(namespace.id("b"))])
        await put(store, namespace.note("d", title="old"), valid_from=FUTURE)

        assert await _find_names(store, Query(namespace.kind.name, {"title": "old"})) == ["c"]
        assert await _find_names(store, Query(namespace.kind.name)) == ["a", "c"]

    async def test_a_document_that_changes_its_kind_is_found_under_the_new_one(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Only the visible version counts, including its kind (003-R010)."""
        await put(store, namespace.note("a"))
        await put(store, {"xt/id": namespace.id("a"), "type": "elsewhere"})

        assert await _find_names(store, Query(namespace.kind.name)) == []

    async def test_find_at_a_past_point_returns_the_state_at_that_point(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A query can use what was known then, or what is known now about then (003-R005)."""
        first = await store.commit(
            [Put(namespace.note(name, title="old"), day(1)) for name in ("a", "b")]
        )
        second = await put(store, namespace.note("a", title="new"), valid_from=day(3))
        await put(store, namespace.note("b", title="new"), valid_from=day(1))
        query = Query(namespace.kind.name, {"title": "old"})

        assert await _find_names(store, query) == []
        assert await _find_names(store, query, as_of=AsOf(valid_time=day(2))) == ["a"]
        assert await _find_names(store, query, as_of=AsOf(sequence=first.sequence)) == ["a", "b"]
        assert await _find_names(store, query, as_of=AsOf(sequence=second.sequence)) == ["b"]
        point = AsOf(sequence=second.sequence, valid_time=day(2))
        assert await _find_names(store, query, as_of=point) == ["a", "b"]
        assert await _find_names(store, query, as_of=AsOf(valid_time=day(0))) == []

    async def test_found_versions_are_complete(self, store: Store, namespace: Namespace) -> None:
        """A found version can be used, and guarded by its token, without another get (003-A21)."""
        await put(store, namespace.note(title="a", turns=["x" * 1_000] * 500))

        page = await store.find(Query(namespace.kind.name, {"title": "a"}))

        assert list(page.versions) == [await store.get(namespace.id())]

    async def test_fields_can_be_left_out_of_what_is_found(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A list of sessions shows when each was last used, not the thousands of ids it holds."""
        notes = [
            namespace.note(name, title=name, others=[f"{n:064x}" for n in range(2_000)])
            for name in ("a", "b", "c")
        ]
        await store.commit([Put(note) for note in notes])
        query = Query(namespace.kind.name, order=Order("title", descending=True))

        first = await store.find(query, without=("others", "title", "xt/id"), limit=2)
        rest = await store.find(query, without=("others",), limit=2, cursor=first.cursor)

        found = [version.document for version in (*first.versions, *rest.versions)]
        assert found == [namespace.note(name, title=name) for name in ("c", "b", "a")]

    async def test_a_kind_without_declared_fields_is_found_by_kind_only(
        self, store: Store, namespace: Namespace
    ) -> None:
        """Every document has a kind; only queried fields must be declared (003-R122)."""
        kind = f"undeclared-{namespace.mark}"
        await put(store, {"xt/id": namespace.id("a"), "type": kind, "title": "a"})

        assert await _find_names(store, Query(kind)) == ["a"]
        assert await _find_names(store, Query(f"never-{namespace.mark}")) == []
        with pytest.raises(Incorrect, match="title"):
            await store.find(Query(kind, {"title": "a"}))
