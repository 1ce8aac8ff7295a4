"""``ctxmgr memory share``, ``unshare``, ``export``, ``import`` and ``purge``.

Imports when it runs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.layers.memory import MemoryRow, StoredMemory, row, stored

if TYPE_CHECKING:
    from ctxmgr.app import App

_PROJECT = Param("The project's folder; default: the current one.", metavar="DIR", local=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedMemory:
    """A memory file that was written."""

    path: Path
    bytes: int
    root: str
    """SHA-256 of the file's content."""
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMemory:
    """What was imported, or would be."""

    dry_run: bool
    path: Path
    from_project: str
    imported: int
    known: int
    """Memories that were skipped, because their ids are stored already."""
    contradictions: int
    links: int
    contradictions_found: int
    """Contradictions with what was known here; a dry run does not look for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedMemory:
    """What was purged, or would be."""

    purge: int | None
    """The number of the purge; None: nothing was removed."""
    memory_id: str
    versions: int
    """Of the memory, and of what quotes it."""
    text_bytes: int


async def memory_share(
    app: "App",
    memory_id: Annotated[str, Param("The id, or the start of it.")],
    *,
    project: Annotated[Path | None, _PROJECT] = None,
) -> StoredMemory:
    """Let everybody in the project see a memory of yours.

    Reports what it contradicts. Unshare takes it back; its history shows both.
    """
    memory = await app.memory(project)
    return stored(await memory.share(await memory.repository.find_id(memory_id)))


async def memory_unshare(
    app: "App",
    memory_id: Annotated[str, Param("The id, or the start of it.")],
    *,
    project: Annotated[Path | None, _PROJECT] = None,
) -> MemoryRow:
    """Make a memory that you shared private again."""
    memory = await app.memory(project)
    return row(await memory.unshare(await memory.repository.find_id(memory_id)))


async def memory_export(
    app: "App",
    path: Annotated[Path, Param("The file; must not exist yet.", metavar="FILE")],
    *,
    private: Annotated[bool, Param("Your private memories of the project, too.")] = False,
    project: Annotated[Path | None, _PROJECT] = None,
) -> ExportedMemory:
    """Write what the project remembers to one file.

    Forgotten memories are in it, and use, contradictions and links; earlier versions are not.
    """
    import asyncio

    from ctxmgr.core.sessions.bundle_files import check_free, write_bundle_file

    await asyncio.to_thread(check_free, path)
    memory = await app.memory(project)
    exported = await memory.export_file(private=private)
    await asyncio.to_thread(write_bundle_file, path, exported.data, replace=False)
    return ExportedMemory(
        path=path, bytes=len(exported.data), root=exported.root, memories=exported.memories
    )


async def memory_import(
    app: "App",
    path: Annotated[Path, Param("A file that memory export wrote.", metavar="FILE")],
    *,
    dry_run: Annotated[bool, Param("Check the file and count, and store nothing.")] = False,
    project: Annotated[Path | None, _PROJECT] = None,
) -> ImportedMemory:
    """Add the memories of a file to this project.

    The whole file is checked first. What is known here stays as it is: memories whose ids are
    stored already are skipped, so that it can be repeated.
    """
    import asyncio
    import time

    from ctxmgr.core.sessions.bundle_files import naming, read_bundle_file
    from ctxmgr.memory.records.memory_file import read_memory_file

    data = await asyncio.to_thread(read_bundle_file, path)
    with naming(path):  # a file that is refused does not open a store, which might create one
        await asyncio.to_thread(read_memory_file, data, now=time.time_ns() // 1_000_000)
    memory = await app.memory(project)
    with naming(path):
        found = await memory.import_file(data, dry_run=dry_run)
    return ImportedMemory(
        dry_run=dry_run,
        path=path,
        from_project=found.project_id,
        imported=found.imported,
        known=found.known,
        contradictions=found.contradictions,
        links=found.links,
        contradictions_found=found.contradictions_found,
    )


async def memory_purge(
    app: "App",
    memory_id: Annotated[str, Param("The id of a forgotten memory, or the start of it.")],
    *,
    dry_run: Annotated[bool, Param("Only show what would be removed.")] = False,
    project: Annotated[Path | None, _PROJECT] = None,
) -> PurgedMemory:
    """Remove the text of a forgotten memory for good.

    Its id, hashes and times stay, and a record of the purge. It is refused while a contradiction
    about it is open. Sessions that it was learnt from, backups and exported files are not changed.
    An SQLite store must not be open elsewhere.
    """
    from ctxmgr.core.sessions.retention import PurgePlan, purge
    from ctxmgr.memory.records.memory import stored_id

    store = await app.store()
    if not dry_run and await store.finish_rewrites():
        app.say("finished a purge that was interrupted")
    memory = await app.memory(project)
    found = await memory.repository.find_id(memory_id)
    planned = await memory.plan_purge(found)
    number = None
    if planned.documents and not dry_run:
        plan = PurgePlan(
            sessions=(),
            documents=planned.documents,
            hashes={stored_id(found): planned.hashes},
            text_bytes=planned.text_bytes,
            kept=(),
        )
        number = await purge(store, plan)
    return PurgedMemory(
        purge=number,
        memory_id=found,
        versions=len(planned.documents),
        text_bytes=planned.text_bytes,
    )
