"""The notes and conversations of a repository as documents of a search index. Reads files."""

from collections.abc import Iterable

from ctxmgr.errors import Denied, Incorrect, InvalidNote, NotFound
from ctxmgr.knowledge.notes.layout import Category
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.search.documents import SearchDocument


class NoteDocuments:
    """A ``DocumentSource``: every category, conversations included; the archive is left out."""

    def __init__(self, notes: NotesFolder) -> None:
        self._notes = notes

    def require_category(self, name: str | None) -> None:
        """Raise ``Incorrect`` for a name that no category has; None stands for all."""
        if name is not None and name not in set(Category):
            raise Incorrect(f"{name!r:.80} is not one of: {', '.join(Category)}")

    def paths(self) -> Iterable[str]:
        return self._notes.paths(*Category)

    def read(self, path: str) -> SearchDocument | None:
        category = self._notes.layout.category_of(path)
        if category is None:
            return None
        try:
            note = self._notes.read(path)
            modified = self._notes.modified(path)
        except (Denied, InvalidNote, NotFound):  # `NotesFolder.scan` says which cannot be read
            return None
        return SearchDocument(
            path=path,
            text=note.text,
            category=category.value,
            modified=modified,
            tags=tuple(note.tags),
        )
