"""Where a LangGraph checkpoint stands, and what documents there are called. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from ctxmgr.core.documents import Document


class Place(NamedTuple):
    """A checkpoint; ``checkpoint`` None: the newest of the thread and namespace."""

    thread: str
    namespace: str
    checkpoint: str | None

    def at(self, checkpoint: str | None) -> Self:
        return self._replace(checkpoint=checkpoint)


def place_of(config: Mapping[str, Any]) -> Place:
    at = config["configurable"]
    return Place(str(at["thread_id"]), at.get("checkpoint_ns") or "", at.get("checkpoint_id"))


def config_of(place: Place) -> Any:
    at = {"thread_id": place.thread, "checkpoint_ns": place.namespace}
    return {"configurable": {**at, "checkpoint_id": place.checkpoint}}


def id_at(kind: str, place: Place, *parts: object) -> str:
    """Join what names a document; no two ways of parting it give the same."""
    named = (place.thread, place.namespace, *parts)
    return ":".join([kind, *(quote(str(each), safe="") for each in named)])


def document_at(kind: str, place: Place, *parts: object, **fields: Any) -> Document:
    """Return a document that is found by its thread and namespace."""
    named = {"xt/id": id_at(kind, place, *parts), "type": kind}
    return {**named, "thread": place.thread, "namespace": place.namespace, **fields}
