"""The folders of a knowledge repository, and the category of a path. No I/O.

    ROOT/                                  RAW/   outside of the workspace, a repository of its own
    ├── knowledge/                         └── raw/conversations/YYYY/MM/DD/…md
    │   ├── identity/    SOUL.md USER.md AGENTS.md TOOLS.md
    │   ├── memory/      MEMORY.md
    │   ├── journal/     YYYY-MM-DD.md
    │   ├── projects/    _active.md  NAME/context.md progress.md notes.md
    │   ├── people/      _index.md  NAME.md
    │   ├── procedures/
    │   └── reference/
    ├── topics/          one playbook per topic
    ├── attachments/
    ├── archive/         the same folders again, for what is stale
    ├── scripts/
    ├── scratch/         ignored by git
    └── memory.db        the index: derived, ignored by git

In a folder that was adopted the notes stay where they are: ``category_of`` recognises what other
tools call these folders, and takes any other markdown file of it as reference.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

INDEX: Final = "memory.db"
CONVERSATIONS: Final = "raw/conversations"
HASHES: Final = "SHA256SUMS"
"""The list of the hashes of closed conversations, beside ``raw/``."""
MEMORY_FILE: Final = "knowledge/memory/MEMORY.md"

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


class Category(StrEnum):
    """What a note is about, by where it is."""

    IDENTITY = "identity"
    MEMORY = "memory"
    JOURNAL = "journal"
    PROJECT = "project"
    PERSON = "person"
    PROCEDURE = "procedure"
    REFERENCE = "reference"
    CONVERSATION = "conversation"
    TOPIC = "topic"


FOLDERS: Final[Mapping[str, Category]] = MappingProxyType(
    {
        "knowledge/identity": Category.IDENTITY,
        "knowledge/memory": Category.MEMORY,
        "knowledge/journal": Category.JOURNAL,
        "knowledge/projects": Category.PROJECT,
        "knowledge/people": Category.PERSON,
        "knowledge/procedures": Category.PROCEDURE,
        "knowledge/reference": Category.REFERENCE,
        CONVERSATIONS: Category.CONVERSATION,
        "topics": Category.TOPIC,
    }
)
"""The folder of each category."""

IDENTITY_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {"SOUL.md": "soul", "USER.md": "user", "AGENTS.md": "rules", "TOOLS.md": "tools"}
)
"""The identity files and the ``role`` of each."""

_FOREIGN_IDENTITY: Final = frozenset(
    {"claude.md", "agents.md", "gemini.md", "soul.md", "user.md", "tools.md", "identity.md"}
    | {"claude.local.md", ".cursorrules.md", "copilot-instructions.md"}
)
_FOREIGN_FOLDERS: Final[Mapping[str, Category]] = MappingProxyType(
    {
        "journal": Category.JOURNAL,
        "journals": Category.JOURNAL,
        "daily": Category.JOURNAL,
        "daily notes": Category.JOURNAL,
        "diary": Category.JOURNAL,
        "projects": Category.PROJECT,
        "people": Category.PERSON,
        "contacts": Category.PERSON,
        "procedures": Category.PROCEDURE,
        "how-to": Category.PROCEDURE,
        "howto": Category.PROCEDURE,
        "runbooks": Category.PROCEDURE,
        "playbooks": Category.PROCEDURE,
        "identity": Category.IDENTITY,
        "memory": Category.MEMORY,
    }
)
_NOT_NOTES: Final = frozenset({"attachments", "scripts", "scratch", "tmp", "secrets", "templates"})


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the notes of one repository are."""

    root: Path
    raw: Path
    """The repository of the raw conversations, outside of ``root``."""
    adopted: bool = False
    """The folder existed before: notes may be anywhere in it."""

    @property
    def knowledge(self) -> Path:
        return self.root / "knowledge"

    @property
    def topics(self) -> Path:
        return self.root / "topics"

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    @property
    def attachments(self) -> Path:
        return self.root / "attachments"

    @property
    def identity(self) -> Path:
        return self.knowledge / "identity"

    @property
    def memory(self) -> Path:
        """The core memory."""
        return self.root / MEMORY_FILE

    def journal(self, day: date) -> Path:
        """The journal of a day."""
        return self.root / journal_path(day)

    @property
    def projects(self) -> Path:
        return self.knowledge / "projects"

    @property
    def people(self) -> Path:
        return self.knowledge / "people"

    @property
    def procedures(self) -> Path:
        return self.knowledge / "procedures"

    @property
    def reference(self) -> Path:
        return self.knowledge / "reference"

    @property
    def scripts(self) -> Path:
        return self.root / "scripts"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def index(self) -> Path:
        return self.root / INDEX

    @property
    def conversations(self) -> Path:
        return self.raw / CONVERSATIONS

    def category_of(self, path: str) -> Category | None:
        """Return the category of a path in this repository."""
        return category_of(path, adopted=self.adopted)


def category_of(path: str, *, adopted: bool = False) -> Category | None:
    """Return the category of a path below the root; None if it is not a note.

    What is in the archive keeps its category.
    """
    if not path.endswith(".md"):
        return None
    inside = path.removeprefix("archive/")
    places = (inside, f"knowledge/{inside}") if is_archived(path) else (inside,)
    for place in places:
        for folder, category in FOLDERS.items():
            if place.startswith(f"{folder}/"):
                return category
    return _foreign_category(inside) if adopted else None


def is_archived(path: str) -> bool:
    return path.startswith("archive/")


def archive_path(path: str) -> str:
    """Return where a note goes in the archive: ``archive/journal/2026-01-01.md``."""
    return "archive/" + path.removeprefix("knowledge/")


def journal_path(day: date) -> str:
    return f"knowledge/journal/{day.isoformat()}.md"


def day_of(path: str) -> date | None:
    """Return the day that a journal's name says; None if it says none."""
    name = PurePosixPath(path).stem
    try:
        return date.fromisoformat(name) if _DAY.fullmatch(name) else None
    except ValueError:
        return None


def _foreign_category(path: str) -> Category | None:
    *folders, name = path.casefold().split("/")
    if any(folder.startswith(".") or folder in _NOT_NOTES for folder in folders):
        return None
    if name in _FOREIGN_IDENTITY:
        return Category.IDENTITY
    if name == "memory.md":
        return Category.MEMORY
    if _DAY.fullmatch(name.removesuffix(".md")):
        return Category.JOURNAL
    for folder in reversed(folders):
        if folder in _FOREIGN_FOLDERS:
            return _FOREIGN_FOLDERS[folder]
    return Category.REFERENCE
