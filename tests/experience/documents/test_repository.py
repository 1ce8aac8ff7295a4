"""Reference documents as versions in the core store."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest

from ctxmgr import Put, Store, open_store
from ctxmgr.errors import Conflict, Corrupt, HashMismatch, Incorrect, NotFound
from ctxmgr.experience.documents.document import Document, DocumentType
from ctxmgr.experience.documents.repository import DocumentRepository

POLICY = DocumentType.TRIBAL_POLICY


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with _opened(tmp_path) as store:
        yield store


@pytest.fixture
def documents(store: Store) -> DocumentRepository:
    return DocumentRepository(store, now=count(1_000).__next__)


@asynccontextmanager
async def _opened(folder: Path) -> AsyncIterator[Store]:
    store = await open_store(f"sqlite:///{folder}/store.db")
    try:
        yield store
    finally:
        await store.close()


async def test_a_document_is_stored_with_all_its_fields(documents: DocumentRepository) -> None:
    """000-R136, 000-R137, 000-R006, 000-R057, 000-R058, 000-R059: the hash is the content's."""
    added = await documents.add_document(
        "privacy.md", "Keep names out.", POLICY, tags=["names", "names"], summary="On names"
    )

    assert await documents.get_document(added.id) == added
    assert await documents.get_by_path("policies/privacy.md") == added
    assert added.content_hash == sha256(b"Keep names out.").hexdigest()
    assert (added.tags, added.summary, added.source) == (("names",), "On names", "manual")
    assert (added.created_at, added.updated_at) == (1_000, 1_000)
    assert await documents.get_by_path("policies/none.md") is None
    assert await documents.get_document("someone-elses-object") is None


async def test_an_update_is_a_new_version(documents: DocumentRepository) -> None:
    """000-A26, 000-R139: earlier versions stay readable, and the version is only a label."""
    first = await documents.add_document("a.md", "one", POLICY, version="1.0")

    second = await documents.update_document(first.id, "two", version="1.1")
    same = await documents.update_document(first.id, "two")

    assert [each.content for each in await documents.versions(first.id)] == ["one", "two"]
    assert (second.version, second.created_at, second.updated_at) == ("1.1", 1_000, 1_001)
    assert same == second


async def test_two_writers_do_not_overwrite_each_other(
    documents: DocumentRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """000-R139: what somebody else stored meanwhile is not lost."""
    document = await documents.add_document("a.md", "one", POLICY)
    read = documents._get

    async def read_then_change(object_id: str) -> object:
        stored = await read(object_id)
        monkeypatch.setattr(documents, "_get", read)
        await documents.update_document(object_id, "theirs")
        return stored

    monkeypatch.setattr(documents, "_get", read_then_change)

    with pytest.raises(Conflict):
        await documents.update_document(document.id, "ours")
    assert (await documents.versions(document.id))[-1].content == "theirs"
    with pytest.raises(Conflict):
        await documents.add_document("a.md", "again", POLICY)


async def test_search_filters_by_words_type_and_tags(documents: DocumentRepository) -> None:
    """000-R138, 000-R170: all words are needed in any form, one of the tags is enough."""
    await documents.add_document("privacy.md", "Names are private. Names!", POLICY, tags=["names"])
    await documents.add_document("style.md", "How names are written, and what else", POLICY)
    await documents.add_document("grep.md", "Searches names", DocumentType.TOOL_DOCUMENTATION)

    def names(found: list[Document]) -> list[str]:
        return [document.name for document in found]

    assert names(await documents.search("name")) == ["privacy.md", "style.md", "grep.md"]
    assert names(await documents.search("private names")) == ["privacy.md"]
    assert names(await documents.search("name", doc_type=POLICY)) == ["privacy.md", "style.md"]
    assert names(await documents.search(tags=["names", "other"])) == ["privacy.md"]
    with pytest.raises(Incorrect, match="no word to search for"):
        await documents.search("the !")


async def test_documents_are_listed_by_type(documents: DocumentRepository) -> None:
    """000-R140, 000-R021, 000-R170: five types."""
    for doc_type in DocumentType:
        await documents.add_document("x.md", "text", doc_type)

    listed = await documents.list_by_type(POLICY)

    assert [document.path for document in listed] == ["policies/x.md"]
    assert len(await documents.list_documents()) == len(DocumentType) == 5


async def test_documents_are_there_after_a_restart(tmp_path: Path) -> None:
    """000-R141: they are loaded from the store."""
    async with _opened(tmp_path) as store:
        added = await DocumentRepository(store).add_document("a.md", "text", POLICY)

    async with _opened(tmp_path) as store:
        assert await DocumentRepository(store).list_documents() == [added]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"path": "/etc/passwd"},
        {"path": "policies/../../x"},
        {"path": "policies//x"},
        {"path": "p" * 500},
        {"content": "x" * (8 * 1024 * 1024 + 1)},
        {"tags": [""]},
    ],
)
async def test_what_cannot_be_stored_is_refused(
    documents: DocumentRepository, fields: dict
) -> None:
    """000-R136: names and paths may come from a model."""
    given = {"name": "a.md", "content": "text", "doc_type": POLICY, **fields}

    with pytest.raises(Incorrect):
        await documents.add_document(**given)
    with pytest.raises(NotFound):
        await documents.update_document("experience_document:none", "x")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"content": "altered"}, HashMismatch),
        ({"doc_type": "novel"}, Corrupt),
        ({"tags": [1]}, Corrupt),
        ({"name": None}, Corrupt),
    ],
)
async def test_a_damaged_document_is_not_hidden(
    store: Store, documents: DocumentRepository, change: dict, error: type[Corrupt]
) -> None:
    """000-R058: the store may have been written by another program."""
    document = await documents.add_document("a.md", "text", POLICY)
    await store.commit([Put({**document.stored(), **change})])

    with pytest.raises(error):
        await documents.get_document(document.id)


