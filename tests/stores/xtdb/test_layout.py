"""The data in XTDB, queried with plain Datalog and another EDN library instead of our client.

The queries are those of docs/xtdb-layout.md, taken from the page.
"""

import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import edn_format
import httpx
import pytest

from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.objects.codec import KINDS, StoredObject, to_document
from ctxmgr.core.objects.file import File
from ctxmgr.core.objects.hashes import (
    content_hash,
    file_hash,
    identity_hash,
    metadata_hash,
    object_hash,
)
from ctxmgr.core.objects.session_record import SessionRecord, SystemPrompt
from ctxmgr.core.objects.sources import FilesystemSource
from ctxmgr.core.objects.toolcall import ToolCall
from ctxmgr.core.store.contract import Put
from ctxmgr.core.store.documents import Document
from ctxmgr.stores.xtdb.store import XtdbStore
from tests.components import ROOT

pytestmark = pytest.mark.xtdb

PAGE = (ROOT / "docs" / "xtdb-layout.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```clojure\n(.*?)```", PAGE, re.DOTALL)
RULES = next(block for block in BLOCKS if block.startswith("[[(holds"))
STUBS, MET, CALLED, TOLD, PIECES, WHOLE = [block for block in BLOCKS if block.startswith("{:find")]

EDN = {"Content-Type": "application/edn", "Accept": "application/edn"}
TURNS = 700
"""Enough that pieces of the lists refer to other pieces."""


@dataclass(frozen=True)
class Raw:
    """A database as any HTTP client sees it."""

    client: httpx.Client

    def ask(self, query: str, *in_args: Any, rules: bool = False) -> list[Any]:
        if rules:
            query = query.rstrip().removesuffix("}") + f" :rules {RULES}}}"
        body = f"{{:query {query} :in-args {edn_format.dumps(list(in_args))}}}"
        reply = self.client.post("query", content=body)
        assert reply.status_code == 200, reply.text
        return [plain(row) for row in edn_format.loads(reply.text)]

    def column(self, query: str, *in_args: Any, rules: bool = False) -> set[Any]:
        return {first for (first,) in self.ask(query, *in_args, rules=rules)}

    def entity(self, object_id: str) -> dict[str, Any]:
        asked = {"eid-edn": edn_format.dumps(object_id)}
        reply = self.client.get("entity", params=asked)
        entity: dict[str, Any] = plain(edn_format.loads(reply.text))
        return entity

    def whole(self, object_id: str) -> Document:
        """Assemble the document as the page describes."""
        entity = self.entity(object_id)
        document = {name: value for name, value in entity.items() if "ctxmgr/" not in name}
        for name, roots in entity.items():
            field = name.rpartition(".")[2]
            if name.startswith("ctxmgr/older."):
                document[field] = [*self.joined(roots, "ctxmgr/items"), *document[field]]
            elif name.startswith("ctxmgr/text."):
                document[field] = "".join(self.joined(roots, "ctxmgr/part"))
        return document

    def joined(self, roots: list[str], name: str) -> list[Any]:
        pieces = {piece["xt/id"]: piece for (piece,) in self.ask(PIECES, roots)}
        return [item for root in roots for item in leaves(pieces[root], name)]


def leaves(piece: dict[str, Any], name: str) -> list[Any]:
    if "ctxmgr/parts" in piece:
        return [item for part in piece["ctxmgr/parts"] for item in leaves(part, name)]
    held = piece[name]
    return held if isinstance(held, list) else [held]


def plain(value: Any) -> Any:
    """Convert values of edn_format to plain Python."""
    if isinstance(value, edn_format.ImmutableDict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, edn_format.ImmutableList | tuple | list):
        return [plain(item) for item in value]
    return str(value).removeprefix(":") if isinstance(value, edn_format.Keyword) else value


@dataclass(frozen=True)
class Written:
    raw: Raw
    session: SessionRecord
    chat: Chat
    prompt: SystemPrompt
    files: list[File]
    calls: list[ToolCall]

    @property
    def objects(self) -> list[StoredObject]:
        return [self.session, self.chat, self.prompt, *self.files, *self.calls[:5]]


@pytest.fixture
async def written(xtdb_url: str) -> AsyncIterator[Written]:
    """A session with a chat, a list and a file that are too long for their documents."""
    session_id = uuid.uuid4().hex
    sources = [
        FilesystemSource(filesystem_id=session_id, path=f"/src/{name}")
        for name in ("a.md", "b.ts", "c")
    ]
    files = [
        File.read(sources[0], data="Grüße, 世界 🌍\n".encode()),
        File.read(sources[1], data=b"// large\n" * 50_000),
        File.stub(sources[2]),
    ]
    calls = [
        ToolCall(
            toolcall_id=f"{session_id}:{number}",
            tool="read",
            args={"path": "/src/a.md", "big": 2**70, "share": 0.5, "deep": [{"ü": None}]},
            status="ok",
            chat_ref=f"chat:{session_id}",
            content="ok",
            file_refs=(files[0].object_id,),
        )
        for number in range(TURNS)
    ]
    chat = Chat(
        session_id=session_id,
        turns=tuple(
            Turn(
                user="x" * 100,
                assistant=({"type": "text", "text": f"answer {call.toolcall_id}"},),
                toolcall_ids=(call.toolcall_id,),
            )
            for call in calls
        ),
    )
    met = tuple(version.object_id for version in (*files, *calls))
    session = SessionRecord(session_id=session_id, session_index=met, metadata_pool=met)
    prompt = SystemPrompt(session_id=session_id, content="Be brief.")
    async with await XtdbStore.open(xtdb_url, kinds=KINDS.values()) as store:
        objects = (session, chat, prompt, *files, *calls)
        await store.commit([Put(to_document(version)) for version in objects])
    base = f"{xtdb_url.removeprefix('xtdb+')}/_xtdb/"
    with httpx.Client(base_url=base, headers=EDN, timeout=30) as client:
        yield Written(Raw(client), session, chat, prompt, files, calls)


