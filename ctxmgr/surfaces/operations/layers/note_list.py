"""``ctxmgr knowledge list``: the notes of a folder. Imports when it runs; reads notes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.surfaces.encoding import iso
from ctxmgr.surfaces.operation import Cursor, Limit, Param
from ctxmgr.surfaces.operations.layers.notes_option import NotesOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxmgr.app import App
    from ctxmgr.knowledge.notes.note import Note
    from ctxmgr.knowledge.notes.notes_folder import NotesFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteListing:
    """A note, in short."""

    path: str
    category: str
    title: str
    modified: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteListings:
    notes: tuple[NoteListing, ...]
    unreadable: tuple[str, ...]
    """Files that cannot be read, and why; they count as entries of a page."""
    total: int
    """Notes and unreadable files on all pages."""
    cursor: str | None


async def knowledge_list(
    app: "App",
    *,
    category: Annotated[str | None, Param("Only this category, such as journal.")] = None,
    archived: Annotated[bool, Param("Archived notes, too.")] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
    folder: NotesOption = None,
) -> NoteListings:
    """List the notes by path, by page; conversations are not notes."""
    import asyncio

    from ctxmgr.core.store.queries import page_of
    from ctxmgr.knowledge.notes.layout import Category

    if category is not None and category not in set(Category):
        raise Incorrect(f"{category!r:.80} is not one of: {', '.join(Category)}")
    notes = (await app.library(folder)).notes
    chosen = () if category is None else (Category(category),)
    scan = await asyncio.to_thread(notes.scan, *chosen, archived=archived)
    readable = [note.path for note in scan.notes]
    paths = sorted((*readable, *(each.path for each in scan.unreadable)))
    page, following = page_of(
        ["notes", category, archived],
        paths,
        key=lambda path: (path,),
        limit=limit,
        cursor=cursor,
    )
    shown = set(page)
    chosen_notes = [note for note in scan.notes if note.path in shown]
    return NoteListings(
        notes=await asyncio.to_thread(_listed, notes, chosen_notes),
        unreadable=tuple(
            f"{each.path}: {each.reason}" for each in scan.unreadable if each.path in shown
        ),
        total=len(paths),
        cursor=following,
    )


def _listed(notes: "NotesFolder", found: "Sequence[Note]") -> tuple[NoteListing, ...]:
    """Return the notes in short, without those that were removed since they were read."""
    listed = []
    for note in found:
        try:
            modified = notes.modified(note.path)
        except NotFound:
            continue
        listed.append(
            NoteListing(
                path=note.path,
                category=str(notes.layout.category_of(note.path)),
                title=note.title,
                modified=iso(modified),
            )
        )
    return tuple(listed)
