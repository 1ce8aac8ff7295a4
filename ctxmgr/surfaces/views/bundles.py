"""Export a session to a bundle file and import it. Reads and writes the store and one file."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from ctxmgr.core.history.record_checks import check_record
from ctxmgr.core.sessions.bundle_files import (
    check_free,
    naming,
    read_bundle_file,
    write_bundle_file,
)
from ctxmgr.core.sessions.bundle_io import Progress, check_bundle, export_session, import_checked
from ctxmgr.core.store.contract import Store
from ctxmgr.surfaces.views.last_turn import turn_count


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedBundle:
    session_id: str
    path: Path
    bytes: int
    root: str
    """SHA-256 of the bundle's content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedBundle:
    session_id: str
    path: Path
    turns: int


async def export_to(
    store: Store, session_id: str, path: Path, *, progress: Progress
) -> ExportedBundle:
    """Write a session with its whole history to one file, which must not exist yet."""
    await asyncio.to_thread(check_free, path)  # before a minute of work
    data, root = await export_session(store, session_id, progress=progress)
    await asyncio.to_thread(write_bundle_file, path, data, replace=False)
    return ExportedBundle(session_id=session_id, path=path, bytes=len(data), root=root)


async def import_from(
    path: Path, open_store: Callable[[], Awaitable[Store]], *, progress: Progress
) -> ImportedBundle:
    """Store the session of a bundle file.

    The store is opened once the bundle has been checked: a bad file must not create one.
    """
    data = await asyncio.to_thread(read_bundle_file, path)
    with naming(path):
        checked = await check_bundle(data, check_record=check_record)
        store = await open_store()
        session_id = await import_checked(store, checked, progress=progress)
    turns = await turn_count(store, session_id)
    return ImportedBundle(session_id=session_id, path=path, turns=turns)
