"""Rules of declared kinds: reserved ids, fixed envelopes, and objects with a single version."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import pytest

from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import identity_hash
from ctxmgr.core.objects.session_record import SessionRecord
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import Delete, Match, Put, Store
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Conflict, Incorrect
from tests.contracts.namespace import Namespace, day, last_sequence, put

RACERS: Final = 8

NAMED: Final = ("chat", "fork", "lifecycle", "run", "session", "system_prompt", "turn")
"""The types whose ids begin with their name."""


def toolcall(object_id: str, output: str = "ok") -> Document:
    """A tool call as a client stores it."""
    call = ToolCall(
        toolcall_id=object_id,
        tool="bash",
        args={"command": "make"},
        status="ok",
        chat_ref="chat:s",
        content=output,
    )
    return to_document(call)


def _file(namespace: Namespace, text: bytes = b"one") -> Document:
    path = FilesystemSource(filesystem_id="host", path=f"/{namespace.mark}/main.py")
    return to_document(File.read(path, data=text))


def _other_source(document: Document) -> Document:
    return {**document["source"], "path": "/elsewhere"}


def _changed_envelopes(document: Document) -> dict[str, Document]:
    other = _other_source(document)
    return {
        "type": {**document, "type": "toolcall"},
        "undeclared type": {**document, "type": "note"},
        "source": {**document, "source": other},
        "no source": {**document, "source": None},
        "source left out": {name: document[name] for name in document if name != "source"},
        "identity_hash": {**document, "identity_hash": "0" * 64},
        "source and identity_hash": {
            **document,
            "source": other,
            "identity_hash": identity_hash("file", source=other),
        },
        "no identity_hash": {**document, "identity_hash": None},
    }


async def _outcomes(stores: Sequence[Store], documents: Sequence[Document]) -> list[Any]:
    """Put each document through the next store, all at once."""
    puts = (
        stores[number % len(stores)].commit([Put(document)])
        for number, document in enumerate(documents)
    )
    return await asyncio.gather(*puts, return_exceptions=True)


async def check_a_race(stores: Sequence[Store], object_id: str) -> None:
    """Several clients store different calls under one id: one wins, and the others are told."""
    documents = [toolcall(object_id, f"output {number}") for number in range(RACERS)]

    outcomes = await _outcomes(stores, documents)

    refused = [outcome for outcome in outcomes if isinstance(outcome, Incorrect)]
    assert len(refused) == RACERS - 1, outcomes
    entries = (await stores[0].history(object_id, corrections=True)).entries
    winner = next(n for n, outcome in enumerate(outcomes) if not isinstance(outcome, Exception))
    assert [entry.document for entry in entries] == [documents[winner]]


class KindsContract:
    @pytest.mark.parametrize("changed", list(_changed_envelopes(_file(Namespace()))))
    async def test_the_envelope_of_an_object_never_changes(
        self, store: Store, namespace: Namespace, changed: str
    ) -> None:
        """003-R026, 003-R029: an id stands for one source for ever, whoever writes."""
        document = _file(namespace)
        await put(store, document)
        before = await last_sequence(store)

        with pytest.raises(Incorrect, match=document["xt/id"]):
            await store.commit(
                [Put(namespace.note()), Put(_changed_envelopes(document)[changed])],
            )

        assert await last_sequence(store) == before
        assert await store.get(namespace.id()) is None
        found = await store.get(document["xt/id"])
        assert found is not None
        assert found.document == document

    async def test_a_new_version_keeps_the_envelope(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-R029: content changes as often as the file does."""
        one, two = _file(namespace), _file(namespace, b"two")

        await put(store, one)
        await put(store, two)

        entries = (await store.history(one["xt/id"], corrections=True)).entries
        assert [entry.document for entry in entries] == [one, two]

    @pytest.mark.parametrize("field", ["type", "source", "identity_hash"])
    async def test_the_envelope_of_a_session_never_changes(
        self, store: Store, namespace: Namespace, field: str
    ) -> None:
        """003-R029: objects without a source have an envelope, too."""
        document = to_document(SessionRecord(session_id=namespace.mark))
        await put(store, document)

        with pytest.raises(Incorrect, match=document["xt/id"]):
            await put(store, {**document, field: "chat"})

        found = await store.get(document["xt/id"])
        assert found is not None
        assert found.document == document

    async def test_a_tool_call_has_one_version(self, store: Store, namespace: Namespace) -> None:
        """003-R071: what a call returned is not rewritten, neither alone nor among others."""
        document = toolcall(namespace.id())
        await put(store, document)
        before = await last_sequence(store)

        with pytest.raises(Incorrect, match="single version"):
            await store.commit([Put(namespace.note("b")), Put(toolcall(namespace.id(), "forged"))])

        assert await last_sequence(store) == before
        assert await store.get(namespace.id("b")) is None
        entries = (await store.history(namespace.id(), corrections=True)).entries
        assert [entry.document for entry in entries] == [document]

    async def test_no_valid_time_has_room_for_a_second_tool_call(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-R071: a forged call in the past, or after a deletion, is a second version as well."""
        await put(store, toolcall(namespace.id()), valid_from=day(5), valid_to=day(6))
        forged = toolcall(namespace.id(), "forged")

        for times in ((day(1), None), (day(1), day(2)), (day(9), None), (None, None)):
            with pytest.raises(Incorrect, match="single version"):
                await put(store, forged, valid_from=times[0], valid_to=times[1])
        await store.commit([Delete(namespace.id(), day(1))])
        with pytest.raises(Incorrect, match="single version"):
            await put(store, forged)

        assert await store.get(namespace.id()) is None

    async def test_the_same_tool_call_can_be_put_again(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-A20: a client that does not know whether its call was stored sends it again."""
        document = toolcall(namespace.id())
        reordered = dict(reversed(document.items()))
        await put(store, document)

        await put(store, reordered)
        await store.commit([Delete(namespace.id())])
        await store.commit([Put(namespace.note("b")), Put(document)])

        found = await store.get_many([namespace.id(), namespace.id("b")])
        assert found[namespace.id()].document == document
        assert namespace.id("b") in found

    async def test_a_match_is_checked_before_the_version(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-A20: a client that asked for a new id learns that it is taken, and by what."""
        await put(store, toolcall(namespace.id()))

        with pytest.raises(Conflict) as conflict:
            await store.commit(
                [Match(namespace.id(), None), Put(toolcall(namespace.id(), "another"))]
            )

        assert conflict.value.object_ids == (namespace.id(),)

    async def test_a_tool_call_and_another_object_never_share_an_id(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-R029: a type is fixed, also between the tool calls and types that nobody declared."""
        await store.commit([Put(toolcall(namespace.id("call"))), Put(namespace.note("note"))])

        with pytest.raises(Incorrect, match="single version"):
            await put(store, {**namespace.note("call"), "type": "undeclared"})
        with pytest.raises(Incorrect, match="id of its own"):
            await put(store, toolcall(namespace.id("note")))

        found = await store.get_many([namespace.id("call"), namespace.id("note")])
        kinds = [version.document["type"] for version in found.values()]
        assert kinds == ["toolcall", namespace.kind.name]

    @pytest.mark.parametrize("kind", NAMED)
    async def test_an_internal_id_is_refused_for_other_types(
        self, store: Store, namespace: Namespace, kind: str
    ) -> None:
        """003-R006, 003-R029: no tool call can take the place of a session's own documents."""
        object_id = f"{kind}:{namespace.mark}"

        with pytest.raises(Incorrect, match=f"reserved for objects of type {kind}"):
            await put(store, toolcall(object_id))
        with pytest.raises(Incorrect, match=f"reserved for objects of type {kind}"):
            await put(store, {**namespace.note(), "xt/id": object_id})

        assert await store.get(object_id) is None

    async def test_the_id_of_a_file_is_refused_for_other_types(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-R029: whoever knows a path could otherwise take its id before it is read."""
        object_id = _file(namespace)["xt/id"]

        with pytest.raises(Incorrect, match="reserved for objects of type file"):
            await put(store, toolcall(object_id))

        assert await store.get(object_id) is None

    @pytest.mark.parametrize("kind", [*NAMED, "file"])
    async def test_a_type_with_reserved_ids_has_no_others(
        self, store: Store, namespace: Namespace, kind: str
    ) -> None:
        """003-R029: an id says which type its object has."""
        with pytest.raises(Incorrect, match=f"not the id of a {kind}"):
            await put(store, {"xt/id": namespace.id(), "type": kind})

        assert await store.get(namespace.id()) is None

    async def test_of_several_calls_with_one_id_one_is_stored(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-R071, 003-A20: tasks of one client race for an id that a model has repeated."""
        await check_a_race([store], namespace.id())

    async def test_equal_calls_that_race_are_all_acknowledged(
        self, store: Store, namespace: Namespace
    ) -> None:
        """003-A20: a retry that overtakes its first attempt is no mistake."""
        outcomes = await _outcomes([store], [toolcall(namespace.id())] * RACERS)

        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
