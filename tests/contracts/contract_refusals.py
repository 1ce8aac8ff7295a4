"""What every store refuses: input that breaks the law, by name, with nothing written."""

import datetime as dt
import math
from collections.abc import Callable
from typing import Any, Final

import pytest

from ctxmgr.core.documents import (
    DEPTH_MAX,
    DOCUMENT_BYTES_MAX,
    OBJECT_ID_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
)
from ctxmgr.core.store import (
    INSTANT_MAX,
    OPERATIONS_MAX,
    Delete,
    Match,
    Operation,
    Put,
    Store,
)
from ctxmgr.errors import Incorrect
from tests.contracts.corner import Corner, day, last_sequence


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


BAD_FIELDS: Final[dict[str, dict[Any, Any]]] = {
    "nan": {"value": math.nan},
    "infinity": {"value": math.inf},
    "nan-inside": {"value": [{"deep": -math.inf}]},
    "lone-surrogate": {"value": "a\ud800"},
    "surrogate-inside": {"value": {"k": ["\udfff"]}},
    "surrogate-key": {"value": {"\ud800": 1}},
    "number-key": {"value": {1: 2}},
    "bytes": {"value": b"x"},
    "tuple": {"value": (1, 2)},
    "set": {"value": {1}},
    "datetime": {"value": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)},
    "object": {"value": object()},
    "too-deep": {"value": _nested(DEPTH_MAX + 1)},
    "space-in-name": {"a b": 1},
    "namespace": {"ctxmgr/x": 1},
    "empty-name": {"": 1},
    "digit-first": {"1a": 1},
    "unicode-name": {"größe": 1},
    "long-name": {"a" * 129: 1},
    "number-name": {1: 1},
    "no-id": {"xt/id": None},
    "number-id": {"xt/id": 1},
    "empty-id": {"xt/id": ""},
    "long-id": {"xt/id": "x" * 1_025},
    "own-id": {"xt/id": "ctxmgr/x"},
    "surrogate-id": {"xt/id": "\ud800"},
    "no-kind": {"type": None},
    "empty-kind": {"type": ""},
    "number-kind": {"type": 1},
    "declared-text": {"title": 1},
    "declared-integer": {"rank": "1"},
    "declared-integer-float": {"rank": 1.0},
    "declared-integer-boolean": {"rank": True},
    "declared-integer-large": {"rank": 2**63},
    "declared-boolean": {"done": 1},
    "declared-text-long": {"title": "x" * 201},
}

BAD_OPERATIONS: Final[dict[str, Callable[[Corner], list[Operation]]]] = {
    "end-without-start": lambda corner: [Put(corner.note(), None, day(1))],
    "end-at-start": lambda corner: [Put(corner.note(), day(1), day(1))],
    "end-before-start": lambda corner: [Delete(corner.id(), day(2), day(1))],
    "before-1970": lambda corner: [Put(corner.note(), -1)],
    "after-9999": lambda corner: [Put(corner.note(), INSTANT_MAX + 1)],
    "end-after-9999": lambda corner: [Put(corner.note(), 1, INSTANT_MAX + 1)],
    "match-before-1970": lambda corner: [Match(corner.id(), None, -1), Put(corner.note())],
    "put-twice": lambda corner: [Put(corner.note()), Put(corner.note(title="again"))],
    "put-and-delete": lambda corner: [Put(corner.note()), Delete(corner.id())],
    "put-twice-apart": lambda corner: [Put(corner.note(), day(1)), Put(corner.note(), day(2))],
    "match-twice": lambda corner: [Match(corner.id(), None), Match(corner.id(), "t")],
    "delete-no-id": lambda _: [Delete("")],
    "delete-own-id": lambda _: [Delete("ctxmgr/x")],
    "match-no-id": lambda corner: [Match("", None), Put(corner.note())],
    "too-many": lambda corner: [Put(corner.note(str(n))) for n in range(OPERATIONS_MAX + 1)],
}


