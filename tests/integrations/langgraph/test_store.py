"""LangGraph's long-term store on a ctxmgr store, compared with LangGraph's in-memory store."""

import asyncio
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, InvalidNamespaceError, PutOp
from langgraph.store.memory import InMemoryStore

from ctxmgr import Incorrect, Put, Store
from ctxmgr.integrations.langgraph.store import LongTermStore

PEOPLE = ("people", "a/b")
"""All namespaces are below a name that is unique to the test."""
ITEMS = (
    (PEOPLE, "anna", {"likes": "green tea", "age": 30, "home": {"city": "Lima"}}),
    (PEOPLE, "ben", {"likes": "coffee", "age": 40}),
    (("people", "a"), "cy", {"likes": "tea", "age": 50}),
    (("places",), "lima", {"likes": None}),
)


async def filled(store: BaseStore, name: str) -> BaseStore:
    for namespace, key, value in ITEMS:
        await store.aput((name, *namespace), key, value)
    return store


async def keys(store: BaseStore, *prefix: str, **options: Any) -> set[str]:
    return {item.key for item in await store.asearch(prefix, **options)}


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"filter": {"likes": "tea"}},
        {"filter": {"age": {"$gte": 40}}},
        {"filter": {"age": {"$lt": 40, "$ne": 31}}},
        {"filter": {"age": {"$gt": 30, "$lte": 40}}},
        {"filter": {"home": {"city": "Lima"}}},
        {"filter": {"age": {"$eq": 50}}},
    ],
)
async def test_a_search_finds_what_langgraphs_own_store_finds(
    store: Store, name: str, asked: dict[str, Any]
) -> None:
    """A filter means the same in both stores."""
    ours, theirs = await filled(LongTermStore(store), name), await filled(InMemoryStore(), name)

    assert await keys(ours, name, "people", **asked) == await keys(theirs, name, "people", **asked)
    assert await keys(ours, name, *PEOPLE, **asked) == await keys(theirs, name, *PEOPLE, **asked)


@pytest.mark.parametrize(
    "asked",
    [{}, {"max_depth": 2}, {"prefix": ("people",)}, {"suffix": ("a",)}, {"prefix": ("*", "a")}],
)
async def test_namespaces_are_listed_as_langgraphs_own_store_lists_them(
    store: Store, name: str, asked: dict[str, Any]
) -> None:
    """A part of a namespace may contain slashes."""
    ours, theirs = await filled(LongTermStore(store), name), await filled(InMemoryStore(), name)

    below = {**asked, "prefix": (name, *asked.get("prefix", ()))}
    assert await ours.alist_namespaces(**below) == await theirs.alist_namespaces(**below)
    listed = await ours.alist_namespaces(prefix=(name,), limit=1, offset=1)
    assert listed == [(name, "people", "a/b")]


async def test_a_query_ranks_by_common_words(store: Store, name: str) -> None:
    """It needs no model, and leaves nothing out."""
    ours = await filled(LongTermStore(store), name)

    items = await ours.asearch((name, "people"), query="Green TEA", limit=2)

    assert [(item.key, item.score) for item in items] == [("anna", 1.0), ("cy", 0.5)]


async def test_an_item_keeps_its_creation_time_and_every_version(store: Store, name: str) -> None:
    """D9: overwritten and deleted values can be looked up."""
    ours = LongTermStore(store)
    await ours.aput((name, "x"), "k", {"n": 1})
    first = await ours.aget((name, "x"), "k")
    await ours.aput((name, "x"), "k", {"n": 2})
    second = await ours.aget((name, "x"), "k")
    await ours.adelete((name, "x"), "k")

    assert first is not None
    assert second is not None
    assert (second.value, second.created_at) == ({"n": 2}, first.created_at)
    assert await ours.aget((name, "x"), "k") is None
    history = await store.history(f"langgraph_item:{name}/x/k", corrections=True)
    assert [entry.document and entry.document["value"] for entry in history.entries] == [
        {"n": 1},
        {"n": 2},
        None,
    ]


async def test_an_unknown_comparison_is_rejected(store: Store, name: str) -> None:
    """A misspelt filter must not look like an empty result."""
    ours = await filled(LongTermStore(store), name)

    with pytest.raises(Incorrect, match=r"unknown comparison .*one of"):
        await ours.asearch((name, "people"), filter={"age": {"$almost": 3}})
    assert await keys(ours, name, "people", filter={"likes": {"$gt": 3}}) == set()


async def test_a_graph_remembers_across_threads(store: Store, name: str) -> None:
    """The purpose of LangGraph's stores, with synchronous and async calls."""

    class State(TypedDict):
        seen: int

    def count(state: State, runtime: Runtime) -> State:
        assert runtime.store is not None
        known = runtime.store.get((name, "graph"), "count")
        runtime.store.put((name, "graph"), "count", {"n": (known.value["n"] if known else 0) + 1})
        return {"seen": known.value["n"] if known else 0}

    builder = StateGraph(State)
    builder.add_node("count", count)
    builder.add_edge(START, "count")
    compiled = builder.compile(store=LongTermStore(store))

    await asyncio.to_thread(compiled.invoke, {"seen": 0})
    result = await asyncio.to_thread(compiled.invoke, {"seen": 0})

    assert result == {"seen": 1}


@pytest.mark.parametrize("namespace", [(), ("",), ("a", 1), ("a.b",), ("langgraph", "x")])
async def test_namespaces_that_peers_refuse_are_refused(
    store: Store, name: str, namespace: Any
) -> None:
    """``abatch`` does not check them as ``aput`` does, and one was a ``TypeError`` of urllib."""
    good = PutOp((name, "x"), "k", {"n": 1})

    with pytest.raises(InvalidNamespaceError):
        await LongTermStore(store).abatch([good, PutOp(namespace, "k", {})])

    assert await LongTermStore(store).aget((name, "x"), "k") is None


async def test_concurrent_calls_are_carried_out_together(store: Store, name: str) -> None:
    """A hundred writes at once were a hundred transactions."""
    ours = LongTermStore(store)
    first = (await store.commit([Put({"xt/id": f"{name}-a", "type": "x"})])).sequence

    await asyncio.gather(*(ours.aput((name, "x"), str(n), {"n": n}) for n in range(100)))
    last = (await store.commit([Put({"xt/id": f"{name}-b", "type": "x"})])).sequence
    items = await asyncio.gather(*(ours.aget((name, "x"), str(n)) for n in range(100)))

    assert [item.value["n"] for item in items if item is not None] == list(range(100))
    assert last - first < 10


async def test_a_call_that_fails_does_not_fail_others(store: Store, name: str) -> None:
    """They only happened to be carried out together."""
    ours = LongTermStore(store)
    await ours.aput((name, "x"), "k", {"n": 1})

    good, bad = await asyncio.gather(
        ours.aget((name, "x"), "k"),
        ours.asearch((name,), filter={"n": {"$near": 1}}),
        return_exceptions=True,
    )

    assert getattr(good, "value", None) == {"n": 1}
    assert isinstance(bad, Incorrect)


def test_a_synchronous_program_opens_one(tmp_path: Path) -> None:
    """``graph.invoke`` needed an event loop in another thread, which the program had to make."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    with LongTermStore.from_conn_string(url) as ours:
        ours.put(("x",), "k", {"n": 1})
    with LongTermStore.from_conn_string(url) as again:
        item = again.get(("x",), "k")

    assert item is not None
    assert item.value == {"n": 1}
