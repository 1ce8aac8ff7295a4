"""What find promises: the documents of a kind by declared fields, in a defined order, in pages."""

from typing import Any

import pytest

from ctxmgr.core.store import LATEST, PAGE_MAX, AsOf, Delete, Order, Put, Query, Range, Store
from ctxmgr.errors import Incorrect
from tests.contracts.corner import FUTURE, Corner, day, put

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


async def _found(
    store: Store, query: Query, *, as_of: AsOf = LATEST, limit: int = PAGE_MAX
) -> list[str]:
    """The names found, page after page."""
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.find(query, as_of=as_of, limit=limit, cursor=cursor)
        assert len(page.versions) <= limit
        names.extend(each.object_id.partition(":")[2] for each in page.versions)
        cursor = page.cursor
        if cursor is None:
            return names


async def _notes(store: Store, corner: Corner, **fields: Any) -> None:
    """One note per name and value, given as name=dict of fields."""
    await store.commit([Put(corner.note(name, **given)) for name, given in fields.items()])


class FindContract:
    async def test_a_kind_is_found_by_name_and_ordered_by_id(
        self, store: Store, corner: Corner
    ) -> None:
        """All sessions, all notes: a kind is a shelf of its own (003-R122)."""
        await _notes(store, corner, c={}, a={}, b={})
        await put(store, {"xt/id": corner.id("other"), "type": corner.kind.name + "-other"})

        assert await _found(store, Query(corner.kind.name)) == ["a", "b", "c"]

    async def test_equalities_must_all_hold(self, store: Store, corner: Corner) -> None:
        """Each equality narrows the question (003-R122)."""
        await _notes(
            store,
            corner,
            a={"title": "x", "rank": 1, "done": True},
            b={"title": "x", "rank": 2, "done": True},
            c={"title": "y", "rank": 1, "done": False},
        )
        kind = corner.kind.name

        assert await _found(store, Query(kind, {"title": "x"})) == ["a", "b"]
        assert await _found(store, Query(kind, {"title": "x", "rank": 1})) == ["a"]
        assert await _found(store, Query(kind, {"done": True, "rank": 2})) == ["b"]
        assert await _found(store, Query(kind, {"done": False})) == ["c"]
        assert await _found(store, Query(kind, {"title": "z"})) == []

    async def test_null_is_found_and_absent_is_not(self, store: Store, corner: Corner) -> None:
        """A field that says 'nothing' is not a field that says nothing (003-R028)."""
        await _notes(store, corner, a={"title": None}, b={}, c={"title": ""})

        assert await _found(store, Query(corner.kind.name, {"title": None})) == ["a"]
        assert await _found(store, Query(corner.kind.name, {"title": ""})) == ["c"]

    async def test_true_is_not_one(self, store: Store, corner: Corner) -> None:
        """Types are kept apart in questions as they are in documents (003-R028)."""
        await _notes(store, corner, a={"rank": 1}, b={"done": True}, c={"rank": 0})

        assert await _found(store, Query(corner.kind.name, {"rank": 1})) == ["a"]
        assert await _found(store, Query(corner.kind.name, {"done": True})) == ["b"]

    async def test_a_range_includes_its_low_end_and_not_its_high(
        self, store: Store, corner: Corner
    ) -> None:
        """Ranges that meet neither overlap nor leave a gap (003-R122)."""
        numbers = {f"n{rank}": {"rank": rank} for rank in range(5)}
        await _notes(store, corner, **numbers, none={"rank": None}, absent={})
        kind = corner.kind.name

        assert await _found(store, Query(kind, between=Range("rank", 1, 3))) == ["n1", "n2"]
        assert await _found(store, Query(kind, between=Range("rank", 3))) == ["n3", "n4"]
        assert await _found(store, Query(kind, between=Range("rank", None, 1))) == ["n0"]
        assert len(await _found(store, Query(kind, between=Range("rank")))) == 5
        assert await _found(store, Query(kind, between=Range("rank", 3, 3))) == []

    async def test_integers_are_ordered_as_numbers_up_to_64_bits(
        self, store: Store, corner: Corner
    ) -> None:
        """Nine comes before ten, and the ends of the range are there (003-R122)."""
        ranks = [9, 10, -1, 0, 2**63 - 1, -(2**63) + 1, 1_000_000]
        await _notes(store, corner, **{f"n{rank}": {"rank": rank} for rank in ranks})

        for descending in (False, True):
            query = Query(corner.kind.name, order=Order("rank", descending))
            expected = sorted(ranks, reverse=descending)
            assert await _found(store, query) == [f"n{rank}" for rank in expected]

    async def test_text_is_ordered_by_utf_16_code_unit(self, store: Store, corner: Corner) -> None:
        """One order for every store and every language, with emoji before U+E000 (003-A15)."""
        await _notes(store, corner, **{text: {"title": text} for text in TEXTS})
        in_order = sorted(TEXTS, key=lambda text: text.encode("utf-16-be"))

        up = await _found(store, Query(corner.kind.name, order=Order("title")))
        down = await _found(store, Query(corner.kind.name, order=Order("title", True)), limit=3)
        middle = Query(corner.kind.name, between=Range("title", "b", "\ue000"))

        assert up == in_order
        assert down == in_order[::-1]
        assert set(await _found(store, middle)) == set(
            in_order[in_order.index("b") : in_order.index("\ue000")]
        )

    async def test_ids_are_ordered_by_utf_16_code_unit_too(
        self, store: Store, corner: Corner
    ) -> None:
        """Without an order the ids are the order, by the same rule (003-A15)."""
        await _notes(store, corner, **{text: {"rank": 1} for text in TEXTS if text})
        in_order = sorted(filter(None, TEXTS), key=lambda text: text.encode("utf-16-be"))

        assert await _found(store, Query(corner.kind.name), limit=4) == in_order
        query = Query(corner.kind.name, order=Order("rank", descending=True))
        assert await _found(store, query, limit=4) == in_order

    async def test_an_order_leaves_out_what_has_no_value(
        self, store: Store, corner: Corner
    ) -> None:
        """Null and absent have no place in an order (003-R122)."""
        await _notes(store, corner, a={"rank": None}, b={}, c={"rank": 1})

        assert await _found(store, Query(corner.kind.name, order=Order("rank"))) == ["c"]

    async def test_ties_are_ordered_by_id_ascending(self, store: Store, corner: Corner) -> None:
        """A page boundary inside a tie must lose nobody (003-R122)."""
        await _notes(store, corner, d={"rank": 1}, b={"rank": 2}, a={"rank": 2}, c={"rank": 1})
        kind = corner.kind.name

        for limit in (1, 2, 3, 4):
            up = await _found(store, Query(kind, order=Order("rank")), limit=limit)
            down = await _found(store, Query(kind, order=Order("rank", True)), limit=limit)
            assert up == ["c", "d", "a", "b"]
            assert down == ["a", "b", "c", "d"]

    async def test_everything_can_be_asked_at_once(self, store: Store, corner: Corner) -> None:
        """Equality, range and order over different fields combine (003-R122)."""
        await _notes(
            store,
            corner,
            **{
                f"{rank}{title}": {"rank": rank, "title": title, "done": rank % 2 == 0}
                for rank in range(6)
                for title in "ab"
            },
        )
        query = Query(
            corner.kind.name,
            {"done": True},
            between=Range("rank", 1, 6),
            order=Order("title", descending=True),
        )

        assert await _found(store, query, limit=3) == ["2b", "4b", "2a", "4a"]

    async def test_pages_found_together_are_the_whole(self, store: Store, corner: Corner) -> None:
        """However small the page, everyone is seen once (003-R122)."""
        await _notes(store, corner, **{f"n{number:02}": {"rank": number} for number in range(25)})
        point = AsOf(sequence=(await store.status()).sequence, valid_time=FUTURE)

        for query in (
            Query(corner.kind.name),
            Query(corner.kind.name, order=Order("rank")),
            Query(corner.kind.name, between=Range("rank", 3, 20)),
        ):
            whole = await _found(store, query, as_of=point)
            for limit in (1, 5, 24, 25, 26):
                assert await _found(store, query, as_of=point, limit=limit) == whole

    async def test_only_the_visible_version_is_found(self, store: Store, corner: Corner) -> None:
        """A note renamed is not found under its old name; one deleted not at all (003-R010)."""
        await _notes(store, corner, a={"title": "old"}, b={"title": "old"}, c={"title": "old"})
        await put(store, corner.note("a", title="new"))
        await store.commit([Delete(corner.id("b"))])
        await put(store, corner.note("d", title="old"), valid_from=FUTURE)

        assert await _found(store, Query(corner.kind.name, {"title": "old"})) == ["c"]
        assert await _found(store, Query(corner.kind.name)) == ["a", "c"]

    async def test_a_document_that_changes_its_kind_changes_its_shelf(
        self, store: Store, corner: Corner
    ) -> None:
        """What is visible decides, the kind included (003-R010)."""
        await put(store, corner.note("a"))
        await put(store, {"xt/id": corner.id("a"), "type": "elsewhere"})

        assert await _found(store, Query(corner.kind.name)) == []

    async def test_the_past_is_found_as_it_was(self, store: Store, corner: Corner) -> None:
        """Which notes were open then, and which do we now say were open then? (003-R005)"""
        first = await store.commit(
            [Put(corner.note(name, title="old"), day(1)) for name in ("a", "b")]
        )
        second = await put(store, corner.note("a", title="new"), valid_from=day(3))
        await put(store, corner.note("b", title="new"), valid_from=day(1))
        query = Query(corner.kind.name, {"title": "old"})

        assert await _found(store, query) == []
        assert await _found(store, query, as_of=AsOf(valid_time=day(2))) == ["a"]
        assert await _found(store, query, as_of=AsOf(sequence=first.sequence)) == ["a", "b"]
        assert await _found(store, query, as_of=AsOf(sequence=second.sequence)) == ["b"]
        point = AsOf(sequence=second.sequence, valid_time=day(2))
        assert await _found(store, query, as_of=point) == ["a", "b"]
        assert await _found(store, query, as_of=AsOf(valid_time=day(0))) == []

    async def test_found_versions_are_whole(self, store: Store, corner: Corner) -> None:
        """What is found can be used, and guarded, without another get (003-A21)."""
        await put(store, corner.note(title="a", turns=["x" * 1_000] * 500))

        page = await store.find(Query(corner.kind.name, {"title": "a"}))

        assert list(page.versions) == [await store.get(corner.id())]

    async def test_a_kind_that_declares_nothing_is_found_by_kind_alone(
        self, store: Store, corner: Corner
    ) -> None:
        """Any document has a kind; only its fields need declaring (003-R122)."""
        kind = f"undeclared-{corner.mark}"
        await put(store, {"xt/id": corner.id("a"), "type": kind, "title": "a"})

        assert await _found(store, Query(kind)) == ["a"]
        assert await _found(store, Query(f"never-{corner.mark}")) == []
        with pytest.raises(Incorrect, match="title"):
            await store.find(Query(kind, {"title": "a"}))
