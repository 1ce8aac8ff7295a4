"""LangGraph's checkpointer on a store: its own conformance suite, and graphs that use it."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from ctxmgr import Corrupt, Incorrect, Put, Query, Store, open_store
from ctxmgr.integrations.document_kinds import KINDS, LANGGRAPH_CHANNEL, LANGGRAPH_CHECKPOINT
from ctxmgr.integrations.langgraph.checkpointer import Checkpointer
from ctxmgr.integrations.langgraph.serialized import CHUNK, from_fields, to_fields


class State(TypedDict):
    said: Annotated[list[str], lambda old, new: old + new]


def graph(checkpointer: Checkpointer) -> Any:
    """Return a graph of two steps, each of which adds its name."""
    builder = StateGraph(State)
    builder.add_node("first", lambda state: {"said": [f"first {len(state['said'])}"]})
    builder.add_node("second", lambda state: {"said": [f"second {len(state['said'])}"]})
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge("second", END)
    return builder.compile(checkpointer=checkpointer)


def thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


async def test_it_passes_langgraphs_own_conformance_suite(store_url: str) -> None:
    """Put, writes, get, list and deletion of threads, as LangGraph tests its own checkpointers."""

    @checkpointer_test(name="ctxmgr")
    async def registered() -> AsyncIterator[Checkpointer]:
        async with await open_store(store_url, kinds=KINDS) as store:
            yield Checkpointer(store)

    report = await validate(registered)

    assert [result.failures for result in report.results.values() if result.failures] == []
    assert report.passed_all_base()


async def test_a_thread_continues_and_is_separate_from_others(store: Store, name: str) -> None:
    """A second process has the state of the first; another thread starts empty."""
    await graph(Checkpointer(store)).ainvoke({"said": ["hello"]}, thread(name))

    again = await graph(Checkpointer(store)).ainvoke({"said": ["and"]}, thread(name))
    other = await graph(Checkpointer(store)).ainvoke({"said": ["hi"]}, thread(f"{name}-b"))

    assert again["said"] == ["hello", "first 1", "second 2", "and", "first 4", "second 5"]
    assert other["said"] == ["hi", "first 1", "second 2"]


async def test_a_graph_continues_from_an_earlier_checkpoint(store: Store, name: str) -> None:
    """Time travel: each branch has its own values."""
    compiled = graph(Checkpointer(store))
    await compiled.ainvoke({"said": ["hello"]}, thread(name))
    states = [state async for state in compiled.aget_state_history(thread(name))]
    before_second = next(state for state in states if state.next == ("second",))

    forked = await compiled.aupdate_state(before_second.config, {"said": ["changed"]})
    result = await compiled.ainvoke(None, forked)
    first_line = await compiled.aget_state(states[0].config)

    assert result["said"] == ["hello", "first 1", "changed", "second 3"]
    assert first_line.values["said"] == ["hello", "first 1", "second 2"]
    assert first_line.parent_config == before_second.config


async def test_an_interrupted_graph_continues_later(store: Store, name: str) -> None:
    """Pending writes survive the process that asked for the user's answer."""

    def build() -> Any:
        builder = StateGraph(State)
        builder.add_node("ask", lambda _: {"said": [interrupt("go on?")]})
        builder.add_edge(START, "ask")
        return builder.compile(checkpointer=Checkpointer(store))

    asked = await build().ainvoke({"said": []}, thread(name))
    result = await build().ainvoke(Command(resume="yes"), thread(name))

    assert asked["__interrupt__"][0].value == "go on?"
    assert result["said"] == ["yes"]


async def test_a_synchronous_graph_uses_it_from_its_own_thread(store: Store, name: str) -> None:
    """``invoke`` works like ``ainvoke``, except on the event loop itself."""
    checkpointer = Checkpointer(store)
    compiled = graph(checkpointer)

    result = await asyncio.to_thread(compiled.invoke, {"said": ["hello"]}, thread(name))
    history = await asyncio.to_thread(lambda: list(compiled.get_state_history(thread(name))))
    await asyncio.to_thread(checkpointer.delete_thread, f"{name}-b")

    assert result["said"] == ["hello", "first 1", "second 2"]
    assert len(history) == 4
    with pytest.raises(Incorrect, match="use the async method"):
        compiled.invoke({"said": []}, thread(f"{name}-b"))


