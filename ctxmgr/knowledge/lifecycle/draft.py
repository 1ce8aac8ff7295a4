"""Changes of notes that are not written yet. Reads notes; ``apply`` writes them.

    notes ─► NotesDraft: read, write, move ─► edits ─► diff            a dry run ends here
                                              └─► apply           writes exactly these edits

Every step of the lifecycle works on a draft and sees what steps before it changed, so a dry run and
a real run are the same computation. Applying checks that each note is still what the draft saw.
In a folder that was adopted, a draft changes only what is below ``knowledge/`` and ``archive/``.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ctxmgr.errors import Conflict, Denied, NotFound
from ctxmgr.knowledge.notes.layout import Category, Layout, is_archived
from ctxmgr.knowledge.notes.note import Note, read_note
from ctxmgr.knowledge.notes.notes_folder import NotesFolder

OURS: Final = ("knowledge/", "archive/")
"""Where a draft may change notes of a folder that was adopted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteEdit:
    """What a draft does to one file."""

    path: str
    before: str | None = field(repr=False)
    """None: there was none."""
    after: str | None = field(repr=False)
    """None: it was moved away."""
    reason: str = ""

    @property
    def diff(self) -> str:
        """The edit as a unified diff."""
        before = (self.before or "").splitlines(keepends=True)
        after = (self.after or "").splitlines(keepends=True)
        old = "/dev/null" if self.before is None else f"a/{self.path}"
        new = "/dev/null" if self.after is None else f"b/{self.path}"
        lines = difflib.unified_diff(before, after, old, new)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEdits:
    """What applying a draft did."""

    paths: tuple[str, ...]
    conflicts: tuple[str, ...] = ()
    """Notes that somebody else changed meanwhile; they were left alone."""


class NotesDraft:
    """Notes with changes that are not written yet."""

    def __init__(self, notes: NotesFolder) -> None:
        self._notes = notes
        self._before: dict[str, str | None] = {}
        self._after: dict[str, str | None] = {}
        self._reasons: dict[str, str] = {}
        self._needs: dict[str, set[str]] = {}
        """The notes that hold what leaves a note; it is left alone unless they were written."""

    @property
    def layout(self) -> Layout:
        return self._notes.layout

    def is_ours(self, path: str) -> bool:
        """Whether a draft may change a note; a person's own files of an adopted folder stay."""
        return not self.layout.adopted or path.startswith(OURS)

    def get(self, path: str) -> str | None:
        """Return the text of a note as the draft has it; None if there is none."""
        if path in self._after:
            return self._after[path]
        try:
            text = self._notes.read(path).text
        except NotFound:
            text = None
        self._before[path] = text
        return text

    def put(self, path: str, text: str, *, reason: str = "", moved_to: str | None = None) -> None:
        """Change a note, or add one. ``moved_to`` is the note that what it loses was moved to."""
        self._require_ours(path)
        if self.get(path) != text:
            self._after[path] = text
            self._reasons[path] = reason
            if moved_to is not None:
                self._needs.setdefault(path, set()).add(moved_to)

    def remove(self, path: str, *, reason: str = "") -> None:
        """Remove a note; for drafts of a branch, since no step deletes a person's notes."""
        self._require_ours(path)
        if self.get(path) is not None:
            self._after[path] = None
            self._reasons[path] = reason

    def move(self, path: str, to: str, *, reason: str = "") -> None:
        """Move a note; a place that is taken gets a number."""
        self._require_ours(path)
        self._require_ours(to)
        text = self.get(path)
        if text is None:
            raise NotFound(f"there is no note {path}")
        stem, number = to.removesuffix(".md"), 1
        while self.get(to) is not None:
            number += 1
            to = f"{stem}-{number}.md"
        self._after[path] = None
        self._after[to] = text
        for needed in self._needs.values():
            if path in needed:
                needed.add(to)
        self._needs.setdefault(path, set()).add(to)
        self._reasons[path] = self._reasons[to] = reason

    def paths(self, *categories: Category, archived: bool = False) -> list[str]:
        """Return the paths of notes as the draft has them."""
        wanted = set(categories) or set(Category) - {Category.CONVERSATION}
        found = set(self._notes.paths(*categories, archived=archived))
        found -= {path for path, text in self._after.items() if text is None}
        found |= {
            path
            for path, text in self._after.items()
            if text is not None
            and self.layout.category_of(path) in wanted
            and (archived or not is_archived(path))
        }
        return sorted(found)

    def notes(self, *categories: Category, archived: bool = False) -> Iterator[Note]:
        """Yield the notes as the draft has them; those that cannot be read are left out."""
        readable = {note.path for note in self._notes.all(*categories, archived=archived)}
        for path in self.paths(*categories, archived=archived):
            if path in self._after or path in readable:
                text = self.get(path)
                if text is not None:
                    yield read_note(path, text)

    def modified(self, path: str) -> int:
        """Return when the file of a note changed, in UTC milliseconds."""
        return self._notes.modified(path)

    @property
    def edits(self) -> tuple[NoteEdit, ...]:
        """What the draft changes, by path."""
        return tuple(
            NoteEdit(
                path=path,
                before=self._before.get(path),
                after=after,
                reason=self._reasons.get(path, ""),
            )
            for path, after in sorted(self._after.items())
            if after != self._before.get(path)
        )

    @property
    def diff(self) -> str:
        """All edits as one diff."""
        return "".join(edit.diff for edit in self.edits)

    def apply(self) -> AppliedEdits:
        """Write the edits. A note that changed meanwhile is left alone and reported.

        So is a note whose text was to move to such a one.
        """
        done: list[str] = []
        conflicts: list[str] = []
        needs = self._needs
        # What is added comes first: a crash must leave a moved note twice rather than nowhere.
        for edit in sorted(
            self.edits, key=lambda edit: (edit.after is None, edit.path in self._needs)
        ):
            if not needs.get(edit.path, set()).isdisjoint(conflicts):
                conflicts.append(edit.path)
                continue
            try:
                if edit.after is not None:
                    self._notes.write(edit.path, edit.after, replacing=edit.before)
                elif edit.before is not None:
                    self._notes.remove(edit.path, replacing=edit.before)
            except (Conflict, NotFound):
                conflicts.append(edit.path)
            else:
                done.append(edit.path)
        return AppliedEdits(paths=tuple(sorted(done)), conflicts=tuple(conflicts))

    def _require_ours(self, path: str) -> None:
        if not self.is_ours(path):
            raise Denied(
                f"{path!r:.200} is a file of yours in an adopted folder: change it yourself"
            )
