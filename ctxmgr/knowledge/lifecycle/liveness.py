"""Find notes that name what a project no longer has. Reads the project's git history.

    `src/export.py`   a path     removed by the last commit that deleted it
    `retry_export()`  a symbol   removed by the last commit that changed how often it occurs
    `make deploy`     a command  removed by the last commit that changed its target
    `npm run build`   a script   removed by the commit that took it out of package.json
    `shopctl sync`    a program  removed by the commit that took it out of pyproject.toml

A name that the project never had says nothing, and is not reported. Only git objects are read: no
file of the project is opened, and nothing in it is run.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.lifecycle.declared_commands import READERS, removed_names
from ctxmgr.knowledge.lifecycle.draft import NotesDraft
from ctxmgr.knowledge.lifecycle.review import needs_approval
from ctxmgr.knowledge.notes.frontmatter import Value, set_fields
from ctxmgr.knowledge.notes.note import NEEDS_VERIFICATION, Note
from ctxmgr.knowledge.notes.sections import outside_code
from ctxmgr.knowledge.repository.git import Git

SYMBOLS_MAX: Final = 300
"""Symbols and commands that are looked up, some 20 ms each."""
GONE_MAX: Final = 50
"""Of these, the missing ones whose history is searched, which may take seconds each."""
COMMITS_MAX: Final = 20_000
"""Commits whose deleted files are read."""
DECLARATIONS_MAX: Final = 500
"""Versions of a file that declares commands which are compared, from the newest."""

_CODE: Final = re.compile(r"(?<!`)`([^`\n]{2,200})`(?!`)")
_PATH: Final = re.compile(r"(?:\./)?((?:[\w@+.-]+/)*[\w@+-][\w@+.-]*\.[A-Za-z]\w{0,5})(?::\d+)?")
_FOLDER: Final = re.compile(r"(?:\./)?((?:[\w@+-][\w@+.-]*/)+)")
_CALL: Final = re.compile(r"(?:\w+\.)*([A-Za-z_]\w{2,})\(\)")
_SYMBOL: Final = re.compile(r"(?:\w+\.)*((?:[a-z]\w*_\w+)|(?:[A-Z]+[a-z0-9]+[A-Z]\w*))")
_MAKE: Final = re.compile(r"make ([A-Za-z][\w-]*)(?: .*)?")
_NPM: Final = re.compile(r"(?:npm|pnpm|yarn) (?:run )?([A-Za-z][\w:.-]*)(?: .*)?")
_PROGRAM: Final = re.compile(r"([A-Za-z][\w.-]+)(?: .*)?")
_LOG: Final = ("--no-ext-diff", "--no-textconv", "--no-renames", "--format=%x00%h%x00%cs%x00%s")


class ReferenceKind(StrEnum):
    PATH = "path"
    SYMBOL = "symbol"
    COMMAND = "command"
    """A target of make."""
    SCRIPT = "npm script"
    PROGRAM = "program"
    """A console script of Python."""


_DECLARED: Final = MappingProxyType(
    {ReferenceKind.SCRIPT: "package.json", ReferenceKind.PROGRAM: "pyproject.toml"}
)
"""Where the project declares them."""


@dataclass(frozen=True, slots=True)
class ProjectReference:
    """Something of a project that a note names in code quotes."""

    kind: ReferenceKind
    name: str
    line: int
    """In the note's file, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneReference:
    """A reference to what a project no longer has."""

    note: str
    reference: ProjectReference
    commit: str
    """The commit that removed it."""
    day: str
    summary: str

    def __str__(self) -> str:
        return (
            f"{self.reference.name} was removed in {self.commit} on {self.day}: {self.summary:.80}"
        )


def references(note: Note) -> Iterator[ProjectReference]:
    """Yield what a note names in code quotes that could be part of a project."""
    for number, line in outside_code("\n" * (note.body_line - 1) + note.body):
        for quoted in _CODE.findall(line):
            text = quoted.strip()
            if found := _PATH.fullmatch(text) or _FOLDER.fullmatch(text):
                yield ProjectReference(ReferenceKind.PATH, found[1].rstrip("/"), number)
            elif found := _CALL.fullmatch(text) or _SYMBOL.fullmatch(text):
                yield ProjectReference(ReferenceKind.SYMBOL, found[1], number)
            elif found := _MAKE.fullmatch(text):
                yield ProjectReference(ReferenceKind.COMMAND, found[1], number)
            elif found := _NPM.fullmatch(text):
                yield ProjectReference(ReferenceKind.SCRIPT, found[1], number)
            elif found := _PROGRAM.fullmatch(text):
                yield ProjectReference(ReferenceKind.PROGRAM, found[1], number)


async def gone_references(notes: Iterable[Note], *, project: Path) -> list[GoneReference]:
    """Return what the notes name and the project's current commit no longer has."""
    history = _ProjectHistory(Git(project))
    await history.require()
    named = [(note, reference) for note in notes for reference in references(note)]
    return [
        GoneReference(note=note.path, reference=reference, commit=commit, day=day, summary=summary)
        for note, reference in named
        if (removed := await history.removed(reference)) is not None
        for commit, day, summary in (removed,)
    ]