async def test_a_deleted_thread_keeps_its_history(store: Store, name: str) -> None:
    """D9: deletion is state; every checkpoint stays in the history."""
    checkpointer = Checkpointer(store)
    await graph(checkpointer).ainvoke({"said": ["hello"]}, thread(name))
    page = await store.find(Query(LANGGRAPH_CHECKPOINT, {"thread": name}))

    await checkpointer.adelete_thread(name)

    assert await checkpointer.aget_tuple(thread(name)) is None
    entries = (await store.history(page.versions[0].object_id, corrections=True)).entries
    assert [entry.deleted for entry in entries] == [False, True]
    assert entries[0].document == page.versions[0].document


async def test_an_empty_checkpoint_id_is_the_latest_one(store: Store, name: str) -> None:
    """As for LangGraph's own checkpointers; it was an id that nothing has."""
    compiled = graph(Checkpointer(store))
    await compiled.ainvoke({"said": ["hello"]}, thread(name))
    empty = {"configurable": {"thread_id": name, "checkpoint_id": ""}}

    state = await compiled.aget_state(empty)
    listed = [found async for found in Checkpointer(store).alist(empty)]

    assert state.values["said"] == ["hello", "first 1", "second 2"]
    assert len(listed) == 4


def test_a_synchronous_program_opens_a_checkpointer(tmp_path: Path) -> None:
    """``invoke`` needed an event loop in another thread, which the program had to make."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    for said in (["hello"], ["again"]):
        with Checkpointer.from_conn_string(url) as checkpointer:
            result = graph(checkpointer).invoke({"said": said}, thread("t1"))

    assert result["said"][:4] == ["hello", "first 1", "second 2", "again"]


@settings(max_examples=30, deadline=None)
@given(
    kind=st.text(st.characters(codec="utf-8"), max_size=8),
    data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode),
    times=st.sampled_from([1, CHUNK // 100, CHUNK]),
)
def test_serialized_bytes_are_read_as_they_were_written(kind: str, data: bytes, times: int) -> None:
    """A custom serializer, such as an encrypting one, may return any bytes under any name."""
    fields = to_fields("value", kind, data * times)

    assert from_fields("value", {"xt/id": "x", **fields}) == (kind, data * times)


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"value": None},
        {"value": "text"},
        {"value": ["msgpack"]},
        {"value": "latin-1 msgpack 4 abc"},
        {"value": "latin-1 msgpack 1 \u20ac"},
        {"value": "rot13 msgpack 3 abc"},
        {"value": "base64 msgpack 3 a"},
        {"value": f"latin-1 msgpack {CHUNK + 1} {'a' * CHUNK}", "value_2": "a"},
    ],
)
def test_a_damaged_value_is_reported(damaged: dict[str, Any]) -> None:
    """What is stored is not trusted: neither a raw exception nor half a conversation."""
    with pytest.raises(Corrupt):
        from_fields("value", damaged)


async def test_values_of_the_first_version_are_read(store: Store, name: str) -> None:
    """Checkpoints that an earlier version stored in Base64 are continued."""
    checkpointer = Checkpointer(store)
    await graph(checkpointer).ainvoke({"said": ["hello"]}, thread(name))
    for kind, fields in (
        (LANGGRAPH_CHECKPOINT, ("body", "metadata")),
        (LANGGRAPH_CHANNEL, ("value",)),
    ):
        for version in (await store.find(Query(kind, {"thread": name}))).versions:
            document = dict(version.document)
            for field in fields:
                form, data = from_fields(field, document)
                document[field] = [form, b64encode(data).decode()]
            await store.commit([Put(document)])

    again = await graph(checkpointer).ainvoke({"said": ["and"]}, thread(name))

    assert again["said"] == ["hello", "first 1", "second 2", "and", "first 4", "second 5"]


async def test_a_checkpoint_stores_only_what_is_new_in_a_long_conversation(tmp_path: Path) -> None:
    """Each checkpoint holds the whole conversation; twenty of 1 MB each took 27 MB."""
    file = tmp_path / "s.db"
    said = [f"message {number} " + "word " * 200 for number in range(1_000)]
    async with await open_store(f"sqlite:///{file}", kinds=KINDS) as store:
        checkpointer = Checkpointer(store)
        for turn in range(20):
            said.append(f"turn {turn} " + "word " * 200)
            version = checkpointer.get_next_version(None, None)
            checkpoint = empty_checkpoint() | {
                "channel_values": {"said": said},
                "channel_versions": {"said": version},
            }
            config = {"configurable": {"thread_id": "long", "checkpoint_ns": ""}}
            await checkpointer.aput(config, checkpoint, {"step": turn}, {"said": version})
        found = await checkpointer.aget_tuple(thread("long"))

    assert found is not None
    assert found.checkpoint["channel_values"]["said"] == said
    assert file.stat().st_size < 6_000_000
