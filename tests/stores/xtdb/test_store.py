"""Specific to the XTDB store: pieces, other programs in the same database, several requests."""

import uuid
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.store.contract import AsOf, FieldType, Kind, Match, Put, Query
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Conflict, Incorrect, NewerFormat
from ctxmgr.stores.xtdb import reads
from ctxmgr.stores.xtdb.pieces import PIECE_PREFIX
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.contracts.store_kinds import toolcall

pytestmark = pytest.mark.xtdb

EDN = {"Content-Type": "application/edn", "Accept": "application/edn"}


@pytest.fixture
def mark() -> str:
    """Ids and a kind that no other test uses."""
    return uuid.uuid4().hex


@pytest.fixture
def kind(mark: str) -> Kind:
    return Kind(f"chat-{mark}", {"turn_count": FieldType.INTEGER})


@pytest.fixture
async def store(xtdb_url: str, kind: Kind) -> AsyncIterator[XtdbStore]:
    async with await XtdbStore.open(xtdb_url, kinds=[kind]) as store:
        yield store


@pytest.fixture
async def another(xtdb_url: str, kind: Kind) -> AsyncIterator[XtdbStore]:
    async with await XtdbStore.open(xtdb_url, kinds=[kind]) as store:
        yield store


@pytest.fixture
def raw(xtdb_url: str) -> Iterator[httpx.Client]:
    """Another program."""
    base = f"{xtdb_url.removeprefix('xtdb+')}/_xtdb/"
    with httpx.Client(base_url=base, headers=EDN, timeout=30) as client:
        yield client


