"""A LangGraph checkpointer on a store. Commits.

Versions of channels have a random end, so that two branches of one thread never share a value that
they do not have in common.
"""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import uuid4

from ctxmgr import Store
from ctxmgr.core.documents import Document
from ctxmgr.errors import ExtraMissing
from ctxmgr.integrations.langgraph_places import Place, config_of, place_of
from ctxmgr.integrations.langgraph_plain import PlainCheckpointer
from ctxmgr.integrations.langgraph_threads import Sealed, Threads

try:
    from langchain_core.runnables import RunnableConfig as Config
    from langgraph.checkpoint import base
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ImportError as error:
    raise ExtraMissing("langgraph", extra="langgraph") from error

About = base.CheckpointMetadata
Writes = Sequence[tuple[str, Any]]


class Checkpointer(PlainCheckpointer):
    """Give it to ``compile(checkpointer=…)``."""

    def __init__(self, store: Store, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._threads = Threads(store)

    def get_next_version(self, current: str | int | None, _channel: None) -> str:
        number = int(str(current or 0).partition(".")[0]) + 1
        return f"{number:032}.{uuid4().hex}"

    async def aput(
        self,
        config: Config,
        checkpoint: base.Checkpoint,
        metadata: About,
        new_versions: base.ChannelVersions,
    ) -> Config:
        place, values = place_of(config), checkpoint["channel_values"]
        body = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        told = base.get_checkpoint_metadata(config, metadata)
        about = {"body": self._sealed(body), "metadata": self._sealed(told)}
        new = {(k, v): self._sealed(values[k]) for k, v in new_versions.items() if k in values}
        saved = place.at(checkpoint["id"])
        await self._threads.save(saved, parent=place.checkpoint, about=about, channels=new)
        stored: Config = config_of(saved)
        return stored

    async def aput_writes(
        self, config: Config, writes: Writes, task_id: str, task_path: str = ""
    ) -> None:
        numbered = {
            base.WRITES_IDX_MAP.get(channel, n): (channel, self._sealed(value))
            for n, (channel, value) in enumerate(writes)
        }
        await self._threads.note(place_of(config), task=task_id, path=task_path, writes=numbered)

    async def aget_tuple(self, config: Config) -> base.CheckpointTuple | None:
        named = dict(zip(Place._fields, place_of(config), strict=True))
        where = {name: value for name, value in named.items() if value is not None}
        async for found in self._threads.checkpoints(where):
            return await self._tuple(found)
        return None

    async def alist(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (LangGraph's name)
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[base.CheckpointTuple]:
        asked = (config or {}).get("configurable", {})
        given = zip(Place._fields, ("thread_id", "checkpoint_ns", "checkpoint_id"), strict=True)
        where = {own: asked[name] for own, name in given if asked.get(name) is not None}
        last = base.get_checkpoint_id(before) if before else None
        left = -1 if limit is None else limit
        async for found in self._threads.checkpoints(where, before=last):
            told = self._opened(found["metadata"])
            if left != 0 and all(told.get(name) == value for name, value in (filter or {}).items()):
                left -= 1
                yield await self._tuple(found)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._threads.delete(thread_id)

    async def _tuple(self, found: Document) -> base.CheckpointTuple:
        place, parent = Place(*(found[name] for name in Place._fields)), found["parent"]
        body = self._opened(found["body"])
        values = await self._threads.values(place, body["channel_versions"])
        noted = await self._threads.writes(place)
        noted.sort(key=lambda e: base.writes_sort_key(e["path"], e["task"], e["number"]))
        return base.CheckpointTuple(
            config=config_of(place),
            checkpoint=body | {"channel_values": {k: self._opened(v) for k, v in values.items()}},
            metadata=self._opened(found["metadata"]),
            parent_config=config_of(place.at(parent)) if parent else None,
            pending_writes=[(e["task"], e["channel"], self._opened(e["value"])) for e in noted],
        )

    def _sealed(self, value: Any) -> Sealed:
        kind, data = self.serde.dumps_typed(value)
        return [kind, b64encode(data).decode()]

    def _opened(self, value: Sealed) -> Any:
        return self.serde.loads_typed((value[0], b64decode(value[1])))