async def test_a_folder_is_synchronised(documents: DocumentRepository, tmp_path: Path) -> None:
    """000-R199, 000-R141: what changed on disk is a new version, and nothing is deleted."""
    root = tmp_path / "documents"
    for path in ("policies/a.md", "specs/deep/b.txt", "tool_docs/c.md", "policies/ignored.bin"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path, encoding="utf-8")
    first = await documents.sync_folder(root)
    (root / "policies/a.md").write_text("changed", encoding="utf-8")
    (root / "tool_docs/c.md").unlink()
    (root / "system_instructions").mkdir()
    (root / "system_instructions/d.md").write_text("new", encoding="utf-8")

    second = await documents.sync_folder(root)
    third = await documents.sync_folder(root)

    assert first.added == ("tool_docs/c.md", "policies/a.md", "specs/deep/b.txt")
    assert (second.added, second.updated) == (("system_instructions/d.md",), ("policies/a.md",))
    assert (second.unchanged, second.without_file) == (1, ("tool_docs/c.md",))
    assert (third.added, third.updated, third.unchanged) == ((), (), 3)
    spec = await documents.get_by_path("specs/deep/b.txt")
    assert spec is not None
    assert (spec.doc_type, spec.name, spec.source) == (
        DocumentType.SPECIFICATION,
        "b.txt",
        "folder",
    )


async def test_links_and_unreadable_files_are_skipped_and_named(
    documents: DocumentRepository, tmp_path: Path
) -> None:
    """A link in a folder of documents must not make a secret a document."""
    secret = tmp_path / "secret.md"
    secret.write_text("key", encoding="utf-8")
    policies = tmp_path / "documents/policies"
    policies.mkdir(parents=True)
    (policies / "link.md").symlink_to(secret)
    (policies / "latin.md").write_bytes(b"\xe9")
    os.mkfifo(policies / "pipe.md")
    (tmp_path / "documents/specs").symlink_to(tmp_path)

    done = await documents.sync_folder(tmp_path / "documents")

    assert [each.path for each in done.skipped] == [
        "policies/latin.md",
        "policies/link.md",
        "policies/pipe.md",
    ]
    assert all("key" not in each.content for each in await documents.list_documents())
    with pytest.raises(Incorrect, match="is not a folder"):
        await documents.sync_folder(secret)
