"""NotesFolder: the notes of one repository. Reads and writes files.

Writing is atomic: other processes see the old text or the new one. A writer says which text it
saw; if an editor or another writer came first, it gets ``Conflict`` and has changed nothing.
Raw conversations are read here and never written.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import CtxmgrError, Denied, ExtraMissing, Incorrect, InvalidNote
from ctxmgr.knowledge.notes.held_folder import HeldFolder, NoteFileState, check_path
from ctxmgr.knowledge.notes.layout import (
    CONVERSATIONS,
    Category,
    Layout,
    category_of,
    is_archived,
)
from ctxmgr.knowledge.notes.note import Note, read_note

NOTE_BYTES_MAX: Final = 1024 * 1024
"""A long novel; a larger file is data, and would fill every prompt."""

CONVERSATION_BYTES_MAX: Final = 64 * 1024 * 1024
"""A week of an agent that never stops."""

ODD_NAME: Final = "the name has characters that no path of a note may have: rename the file"

CACHED_MAX: Final = 8_192
"""Notes that are kept in memory between two looks at their files."""


@dataclass(frozen=True, slots=True)
class UnreadableNote:
    path: str
    reason: str
    line: int = 1


@dataclass(frozen=True, slots=True)
class NotesScan:
    """The notes that could be read, and the files that could not."""

    notes: tuple[Note, ...]
    unreadable: tuple[UnreadableNote, ...]


class NotesFolder:
    """The notes of a repository, by path."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._files = HeldFolder(layout.root)
        self._raw = HeldFolder(layout.raw)
        self._cache: dict[str, tuple[NoteFileState, Note]] = {}

    def read(self, path: str) -> Note:
        """Read a note; ``NotFound`` if there is none, ``InvalidNote`` if it cannot be read."""
        files, bytes_max = self._place(path)
        state = files.state(path)
        known = self._cache.get(path)
        if known is not None and known[0] == state:
            return known[1]
        note = read_note(path, files.read(path, bytes_max=bytes_max))
        if len(self._cache) >= CACHED_MAX:
            self._cache.clear()
        self._cache[path] = (state, note)
        return note

    def write(self, path: str, text: str, *, replacing: str | None) -> Note:
        """Write a note: ``replacing`` is the text that the writer saw, None for a new file.

        ``Conflict`` if the file is not what was seen: read it again, and change that.
        ``InvalidNote`` if the text has a frontmatter that cannot be read.
        """
        self._require_writable(path)
        if len(text.encode(errors="replace")) > NOTE_BYTES_MAX:
            raise InvalidNote(f"larger than {NOTE_BYTES_MAX:,} bytes", path=path)
        note = read_note(path, text)
        with self._files.locked():
            if replacing is None:
                self._files.create(path, text)
            else:
                self._files.replace(path, text, replacing=replacing, bytes_max=NOTE_BYTES_MAX)
        self._cache.pop(path, None)
        return note

    def move(self, path: str, to: str) -> None:
        """Move a note, such as to the archive; ``Conflict`` if there is a file already."""
        self._require_writable(path)
        self._require_writable(to)
        with self._files.locked():
            self._files.move(path, to)
        self._cache.pop(path, None)

    def remove(self, path: str, *, replacing: str) -> None:
        """Remove a note whose text is still the one that was seen; git keeps what it had."""
        self._require_writable(path)
        with self._files.locked():
            self._files.remove(path, replacing=replacing, bytes_max=NOTE_BYTES_MAX)
        self._cache.pop(path, None)

    def paths(self, *categories: Category, archived: bool = False) -> list[str]:
        """Return the paths of the notes, sorted; of all categories but conversations by default.

        Archived notes are left out unless asked for.
        """
        found, _ = self._found(categories, archived=archived)
        return found

    def all(self, *categories: Category, archived: bool = False) -> list[Note]:
        """Return the notes that can be read, by path; ``scan`` says which cannot."""
        return list(self.scan(*categories, archived=archived).notes)

    def scan(self, *categories: Category, archived: bool = False) -> NotesScan:
        """Read the notes, and say which files cannot be read: one of them hides no others."""
        paths, odd = self._found(categories, archived=archived)
        notes: list[Note] = []
        unreadable = [UnreadableNote(ascii(path), ODD_NAME) for path in odd]
        for path in paths:
            try:
                notes.append(self.read(path))
            except ExtraMissing:
                raise  # without its packages no note can be read, which is not the notes' fault
            except InvalidNote as error:
                unreadable.append(UnreadableNote(path, error.problem, error.line or 1))
            except CtxmgrError as error:
                unreadable.append(UnreadableNote(path, str(error)))
        return NotesScan(tuple(notes), tuple(unreadable))

    def modified(self, path: str) -> Instant:
        """Return when the file of a note changed."""
        files, _ = self._place(path)
        return files.state(path).mtime_ns // 1_000_000

    def _found(
        self, categories: tuple[Category, ...], *, archived: bool
    ) -> tuple[list[str], list[str]]:
        wanted = set(categories) or set(Category) - {Category.CONVERSATION}
        found: list[str] = []
        odd: list[str] = []
        if wanted - {Category.CONVERSATION}:
            tops = [""] if self.layout.adopted else ["knowledge", "topics", "archive"]
            for top in tops:
                paths, others = self._files.files(top, ending=".md")
                found += paths
                odd += others
        if Category.CONVERSATION in wanted:
            paths, others = self._raw.files(CONVERSATIONS, ending=".md")
            found += paths
            odd += others
        chosen = (
            path
            for path in found
            if self.layout.category_of(path) in wanted and (archived or not is_archived(path))
        )
        return sorted(chosen), [path for path in odd if self.layout.category_of(path) in wanted]

    def _place(self, path: str) -> tuple[HeldFolder, int]:
        _require_markdown(path)
        if path.startswith(f"{CONVERSATIONS}/"):
            return self._raw, CONVERSATION_BYTES_MAX
        return self._files, NOTE_BYTES_MAX

    def _require_writable(self, path: str) -> None:
        _require_markdown(path)
        if path.split("/", 1)[0] == "raw":
            raise Denied(f"{path} is a raw conversation, which is never changed")


def has_notes_elsewhere(root: Path) -> bool:
    """Whether a folder that was not set up has its notes outside of our folders, or none yet.

    A folder with ``knowledge/identity/`` is ours, whatever else is in it.
    """
    if (root / "knowledge" / "identity").is_dir():
        return False
    if not any((root / name).is_dir() for name in ("knowledge", "topics")):
        return True
    found, _ = HeldFolder(root).files("", ending=".md")
    return any(
        category_of(path) is None and category_of(path, adopted=True) is not None for path in found
    )


def _require_markdown(path: str) -> None:
    check_path(path)
    if not path.endswith(".md"):
        raise Incorrect(f"{path!r:.80} is not a markdown file: the name ends with .md")
