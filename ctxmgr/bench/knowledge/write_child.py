"""Write lines to notes until killed, as an agent or as a person: ROOT RAW NAME. Prints.

An agent writes through ``NotesFolder`` and commits; a person replaces the file as editors do.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from ctxmgr.bench.knowledge.note_crashes import PERSONAL, SHARED
from ctxmgr.errors import Conflict
from ctxmgr.knowledge.notes.frontmatter import set_fields
from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.notes.sections import add_bullet
from ctxmgr.knowledge.repository.memory_git import MemoryGit

COMMITTED_EVERY = 3
"""Lines of an agent between two commits."""

SAVED_EVERY_SECONDS = 0.01
"""A person who saves more often than any does; without it the note outgrows its bound."""


async def act_as_agent(layout: Layout, name: str) -> None:
    notes, memory_git, number = NotesFolder(layout), MemoryGit(layout), 0
    while True:
        number += 1
        _add(notes, SHARED, f"{name} {number}")
        print(number, flush=True)  # noqa: T201 (the acknowledgement)
        _add(notes, PERSONAL, f"{name} visited")
        if number % COMMITTED_EVERY == 0:
            await memory_git.batch_commit()


def act_as_person(layout: Layout, name: str) -> None:
    file, number = layout.root / PERSONAL, 0
    while True:
        text = loaded(file, last=f"- {name} {number}" if number else None)
        number += 1
        saved = file.with_name(f".{name}.tmp")  # which git ignores, should it stay
        saved.write_text(f"{text}- {name} {number}\n", encoding="utf-8")
        saved.replace(file)
        print(number, flush=True)  # noqa: T201 (the acknowledgement)
        time.sleep(SAVED_EVERY_SECONDS)


def loaded(file: Path, *, last: str | None) -> str:
    """Load the note as an editor does: not without the line that was saved last.

    While an agent's text is taken back, it is in the place of the person's for an instant. An
    editor that notices a change loads the file again; one that saved the agent's text over the
    person's would itself lose the line.
    """
    while True:
        text = file.read_text(encoding="utf-8")
        if last is None or last in text.splitlines():
            return text
        time.sleep(SAVED_EVERY_SECONDS)


def _add(notes: NotesFolder, path: str, bullet: str) -> None:
    while True:
        before = notes.read(path).text
        count = before.count("\n- ") + 1
        text = set_fields(add_bullet(before, "Lines", bullet), {"count": count})
        try:
            notes.write(path, text, replacing=before)
        except Conflict:
            continue
        return


def main() -> None:
    root, raw, name = sys.argv[1:]
    layout = Layout(Path(root), Path(raw))
    os.environ.setdefault("GIT_CONFIG_NOSYSTEM", "1")
    if name.startswith("person"):
        act_as_person(layout, name)
    asyncio.run(act_as_agent(layout, name))


if __name__ == "__main__":
    main()
