"""A LangGraph store (long-term memory) on a store of ours. Commits.

An item is a document; every version is kept, also when it is deleted. There is no vector index: a
search with a query ranks by how many of its words an item's value holds.
"""

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import islice
from typing import Final

from ctxmgr import Delete, Incorrect, Order, Put, Query, Range, Store, Version
from ctxmgr.errors import ExtraMissing
from ctxmgr.integrations.kinds import LANGGRAPH_ITEM
from ctxmgr.integrations.langgraph_items import (
    Namespace,
    fits,
    holds,
    item_fields,
    item_id,
    namespace_of,
    path_of,
)
from ctxmgr.integrations.langgraph_plain import PlainStore

try:
    from langgraph.store import base
except ImportError as error:
    raise ExtraMissing("langgraph", extra="langgraph") from error

PAGE: Final = 500
"""Items read at once."""


class LongTermStore(PlainStore):
    """Give it to ``compile(store=…)``. Made on the loop that the store lives on."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Answer every question as things are now, then write all that is put at once."""
        given = list(ops)
        results = [await self._answer(each) for each in given]
        await self._write(
            {item_id(e.namespace, e.key): e for e in given if isinstance(e, base.PutOp)}
        )
        return results

    async def _answer(self, op: base.Op) -> base.Result:
        match op:
            case base.GetOp():
                version = await self._store.get(item_id(op.namespace, op.key))
                return None if version is None else base.Item(**item_fields(version))
            case base.SearchOp():
                return await self._search(op)
            case base.ListNamespacesOp():
                return await self._namespaces(op)
            case base.PutOp():
                return None
            case _:
                raise Incorrect(f"{type(op).__name__} is no operation of LangGraph's stores")

    async def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        found = [
            base.SearchItem(**item_fields(each))
            async for each in self._below(op.namespace_prefix)
            if holds(each.document["value"], op.filter or {})
        ]
        if op.query:
            words = set(re.findall(r"\w+", op.query.lower()))
            for item in found:
                held = set(re.findall(r"\w+", json.dumps(item.value, ensure_ascii=False).lower()))
                item.score = len(words & held) / max(1, len(words))
            found.sort(key=lambda item: -(item.score or 0.0))
        return found[op.offset : op.offset + op.limit]

    async def _namespaces(self, op: base.ListNamespacesOp) -> list[Namespace]:
        known = {namespace_of(each.document["namespace"]) async for each in self._below(())}
        fitting = (
            each
            for each in known
            if all(fits(each, how=c.match_type, path=c.path) for c in op.match_conditions or ())
        )
        cut = sorted({each[: op.max_depth] for each in fitting})
        return list(islice(cut, op.offset, op.offset + op.limit))

    async def _write(self, puts: Mapping[str, base.PutOp]) -> None:
        known = await self._store.get_many(puts)
        operations: list[Put | Delete] = []
        for object_id, op in puts.items():
            if op.value is not None:
                since = known[object_id].document["since"] if object_id in known else None
                first = since or (known[object_id].valid_time if object_id in known else None)
                named = {"xt/id": object_id, "type": LANGGRAPH_ITEM, "since": first}
                path = path_of(op.namespace)
                value = dict(op.value)
                operations.append(Put({**named, "namespace": path, "key": op.key, "value": value}))
            elif object_id in known:
                operations.append(Delete(object_id))
        if operations:
            await self._store.commit(operations)

    async def _below(self, prefix: Namespace) -> AsyncIterator[Version]:
        path, cursor, more = path_of(prefix), None, True
        within = Range("namespace", path, path[:-1] + "0") if prefix else None  # "0" follows "/"
        query = Query(LANGGRAPH_ITEM, between=within, order=Order("namespace"))
        while more:
            page = await self._store.find(query, limit=PAGE, cursor=cursor)
            for version in page.versions:
                yield version
            cursor, more = page.cursor, page.cursor is not None
