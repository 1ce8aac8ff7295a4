"""The repository of reference documents, as versions in the core store. Commits.

A new content is a new version; earlier ones stay, and ``versions`` lists them. Two processes that
change a document at once: one gets ``Conflict`` and nothing is lost.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from ctxmgr.core.store.contract import Match, Put, Query, Store, Version
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.experience.documents.document import (
    FOLDERS,
    KIND,
    Document,
    DocumentType,
    check_document_fields,
    content_hash,
    document_id,
    read_document,
)
from ctxmgr.experience.documents.folder import DocumentFile, SkippedFile, read_folder
from ctxmgr.search.terms import terms

PAGE: Final = 200
"""Documents that are read at once."""

VERSIONS_MAX: Final = 1_000
"""Versions that are listed, from the newest."""

FOLDER_SOURCE: Final = "folder"
"""The source of documents that were read from disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSync:
    """What a synchronisation changed. Documents whose file is gone stay."""

    added: tuple[str, ...]
    updated: tuple[str, ...]
    unchanged: int
    without_file: tuple[str, ...]
    skipped: tuple[SkippedFile, ...]


class DocumentRepository:
    """The documents in one store."""

    def __init__(
        self, store: Store, *, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._store = store
        self._now = now

    async def add_document(
        self,
        name: str,
        content: str,
        doc_type: DocumentType,
        *,
        path: str | None = None,
        tags: Sequence[str] = (),
        source: str = "manual",
        summary: str | None = None,
        version: str | None = None,
    ) -> Document:
        """Add a document; ``Conflict`` if there is one at its path.

        Without a path it is in the folder of its type, under its name.
        """
        check_document_fields(name=name, content=content, tags=tuple(tags))
        path = path or f"{FOLDERS[doc_type]}/{name}"
        now = self._now()
        document = Document(
            id=document_id(path),
            doc_type=doc_type,
            name=name,
            path=path,
            version=version,
            content=content,
            content_hash=content_hash(content),
            created_at=now,
            updated_at=now,
            source=source,
            summary=summary,
            tags=tuple(dict.fromkeys(tags)),
        )
        await self._store.commit([Match(document.id, None), Put(document.stored())])
        return document

    async def update_document(
        self, object_id: str, content: str, *, version: str | None = None
    ) -> Document:
        """Store a new version; ``NotFound`` if there is no such document.

        Without a label the version has the one before. Equal content makes no version.
        """
        stored = await self._get(object_id)
        if stored is None:
            raise NotFound(f"there is no document {object_id!r:.80}")
        before = read_document(stored.document)
        check_document_fields(name=before.name, content=content, tags=before.tags)
        document = replace(
            before,
            content=content,
            content_hash=content_hash(content),
            updated_at=self._now(),
            version=version or before.version,
        )
        if (content, document.version) == (before.content, before.version):
            return before
        await self._store.commit([Match(object_id, stored.token), Put(document.stored())])
        return document

    async def get_document(self, object_id: str) -> Document | None:
        stored = await self._get(object_id)
        return None if stored is None else read_document(stored.document)

    async def get_by_path(self, path: str) -> Document | None:
        return await self.get_document(document_id(path))

    async def versions(self, object_id: str) -> list[Document]:
        """Return the versions of a document, oldest first."""
        if await self._get(object_id) is None:
            raise NotFound(f"there is no document {object_id!r:.80}")
        page = await self._store.history(
            object_id, corrections=True, newest_first=True, limit=VERSIONS_MAX
        )
        ordered = sorted(page.entries, key=lambda entry: entry.sequence)
        return [read_document(entry.document) for entry in ordered if entry.document is not None]

    async def search(
        self,
        text_query: str | None = None,
        *,
        doc_type: DocumentType | None = None,
        tags: Sequence[str] | None = None,
    ) -> list[Document]:
        """Return documents with all words of a query, and one of the tags; the best first."""
        wanted = set(terms(text_query or ""))
        if text_query is not None and not wanted:
            raise Incorrect(f"{text_query!r:.80} has no word to search for")
        found = []
        async for document in self._all():
            if doc_type not in (None, document.doc_type):
                continue
            if tags is not None and not set(tags) & set(document.tags):
                continue
            words = terms(f"{document.name} {document.path} {document.summary or ''}")
            words += terms(document.content)
            if wanted <= set(words):
                density = sum(word in wanted for word in words) / max(len(words), 1)
                found.append((-density, document.path, document))
        return [document for _, _, document in sorted(found, key=lambda entry: entry[:2])]

    async def list_documents(self, doc_type: DocumentType | None = None) -> list[Document]:
        """Return all documents, or those of a type, by path."""
        found = [each async for each in self._all() if doc_type in (None, each.doc_type)]
        return sorted(found, key=lambda document: document.path)

    async def list_by_type(self, doc_type: DocumentType) -> list[Document]:
        return await self.list_documents(doc_type)

    async def sync_folder(self, root: Path) -> FolderSync:
        """Store what is new or changed in a folder. Nothing is deleted, here or on disk."""
        files, skipped = await asyncio.to_thread(read_folder, root)
        known = {document.path: document async for document in self._all()}
        added, updated, failed = [], [], list[SkippedFile]()
        for file in files:
            before = known.get(file.path)
            try:
                if before is None:
                    await self._add_file(file)
                    added.append(file.path)
                elif before.content != file.content:
                    await self.update_document(before.id, file.content)
                    updated.append(file.path)
            except Incorrect as error:
                failed.append(SkippedFile(path=file.path, reason=str(error)))
        on_disk = {each.path for each in files} | {each.path for each in skipped}
        return FolderSync(
            added=tuple(added),
            updated=tuple(updated),
            unchanged=len(files) - len(added) - len(updated) - len(failed),
            without_file=tuple(
                path
                for path, document in sorted(known.items())
                if document.source == FOLDER_SOURCE and path not in on_disk
            ),
            skipped=(*skipped, *failed),
        )

    async def _add_file(self, file: DocumentFile) -> Document:
        name = PurePosixPath(file.path).name
        return await self.add_document(
            name, file.content, file.doc_type, path=file.path, source=FOLDER_SOURCE
        )

    async def _get(self, object_id: str) -> Version | None:
        """Return a stored document; other objects of the store are not its business."""
        if not object_id.startswith(f"{KIND}:"):
            return None
        version = await self._store.get(object_id)
        return version if version is not None and version.document["type"] == KIND else None

    async def _all(self) -> AsyncIterator[Document]:
        cursor, more = None, True
        while more:
            page = await self._store.find(Query(KIND), limit=PAGE, cursor=cursor)
            for version in page.versions:
                yield read_document(version.document)
            cursor, more = page.cursor, page.cursor is not None
