"""A LangGraph store (long-term memory) on a ctxmgr store. Commits.

An item is a document; every version is kept, even when the item is deleted. There is no vector
index: a search with a query ranks items by the number of its words that they contain.

    namespace   ("users", "anna")   ↔   users/anna/      each part quoted, so that a prefix of
                                                         namespaces is a prefix of texts
    filter      {"field": value}, or {"field": {"$gte": 3}} with one of the six comparisons
"""

import asyncio
import json
import operator
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Self, TypeAlias
from urllib.parse import quote, unquote

from ctxmgr import (
    CtxmgrError,
    Delete,
    ExtraMissing,
    Incorrect,
    Order,
    Put,
    Query,
    Range,
    Store,
    Version,
)
from ctxmgr.core.store.contract import OPERATIONS_MAX
from ctxmgr.core.store.queries import batched
from ctxmgr.integrations.document_kinds import LANGGRAPH_ITEM
from ctxmgr.integrations.langgraph.sync import PlainStore, opened_in_thread

try:
    from langgraph.store import base
except ImportError as error:
    raise ExtraMissing(extra="langgraph") from error

Namespace: TypeAlias = tuple[str, ...]

PAGE: Final = 500
"""Items that are read at once."""

WILDCARD: Final = "*"

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class LongTermStore(PlainStore):
    """A store for ``compile(store=…)``. Create it on the event loop of the ctxmgr store.

    Batches that are waiting at the same time are carried out together. ``from_conn_string`` opens
    one for a synchronous program.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._waiting: list[_Batch] = []
        self._worker: asyncio.Task[None] | None = None

    @classmethod
    @contextmanager
    def from_conn_string(cls, url: str) -> Iterator[Self]:
        """Open a store in a thread of its own; use the synchronous methods."""
        with opened_in_thread(url, cls) as store:
            yield store

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Answer all reads from the current state, then apply all writes in one transaction."""
        operations = list(ops)
        for op in operations:
            if isinstance(op, base.PutOp):
                _check_namespace(op.namespace)
        batch = _Batch(operations, asyncio.get_running_loop().create_future())
        self._waiting.append(batch)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await batch.results

    async def _work(self) -> None:
        """Carry out what is waiting, as one batch, until nothing is."""
        while self._waiting:
            batches, self._waiting = self._waiting, []
            try:
                answers = await self._together([op for batch in batches for op in batch.ops])
            except (CtxmgrError, base.InvalidNamespaceError) as error:
                if len(batches) == 1:
                    _settle(batches[0], error)
                    continue
                for batch in batches:  # the others must not fail with it
                    _settle(batch, await self._alone(batch))
                continue
            for batch in batches:
                _settle(batch, answers[: len(batch.ops)])
                answers = answers[len(batch.ops) :]

    async def _alone(self, batch: "_Batch") -> list[base.Result] | Exception:
        try:
            return await self._together(batch.ops)
        except (CtxmgrError, base.InvalidNamespaceError) as error:
            return error

    async def _together(self, operations: Sequence[base.Op]) -> list[base.Result]:
        gets = {_item_id(op.namespace, op.key) for op in operations if isinstance(op, base.GetOp)}
        stored = await self._store.get_many(gets) if gets else {}
        results = [await self._answer(op, stored) for op in operations]
        puts = (op for op in operations if isinstance(op, base.PutOp))
        await self._write({_item_id(op.namespace, op.key): op for op in puts})
        return results

    async def _answer(self, op: base.Op, stored: Mapping[str, Version]) -> base.Result:
        match op:
            case base.GetOp():
                version = stored.get(_item_id(op.namespace, op.key))
                return None if version is None else base.Item(**_item_fields(version))
            case base.SearchOp():
                return await self._search(op)
            case base.ListNamespacesOp():
                matching = set()
                async for version in self._below(()):
                    namespace = _namespace_of(version.document["namespace"])
                    if all(_fits(namespace, condition) for condition in op.match_conditions or ()):
                        matching.add(namespace[: op.max_depth])
                return list(islice(sorted(matching), op.offset, op.offset + op.limit))
            case base.PutOp():
                return None
            case _:
                raise Incorrect(f"unknown operation {type(op).__name__} of a LangGraph store")

    async def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        items = [
            base.SearchItem(**_item_fields(version))
            async for version in self._below(op.namespace_prefix)
            if _matches(version.document["value"], op.filter or {})
        ]
        if op.query:
            words = set(re.findall(r"\w+", op.query.lower()))
            for item in items:
                text = json.dumps(item.value, ensure_ascii=False).lower()
                common = words & set(re.findall(r"\w+", text))
                item.score = len(common) / max(1, len(words))
            items.sort(key=lambda item: -(item.score or 0.0))
        return items[op.offset : op.offset + op.limit]

    async def _write(self, puts: Mapping[str, base.PutOp]) -> None:
        for some in batched(puts.items(), OPERATIONS_MAX):
            await self._write_some(dict(some))

    async def _write_some(self, puts: Mapping[str, base.PutOp]) -> None:
        stored = await self._store.get_many(puts)
        operations: list[Put | Delete] = []
        for object_id, op in puts.items():
            before = stored.get(object_id)
            if op.value is not None:
                document = {
                    "xt/id": object_id,
                    "type": LANGGRAPH_ITEM,
                    "since": (before.document["since"] or before.valid_time) if before else None,
                    "namespace": _path_of(op.namespace),
                    "key": op.key,
                    "value": dict(op.value),
                }
                operations.append(Put(document))
            elif before is not None:
                operations.append(Delete(object_id))
        if operations:
            await self._store.commit(operations)

    async def _below(self, prefix: Namespace) -> AsyncIterator[Version]:
        path, cursor, more = _path_of(prefix), None, True
        # "0" follows "/" in ASCII.
        within = Range("namespace", path, path[:-1] + "0") if prefix else None
        query = Query(LANGGRAPH_ITEM, between=within, order=Order("namespace"))
        while more:
            page = await self._store.find(query, limit=PAGE, cursor=cursor)
            for version in page.versions:
                yield version
            cursor, more = page.cursor, page.cursor is not None