class RefusalsContract:
    @pytest.mark.parametrize("fields", BAD_FIELDS.values(), ids=BAD_FIELDS.keys())
    async def test_a_document_that_breaks_the_law_is_refused(
        self, store: Store, corner: Corner, fields: dict[Any, Any]
    ) -> None:
        """What has no canonical form has no hash, so it is never stored (003-R028, 003-A15)."""
        before = await last_sequence(store)

        with pytest.raises(Incorrect):
            await store.commit([Put(corner.note("good")), Put({**corner.note(), **fields})])

        assert await store.get_many([corner.id("good"), corner.id()]) == {}
        assert await last_sequence(store) == before

    @pytest.mark.parametrize("made", BAD_OPERATIONS.values(), ids=BAD_OPERATIONS.keys())
    async def test_operations_that_make_no_sense_are_refused(
        self, store: Store, corner: Corner, made: Callable[[Corner], list[Operation]]
    ) -> None:
        """A transaction whose meaning could be guessed two ways is not guessed (003-R016)."""
        before = await last_sequence(store)

        with pytest.raises(Incorrect):
            await store.commit(made(corner))

        assert await store.get(corner.id()) is None
        assert await last_sequence(store) == before

    async def test_a_document_beyond_the_bound_is_refused(
        self, store: Store, corner: Corner
    ) -> None:
        """One document must not take the memory of all (003-R016)."""
        too_much = corner.note(content="x" * (DOCUMENT_BYTES_MAX + 1))

        with pytest.raises(Incorrect, match="bytes"):
            await store.commit([Put(too_much)])

        assert await store.get(corner.id()) is None

    async def test_a_document_of_many_small_fields_has_the_same_bound(
        self, store: Store, corner: Corner
    ) -> None:
        """The whole is counted, however little each field holds (003-R016)."""
        small = "x" * 4_096
        fields = {f"field_{number}": small for number in range(DOCUMENT_BYTES_MAX // len(small))}

        with pytest.raises(Incorrect, match="bytes"):
            await store.commit([Put(corner.note(**fields))])

        assert await store.get(corner.id()) is None

    async def test_documents_beyond_the_bound_together_are_refused(
        self, store: Store, corner: Corner
    ) -> None:
        """A server takes so much at once, and every store the same (003-R016)."""
        half = "x" * (TRANSACTION_BYTES_MAX // 3)
        too_much = [Put(corner.note(name, content=half)) for name in "abc"]

        with pytest.raises(Incorrect, match="several transactions"):
            await store.commit([*too_much, Put(corner.note("d", content="x" * 1_000))])

        assert await store.get(corner.id()) is None

    async def test_as_many_bytes_as_are_allowed_are_written(
        self, store: Store, corner: Corner
    ) -> None:
        """The bounds themselves are allowed, even by a server far away (003-R016)."""
        long = '"' * (DOCUMENT_BYTES_MAX // 2 - 1_000)
        notes = [corner.note(name, content=long) for name in "ab"]

        await store.commit([Put(each) for each in notes])

        found = await store.get(corner.id("b"))
        assert found is not None
        assert found.document == notes[1]

    @pytest.mark.parametrize("character", ["a", "é", "中", "😀", '"', "\x01", "/", "%"])
    async def test_the_longest_ids_are_found_by_every_way_of_reading(
        self, store: Store, corner: Corner, character: str
    ) -> None:
        """An id that can be written can be asked for (003-R011, 003-R016)."""
        room = OBJECT_ID_BYTES_MAX - len(corner.mark)
        object_id = corner.mark + character * (room // len(character.encode()))
        note = {**corner.note(), "xt/id": object_id}

        await store.commit([Put(note, 1_000)])
        await store.commit([Put(note, 1_000, 2_000)])

        found = await store.get(object_id)
        assert found is not None
        assert found.document == note
        assert (await store.history(object_id)).entries[0].document == note
        with pytest.raises(Incorrect, match="bytes"):
            await store.get(object_id + "x" * len(character.encode()))

    async def test_the_largest_transaction_is_written_whole(
        self, store: Store, corner: Corner
    ) -> None:
        """The bound itself is allowed (003-R016)."""
        names = [str(number) for number in range(OPERATIONS_MAX)]

        await store.commit([Put(corner.note(name)) for name in names])

        assert len(await store.get_many([corner.id(name) for name in names])) == OPERATIONS_MAX

    async def test_the_message_names_the_document_and_the_field(
        self, store: Store, corner: Corner
    ) -> None:
        """Of a thousand documents in one transaction, which was it? (003-R016)"""
        with pytest.raises(Incorrect, match=f"{corner.id('b')}.*score"):
            await store.commit([Put(corner.note("a")), Put(corner.note("b", score=math.nan))])
