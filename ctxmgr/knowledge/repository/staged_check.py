"""What is wrong with the notes on disk, or with those that are staged. Reads files, runs git."""

import asyncio
import os
from pathlib import Path
from typing import Final

from ctxmgr.errors import InvalidNote
from ctxmgr.knowledge.notes.held_folder import NOT_UTF8
from ctxmgr.knowledge.notes.layout import Layout
from ctxmgr.knowledge.notes.note import Note
from ctxmgr.knowledge.notes.note_types import NoteFinding, check_note
from ctxmgr.knowledge.notes.notes_folder import CONVERSATION_BYTES_MAX, NotesFolder
from ctxmgr.knowledge.notes.wikilinks import resolve, wikilinks
from ctxmgr.knowledge.repository.git import Git

_CHECKED: Final = ("knowledge/", "topics/", "raw/conversations/")


async def check_notes(layout: Layout) -> tuple[NoteFinding, ...]:
    """Check all notes on disk, the archive left out; links that lead nowhere are warnings."""
    return await asyncio.to_thread(_check_disk, NotesFolder(layout))


async def check_staged(git: Git) -> tuple[NoteFinding, ...]:
    """Check the notes of the index, as a commit would have them.

    Inside of a hook, git names the index that it is going to commit.
    """
    index = os.environ.get("GIT_INDEX_FILE")
    environment = {} if index is None else {"GIT_INDEX_FILE": str(Path(git.root, index))}
    await git.git_dir()
    head = await git.head()
    base = head or (await git.output("mktree")).strip()
    listed = await git.output(
        "diff-index", "--cached", "--name-only", "--no-renames", "--diff-filter=AM", "-z", base,
        environment=environment,
    )  # fmt: skip
    findings: list[NoteFinding] = []
    for path in filter(None, listed.split("\0")):
        if path.endswith(".md") and path.startswith(_CHECKED):
            findings += await _check_blob(git, path, environment)
    return tuple(findings)


async def _check_blob(git: Git, path: str, environment: dict[str, str]) -> tuple[NoteFinding, ...]:
    result = await git.run("cat-file", "blob", f":{path}", environment=environment)
    if len(result.out) > CONVERSATION_BYTES_MAX:
        return (_error(path, 1, f"larger than {CONVERSATION_BYTES_MAX:,} bytes"),)
    try:
        text = result.out.decode("utf-8")
    except UnicodeDecodeError:
        return (_error(path, 1, NOT_UTF8),)
    return check_note(Note(path, text))


def _check_disk(notes: NotesFolder) -> tuple[NoteFinding, ...]:
    scan = notes.scan()
    findings = [_error(each.path, each.line, each.reason) for each in scan.unreadable]
    paths = notes.paths(archived=True)
    for note in scan.notes:
        try:
            findings += check_note(note)
            first = note.body_line
            for link in wikilinks(note.body):
                embedded_file = "." in link.target.rpartition("/")[2]
                if not embedded_file and resolve(link, source=note.path, paths=paths) is None:
                    message = f"[[{link.target}]] leads to no note"
                    findings.append(
                        NoteFinding(
                            path=note.path,
                            line=first + link.line - 1,
                            severity="warning",
                            message=message,
                        )
                    )
        except InvalidNote as error:
            findings.append(_error(note.path, error.line or 1, error.problem))
    return tuple(sorted(findings, key=lambda each: (each.severity != "error", each.path)))


def _error(path: str, line: int, message: str) -> NoteFinding:
    return NoteFinding(path=path, line=line, severity="error", message=message)
