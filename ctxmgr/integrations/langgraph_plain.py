"""The plain methods of LangGraph's checkpointers and stores, by way of their async ones.

A graph that is run with ``invoke`` calls these from its own threads; the work is done on the loop
where the checkpointer or store was made.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ctxmgr.errors import ExtraMissing
from ctxmgr.integrations.loops import Loop

try:
    from langchain_core.runnables import RunnableConfig as Config
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.store.base import BaseStore, Op, Result
except ImportError as error:
    raise ExtraMissing("langgraph", extra="langgraph") from error


class PlainCheckpointer(BaseCheckpointSaver[str]):
    """A checkpointer whose async methods are given by a subclass."""

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._loop = Loop()

    def put(self, *given: Any, **named: Any) -> Config:
        return self._loop.wait(self.aput(*given, **named))

    def put_writes(self, *given: Any, **named: Any) -> None:
        return self._loop.wait(self.aput_writes(*given, **named))

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        return self._loop.wait(self.aget_tuple(config))

    def list(self, config: Config | None, **named: Any) -> Iterator[CheckpointTuple]:
        async def listed() -> Sequence[CheckpointTuple]:
            return [each async for each in self.alist(config, **named)]

        return iter(self._loop.wait(listed()))

    def delete_thread(self, thread_id: str) -> None:
        self._loop.wait(self.adelete_thread(thread_id))


class PlainStore(BaseStore):
    """A store whose ``abatch`` is given by a subclass."""

    def __init__(self) -> None:
        self._loop = Loop()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._loop.wait(self.abatch(ops))
