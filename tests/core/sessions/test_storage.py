"""Sets that are proven once for each version, and never taken on trust."""

import gc
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest

from ctxmgr.app import open_store
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.sessions.storage import IDS_AT_ONCE_MAX, StoredSets, save_sets, stored_sets
from ctxmgr.core.store.contract import AsOf, Put, Store, Version
from ctxmgr.errors import Corrupt, HashMismatch

MET = Session(session_id="s1").add(["a", "b"])
ID = "session:s1"


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with await open_store("sqlite://:memory:") as opened:
        yield opened


async def put(store: Store, session: Session) -> int:
    return (await store.commit([Put(to_document(session.to_record()))])).sequence


async def read(store: Store) -> StoredSets:
    found = await stored_sets(store, ID)
    assert found is not None
    return found


async def test_a_version_that_was_proven_gives_the_same_session(store: Store) -> None:
    """The store is asked which version there is; reading and proving it takes ten times as long."""
    await put(store, MET)

    first, again = await read(store), await read(store)

    assert first.session == MET
    assert again == first
    assert again.session is first.session


async def test_every_version_is_asked_for_anew(store: Store) -> None:
    """Remembered is the proof, never the state: now and then are the store's to say."""
    first = await put(store, MET)
    await read(store)
    await put(store, MET.activate("a"))

    now = await read(store)
    then = await stored_sets(store, ID, as_of=AsOf(sequence=first))

    assert list(now.session.active_set) == ["a"]
    assert then is not None
    assert then.session == MET
    assert await read(store) == now


async def test_one_altered_id_is_found_out_beside_a_proven_version(store: Store) -> None:
    """What was proven vouches for nothing but itself."""
    await put(store, MET)
    await read(store)
    document = to_document(MET.to_record())
    await store.commit([Put({**document, "session_index": ["a", "b", "c"]})])

    with pytest.raises(HashMismatch):
        await read(store)


class PutBack:
    """A real store into which another program has put another version under the same token."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.put_back: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, object_id: str, **asked: Any) -> Version | None:
        found = await self._store.get(object_id, **asked)
        return found and self._other(found, ())

    async def get_many(
        self, ids: Iterable[str], *, without: Collection[str] = (), **asked: Any
    ) -> dict[str, Version]:
        found = await self._store.get_many(ids, without=without, **asked)
        return {object_id: self._other(version, without) for object_id, version in found.items()}

    def _other(self, found: Version, without: Collection[str]) -> Version:
        if self.put_back is None:
            return found
        shown = {name: value for name, value in self.put_back.items() if name not in without}
        return replace(found, document=shown)


async def test_other_sets_under_the_same_token_are_read_anew(store: Store) -> None:
    """Tokens are the store's; whoever writes beside it need not give another one."""
    await put(store, MET)
    beside: Any = PutBack(store)
    before = await read(beside)

    beside.put_back = to_document(MET.activate("a").to_record())

    assert before.session == MET
    assert list((await read(beside)).session.active_set) == ["a"]


async def test_what_is_no_session_is_refused(store: Store) -> None:
    """An id that begins with session: says nothing about what lies under it."""
    await store.commit([Put({"xt/id": ID, "type": "note"})])

    with pytest.raises(Corrupt):
        await read(store)


async def test_a_long_index_is_proven_too(store: Store) -> None:
    """In a thread, so that others have their turns."""
    long = Session(session_id="s1").add(f"call-{n}" for n in range(IDS_AT_ONCE_MAX + 1))
    await put(store, long)

    assert (await read(store)).session == long


async def test_a_change_is_made_on_what_somebody_else_wrote_meanwhile(store: Store) -> None:
    """Compare and set: who was slower reads again (003-A21)."""
    await put(store, MET)
    before = await read(store)
    await put(store, MET.add(["c"]))

    _, after = await save_sets(store, before, lambda sets: sets.activate("a"))

    assert list(after.session_index) == ["a", "b", "c"]
    assert (await read(store)).session == after


async def test_what_was_just_written_is_read_back_as_it_is(store: Store) -> None:
    """The next request of the same agent finds its own change, and whatever came after it."""
    await put(store, MET)
    await save_sets(store, await read(store), lambda sets: sets.activate("a"))
    own = await read(store)
    await save_sets(store, own, lambda sets: sets.pin("b"))
    await put(store, MET)

    assert list(own.session.active_set) == ["a"]
    assert (await read(store)).session == MET


async def test_nothing_is_remembered_for_a_store_that_is_gone() -> None:
    """A process that opens many stores keeps the sessions of none of them."""
    store = await open_store("sqlite://:memory:")
    await put(store, MET)
    await read(store)
    opened = ref(store)

    await store.close()
    del store
    gc.collect()

    assert opened() is None
