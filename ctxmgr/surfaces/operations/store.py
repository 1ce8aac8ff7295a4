"""Operations on the store: read objects and their history, find, verify, back up, vacuum, purge."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from ctxmgr.core.objects.codec import KINDS
from ctxmgr.core.store.contract import PAGE_MAX, AsOf, FieldType, Order, Query
from ctxmgr.core.store.queries import check_limit
from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.surfaces.operation import Cursor, Limit, Param

if TYPE_CHECKING:
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
    from ctxmgr.surfaces.views.store.retention import PurgeReport, PurgeRow, StoreSize
    from ctxmgr.surfaces.views.store.transactions import TransactionPage


PROGRESS_STEPS: Final = 100
"""Updates of the progress line, at most."""

ObjectId = Annotated[str, Param("The object's id.", metavar="ID")]
ValidTime = Annotated[
    int | None, Param("As it was true at this time. UTC milliseconds or ISO 8601.", instant=True)
]
KnownSequence = Annotated[int | None, Param("As it was known after this transaction.")]
SystemTime = Annotated[
    int | None, Param("As it was known at this time. UTC milliseconds or ISO 8601.", instant=True)
]


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
) -> "TransactionPage":
    """List transactions: the last ones, or those after a sequence."""
    from ctxmgr.surfaces.views.store.transactions import TransactionPage

    store = await app.store()
    if after is not None:
        following = await store.feed(after=after, limit=limit, documents=documents)
        return TransactionPage(transactions=following)
    last = await _last(store, limit)
    if documents and last:
        last = await store.feed(after=last[0].sequence - 1, limit=limit)
    return TransactionPage(transactions=last)


async def verify(app: "App") -> "Verification":
    """Check every stored hash and the file itself.

    The exit code is 1 if anything is wrong.
    """
    store = await _require_sqlite(app, "verify")
    return await store.verify(progress=count_progress(app, "checking"))


async def backup(
    app: "App", path: Annotated[Path, Param("The copy; must not exist yet.", metavar="PATH")]
) -> "Backup":
    """Copy the store to another file while it is in use."""
    store = await _require_sqlite(app, "backup")
    return await store.backup(path, progress=count_progress(app, "copying"))


async def purge(
    app: "App",
    sessions: Annotated[tuple[str, ...], Param("Deleted sessions, by id.", metavar="SESSION")] = (),
    *,
    deleted_before: Annotated[
        str | None,
        Param("Every session that was deleted so long ago, such as 30d.", metavar="AGE"),
    ] = None,
    session: Annotated[
        str | None, Param("The session that --object is in; it stays.", metavar="SESSION")
    ] = None,
    object_: Annotated[
        str | None,
        Param("One file or tool call of --session: id, prefix, handle or path.", metavar="OBJECT"),
    ] = None,
    version: Annotated[
        int | None, Param("Only this version of --object, from 1; -1 is the newest.")
    ] = None,
    dry_run: Annotated[bool, Param("Only show what would be removed.")] = False,
) -> "PurgeReport":
    """Remove deleted sessions, or the text of one object, for good.

    Ids, hashes and times stay, and a record of the purge. Prompts that showed the text can no
    longer be rebuilt. What other sessions have seen is kept; pinned objects, sessions that others
    were forked from, and evidence of recorded experience are refused. An SQLite store must not be
    open elsewhere. XTDB keeps some values in its index until that is rebuilt. Backups, bundles and
    logs are not changed.
    """
    from ctxmgr.core.sessions.retention import plan_purge
    from ctxmgr.core.sessions.retention import purge as carry_out
    from ctxmgr.surfaces.local_state import index_file
    from ctxmgr.surfaces.views.store.retention import (
        PurgeReport,
        instant_before,
        named_object,
        sessions_deleted_before,
    )

    store = await app.store()
    if not dry_run and await store.finish_rewrites():
        app.say("finished a purge that was interrupted")
    names = list(dict.fromkeys(sessions))
    if deleted_before is not None:
        found = await sessions_deleted_before(store, instant_before(deleted_before))
        names += [name for name in found if name not in names]
    objects: dict[str, int | None] = {}
    if object_ is not None:
        if session is None:
            raise Incorrect("--object needs --session, the session that it is in")
        objects = dict([await named_object(store, session, object_, version=version)])
    elif not names and deleted_before is None:
        raise Incorrect("name a deleted session, or use --deleted-before or --object")
    purged: list[tuple[str, str | None]] = [(name, None) for name in names]
    if session is not None:
        purged += [(session, object_id) for object_id in objects]
    await _refuse_evidence(app, purged)
    plan = await plan_purge(store, sessions=names, objects=objects)
    if dry_run or not plan.documents:
        return PurgeReport.of(plan, number=None)
    app.say("removing the text")
    # The index of searches is derived from the store; it is built again when it is needed.
    index = index_file(app.loaded.settings.store)
    for suffix in ("", "-wal", "-shm"):
        index.with_name(index.name + suffix).unlink(missing_ok=True)
    return PurgeReport.of(plan, number=await carry_out(store, plan))


async def _refuse_evidence(app: "App", purged: Sequence[tuple[str, str | None]]) -> None:
    """Raise ``Incorrect`` if recorded experience is evidence of what is to be purged.

    ``purged`` has the sessions, each with the one object that is purged, or None for all of it.
    """
    from ctxmgr.experience.records.contents import recorded_session

    folder = app.experience_folder()
    if folder is None or not folder.is_dir() or not purged:
        return
    async with app.xdb(folder) as xdb:
        for name, object_id in purged:
            session = recorded_session(name.removeprefix("session:"))
            kept = [
                window
                for window in await xdb.windows.windows(session)
                if window.submission_ids or window.pinned
            ]
            if kept and object_id is not None:
                ticks = await xdb.experience_log.event_ticks(session, [object_id])
                first, last = ticks.get(object_id, (1, 0))
                kept = [each for each in kept if each.start_tick <= last and first <= each.end_tick]
            for window in kept:
                raise Incorrect(
                    f"session {session} cannot be purged: its ticks {window.start_tick} to "
                    f"{window.end_tick} are {_kept_as(window.submission_ids, window.id)}"
                )


def _kept_as(submissions: tuple[str, ...], window_id: str) -> str:
    if submissions:
        first = submissions[0]
        return f"evidence of the submission {first}; `ctxmgr experience resolve {first}` ends that"
    return f"retained; `ctxmgr experience release {window_id}` ends that"


async def purges(app: "App") -> "list[PurgeRow]":
    """List what was removed from the store for good."""
    from ctxmgr.surfaces.views.store.retention import list_purges

    return await list_purges(await app.store())


async def size(app: "App") -> "StoreSize":
    """Show how much text a store holds, by kind and by session.

    Sizes are those of all versions as JSON. The file is smaller: versions share what is equal.
    """
    from ctxmgr.surfaces.views.store.retention import store_size

    return await store_size(await app.store(), say=app.say)


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


def count_progress(app: "App", what: str) -> "Progress":
    """Show how much is done to the person who waits."""

    shown = 0

    def count(done: int, total: int) -> None:
        nonlocal shown
        if done - shown >= total / PROGRESS_STEPS or done == total:
            shown = done
            app.say(f"{what}: {done} of {total}")

    return count


async def _require_sqlite(app: "App", what: str) -> "SqliteStore":
    from ctxmgr.stores.sqlite.store import SqliteStore

    store = await app.store()
    if not isinstance(store, SqliteStore):
        raise Incorrect(f"{what} is only available for an SQLite store")
    return store
