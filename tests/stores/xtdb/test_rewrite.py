"""Rewriting versions in XTDB: interrupted, in use elsewhere, and with single versions."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from ctxmgr import Conflict, Incorrect, Unavailable
from ctxmgr.core.objects.codec import to_document
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import AsOf, Delete, Put
from ctxmgr.stores.xtdb import rewrite as rewriting
from ctxmgr.stores.xtdb.commits import Commits
from ctxmgr.stores.xtdb.rewrite import Rewriter
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.contracts.namespace import FUTURE, Namespace, day, put, title_on
from tests.xtdb import own_server

pytestmark = pytest.mark.xtdb

xtdb_url = own_server.xtdb_url  # a rewrite reads the whole log


def words_of(namespace: Namespace) -> list[str]:
    """A long list that no other test has: pieces are shared by the whole database."""
    return [f"{namespace.mark} {n} " + "x" * 200 for n in range(400)]


@pytest.fixture
def namespace() -> Namespace:
    return Namespace()


@pytest.fixture
async def store(xtdb_url: str, namespace: Namespace) -> AsyncIterator[XtdbStore]:
    async with await XtdbStore.open(xtdb_url, kinds=namespace.kinds, timeout_s=60) as store:
        yield store


@pytest.mark.parametrize("lost_at", [2, 3, 4])
async def test_an_interrupted_rewrite_is_finished_by_the_next(
    store: XtdbStore, namespace: Namespace, monkeypatch: pytest.MonkeyPatch, lost_at: int
) -> None:
    """Whatever transaction a crash prevents, no version is lost for good."""
    name, sent = namespace.id(), 0
    commits = [await put(store, namespace.note(title=f"t{n}"), valid_from=day(n)) for n in range(3)]
    land = Commits.land_guarded

    async def crash(self: Commits, body: bytes) -> bool:
        nonlocal sent
        sent += 1
        if sent == lost_at:
            raise Unavailable("the process was killed")
        return await land(self, body)

    monkeypatch.setattr(Commits, "land_guarded", crash)
    with pytest.raises(Unavailable):
        await store.rewrite({(name, commits[1].sequence): namespace.note(title="[purged]")})
    monkeypatch.undo()
    other = await put(store, namespace.note("other", title="secret"))
    await store.rewrite(
        {(namespace.id("other"), other.sequence): namespace.note("other", title="-")}
    )

    middle = "t1" if lost_at == 2 else "[purged]"  # before the eviction nothing has changed
    assert await title_on(store, name, 0, 1, 2) == ["t0", middle, "t2"]


async def test_an_object_that_is_written_meanwhile_is_not_evicted(
    store: XtdbStore, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client's version would be lost with the old ones."""
    first = await put(store, namespace.note(title="old"))
    read = Rewriter._read

    async def read_and_write(self: Rewriter, documents: Any) -> Any:
        rewrites = await read(self, documents)
        await put(store, namespace.note(title="new"))
        return rewrites

    monkeypatch.setattr(Rewriter, "_read", read_and_write)
    with pytest.raises(Conflict):
        await store.rewrite({(namespace.id(), first.sequence): namespace.note(title="-")})

    entries = (await store.history(namespace.id())).entries
    assert [entry.document and entry.document["title"] for entry in entries] == ["old", "new"]


@pytest.mark.parametrize(
    "write",
    [
        {"valid_from": day(0)},
        {"valid_from": day(2)},
        {"valid_from": day(4)},
        {"valid_from": day(5), "valid_to": day(6)},
        {"valid_from": day(1), "valid_to": day(2)},
        {"valid_from": FUTURE},
        {"valid_from": FUTURE, "valid_to": FUTURE + 1},
    ],
    ids=["before", "between", "later", "bounded", "first", "future", "bounded future"],
)
async def test_a_write_at_any_valid_time_is_noticed(
    store: XtdbStore,
    namespace: Namespace,
    monkeypatch: pytest.MonkeyPatch,
    write: dict[str, int],
) -> None:
    """A backdated or future-dated version of another client is not visible now, but not lost."""
    await put(store, namespace.note(title="t1"), valid_from=day(1))
    last = await put(store, namespace.note(title="t3"), valid_from=day(3))
    read = Rewriter._read

    async def read_and_write(self: Rewriter, documents: Any) -> Any:
        rewrites = await read(self, documents)
        await put(store, namespace.note(title="concurrent"), **write)
        return rewrites

    monkeypatch.setattr(Rewriter, "_read", read_and_write)
    with pytest.raises(Conflict):
        await store.rewrite({(namespace.id(), last.sequence): namespace.note(title="-")})

    at = await store.get(namespace.id(), as_of=AsOf(valid_time=write["valid_from"]))
    assert at is not None
    assert at.document["title"] == "concurrent"


