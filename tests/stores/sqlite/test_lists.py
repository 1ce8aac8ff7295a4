"""Long lists are read back complete after any edits, by any writer, in any order."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.core.store.contract import Put
from ctxmgr.core.store.documents import Document
from ctxmgr.stores.sqlite.store import SqliteStore

TEXTS = [f"file-object-{number:04d}" for number in range(100)]
TURNS = [{"n": number, "text": "t" * 200} for number in range(30)]

edits = st.lists(
    st.tuples(
        st.sampled_from(["append", "remove", "cut", "branch", "replace", "swap", "double"]),
        st.floats(0, 1),
        st.integers(0, 5),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("items", [TEXTS, TURNS], ids=["texts", "turns"])
@settings(max_examples=15, deadline=None)
@given(edits)
async def test_every_state_of_an_edited_list_is_kept(items, changes):
    """003-R005: two processes edit one list, branch from old states and truncate it."""
    async with _two_handles() as handles:
        states = [list(items)]
        await handles[0].commit([Put(_chat(states[0]))])

        for change, where, number, second in changes:
            states.append(_edited(states, change, where, number))
            await handles[second].commit([Put(_chat(states[-1]))])

        for handle in handles:
            page = await handle.history("chat", corrections=True)
            assert [entry.document for entry in page.entries] == [_chat(state) for state in states]
        assert (await handles[0].verify()).faults == ()


@pytest.mark.parametrize(
    ("items", "steps"),
    [
        (TEXTS, [("remove", 90), ("cut", 80), ("append", 1)]),
        (TEXTS, [("remove", 90), ("remove", 80)]),
        (TURNS, [("replace", 25), ("replace", 20)]),
        (TURNS, [("replace", 25), ("replace", 20), ("branch", 1), ("replace", 16)]),
    ],
)
async def test_a_list_may_diverge_earlier_than_it_did_before(items, steps):
    """003-R005: if two objects are deactivated, the later one first, all others stay."""
    async with await SqliteStore.open(":memory:") as store:
        states = [list(items)]
        await store.commit([Put(_chat(items))])

        for change, number in steps:
            states.append(_edited(states, change, number / len(states[-1]), number))
            await store.commit([Put(_chat(states[-1]))])

        page = await store.history("chat", corrections=True)
        assert [entry.document for entry in page.entries] == [_chat(state) for state in states]


async def test_the_versions_of_a_long_list_fill_one_page():
    """003-R005: versions share items, so a page holds hundreds of them.

    Written out separately, they would far exceed the size of a page.
    """
    turns = [{"n": number, "text": f"{number}" * 800} for number in range(400)]
    async with await SqliteStore.open(":memory:") as store:
        for number in range(1, len(turns) + 1):
            await store.commit([Put(_chat(turns[:number]))])

        page = await store.history("chat", corrections=True)

        assert page.cursor is None
        assert [len(entry.document["items"]) for entry in page.entries] == [*range(1, 401)]
        assert page.entries[200].document == _chat(turns[:201])


@asynccontextmanager
async def _two_handles() -> AsyncIterator[list[SqliteStore]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        async with (
            await SqliteStore.open(path, durability="normal") as one,
            await SqliteStore.open(path, durability="normal") as other,
        ):
            yield [one, other]


def _chat(items: list[Any]) -> Document:
    return {"xt/id": "chat", "type": "thing", "items": items, "title": "x" * 2_000}


def _edited(states: list[list[Any]], change: str, where: float, number: int) -> list[Any]:
    """Return the list after one edit at this fraction of its length."""
    items = states[-1]
    at = int(where * len(items))
    new = [_like(items, len(states) * 10 + n) for n in range(number % 3 + 1)]
    match change:
        case "remove":
            return items[:at] + items[at + 1 :]
        case "cut":
            return items[:at]
        case "branch":
            return states[number % len(states)] + new
        case "replace":
            return items[:at] + new
        case "swap":
            return items[:at] + items[at:][::-1]
        case _:
            return items + (new if change == "append" else items[at : at + 3])


def _like(items: list[Any], number: int) -> Any:
    is_text = not items or isinstance(items[0], str)
    return f"new-{number}" if is_text else {"n": -number, "text": "u" * 200}
