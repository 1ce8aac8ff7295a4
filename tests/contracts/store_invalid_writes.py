"""Invalid writes: every store refuses them with the same message and writes nothing."""

import datetime as dt
import math
from collections.abc import Callable
from typing import Any, Final

import pytest

from ctxmgr.core.store.contract import (
    INSTANT_MAX,
    OPERATIONS_MAX,
    Delete,
    Match,
    Operation,
    Put,
    Store,
)
from ctxmgr.core.store.documents import (
    DEPTH_MAX,
    DOCUMENT_BYTES_MAX,
    OBJECT_ID_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
)
from ctxmgr.errors import Incorrect
from tests.contracts.namespace import Namespace, day, last_sequence


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

BAD_OPERATIONS: Final[dict[str, Callable[[Namespace], list[Operation]]]] = {
    "end-without-start": lambda namespace: [Put(namespace.note(), None, day(1))],
    "end-at-start": lambda namespace: [Put(namespace.note(), day(1), day(1))],
    "end-before-start": lambda namespace: [Delete(namespace.id(), day(2), day(1))],
    "before-1970": lambda namespace: [Put(namespace.note(), -1)],
    "after-9999": lambda namespace: [Put(namespace.note(), INSTANT_MAX + 1)],
    "end-after-9999": lambda namespace: [Put(namespace.note(), 1, INSTANT_MAX + 1)],
    "match-before-1970": lambda namespace: [Match(namespace.id(), None, -1), Put(namespace.note())],
    "put-twice": lambda namespace: [Put(namespace.note()), Put(namespace.note(title="again"))],
    "put-and-delete": lambda namespace: [Put(namespace.note()), Delete(namespace.id())],
    "put-twice-apart": lambda namespace: [
        Put(namespace.note(), day(1)),
        Put(namespace.note(), day(2)),
    ],
    "match-twice": lambda namespace: [Match(namespace.id(), None), Match(namespace.id(), "t")],
    "delete-no-id": lambda _: [Delete("")],
    "delete-own-id": lambda _: [Delete("ctxmgr/x")],
    "match-no-id": lambda namespace: [Match("", None), Put(namespace.note())],
    "too-many": lambda namespace: [Put(namespace.note(str(n))) for n in range(OPERATIONS_MAX + 1)],
}


class InvalidWritesContract:
    @pytest.mark.parametrize("fields", BAD_FIELDS.values(), ids=BAD_FIELDS.keys())
    async def test_an_invalid_document_is_refused(
        self, store: Store, namespace: Namespace, fields: dict[Any, Any]
    ) -> None:
        """What has no canonical form has no hash, so it is never stored (003-R028, 003-A15)."""
        before = await last_sequence(store)

        with pytest.raises(Incorrect):
            await store.commit([Put(namespace.note("good")), Put({**namespace.note(), **fields})])

        assert await store.get_many([namespace.id("good"), namespace.id()]) == {}
        assert await last_sequence(store) == before

    @pytest.mark.parametrize("made", BAD_OPERATIONS.values(), ids=BAD_OPERATIONS.keys())
    async def test_contradictory_operations_are_refused(
        self, store: Store, namespace: Namespace, made: Callable[[Namespace], list[Operation]]
    ) -> None:
        """An ambiguous transaction is rejected, not interpreted (003-R016)."""
        before = await last_sequence(store)

        with pytest.raises(Incorrect):
            await store.commit(made(namespace))

        assert await store.get(namespace.id()) is None
        assert await last_sequence(store) == before

    async def test_a_document_over_the_size_limit_is_refused(
        self, store: Store, namespace: Namespace
    ) -> None:
        """One document must not exhaust the memory of the process (003-R016)."""
        too_much = namespace.note(content="x" * (DOCUMENT_BYTES_MAX + 1))

        with pytest.raises(Incorrect, match="bytes"):
            await store.commit([Put(too_much)])

        assert await store.get(namespace.id()) is None

    async def test_a_document_of_many_small_fields_has_the_same_limit(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The total size counts, however small the single fields are (003-R016)."""
        small = "x" * 4_096
        fields = {f"field_{number}": small for number in range(DOCUMENT_BYTES_MAX // len(small))}

        with pytest.raises(Incorrect, match="bytes"):
            await store.commit([Put(namespace.note(**fields))])

        assert await store.get(namespace.id()) is None

    async def test_a_transaction_over_the_size_limit_is_refused(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A server accepts a limited request size, and all stores use the same limit (003-R016)."""
        half = "x" * (TRANSACTION_BYTES_MAX // 3)
        too_much = [Put(namespace.note(name, content=half)) for name in "abc"]

        with pytest.raises(Incorrect, match="several transactions"):
            await store.commit([*too_much, Put(namespace.note("d", content="x" * 1_000))])

        assert await store.get(namespace.id()) is None

    async def test_the_message_names_the_document_and_the_field(
        self, store: Store, namespace: Namespace
    ) -> None:
        """A transaction may have a thousand documents (003-R016)."""
        with pytest.raises(Incorrect, match=f"{namespace.id('b')}.*score"):
            await store.commit([Put(namespace.note("a")), Put(namespace.note("b", score=math.nan))])


class LimitsContract:
    """What is just allowed, and reaches the server."""

    async def test_a_transaction_of_exactly_the_size_limit_is_written(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The limit is inclusive, on a remote server too (003-R016)."""
        long = '"' * (DOCUMENT_BYTES_MAX // 2 - 1_000)
        notes = [namespace.note(name, content=long) for name in "ab"]

        await store.commit([Put(note) for note in notes])

        found = await store.get(namespace.id("b"))
        assert found is not None
        assert found.document == notes[1]

    @pytest.mark.parametrize("character", ["a", "é", "中", "😀", '"', "\x01", "/", "%"])
    async def test_the_longest_ids_work_with_every_read_method(
        self, store: Store, namespace: Namespace, character: str
    ) -> None:
        """Every id that can be written can be read (003-R011, 003-R016)."""
        room = OBJECT_ID_BYTES_MAX - len(namespace.mark)
        object_id = namespace.mark + character * (room // len(character.encode()))
        note = {**namespace.note(), "xt/id": object_id}

        await store.commit([Put(note, 1_000)])
        await store.commit([Put(note, 1_000, 2_000)])

        found = await store.get(object_id)
        assert found is not None
        assert found.document == note
        assert (await store.history(object_id)).entries[0].document == note
        with pytest.raises(Incorrect, match="bytes"):
            await store.get(object_id + "x" * len(character.encode()))

    async def test_the_largest_transaction_is_written_whole(
        self, store: Store, namespace: Namespace
    ) -> None:
        """The limit is inclusive (003-R016)."""
        names = [str(number) for number in range(OPERATIONS_MAX)]

        await store.commit([Put(namespace.note(name)) for name in names])

        assert len(await store.get_many([namespace.id(name) for name in names])) == OPERATIONS_MAX