@dataclass(slots=True)
class _Batch:
    ops: list[base.Op]
    results: "asyncio.Future[list[base.Result]]"


def _settle(batch: _Batch, answer: list[base.Result] | Exception) -> None:
    if batch.results.done():
        return  # the caller was cancelled
    if isinstance(answer, Exception):
        batch.results.set_exception(answer)
    else:
        batch.results.set_result(answer)


def _check_namespace(namespace: Namespace) -> None:
    """Refuse what LangGraph's own stores refuse to write to."""
    if not namespace:
        raise base.InvalidNamespaceError("Namespace cannot be empty.")
    _path_of(namespace)
    if not all(namespace) or any("." in label for label in namespace):
        raise base.InvalidNamespaceError(
            f"the labels of a namespace are not empty and have no period: {namespace!r:.200}"
        )
    if namespace[0] == "langgraph":
        raise base.InvalidNamespaceError(
            f'the first label of a namespace cannot be "langgraph": {namespace!r:.200}'
        )


def _path_of(namespace: Sequence[str]) -> str:
    if not all(isinstance(label, str) for label in namespace):
        raise base.InvalidNamespaceError(
            f"the labels of a namespace are strings: {namespace!r:.200}"
        )
    return "".join(quote(part, safe="") + "/" for part in namespace)


def _namespace_of(path: str) -> Namespace:
    return tuple(unquote(part) for part in path.split("/")[:-1])


def _item_id(namespace: Namespace, key: str) -> str:
    return f"{LANGGRAPH_ITEM}:{_path_of(namespace)}{quote(key, safe='')}"


def _item_fields(version: Version) -> dict[str, Any]:
    """Return the fields of a LangGraph ``Item``."""
    document = version.document
    created, updated = document["since"] or version.valid_time, version.valid_time
    return {
        "namespace": _namespace_of(document["namespace"]),
        "key": document["key"],
        "value": document["value"],
        "created_at": datetime.fromtimestamp(created / 1000, UTC),
        "updated_at": datetime.fromtimestamp(updated / 1000, UTC),
    }


def _fits(namespace: Namespace, condition: base.MatchCondition) -> bool:
    """Return whether a namespace starts or ends with the path of a condition."""
    path = condition.path
    if len(path) > len(namespace):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    else:
        part = namespace[len(namespace) - len(path) :]
    return all(expected in (WILDCARD, name) for name, expected in zip(part, path, strict=True))


def _matches(value: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Return whether a value meets all conditions of a filter."""
    return all(_meets(value.get(name), condition) for name, condition in conditions.items())


def _meets(value: Any, condition: Any) -> bool:
    if not isinstance(condition, Mapping):
        return bool(value == condition)
    if not any(str(name).startswith("$") for name in condition):
        return isinstance(value, Mapping) and _matches(value, condition)
    return all(_compare(value, name, operand) for name, operand in condition.items())


def _compare(value: Any, name: str, operand: Any) -> bool:
    if name not in _COMPARISONS:
        raise Incorrect(f"unknown comparison {name!r:.80} (one of: {', '.join(_COMPARISONS)})")
    try:
        return bool(_COMPARISONS[name](value, operand))
    except TypeError:  # text and a number have no order
        return False
