"""LangGraph's threads as documents of a store. Commits.

    checkpoint   without the channels' values; names its parent
    channel      the value of one channel in one version: many checkpoints share it
    write        what a task has written, before the next checkpoint takes it in

A checkpoint and the values that are new with it are one transaction. A thread that is deleted keeps
its history. Values are a type and a text: the bytes of LangGraph's serializer as Base64.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from ctxmgr import Delete, Order, Put, Query, Range, Store
from ctxmgr.core.documents import Document
from ctxmgr.integrations.kinds import LANGGRAPH_CHANNEL, LANGGRAPH_CHECKPOINT, LANGGRAPH_WRITE
from ctxmgr.integrations.langgraph_places import Place, document_at, id_at

PAGE: Final = 200
"""Documents read, or ended, at once."""

Sealed = list[str]


class Threads:
    """The threads in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def save(
        self, place: Place, *, parent: str | None, about: Document, channels: Mapping[Any, Sealed]
    ) -> None:
        """Store a checkpoint with the values that are new, by channel and version."""
        named = {"checkpoint": place.checkpoint, "parent": parent}
        saved = document_at(LANGGRAPH_CHECKPOINT, place, place.checkpoint, **named, **about)
        values = [
            document_at(LANGGRAPH_CHANNEL, place, *key, value=value)
            for key, value in channels.items()
        ]
        await self._store.commit([Put(each) for each in (saved, *values)])

    async def note(
        self, place: Place, *, task: str, path: str, writes: Mapping[int, tuple[str, Sealed]]
    ) -> None:
        """Store a task's writes by number. One below zero replaces; others are written once."""
        named = {"checkpoint": place.checkpoint, "task": task, "path": path}
        documents = [
            document_at(
                LANGGRAPH_WRITE,
                place,
                *(place.checkpoint, task, number),
                **named,
                number=number,
                channel=channel,
                value=value,
            )
            for number, (channel, value) in writes.items()
        ]
        known = await self._store.get_many(each["xt/id"] for each in documents)
        new = [each for each in documents if each["number"] < 0 or each["xt/id"] not in known]
        if new:
            await self._store.commit([Put(each) for each in new])

    def checkpoints(
        self, where: Mapping[str, str], *, before: str | None = None
    ) -> AsyncIterator[Document]:
        """Give the checkpoints of which these fields hold, newest first."""
        earlier = Range("checkpoint", high=before) if before else None
        newest = Order("checkpoint", descending=True)
        return self._found(Query(LANGGRAPH_CHECKPOINT, where, between=earlier, order=newest))

    async def values(self, place: Place, versions: Mapping[str, Any]) -> dict[str, Sealed]:
        """Return the values of the channels that have one in that version."""
        ids = {id_at(LANGGRAPH_CHANNEL, place, *each): each[0] for each in versions.items()}
        found = await self._store.get_many(ids)
        return {ids[each]: version.document["value"] for each, version in found.items()}

    async def writes(self, place: Place) -> list[Document]:
        """Return what is noted at a checkpoint, in no order."""
        where = dict(zip(Place._fields, place, strict=True))
        return [each async for each in self._found(Query(LANGGRAPH_WRITE, where))]

    async def delete(self, thread: str) -> None:
        """End all documents of a thread."""
        for kind in (LANGGRAPH_WRITE, LANGGRAPH_CHECKPOINT, LANGGRAPH_CHANNEL):
            query = Query(kind, {"thread": thread})
            while versions := (await self._store.find(query, limit=PAGE)).versions:
                await self._store.commit([Delete(each.object_id) for each in versions])

    async def _found(self, query: Query) -> AsyncIterator[Document]:
        cursor, more = None, True
        while more:
            page = await self._store.find(query, limit=PAGE, cursor=cursor)
            for version in page.versions:
                yield version.document
            cursor, more = page.cursor, page.cursor is not None
