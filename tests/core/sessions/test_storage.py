"""Sets are verified once per version and never trusted without."""

import gc
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest

from ctxmgr.app import open_store
from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.sessions.storage import (
    IDS_AT_ONCE_MAX,
    StoredSets,
    save_sets,
    stored_sets,
    whole_session,
)
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
    sets = await stored_sets(store, ID)
    assert sets is not None
    return sets


async def test_a_verified_version_gives_the_same_session(store: Store) -> None:
    """Asking for the current version is ten times faster than reading and verifying it."""
    await put(store, MET)

    first, again = await read(store), await read(store)

    assert first.session == MET
    assert again == first
    assert again.session is first.session


async def test_the_store_is_asked_for_the_version_every_time(store: Store) -> None:
    """Only the verification is cached, never which version is current."""
    first = await put(store, MET)
    await read(store)
    await put(store, MET.activate("a"))

    now = await read(store)
    then = await stored_sets(store, ID, as_of=AsOf(sequence=first))

    assert list(now.session.active_set) == ["a"]
    assert then is not None
    assert then.session == MET
    assert await read(store) == now


async def test_one_altered_id_is_detected_after_a_verified_version(store: Store) -> None:
    """The verification of one version does not extend to the next."""
    await put(store, MET)
    await read(store)
    document = to_document(MET.to_record())
    await store.commit([Put({**document, "session_index": ["a", "b", "c"]})])

    with pytest.raises(HashMismatch):
        await read(store)


class PutBack:
    """A real store in which another program replaced a version under the same token."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.put_back: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, object_id: str, **asked: Any) -> Version | None:
        version = await self._store.get(object_id, **asked)
        return version and self._other(version, ())

    async def get_many(
        self, ids: Iterable[str], *, without: Collection[str] = (), **asked: Any
    ) -> dict[str, Version]:
        versions = await self._store.get_many(ids, without=without, **asked)
        return {object_id: self._other(version, without) for object_id, version in versions.items()}

    def _other(self, version: Version, without: Collection[str]) -> Version:
        if self.put_back is None:
            return version
        document = {name: value for name, value in self.put_back.items() if name not in without}
        return replace(version, document=document)


async def test_changed_sets_under_the_same_token_are_read_again(store: Store) -> None:
    """A program that writes to the database directly may leave the token unchanged."""
    await put(store, MET)
    beside: Any = PutBack(store)
    before = await read(beside)

    beside.put_back = to_document(MET.activate("a").to_record())

    assert before.session == MET
    assert list((await read(beside)).session.active_set) == ["a"]


def test_a_document_that_is_not_a_session_is_refused() -> None:
    """An id that starts with session: does not guarantee a session document."""
    chat = to_document(Chat(session_id="s1"))

    with pytest.raises(Corrupt):
        whole_session({**chat, "xt/id": ID})


async def test_a_long_index_is_verified_too(store: Store) -> None:
    """In a thread, so that other tasks can run."""
    long = Session(session_id="s1").add(f"call-{n}" for n in range(IDS_AT_ONCE_MAX + 1))
    await put(store, long)

    assert (await read(store)).session == long


async def test_a_change_is_applied_to_what_another_client_wrote_meanwhile(store: Store) -> None:
    """Compare and set: the slower client reads again (003-A21)."""
    await put(store, MET)
    before = await read(store)
    await put(store, MET.add(["c"]))

    _, after = await save_sets(store, before, lambda sets: sets.activate("a"))

    assert list(after.session_index) == ["a", "b", "c"]
    assert (await read(store)).session == after


async def test_a_write_is_read_back_unchanged(store: Store) -> None:
    """The next request of the same agent sees its change and any later ones."""
    await put(store, MET)
    await save_sets(store, await read(store), lambda sets: sets.activate("a"))
    own = await read(store)
    await save_sets(store, own, lambda sets: sets.pin("b"))
    await put(store, MET)

    assert list(own.session.active_set) == ["a"]
    assert (await read(store)).session == MET


async def test_nothing_is_cached_for_a_closed_store() -> None:
    """A process that opens many stores must not accumulate their sessions."""
    store = await open_store("sqlite://:memory:")
    await put(store, MET)
    await read(store)
    opened = ref(store)

    await store.close()
    del store
    gc.collect()

    assert opened() is None