async def test_an_object_with_a_future_and_a_bounded_version_is_rewritten(
    store: XtdbStore, namespace: Namespace
) -> None:
    """What was there before the rewrite is not taken for a concurrent write."""
    first = await put(store, namespace.note(title="t1"), valid_from=day(1))
    await put(store, namespace.note(title="correction"), valid_from=day(1))
    await put(store, namespace.note(title="t3"), valid_from=day(3), valid_to=day(4))
    await put(store, namespace.note(title="future"), valid_from=FUTURE)
    await store.commit([Delete(namespace.id(), valid_from=day(6), valid_to=day(7))])

    await store.rewrite({(namespace.id(), first.sequence): namespace.note(title="-")})

    titles = await title_on(store, namespace.id(), 0, 1, 2, 3, 4, 6, 7)
    assert titles == [None, "correction", "correction", "t3", "correction", None, "correction"]
    future = await store.get(namespace.id(), as_of=AsOf(valid_time=FUTURE))
    assert future is not None
    assert future.document["title"] == "future"


async def test_a_client_that_remembers_evicted_pieces_sends_them_again(
    store: XtdbStore, xtdb_url: str, namespace: Namespace
) -> None:
    """Otherwise its next version would refer to what is gone."""
    words = words_of(namespace)
    first = await put(store, namespace.note(words=words), valid_from=day(1))
    async with await XtdbStore.open(xtdb_url, kinds=namespace.kinds, timeout_s=60) as other:
        assert (await other.get(namespace.id())) is not None

        await store.rewrite({(namespace.id(), first.sequence): namespace.note(words=[])})
        await put(other, namespace.note(words=[*words, "more"]))

    read = await store.get(namespace.id())
    assert read is not None
    assert read.document["words"] == [*words, "more"]