def mark_gone(draft: NotesDraft, gone: Iterable[GoneReference]) -> list[str]:
    """List what is gone in the frontmatter of its notes; return the notes that changed.

    Notes of identity and topics are not marked: their changes wait for a person. Nor are a person's
    own files of an adopted folder.
    """
    by_note: dict[str, list[Value]] = {}
    for each in gone:
        by_note.setdefault(each.note, []).append(str(each))
    changed = []
    for note in list(draft.notes()):
        listed = list(dict.fromkeys(map(str, by_note.get(note.path, []))))
        before = note.frontmatter.get(NEEDS_VERIFICATION)
        if needs_approval(note.path, draft.layout) or not draft.is_ours(note.path):
            continue
        if (before or []) == listed:
            continue
        values: list[Value] = [*listed]
        draft.put(
            note.path,
            set_fields(note.text, {NEEDS_VERIFICATION: values}),
            reason=NEEDS_VERIFICATION,
        )
        changed.append(note.path)
    return changed


_Removal = tuple[str, str, str]
"""Commit, day and summary."""


class _ProjectHistory:
    """What a repository has, and which commits removed the rest. Everything is asked once."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._files: set[str] | None = None
        self._endings: set[str] = set()
        self._deleted: dict[str, _Removal] = {}
        self._known: dict[tuple[ReferenceKind, str], _Removal | None] = {}
        self._undeclared: dict[str, dict[str, _Removal]] = {}
        self._searched = 0

    async def require(self) -> None:
        """Raise ``Incorrect`` if the project is not the root of a repository."""
        try:
            await self._git.git_dir()
        except Incorrect as error:
            raise Incorrect(
                f"{self._git.root} is not the root of a git repository: pass that of the project"
                " whose history is to be read"
            ) from error

    async def removed(self, reference: ProjectReference) -> _Removal | None:
        """Return the commit that removed it; None if it is there, or never was."""
        if self._files is None:
            await self._load()
        if reference.kind is ReferenceKind.PATH:
            return None if reference.name in self._endings else self._deleted.get(reference.name)
        if reference.kind in _DECLARED:
            return (await self._no_longer_declared(_DECLARED[reference.kind])).get(reference.name)
        key = (reference.kind, reference.name)
        if key not in self._known:
            if len(self._known) >= SYMBOLS_MAX:
                return None
            self._known[key] = await self._searched_history(reference)
        return self._known[key]

    async def _no_longer_declared(self, file: str) -> dict[str, _Removal]:
        if file not in self._undeclared:
            log = await self._git.output(
                "log", f"-n{DECLARATIONS_MAX}", "-m", "--first-parent", *_LOG, "HEAD", "--", file
            )
            removals = [_removal(line) for line in log.splitlines() if line.startswith("\0")]
            versions = []
            for removal in removals:
                shown = await self._git.run("cat-file", "blob", f"{removal[0]}:{file}")
                # A commit that deleted the file declares nothing.
                versions.append((removal, READERS[file](shown.text if shown.code == 0 else "")))
            self._undeclared[file] = removed_names(versions)
        return self._undeclared[file]

    async def _load(self) -> None:
        listed = await self._git.output("ls-tree", "-r", "-z", "--name-only", "HEAD")
        self._files = set(filter(None, listed.split("\0")))
        self._endings = {ending for path in self._files for ending in _places(path)}
        log = await self._git.output(
            "log", f"-n{COMMITS_MAX}", "--diff-filter=D", "--name-only", *_LOG, "HEAD"
        )
        removal: _Removal | None = None
        for line in log.splitlines():
            if line.startswith("\0"):
                removal = _removal(line)
            elif line and removal is not None:
                for ending in _places(line):
                    self._deleted.setdefault(ending, removal)

    async def _searched_history(self, reference: ProjectReference) -> _Removal | None:
        paths: tuple[str, ...] = ()
        if reference.kind is ReferenceKind.COMMAND:
            found = await self._git.run(
                "grep", "-q", "-E", f"^{re.escape(reference.name)}[^=]*:", "HEAD", "--", "Makefile"
            )
            searched, paths = f"{reference.name}:", ("--", "Makefile")
        else:
            found = await self._git.run("grep", "-q", "-w", "-F", "-e", reference.name, "HEAD")
            searched = reference.name
        if found.code == 0 or self._searched >= GONE_MAX:
            return None
        self._searched += 1
        log = await self._git.run("log", "-n1", f"-S{searched}", *_LOG, "HEAD", *paths)
        line = log.text.strip("\n")
        if log.code != 0 or not line.startswith("\0"):
            return None
        return _removal(line)


def _removal(line: str) -> _Removal:
    commit, day, summary = line[1:].split("\0", 2)
    return commit, day, summary


def _places(path: str) -> Iterator[str]:
    """Yield how notes may name a file or one of its folders: the path or the end of it."""
    parts = path.split("/")
    for end in range(len(parts), 0, -1):
        yield from ("/".join(parts[start:end]) for start in range(end))
