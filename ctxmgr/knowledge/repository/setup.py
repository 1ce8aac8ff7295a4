"""Creates a knowledge repository, or adopts a folder that exists. Writes files, runs git.

Nothing that exists is rewritten: in a folder that is adopted, ours are the folders ``knowledge/``,
``topics/`` and ``archive/`` beside the person's files, the marker and the hooks in ``.git``, and
what git should ignore goes to ``.git/info/exclude`` instead of ``.gitignore``.

The marker is in ``.git`` and so is not part of a clone: a repository that somebody else made does
not become a knowledge repository by being downloaded.
"""

import asyncio
import hashlib
import json
import os
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ctxmgr.errors import Conflict, Corrupt, Denied, Incorrect, NewerFormat
from ctxmgr.knowledge.notes.frontmatter import require_yaml
from ctxmgr.knowledge.notes.layout import IDENTITY_FILES, INDEX, Layout
from ctxmgr.knowledge.notes.note_types import NoteType, new_note
from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.knowledge.repository.conversations import init_conversations
from ctxmgr.knowledge.repository.git import Git
from ctxmgr.knowledge.repository.hooks import install_hooks
from ctxmgr.knowledge.repository.lfs import ATTRIBUTES
from ctxmgr.knowledge.repository.memory_git import MemoryGit

FORMAT: Final = 1
"""Of the marker."""

MARKER: Final = Path("ctxmgr/knowledge.json")
"""Below ``.git``."""

IGNORED: Final = (
    *(f"{INDEX}{ending}" for ending in ("", "-wal", "-shm")),
    *("scratch/", "tmp/", "*.tmp", ".env", "secrets/", "*.key", "*.pem", ".DS_Store", "Thumbs.db"),
)
"""What git does not keep: derived, temporary or secret."""

SCRIPTS: Final = {
    "commit.sh": ("Commit what has changed.", 'exec ctxmgr knowledge commit --folder "$root"'),
    "check.sh": ("Check the notes.", 'exec ctxmgr knowledge check --folder "$root"'),
    "index.sh": (
        "Index what the last commit changed.",
        'exec ctxmgr knowledge indexed --folder "$root"',
    ),
    "archive.sh": ("Archive what is stale.", 'exec ctxmgr lifecycle prune --folder "$root"'),
    "extract.sh": (
        "Extract notes from new conversations.",
        'exec ctxmgr lifecycle extract --folder "$root"',
    ),
}
"""Automation for cron and people; each calls a command of ctxmgr."""