async def test_pieces_that_are_used_while_they_are_evicted_are_put_again(
    store: XtdbStore, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction between the search for references and the eviction is found afterwards."""
    words = words_of(namespace)
    first = await put(store, namespace.note("a", words=words))
    update = Rewriter._update_once

    async def write_and_update(self: Rewriter, *arguments: Any) -> None:
        await put(store, namespace.note("b", words=words))
        await update(self, *arguments)

    monkeypatch.setattr(Rewriter, "_update_once", write_and_update)
    await store.rewrite({(namespace.id("a"), first.sequence): namespace.note("a", words=[])})

    read = await store.get(namespace.id("b"))
    assert read is not None
    assert read.document["words"] == words


async def test_a_conflict_of_a_later_plan_loses_no_piece(
    store: XtdbStore, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first plan has evicted pieces by then, which another client uses since."""
    monkeypatch.setattr(rewriting, "PLAN_BYTES", 1)
    words = words_of(namespace)
    first = await put(store, namespace.note("a", words=words))
    second = await put(store, namespace.note("c", title="secret"))
    update = Rewriter._update_once

    async def write_and_update(self: Rewriter, *arguments: Any) -> None:
        await put(store, namespace.note("b", words=[*words, "more"]))
        await put(store, namespace.note("c", title="concurrent"))
        await update(self, *arguments)

    monkeypatch.setattr(Rewriter, "_update_once", write_and_update)
    with pytest.raises(Conflict):
        await store.rewrite(
            {
                (namespace.id("a"), first.sequence): namespace.note("a", words=[]),
                (namespace.id("c"), second.sequence): namespace.note("c", title="-"),
            }
        )

    read = await store.get_many([namespace.id("a"), namespace.id("b")])
    assert read[namespace.id("a")].document["words"] == []
    assert read[namespace.id("b")].document["words"] == [*words, "more"]


async def test_pieces_that_are_used_while_they_are_evicted_outlive_a_crash(
    store: XtdbStore, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that knew them is gone; copies are in the database until the rewrite ends."""
    words = words_of(namespace)
    first = await put(store, namespace.note("a", words=words))
    advance = Rewriter._advance

    async def write_and_crash(self: Rewriter, key: str, step: int, *rest: Any, **named: Any) -> Any:
        if step == 0:
            await put(store, namespace.note("b", words=words))
            await advance(self, key, step, *rest, **named)
        raise Unavailable("the process was killed")

    monkeypatch.setattr(Rewriter, "_advance", write_and_crash)
    with pytest.raises(Unavailable):
        await store.rewrite({(namespace.id("a"), first.sequence): namespace.note("a", words=[])})
    monkeypatch.undo()

    assert await store.finish_rewrites() == 1
    read = await store.get_many([namespace.id("a"), namespace.id("b")])
    assert read[namespace.id("a")].document["words"] == []
    assert read[namespace.id("b")].document["words"] == words


async def test_a_second_rewrite_is_noticed_by_a_client_that_remembers_pieces(
    store: XtdbStore, xtdb_url: str, namespace: Namespace
) -> None:
    """The first one gave the version another token, but its pieces are as they were."""
    words = words_of(namespace)
    async with await XtdbStore.open(xtdb_url, kinds=namespace.kinds, timeout_s=60) as other:
        await put(other, namespace.note(words=words), valid_from=day(1))
        second = await put(store, namespace.note(title="secret"), valid_from=day(2))
        await store.rewrite({(namespace.id(), second.sequence): namespace.note(title="-")})

        kept = (await store.history(namespace.id())).entries[0]
        await store.rewrite({(namespace.id(), kept.sequence): namespace.note(title="-")})
        await put(other, namespace.note("b", words=words))

    read = await store.get(namespace.id("b"))
    assert read is not None
    assert read.document["words"] == words


async def test_every_rewrite_changes_the_record_of_a_transaction(
    store: XtdbStore, xtdb_url: str, namespace: Namespace
) -> None:
    """A client may have read the record that the first rewrite had changed."""
    words = {name: [f"{name} {word}" for word in words_of(namespace)] for name in "ab"}
    commit = await store.commit([Put(namespace.note(name, words=words[name])) for name in "ab"])
    await store.rewrite({(namespace.id("a"), commit.sequence): namespace.note("a")})
    async with await XtdbStore.open(xtdb_url, kinds=namespace.kinds, timeout_s=60) as other:
        assert await other.get(namespace.id("b")) is not None

        await store.rewrite({(namespace.id("b"), commit.sequence): namespace.note("b")})
        await put(other, namespace.note("c", words=words["b"]))

    read = await store.get(namespace.id("c"))
    assert read is not None
    assert read.document["words"] == words["b"]


async def test_the_server_returns_nothing_of_what_was_evicted(
    store: XtdbStore, xtdb_url: str, namespace: Namespace
) -> None:
    """Design D9. Neither the log nor any entity has it, and no plan is left."""
    secret = f"sk-live-{namespace.mark}"
    fields = {"text": secret * 20_000, "words": [*words_of(namespace), secret]}
    first = await put(store, namespace.note(title=secret, **fields))
    commit = await store.commit([Put(namespace.note("x"))], key=namespace.id("key"))

    await store.rewrite({(namespace.id(), first.sequence): namespace.note(title="-")})

    base = xtdb_url.removeprefix("xtdb+").rstrip("/") + "/_xtdb/"
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        log = (await http.get("tx-log", params={"with-ops?": "true"})).text
        query = "{:query {:find [?e] :where [[?e :ctxmgr/plan]]}}"
        headers = {"Content-Type": "application/edn"}
        plans = await http.post("query", content=query, headers=headers)
    assert namespace.mark in log
    assert secret not in log
    assert plans.text.strip() == "()"
    again = await store.commit([Put(namespace.note("x"))], key=namespace.id("key"))
    assert (again.sequence, again.repeated) == (commit.sequence, True)


async def test_a_single_version_can_be_put_again_as_it_is_now(
    store: XtdbStore, namespace: Namespace
) -> None:
    """A purged session that is exported and imported again has the masked tool calls."""
    name = namespace.id("call")
    call, masked = (
        to_document(
            ToolCall(
                toolcall_id=name,
                tool="bash",
                args={},
                status="ok",
                chat_ref="chat:s",
                content=content,
            )
        )
        for content in ("secret", "[purged]")
    )
    first = await store.commit([Put(call)])

    await store.rewrite({(name, first.sequence): masked})

    await store.commit([Put(masked)])
    with pytest.raises(Incorrect, match="has a single version"):
        await store.commit([Put(call)])