def test_stubs_are_found(written: Written) -> None:
    """Plain queries find files discovered but never read (003-R028, 003-R051, 003-R177)."""
    stubs = written.raw.column(STUBS)

    ours = {file.object_id for file in written.files}
    assert stubs & ours == {written.files[2].object_id}


def test_all_tool_calls_of_a_chat_are_found(written: Written) -> None:
    """The page's rules also cover values stored in pieces (003-R082)."""
    calls = written.raw.column(CALLED, written.chat.object_id, rules=True)

    assert calls == {call.object_id for call in written.calls}
    assert "ctxmgr/older.toolcall_refs" in written.raw.entity(written.chat.object_id)


def test_the_turns_of_a_chat_are_found_however_many(written: Written) -> None:
    """003-R028: a chat is not flat, and the page says how plain Datalog gets all of it."""
    rows = written.raw.ask(TOLD, written.chat.object_id, rules=True)

    found = {turn["assistant"][0]["text"] for (turn,) in rows}
    assert found == {f"answer {call.object_id}" for call in written.calls}


def test_one_query_returns_a_chat_with_its_turns_in_order(written: Written) -> None:
    """003-R028: whoever reads a session needs no second request for what is in pieces."""
    ((chat,),) = written.raw.ask(WHOLE, written.chat.object_id)

    older = [turn for piece in chat["ctxmgr/older.turns"] for turn in leaves(piece, "ctxmgr/items")]
    assert [*older, *chat["turns"]] == to_document(written.chat)["turns"]


@pytest.mark.parametrize("position", [0, 1, TURNS], ids=["oldest", "second", "newer"])
def test_the_sessions_that_have_an_object_are_found(written: Written, position: int) -> None:
    """Users ask which sessions have seen a file (003-R089, 003-R006)"""
    object_id = written.session.session_index[position]

    sessions = written.raw.column(MET, object_id, rules=True)

    assert sessions == {written.session.object_id}
    kept = written.raw.entity(written.session.object_id)["session_index"]
    assert (object_id in kept) == (position == TURNS)


def test_every_field_is_a_top_level_attribute_of_the_same_name(written: Written) -> None:
    """Queries use the names of the requirements (003-R028, 003-R068, 003-R075)."""
    file, call = written.files[0], written.calls[0]
    source = written.raw.entity(file.object_id)["source"]

    assert source == {"type": "filesystem", **source}
    assert written.raw.column(
        "{:find [?e] :in [?tool ?status ?chat] :where "
        '[[?e :type "toolcall"] [?e :tool ?tool] [?e :status ?status] [?e :chat_ref ?chat]]}',
        *("read", "ok", call.chat_ref),
    ) == {stored.object_id for stored in written.calls}


def test_only_objects_have_a_type(written: Written) -> None:
    """Pieces, guards and records do not appear in queries by type (003-R017)."""
    types = written.raw.column(
        "{:find [?type] :in [[?e ...]] :where [[?e :type ?type]]}",
        ["ctxmgr/guard/" + version.object_id for version in written.objects],
    )
    pieces = written.raw.entity(written.chat.object_id)["ctxmgr/older.turns"]

    assert types == set()
    assert all("type" not in piece for (piece,) in written.raw.ask(PIECES, pieces))
    assert set(written.raw.entity("ctxmgr/guard/" + written.chat.object_id)) == {
        "xt/id",
        "ctxmgr/token",
    }


def test_all_five_hashes_are_recomputed_from_what_is_stored(written: Written) -> None:
    """Integrity can be checked in any language (003-R045, 003-R056, 003-R057)."""
    for version in written.objects:
        document = written.raw.whole(version.object_id)
        content = document["content"]

        assert document == to_document(version)
        own_id = None if document["source"] else document["xt/id"]
        identity = identity_hash(document["type"], source=document["source"], object_id=own_id)
        assert document["identity_hash"] == identity
        if content is not None and version.source is not None:
            assert document["file_hash"] == file_hash(content.encode())
        assert document["content_hash"] == content_hash(content)
        assert document["metadata_hash"] == metadata_hash(document)
        assert document["object_hash"] == object_hash(
            file=document.get("file_hash"),
            content=content_hash(content),
            metadata=metadata_hash(document),
        )
