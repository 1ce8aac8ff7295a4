"""Random puts and deletes of tool calls and notes, against a model of the rules for their kinds."""

import asyncio
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ctxmgr
from ctxmgr.core.store.contract import Delete, Kind, Operation, Put, Store
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect
from tests.contracts.namespace import day
from tests.contracts.store_kinds import toolcall

NAMES = ("a", "b")
ON_XTDB = 12
"""Histories on a server, each of some dozen requests."""


@dataclass(frozen=True)
class Step:
    """One write of a transaction; ``output`` is None for a deletion."""

    name: str
    kind: str
    output: str | None
    past_day: int | None

    def operation(self, mark: str) -> Operation:
        object_id = f"{mark}-{self.name}"
        if self.output is None:
            return Delete(object_id)
        if self.kind == "toolcall":
            start = None if self.past_day is None else day(self.past_day)
            return Put(toolcall(object_id, self.output), start)
        return Put({"xt/id": object_id, "type": self.kind, "text": self.output})


@dataclass
class Model:
    """What may be written: the call of each id for ever, and the notes that are visible."""

    calls: dict[str, Document] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)

    def allows(self, operations: list[Operation]) -> bool:
        return all(map(self._allows, operations))

    def apply(self, operations: list[Operation]) -> None:
        for operation in operations:
            if isinstance(operation, Put) and operation.document["type"] == "toolcall":
                self.calls[operation.document["xt/id"]] = operation.document
            elif isinstance(operation, Put):
                self.notes.add(operation.document["xt/id"])
            elif isinstance(operation, Delete):
                self.notes.discard(operation.object_id)

    def _allows(self, operation: Operation) -> bool:
        if not isinstance(operation, Put):
            return True
        document = operation.document
        object_id = document["xt/id"]
        if object_id in self.calls:
            return document == self.calls[object_id]
        return document["type"] != "toolcall" or object_id not in self.notes


steps = st.builds(
    Step,
    name=st.sampled_from(NAMES),
    kind=st.sampled_from(["toolcall", "toolcall", "note", "memo"]),
    output=st.sampled_from(["one", "two", None]),
    past_day=st.sampled_from([None, 1, 2]),
)
transactions = st.lists(steps, min_size=1, max_size=2, unique_by=lambda step: step.name)
histories = st.lists(transactions, min_size=1, max_size=8)


A_NOTE_AND_TWO_CALLS = [
    [Step("b", "note", "one", None)],
    [Step("b", "note", None, None)],
    [Step("b", "toolcall", "two", None)],
    [Step("b", "toolcall", None, None)],
    [Step("b", "toolcall", "one", None)],
]
"""All have one id, and each is deleted before the next: the second call is refused."""


async def _check(store: Store, history: list[list[Step]]) -> None:
    mark, model = uuid.uuid4().hex, Model()
    for transaction in history:
        operations = [step.operation(mark) for step in transaction]
        allowed = model.allows(operations)
        try:
            await store.commit(operations)
        except Incorrect:
            assert not allowed, operations
        else:
            assert allowed, operations
            model.apply(operations)
    for object_id, document in model.calls.items():
        entries = (await store.history(object_id, corrections=True)).entries
        calls = [entry.document for entry in entries if entry.document]
        assert [call for call in calls if call["type"] == "toolcall" and call != document] == []


@given(histories)
@example(A_NOTE_AND_TWO_CALLS)
def test_sqlite_keeps_single_versions_whatever_is_written(history: list[list[Step]]) -> None:
    """003-R029, 003-R071: no order of writes, deletions and valid times makes a second version."""

    async def run() -> None:
        async with await ctxmgr.open_store("sqlite://:memory:") as store:
            await _check(store, history)

    asyncio.run(run())


@pytest.mark.xtdb
@settings(max_examples=ON_XTDB)
@given(histories)
@example(A_NOTE_AND_TWO_CALLS)
def test_xtdb_keeps_single_versions_whatever_is_written(
    xtdb_url: str, history: list[list[Step]]
) -> None:
    """003-R029, 003-R071: the same, where the server and not the client has the last word."""

    async def run() -> None:
        async with await ctxmgr.open_store(xtdb_url) as store:
            await _check(store, history)

    asyncio.run(run())


async def test_own_kinds_do_not_switch_off_the_rules(tmp_path: Path) -> None:
    """003-R029: a program that declares its own kinds still cannot write over a tool call."""
    kinds = {
        "note": Kind("note"),
        "toolcall": Kind("toolcall", {"args_display": ctxmgr.FieldType.TEXT}),
    }
    url = f"sqlite:///{tmp_path}/s.db"
    async with await ctxmgr.open_store(url, kinds=kinds) as store:
        await store.commit([Put(toolcall("a"))])

        with pytest.raises(Incorrect):
            await store.commit([Put({"xt/id": "a", "type": "note"})])

        found = await store.find(ctxmgr.Query("toolcall", {"args_display": None, "tool": "bash"}))
        assert found.versions == []
        found = await store.find(ctxmgr.Query("toolcall", {"tool": "bash"}))
        assert [version.object_id for version in found.versions] == ["a"]
