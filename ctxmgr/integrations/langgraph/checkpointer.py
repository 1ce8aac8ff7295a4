"""A LangGraph checkpointer on a store. Commits.

    checkpoint   without the values of the channels; refers to its parent
    channel      the value of one channel in one version, which many checkpoints share
    write        what a task has written, until the next checkpoint includes it

A checkpoint and the values that are new with it are one transaction. The history of a deleted
thread is kept. ``serialized`` says how the bytes of LangGraph's serializer are stored.

Versions of channels end with a random number, so that two branches of one thread never share a
value by accident.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote
from uuid import uuid4

from ctxmgr import Delete, ExtraMissing, Order, Put, Query, Range, Store
from ctxmgr.core.collector import collector_paused
from ctxmgr.core.store.documents import Document
from ctxmgr.integrations.document_kinds import (
    LANGGRAPH_CHANNEL,
    LANGGRAPH_CHECKPOINT,
    LANGGRAPH_WRITE,
)
from ctxmgr.integrations.langgraph.serialized import from_fields, to_fields
from ctxmgr.integrations.langgraph.sync import PlainCheckpointer, opened_in_thread

try:
    from langchain_core.runnables import RunnableConfig as Config
    from langgraph.checkpoint import base
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ImportError as error:
    raise ExtraMissing(extra="langgraph") from error

PAGE: Final = 200
"""Documents that are read or deleted at once."""

Metadata = base.CheckpointMetadata
Writes = Sequence[tuple[str, Any]]


class Checkpointer(PlainCheckpointer):
    """A checkpointer for ``compile(checkpointer=…)``.

    Create it on the event loop of the store; ``from_conn_string`` opens one for a synchronous
    program.
    """

    def __init__(self, store: Store, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._threads = Threads(store)

    @classmethod
    @contextmanager
    def from_conn_string(cls, url: str) -> Iterator[Self]:
        """Open a store in a thread of its own; use the synchronous methods."""
        with opened_in_thread(url, cls) as checkpointer:
            yield checkpointer

    def get_next_version(self, current: str | int | None, _channel: None) -> str:
        number = int(str(current or 0).partition(".")[0]) + 1
        return f"{number:032}.{uuid4().hex}"

    async def aput(
        self,
        config: Config,
        checkpoint: base.Checkpoint,
        metadata: Metadata,
        new_versions: base.ChannelVersions,
    ) -> Config:
        parent, values = _key_of(config), checkpoint["channel_values"]
        body = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        fields = self._fields("body", body)
        fields |= self._fields("metadata", base.get_checkpoint_metadata(config, metadata))
        channels = {
            (name, version): self._fields("value", values[name])
            for name, version in new_versions.items()
            if name in values
        }
        key = parent.at(checkpoint["id"])
        await self._threads.save(key, parent=parent.checkpoint, fields=fields, channels=channels)
        return _config_of(key)

    async def aput_writes(
        self, config: Config, writes: Writes, task_id: str, task_path: str = ""
    ) -> None:
        numbered = {
            base.WRITES_IDX_MAP.get(channel, n): (channel, self._fields("value", value))
            for n, (channel, value) in enumerate(writes)
        }
        await self._threads.add_writes(
            _key_of(config), task=task_id, path=task_path, writes=numbered
        )

    async def aget_tuple(self, config: Config) -> base.CheckpointTuple | None:
        document = await self._threads.checkpoint(_key_of(config))
        return None if document is None else await self._tuple(document)

    async def alist(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (LangGraph's name)
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[base.CheckpointTuple]:
        values = (config or {}).get("configurable", {})
        names = {
            "thread": "thread_id",
            "namespace": "checkpoint_ns",
            "checkpoint": "checkpoint_id",
        }
        where = {
            field: values[name] for field, name in names.items() if values.get(name) is not None
        }
        if not where.get("checkpoint"):
            where.pop("checkpoint", None)
        last = base.get_checkpoint_id(before) if before else None
        remaining = -1 if limit is None else limit
        async for document in self._threads.checkpoints(where, before=last):
            if remaining == 0:
                return
            metadata = self._value("metadata", document)
            if all(metadata.get(name) == value for name, value in (filter or {}).items()):
                remaining -= 1
                yield await self._tuple(document)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._threads.delete(thread_id)

    async def _tuple(self, document: Document) -> base.CheckpointTuple:
        key = CheckpointKey(*(document[name] for name in CheckpointKey._fields))
        parent, body = document["parent"], self._value("body", document)
        channels, writes = await asyncio.gather(
            self._threads.values(key, body["channel_versions"]), self._threads.writes(key)
        )
        with collector_paused():
            values = {name: self._value("value", stored) for name, stored in channels.items()}
        writes.sort(key=lambda w: base.writes_sort_key(w["path"], w["task"], w["number"]))
        return base.CheckpointTuple(
            config=_config_of(key),
            checkpoint=body | {"channel_values": values},
            metadata=self._value("metadata", document),
            parent_config=_config_of(key.at(parent)) if parent else None,
            pending_writes=[
                (write["task"], write["channel"], self._value("value", write)) for write in writes
            ],
        )

    def _fields(self, name: str, value: Any) -> Document:
        return to_fields(name, *self.serde.dumps_typed(value))

    def _value(self, name: str, document: Document) -> Any:
        return self.serde.loads_typed(from_fields(name, document))


class CheckpointKey(NamedTuple):
    """Identifies a checkpoint; ``checkpoint`` None is the latest of the thread and namespace."""

    thread: str
    namespace: str
    checkpoint: str | None

    def at(self, checkpoint: str | None) -> Self:
        return self._replace(checkpoint=checkpoint)


class Threads:
    """LangGraph's threads as documents of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def save(
        self,
        key: CheckpointKey,
        *,
        parent: str | None,
        fields: Document,
        channels: Mapping[Any, Document],
    ) -> None:
        """Store a checkpoint with the values that are new, by channel and version."""
        checkpoint = _document(
            LANGGRAPH_CHECKPOINT,
            key,
            key.checkpoint,
            checkpoint=key.checkpoint,
            parent=parent,
            **fields,
        )
        values = [
            _document(LANGGRAPH_CHANNEL, key, *channel_version, **value_fields)
            for channel_version, value_fields in channels.items()
        ]
        await self._store.commit([Put(document) for document in (checkpoint, *values)])

    async def add_writes(
        self,
        key: CheckpointKey,
        *,
        task: str,
        path: str,
        writes: Mapping[int, tuple[str, Document]],
    ) -> None:
        """Store a task's writes by number. Negative numbers replace; others are stored once."""
        documents = [
            _document(
                LANGGRAPH_WRITE,
                key,
                *(key.checkpoint, task, number),
                checkpoint=key.checkpoint,
                task=task,
                path=path,
                number=number,
                channel=channel,
                **value_fields,
            )
            for number, (channel, value_fields) in writes.items()
        ]
        once = [document["xt/id"] for document in documents if document["number"] >= 0]
        stored = set(await self._store.get_many(once)) if once else set()
        new = [document for document in documents if document["xt/id"] not in stored]
        if new:
            await self._store.commit([Put(document) for document in new])

    async def checkpoint(self, key: CheckpointKey) -> Document | None:
        """Return the checkpoint of a key, or the newest of its namespace if it names none."""
        if key.checkpoint is not None:
            stored = await self._store.get(_document_id(LANGGRAPH_CHECKPOINT, key, key.checkpoint))
            return None if stored is None else stored.document
        where = {"thread": key.thread, "namespace": key.namespace}
        newest = Order("checkpoint", descending=True)
        page = await self._store.find(Query(LANGGRAPH_CHECKPOINT, where, order=newest), limit=1)
        return page.versions[0].document if page.versions else None

    def checkpoints(
        self, where: Mapping[str, str], *, before: str | None = None
    ) -> AsyncIterator[Document]:
        """Yield the checkpoints with these fields, newest first."""
        earlier = Range("checkpoint", high=before) if before else None
        newest = Order("checkpoint", descending=True)
        return self._find(Query(LANGGRAPH_CHECKPOINT, where, between=earlier, order=newest))

    async def values(self, key: CheckpointKey, versions: Mapping[str, Any]) -> dict[str, Document]:
        """Return the documents of the channels that have a value in the given version."""
        names = {
            _document_id(LANGGRAPH_CHANNEL, key, name, version): name
            for name, version in versions.items()
        }
        stored = await self._store.get_many(names)
        return {names[object_id]: version.document for object_id, version in stored.items()}

    async def writes(self, key: CheckpointKey) -> list[Document]:
        """Return the writes at a checkpoint, in no particular order."""
        return [write async for write in self._find(Query(LANGGRAPH_WRITE, key._asdict()))]

    async def delete(self, thread: str) -> None:
        """Delete all documents of a thread. Their history is kept."""
        for kind in (LANGGRAPH_WRITE, LANGGRAPH_CHECKPOINT, LANGGRAPH_CHANNEL):
            query = Query(kind, {"thread": thread})
            while versions := (await self._store.find(query, limit=PAGE)).versions:
                await self._store.commit([Delete(version.object_id) for version in versions])

    async def _find(self, query: Query) -> AsyncIterator[Document]:
        cursor, more = None, True
        while more:
            page = await self._store.find(query, limit=PAGE, cursor=cursor)
            for version in page.versions:
                yield version.document
            cursor, more = page.cursor, page.cursor is not None


def _key_of(config: Mapping[str, Any]) -> CheckpointKey:
    values = config["configurable"]
    return CheckpointKey(
        str(values["thread_id"]),
        values.get("checkpoint_ns") or "",
        values.get("checkpoint_id") or None,  # an empty id is the latest checkpoint, too
    )


def _config_of(key: CheckpointKey) -> Config:
    return {
        "configurable": {
            "thread_id": key.thread,
            "checkpoint_ns": key.namespace,
            "checkpoint_id": key.checkpoint,
        }
    }


def _document(kind: str, key: CheckpointKey, *parts: object, **fields: Any) -> Document:
    """Return a document that can be found by its thread and namespace."""
    return {
        "xt/id": _document_id(kind, key, *parts),
        "type": kind,
        "thread": key.thread,
        "namespace": key.namespace,
        **fields,
    }


def _document_id(kind: str, key: CheckpointKey, *parts: object) -> str:
    """Join the parts of an id; they are quoted, so that different parts give different ids."""
    quoted = (quote(str(part), safe="") for part in (key.thread, key.namespace, *parts))
    return ":".join([kind, *quoted])