@pytest.fixture
def sent(store: XtdbStore, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The transactions that ``store`` sends."""
    return _watched(store, monkeypatch)


def _watched(store: XtdbStore, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    bodies: list[bytes] = []
    submit = store._http.submit

    async def watched(content: bytes) -> object:
        bodies.append(content)
        return await submit(content)

    monkeypatch.setattr(store._http, "submit", watched)
    return bodies


def _submit(raw: httpx.Client, operations: str) -> int:
    """Commit as another program would, and return the sequence."""
    reply = raw.post("submit-tx", content=f"{{:tx-ops [{operations}]}}")
    assert reply.status_code == 202, reply.text
    number = reply.text.partition("tx-id ")[2].split(",")[0]
    wait = {"tx-id": number, "await-tx-id": number, "await-tx-timeout": "10000"}
    assert "true" in raw.get("tx-committed", params=wait).text
    return int(number)


def _chat(mark: str, kind: Kind, *, turns: int, words: str = "so") -> Document:
    return {
        "xt/id": f"chat:{mark}",
        "type": kind.name,
        "turn_count": turns,
        "turns": [{"user": f"{number} {words * 500}", "n": number} for number in range(turns)],
    }


def _pieces(body: bytes) -> int:
    return body.count(b'put {:xt/id "' + PIECE_PREFIX.encode())


async def test_long_values_are_read_back_by_every_method(
    store: XtdbStore, mark: str, kind: Kind
) -> None:
    """Readers of a chat need not know how it is stored (003-R028, 003-R079)."""
    short, long = _chat(mark, kind, turns=3), _chat(mark, kind, turns=400)
    long["content"] = "Grüße 🌍 " * 60_000
    first = await store.commit([Put(short)])
    second = await store.commit([Put(long)])

    newest = await store.get(long["xt/id"])
    oldest = await store.get(long["xt/id"], as_of=AsOf(sequence=first.sequence))
    page = await store.find(Query(kind.name, {"turn_count": 400}))
    entries = (await store.history(long["xt/id"], corrections=True)).entries
    fed = await store.feed(after=second.sequence - 1)

    assert newest is not None
    assert newest.document == page.versions[0].document == long
    assert oldest is not None
    assert oldest.document == short
    assert [entry.document for entry in entries] == [short, long]
    assert fed[0].writes[0].document == long


async def test_the_feed_includes_pieces_of_earlier_transactions(
    store: XtdbStore, another: XtdbStore, mark: str, kind: Kind
) -> None:
    """A new piece may refer to pieces sent long ago (003-R010, 003-R078)."""
    chats = [_chat(mark, kind, turns=turns) for turns in range(120, 400, 20)]
    commits = [await store.commit([Put(chat)]) for chat in chats]

    for chat, commit in zip(chats, commits, strict=True):
        fed = await another.feed(after=commit.sequence - 1, limit=1)
        assert [write.document for write in fed[0].writes] == [chat]


async def test_a_long_list_can_be_backdated(store: XtdbStore, mark: str, kind: Kind) -> None:
    """Pieces are valid whenever their document is (003-A34)."""
    chat = _chat(mark, kind, turns=100)

    await store.commit([Put(chat, 1_000)])

    version = await store.get(chat["xt/id"], as_of=AsOf(valid_time=1_000))
    assert version is not None
    assert version.document == chat


async def test_five_thousand_ids_are_read_back_in_order(
    store: XtdbStore, mark: str, kind: Kind
) -> None:
    """A session index only grows (003-R089, 003-A17)."""
    ids = [f"{mark}{mark}{number}" for number in range(5_000)]

    await store.commit([Put({"xt/id": mark, "type": kind.name, "session_index": ids})])

    version = await store.get(mark)
    assert version is not None
    assert version.document["session_index"] == ids


async def test_adding_a_turn_sends_no_piece_twice(
    store: XtdbStore, mark: str, kind: Kind, sent: list[bytes]
) -> None:
    """The cost of a chat must be linear in its length, not quadratic (003-R078)."""
    for turns in range(200, 210):
        await store.commit([Put(_chat(mark, kind, turns=turns))])

    assert _pieces(sent[0]) > 20
    assert sum(map(_pieces, sent[1:])) <= 4
    assert max(map(len, sent[1:])) < 60_000


async def test_a_client_that_only_read_a_chat_adds_a_turn_as_cheaply(
    store: XtdbStore,
    another: XtdbStore,
    mark: str,
    kind: Kind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session resumed elsewhere must not send its content again (003-R007)."""
    await store.commit([Put(_chat(mark, kind, turns=200))])
    sent = _watched(another, monkeypatch)

    read = await another.get(f"chat:{mark}")
    assert read is not None
    read.document["turns"].append({"user": "more"})
    await another.commit([Match(f"chat:{mark}", read.token), Put(read.document)])

    assert _pieces(sent[0]) <= 1


async def test_a_client_that_read_two_long_documents_sends_neither_again(
    store: XtdbStore,
    another: XtdbStore,
    mark: str,
    kind: Kind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chat and its session are saved together, resumed together, and saved again (003-R007)."""
    pair = [
        {**_chat(mark, kind, turns=200, words=words), "xt/id": f"{words}:{mark}"}
        for words in ("so", "no")
    ]
    await store.commit(map(Put, pair))
    sent = _watched(another, monkeypatch)

    await another.get_many([document["xt/id"] for document in pair])
    await another.commit(map(Put, pair))

    assert _pieces(sent[0]) == 0


async def test_a_match_never_transfers_content(
    store: XtdbStore, mark: str, kind: Kind, sent: list[bytes]
) -> None:
    """A guarded write of a large document costs no more than a plain one (003-A21)."""
    first = await store.commit([Put(_chat(mark, kind, turns=200))])

    await store.commit([Match(f"chat:{mark}", first.token), Put({"xt/id": mark, "type": "x"})])

    assert len(sent[1]) < 1_500


async def test_a_document_of_another_program_is_read_and_has_no_token(
    store: XtdbStore, mark: str, raw: httpx.Client
) -> None:
    """The database may be shared; values that JSON lacks become text (003-R006)."""
    document = f'{{:xt/id "{mark}" :type "theirs" :a/b #{{1}} :k :word :at #inst "2020" :n 1/2}}'
    sequence = _submit(raw, f"[:xtdb.api/put {document}]")

    version = await store.get(mark, as_of=AsOf(sequence=sequence))

    assert version is not None
    assert version.token is None
    assert version.document["type"] == "theirs"
    assert (version.document["a/b"], version.document["k"]) == ([1], ":word")
    with pytest.raises(Conflict):
        await store.commit([Match(mark, None), Put({"xt/id": mark, "type": "ours"})])


async def test_the_feed_skips_transactions_of_other_programs(
    store: XtdbStore, mark: str, kind: Kind, raw: httpx.Client
) -> None:
    """Listeners receive the transactions of ctxmgr, complete and in order (003-R010)."""
    first = await store.commit([Put({"xt/id": mark, "type": kind.name})])
    _submit(raw, f'[:xtdb.api/put {{:xt/id "{mark}-theirs" :type "x"}}]')
    last = await store.commit([Put({"xt/id": mark, "type": kind.name})])

    fed = await store.feed(after=first.sequence - 1)

    assert [transaction.sequence for transaction in fed] == [first.sequence, last.sequence]


async def test_a_version_of_a_newer_ctxmgr_is_refused(
    store: XtdbStore, mark: str, raw: httpx.Client
) -> None:
    """An old client must not misread what a newer one wrote (003-R007)."""
    document = f'{{:xt/id "{mark}" :type "x" :ctxmgr/tx "k" :ctxmgr/format 99}}'
    sequence = _submit(raw, f"[:xtdb.api/put {document}]")

    with pytest.raises(NewerFormat, match="upgrade"):
        await store.get(mark, as_of=AsOf(sequence=sequence))


async def test_a_batch_of_several_queries_is_one_result(
    store: XtdbStore, mark: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All ids are read as of one point (003-R115)."""
    monkeypatch.setattr(reads, "IDS_PER_QUERY", 2)
    ids = [f"{mark}{number}" for number in range(7)]
    await store.commit([Put({"xt/id": id_, "type": kind.name}) for id_ in ids])

    versions = await store.get_many(reversed(ids))

    assert list(versions) == ids[::-1]


async def test_the_status_names_engine_and_node(store: XtdbStore, xtdb_url: str) -> None:
    """The first things that a user wants to know (003-R198)."""
    status = await store.status()

    assert status.url == xtdb_url
    assert status.engine == "XTDB 1.24.3"
    assert status.details["nodes"] == 1


async def test_a_tool_call_of_an_earlier_version_has_one_version_as_well(
    xtdb_url: str, store: XtdbStore, mark: str
) -> None:
    """003-R071: a call that was stored without a record of its own is not rewritten either."""
    document = toolcall(mark)
    await store.commit([Put(document)])  # this handle declares no tool calls, so it writes none

    async with await XtdbStore.open(xtdb_url, kinds=KINDS) as newer:
        with pytest.raises(Incorrect, match="single version"):
            await newer.commit([Put(toolcall(mark, "forged"))])
        await newer.commit([Put(document)])

        with pytest.raises(Incorrect, match="single version"):
            await store.commit([Put({"xt/id": mark, "type": "note"})])
        found = await newer.get(mark)
    assert found is not None
    assert found.document == document
