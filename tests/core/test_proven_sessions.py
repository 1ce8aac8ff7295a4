"""Sets that are proven once for each version, and never taken on trust."""

import gc
from collections.abc import AsyncIterator
from weakref import ref

import pytest

from ctxmgr.app import open_store
from ctxmgr.core.objects import to_document
from ctxmgr.core.proven_sessions import IDS_AT_ONCE_MAX, ProvenSessions, proven_sessions
from ctxmgr.core.sessions import Session
from ctxmgr.core.set_saving import save_sets
from ctxmgr.core.store import Put, Store
from ctxmgr.errors import Corrupt, HashMismatch

MET = Session(session_id="s1").meet_all(["a", "b"])


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with await open_store("sqlite://:memory:") as opened:
        yield opened


async def test_a_document_that_was_proven_gives_the_same_session() -> None:
    """The proof is what takes time; the document was read anew, and is equal."""
    proven = ProvenSessions()

    first = await proven.prove(to_document(MET.to_record()))
    again = await proven.prove(to_document(MET.to_record()))

    assert first == MET
    assert again is first


async def test_one_altered_id_is_found_out_beside_a_proven_version() -> None:
    """What was proven vouches for nothing but its equal."""
    proven = ProvenSessions()
    document = to_document(MET.to_record())
    await proven.prove(document)

    with pytest.raises(HashMismatch):
        await proven.prove({**document, "session_index": ["a", "b", "c"]})


async def test_what_is_no_session_is_refused() -> None:
    """An id that begins with session: says nothing about what lies under it."""
    with pytest.raises(Corrupt):
        await ProvenSessions().prove({"xt/id": "session:s1", "type": "note"})


async def test_a_long_index_is_proven_too() -> None:
    """In a thread, so that others have their turns."""
    long = Session(session_id="s1").meet_all(f"call-{n}" for n in range(IDS_AT_ONCE_MAX + 1))

    assert await ProvenSessions().prove(to_document(long.to_record())) == long


async def test_a_change_is_made_on_what_somebody_else_wrote_meanwhile(store: Store) -> None:
    """Remembered is the proof, never the state: that is the store's to say."""
    await store.commit([Put(to_document(MET.to_record()))])
    await save_sets(store, "s1", lambda sets: sets.activate("a"))
    await store.commit([Put(to_document(MET.meet_all(["c"]).to_record()))])

    before, after = await save_sets(store, "s1", lambda sets: sets.activate("c"))

    assert list(before.session_index) == ["a", "b", "c"]
    assert list(after.active_set) == ["c"]


async def test_nothing_is_remembered_for_a_store_that_is_gone() -> None:
    """A process that opens many stores keeps the sessions of none of them."""
    store = await open_store("sqlite://:memory:")
    known = ref(proven_sessions(store))
    assert proven_sessions(store) is known()

    await store.close()
    del store
    gc.collect()

    assert known() is None