_FOLDERS: Final = (
    *("knowledge/identity", "knowledge/memory", "knowledge/journal", "knowledge/projects"),
    *("knowledge/people", "knowledge/procedures", "knowledge/reference"),
    *("topics", "attachments", "archive", "scripts", "scratch"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupReport:
    root: str
    raw: str
    adopted: bool
    created: tuple[str, ...]
    """Files that were not there before."""
    remarks: tuple[str, ...]


def raw_folder(root: Path, *, data: Path) -> Path:
    """Return where the conversations of a repository are kept: outside of it, in our data."""
    resolved = root.resolve()
    digest = hashlib.sha256(str(resolved).encode()).hexdigest()[:8]
    return data / "conversations" / f"{resolved.name or 'root'}-{digest}"


async def open_layout(root: Path, *, raw: Path) -> Layout:
    """Return the layout of a repository that was set up; ``Incorrect`` if it was not."""
    layout = Layout(root.resolve(), raw)
    marker = await _marker(Git(layout.root))
    if not marker.is_file():
        raise Incorrect(
            f"{root} is not set up for knowledge: run `ctxmgr knowledge init {root}`, or with"
            " --adopt if it has files of yours"
        )
    return replace(layout, adopted=_is_adopted(marker))


def was_adopted(root: Path) -> bool | None:
    """Return whether a folder was adopted; None if it was not set up, or its .git is elsewhere."""
    marker = root / ".git" / MARKER
    return _is_adopted(marker) if marker.is_file() else None


def _is_adopted(marker: Path) -> bool:
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
        version, adopted = int(found["format"]), found["adopted"] is True
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"{marker} cannot be read: run `ctxmgr knowledge init` again") from error
    if version > FORMAT:
        raise NewerFormat(str(marker), version, FORMAT)
    return adopted


def find_root(start: Path) -> Path | None:
    """Return the folder of notes that a folder is or lies in; None if there is none.

    As git does, the search ends at the nearest repository, and a folder of another user is
    ``Denied``. It has been set up or has our folders; nothing in it is opened or run, and links
    are not followed.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        git_dir = folder / ".git"
        if _is_notes_root(folder, git_dir):
            if folder.stat().st_uid != os.geteuid():
                raise Denied(
                    f"{folder} belongs to another user: if you trust it, name it with --folder"
                )
            return folder
        if git_dir.exists():
            return None
    return None


def _is_notes_root(folder: Path, git_dir: Path) -> bool:
    # A file or link in place of .git, or a file commondir in it, would lead out of the folder.
    leads_out = git_dir.is_symlink() or git_dir.is_file() or (git_dir / "commondir").exists()
    if leads_out:
        return False
    return all(map(_is_real_folder, (folder / "knowledge", folder / "knowledge/identity"))) or (
        _is_real_folder(git_dir / MARKER.parent) and (git_dir / MARKER).is_file()
    )


def _is_real_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


async def is_set_up(root: Path) -> bool:
    """Whether a folder is a repository that ``init_repository`` has set up."""
    return (root / ".git").exists() and (await _marker(Git(root.resolve()))).is_file()


async def init_repository(layout: Layout, *, adopt: bool = False) -> SetupReport:
    """Set up a folder; a second time it adds what is missing.

    ``Incorrect`` if the folder has files and is not adopted, or cannot be a repository.
    """
    require_yaml()  # before anything is created
    root = layout.root
    if root.exists() and not root.is_dir():
        raise Incorrect(f"{root} is not a folder")
    git, remarks = Git(root), list[str]()
    root.mkdir(parents=True, exist_ok=True)
    is_repository = (root / ".git").exists()
    known = is_repository and (await _marker(git)).is_file()
    if known:
        layout = await open_layout(root, raw=layout.raw)
    elif adopt or not any(each.name != ".git" for each in root.iterdir()):
        layout = replace(layout, adopted=adopt)
    else:
        raise Incorrect(f"{root} has files already: use --adopt to keep them as they are")
    _require_apart(layout)
    if not is_repository:
        await git.output("init", "-q", "--template=", "-b", "main", ".")
    git_dir = await git.git_dir()
    created = await asyncio.to_thread(_create_files, layout, git_dir, remarks)
    remarks += await install_hooks(git)
    marker = await _marker(git)
    marker.parent.mkdir(exist_ok=True)
    marker.write_text(
        json.dumps({"format": FORMAT, "adopted": layout.adopted}) + "\n", encoding="utf-8"
    )
    if shutil.which("git-lfs") is None:
        remarks.append(
            "git-lfs is not installed: images, PDF and video in attachments/ stay on disk and are"
            " committed once it is"
        )
    await init_conversations(layout)
    memory_git = MemoryGit(layout)
    made = await memory_git.batch_commit(
        "set up the repository", kind="maintenance", paths=[path for path in created if "/" in path]
    )
    remarks += made.remarks if made else ()
    return SetupReport(
        root=str(root),
        raw=str(layout.raw),
        adopted=layout.adopted,
        created=tuple(created),
        remarks=tuple(remarks),
    )


def _create_files(layout: Layout, git_dir: Path, remarks: list[str]) -> list[str]:
    notes, created = NotesFolder(layout), []
    if not layout.adopted:
        for folder in _FOLDERS:
            (layout.root / folder).mkdir(parents=True, exist_ok=True)
        for path, text in _first_notes().items():
            try:
                notes.write(path, text, replacing=None)
                created.append(path)
            except Conflict:  # it is there already
                continue
        files = {
            ".gitignore": "".join(f"{line}\n" for line in IGNORED),
            ".gitattributes": ATTRIBUTES,
            **{f"scripts/{name}": _script(*about) for name, about in SCRIPTS.items()},
        }
        for name, text in files.items():
            file = layout.root / name
            if not file.exists():
                file.write_text(text, encoding="utf-8")
                created.append(name)
    else:
        exclude = git_dir / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        before = exclude.read_text(encoding="utf-8") if exclude.exists() else ""
        missing = [line for line in IGNORED if line not in before.splitlines()]
        if missing:
            gap = "" if not before or before.endswith("\n") else "\n"
            exclude.write_text(before + gap + "\n".join(missing) + "\n", encoding="utf-8")
        remarks.append(
            "your files stay as they are and are only committed by you; new notes go to"
            " knowledge/ and topics/"
        )
    return created


def _first_notes() -> dict[str, str]:
    now = datetime.now(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    notes = {
        f"knowledge/identity/{name}": new_note(
            NoteType.IDENTITY,
            title=name.removesuffix(".md").capitalize(),
            fields={"role": role, "updated": now},
        )
        for name, role in IDENTITY_FILES.items()
    }
    return {
        **notes,
        "knowledge/memory/MEMORY.md": new_note(
            NoteType.MEMORY, title="Memory", fields={"updated": now, "line_count": 12}
        ),
        "knowledge/projects/_active.md": new_note(
            NoteType.PROJECT_INDEX, title="Active projects", fields={"updated": now}
        ),
        "knowledge/people/_index.md": "# People\n",
    }


def _script(about: str, command: str) -> str:
    return f'#!/bin/sh\n# {about}\nroot=$(cd "$(dirname "$0")/.." && pwd)\n{command}\n'


def _require_apart(layout: Layout) -> None:
    """002-A02: an agent that works in the root must not reach what was said."""
    raw, root = layout.raw.resolve(), layout.root.resolve()
    if raw == root or root in raw.parents or raw in root.parents:
        raise Incorrect(f"the conversations ({raw}) have to be outside of {root}: choose another")


async def _marker(git: Git) -> Path:
    folder = git.root / ".git"
    if not git.is_installed and folder.is_dir():  # notes are read without it
        return folder / MARKER
    return await git.git_dir() / MARKER
