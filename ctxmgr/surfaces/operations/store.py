"""Operations on the store: read objects and their history, find, verify, back up, vacuum."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.store.contract import PAGE_MAX, AsOf, FieldType, Order, Query
from ctxmgr.core.store.queries import check_limit
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxmgr.app import App
    from ctxmgr.core.store.contract import (
        FoundPage,
        HistoryPage,
        Store,
        StoreStatus,
        Transaction,
        Version,
    )
    from ctxmgr.stores.sqlite.maintenance import Backup, Progress, Vacuumed, Verification
    from ctxmgr.stores.sqlite.store import SqliteStore


PROGRESS_STEP: Final = 64
"""Versions or pages between two updates of the progress line."""

ObjectId = Annotated[str, Param("The object's id.", metavar="ID")]
ValidTime = Annotated[
    int | None, Param("As it was true at this time. UTC milliseconds or ISO 8601.", instant=True)
]
KnownSequence = Annotated[int | None, Param("As it was known after this transaction.")]
SystemTime = Annotated[
    int | None, Param("As it was known at this time. UTC milliseconds or ISO 8601.", instant=True)
]
Limit = Annotated[int, Param("At most this many.")]
Cursor = Annotated[str | None, Param("The cursor of the previous page.")]


async def status(app: "App") -> "StoreStatus":
    """Describe the store, and fail if it cannot be used."""
    return await (await app.store()).status()


async def get(
    app: "App",
    object_id: ObjectId,
    *,
    valid_time: ValidTime = None,
    sequence: KnownSequence = None,
    system_time: SystemTime = None,
) -> "Version":
    """Show one object: now, as it was true, or as it was known."""
    as_of = AsOf(valid_time=valid_time, sequence=sequence, system_time=system_time)
    version = await (await app.store()).get(object_id, as_of=as_of)
    if version is None:
        raise NotFound(f"{object_id} does not exist at that point")
    return version


async def history(
    app: "App",
    object_id: ObjectId,
    *,
    newest_first: Annotated[bool, Param("List the newest version first.")] = False,
    corrections: Annotated[bool, Param("Also list versions that were corrected.")] = False,
    documents: Annotated[bool, Param("Also read the documents.")] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> "HistoryPage":
    """List the versions of an object and when each starts."""
    page = await (await app.store()).history(
        object_id,
        newest_first=newest_first,
        corrections=corrections,
        documents=documents,
        limit=limit,
        cursor=cursor,
    )
    if not page.entries:
        raise NotFound(f"{object_id} was never written")
    return page


async def find(
    app: "App",
    kind: Annotated[str, Param("The kind, such as file or chat.", metavar="KIND")],
    where: Annotated[tuple[str, ...], Param("Conditions.", metavar="[FIELD=VALUE]...")] = (),
    *,
    order: Annotated[str | None, Param("Sort by this declared field.", metavar="FIELD")] = None,
    descending: Annotated[bool, Param("Sort in descending order.")] = False,
    valid_time: ValidTime = None,
    sequence: KnownSequence = None,
    system_time: SystemTime = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> "FoundPage":
    """Find objects of one kind by fields that the kind declares."""
    query = Query(
        kind,
        where=dict(_equality(kind, equality) for equality in where),
        order=Order(order, descending) if order else None,
    )
    as_of = AsOf(valid_time=valid_time, sequence=sequence, system_time=system_time)
    return await (await app.store()).find(query, as_of=as_of, limit=limit, cursor=cursor)


async def feed(
    app: "App",
    *,
    after: Annotated[int | None, Param("Only those after this sequence, oldest first.")] = None,
    documents: Annotated[bool, Param("Also read the documents.")] = False,
    limit: Limit = 20,
) -> "Sequence[Transaction]":
    """List transactions: the last ones, or those after a sequence."""
    store = await app.store()
    if after is not None:
        return await store.feed(after=after, limit=limit, documents=documents)
    last = await _last(store, limit)
    if not documents or not last:
        return last
    return await store.feed(after=last[0].sequence - 1, limit=limit)


async def verify(app: "App") -> "Verification":
    """Check every stored hash and the file itself.

    The exit code is 1 if anything is wrong.
    """
    store = await _require_sqlite(app, "verify")
    return await store.verify(progress=_progress(app, "checking"))


async def backup(
    app: "App", path: Annotated[Path, Param("The copy; must not exist yet.", metavar="PATH")]
) -> "Backup":
    """Copy the store to another file while it is in use."""
    store = await _require_sqlite(app, "backup")
    return await store.backup(path, progress=_progress(app, "copying"))


async def vacuum(app: "App") -> "Vacuumed":
    """Return unused pages of the file to the filesystem."""
    app.say("rewriting the file")
    return await (await _require_sqlite(app, "vacuum")).vacuum()


async def _last(store: "Store", limit: int) -> "Sequence[Transaction]":
    """Read the last transactions. Sequences have gaps, so the range grows until it has enough."""
    check_limit(limit)
    newest, reach = (await store.status()).sequence or 0, limit
    while True:
        after = newest - reach if reach <= newest else None
        transactions = await store.feed(after=after, limit=PAGE_MAX, documents=False)
        if len(transactions) >= limit or after is None or 2 * reach > PAGE_MAX:
            return transactions[-limit:]
        reach *= 2


def _equality(kind: str, text: str) -> tuple[str, str | int | bool | None]:
    """Read FIELD=VALUE, the value as the kind declares the field."""
    name, separator, value = text.partition("=")
    if not separator:
        raise Incorrect(f"invalid condition {text!r}: write FIELD=VALUE")
    if value == "null":
        return name, None
    declared = KINDS[kind].indexed.get(name) if kind in KINDS else None
    try:
        return name, _READ[declared](value) if declared else value
    except (ValueError, KeyError) as error:
        raise Incorrect(f"{name} must be {declared}, not {value!r}") from error


_READ: Final[Mapping[FieldType, Callable[[str], str | int | bool]]] = {
    FieldType.TEXT: str,
    FieldType.INTEGER: int,
    FieldType.BOOLEAN: {"true": True, "false": False}.__getitem__,
}


def _progress(app: "App", what: str) -> "Progress":
    def count(done: int, total: int) -> None:
        if done % PROGRESS_STEP == 0 or done == total:
            app.say(f"{what}: {done} of {total}")

    return count


async def _require_sqlite(app: "App", what: str) -> "SqliteStore":
    from ctxmgr.stores.sqlite.store import SqliteStore

    store = await app.store()
    if not isinstance(store, SqliteStore):
        raise Incorrect(f"{what} is only available for an SQLite store")
    return store
