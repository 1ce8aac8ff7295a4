"""``ctxmgr knowledge``: set up, check, commit and question a repository of notes. Imports late."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.layers.asked_models import AskedModel, ModelOption, costs_of
from ctxmgr.surfaces.operations.layers.notes_option import NotesOption

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.knowledge.notes.layout import Layout
    from ctxmgr.knowledge.notes.note import Note
    from ctxmgr.knowledge.repository.commits import GitCommit
    from ctxmgr.knowledge.repository.introspection import CommitEntry, KnowledgeDiff


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeSetup:
    """What was set up."""

    root: str
    raw: str
    """The repository of the raw conversations."""
    adopted: bool
    created: tuple[str, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeStatus:
    """What a repository holds."""

    root: str
    raw: str
    adopted: bool
    branch: str | None
    commit: str | None
    notes: dict[str, int]
    """Notes by category, the archive left out."""
    unreadable: tuple[str, ...]
    recovered: tuple[str, ...]
    """What writers left that were killed; look through it, then delete it."""
    state: str
    """``ready``, or what has to be finished before anything can be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteProblem:
    path: str
    line: int
    severity: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteProblems:
    problems: tuple[NoteProblem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeCommit:
    """A commit that was made."""

    commit: str | None
    """None if nothing had changed."""
    message: str
    paths: tuple[str, ...]
    remarks: tuple[str, ...]
    costs: tuple[AskedModel, ...] = ()
    """What the model that wrote the summary cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeCommitRow:
    commit: str
    time: str
    author: str
    summary: str
    session: str | None
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeHistory:
    commits: tuple[KnowledgeCommitRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLineRow:
    line: int
    text: str
    commit: str
    time: str
    summary: str
    session: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteOrigins:
    lines: tuple[NoteLineRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeChanges:
    """What changed between two commits."""

    before: str | None
    after: str
    files: tuple[str, ...]
    diff: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteText:
    """A note."""

    path: str
    category: str | None
    title: str
    type: str | None
    tags: tuple[str, ...]
    links: tuple[str, ...]
    """Where its links lead."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeTag:
    tag: str | None
    """None if there was no commit in that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeBranch:
    name: str
    commit: str
    modified: str
    ahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeBranches:
    branches: tuple[KnowledgeBranch, ...]
    pruned: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgePush:
    remote: str
    branch: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedNotes:
    """What the search index was updated with."""

    indexed: tuple[str, ...]
    removed: tuple[str, ...]


async def knowledge_init(
    app: "App",
    folder: Annotated[
        Path | None, Param("The folder; default: the setting, or this one.", metavar="DIR")
    ] = None,
    *,
    adopt: Annotated[bool, Param("Use a folder that has files; none of them is changed.")] = False,
) -> KnowledgeSetup:
    """Set up a folder of notes in git, or adopt one.

    Creates the folders, the first notes, .gitignore and .gitattributes, a repository for raw
    conversations in ctxmgr's data folder, and hooks that check notes before you commit. With
    --adopt an Obsidian vault or a project with CLAUDE.md is used as it is. A second time it adds
    what is missing.
    """
    from ctxmgr.knowledge.repository.setup import init_repository

    report = await init_repository(app.new_knowledge_layout(folder), adopt=adopt)
    return KnowledgeSetup(
        root=report.root,
        raw=report.raw,
        adopted=report.adopted,
        created=report.created,
        remarks=report.remarks,
    )


async def knowledge_status(app: "App", *, folder: NotesOption = None) -> KnowledgeStatus:
    """Show what the repository holds, and its state."""
    import asyncio
    from collections import Counter

    from ctxmgr.errors import Unavailable
    from ctxmgr.knowledge.notes.notes_folder import NotesFolder

    layout = await app.knowledge_layout(folder)
    memory_git = app.memory_git(layout)
    scan = await asyncio.to_thread(NotesFolder(layout).scan)
    counts = Counter(str(layout.category_of(note.path)) for note in scan.notes)
    try:
        await memory_git.commits.require_ready()
        state = "ready"
    except Unavailable as error:
        state = str(error)
    recovered = layout.scratch / "recovered"
    return KnowledgeStatus(
        root=str(layout.root),
        raw=str(layout.raw),
        adopted=layout.adopted,
        branch=await memory_git.git.branch(),
        commit=await memory_git.git.head(),
        notes=dict(sorted(counts.items())),
        unreadable=tuple(f"{each.path}: {each.reason}" for each in scan.unreadable),
        recovered=tuple(sorted(each.name for each in recovered.glob("*"))),
        state=state,
    )


async def knowledge_check(
    app: "App",
    *,
    staged: Annotated[
        bool, Param("Check what is staged in this folder, as a hook does.", local=True)
    ] = False,
    folder: NotesOption = None,
) -> NoteProblems:
    """Check the notes: frontmatter, fields, sections, lengths, links.

    Fails if there is an error. Warnings are shown and do not fail.
    """
    from ctxmgr.knowledge.repository.git import Git
    from ctxmgr.knowledge.repository.staged_check import check_notes, check_staged

    if staged:
        found = await check_staged(Git(folder or Path.cwd()))
    else:
        found = await check_notes(await app.knowledge_layout(folder))
    return NoteProblems(
        problems=tuple(
            NoteProblem(
                path=each.path, line=each.line, severity=each.severity, message=each.message
            )
            for each in found
        )
    )


async def knowledge_commit(
    app: "App",
    message: Annotated[str | None, Param("The summary; default: one is written by rules.")] = None,
    *,
    kind: Annotated[
        Literal["memory", "identity", "maintenance", "explore", "extract"],
        Param("What the commit is about."),
    ] = "memory",
    session: Annotated[
        str | None, Param("The conversation that it came from.", metavar="PATH")
    ] = None,
    model: ModelOption = None,
    folder: NotesOption = None,
) -> KnowledgeCommit:
    """Commit what has changed in the notes.

    In knowledge/, topics/, archive/ and attachments/. What you have staged stays staged and is
    not part of the commit. Notes with errors are left out, and named.
    """
    async with app.asked_model(model) as asked:
        memory_git = app.memory_git(await app.knowledge_layout(folder), model=asked)
        made = await memory_git.batch_commit(message, kind=kind, session=session)
    if made is None and memory_git.left_out:
        message = "nothing was committed: what has changed was left out"
        return KnowledgeCommit(commit=None, message=message, paths=(), remarks=memory_git.left_out)
    costs = () if memory_git.spent is None else costs_of(memory_git.spent, app.prices)
    return replace(_commit(made), costs=costs)


async def knowledge_log(
    app: "App",
    path: Annotated[str | None, Param("Only commits that changed this note.")] = None,
    *,
    limit: Annotated[int, Param("Commits to show.")] = 20,
    folder: NotesOption = None,
) -> KnowledgeHistory:
    """Show the commits of the notes, the newest first."""
    history = app.introspection(await app.knowledge_layout(folder))
    return KnowledgeHistory(commits=_rows(await history.log(path, limit=limit)))


async def knowledge_learnt(
    app: "App",
    text: Annotated[str, Param("The text to look for.", metavar="TEXT")],
    *,
    limit: Annotated[int, Param("Commits to show.")] = 20,
    folder: NotesOption = None,
) -> KnowledgeHistory:
    """Show the commits that added or removed a text."""
    history = app.introspection(await app.knowledge_layout(folder))
    return KnowledgeHistory(commits=_rows(await history.learnt(text, limit=limit)))


async def knowledge_blame(
    app: "App",
    path: Annotated[str, Param("The note, such as knowledge/people/ada.md.")],
    *,
    folder: NotesOption = None,
) -> NoteOrigins:
    """Show where each line of a note came from.

    Its commit, when that was, and the conversation that the commit names.
    """
    history = app.introspection(await app.knowledge_layout(folder))
    return NoteOrigins(
        lines=tuple(
            NoteLineRow(
                line=each.line,
                text=each.text,
                commit=each.commit,
                time=each.time,
                summary=each.summary,
                session=each.session,
            )
            for each in await history.origins(path)
        )
    )


async def knowledge_diff(
    app: "App",
    before: Annotated[
        str | None, Param("A commit, tag or branch; default: the last commit before today.")
    ] = None,
    after: Annotated[str | None, Param("A later one; default: the last commit.")] = None,
    *,
    folder: NotesOption = None,
) -> KnowledgeChanges:
    """Show what changed in the notes, by default today.

    Or between two commits, tags or branches.
    """
    from datetime import UTC, datetime

    history = app.introspection(await app.knowledge_layout(folder))
    if before is None:
        if after is not None:
            raise Incorrect("name the earlier commit, too")
        return _changes(await history.today(datetime.now(UTC).date()))
    return _changes(await history.changes(before, after or "HEAD"))


async def knowledge_show(
    app: "App",
    path: Annotated[str, Param("The note, such as knowledge/people/ada.md.")],
    at: Annotated[str | None, Param("A commit, tag or branch; default: the last commit.")] = None,
    *,
    folder: NotesOption = None,
) -> NoteText:
    """Show a note as it was at a commit, tag or branch."""
    from ctxmgr.knowledge.notes.note import Note

    layout = await app.knowledge_layout(folder)
    text = await app.introspection(layout).as_of(path, at or "HEAD")
    return _note(Note(path, text), layout, ())


async def knowledge_note(
    app: "App",
    path: Annotated[str, Param("The note, such as knowledge/people/ada.md.")],
    *,
    folder: NotesOption = None,
) -> NoteText:
    """Show a note as it is on disk, with its links."""
    import asyncio

    from ctxmgr.knowledge.notes.notes_folder import NotesFolder

    layout = await app.knowledge_layout(folder)
    notes = NotesFolder(layout)
    note = await asyncio.to_thread(notes.read, path)
    return _note(note, layout, await asyncio.to_thread(notes.paths, archived=True))


async def knowledge_revert(
    app: "App",
    commit: Annotated[str, Param("The commit to undo.")],
    *,
    folder: NotesOption = None,
) -> KnowledgeCommit:
    """Undo a commit by a new one.

    Nothing is changed if later or uncommitted edits stand in the way.
    """
    memory_git = app.memory_git(await app.knowledge_layout(folder))
    return _commit(await memory_git.revert(commit))


async def knowledge_tag(
    app: "App",
    kind: Annotated[
        Literal["daily", "weekly", "milestone", "before", "extract"],
        Param("Of the day, of the week, or with a name."),
    ],
    name: Annotated[str | None, Param("For milestone, before and extract.")] = None,
    *,
    message: Annotated[str | None, Param("For milestone: what was reached.")] = None,
    folder: NotesOption = None,
) -> KnowledgeTag:
    """Tag the current state as memory/KIND/NAME."""
    memory_git = app.memory_git(await app.knowledge_layout(folder))
    if (name is None) != (kind in {"daily", "weekly"}):
        raise Incorrect("milestone, before and extract need a name; daily and weekly have none")
    if kind == "daily":
        return KnowledgeTag(tag=await memory_git.tag_daily())
    if kind == "weekly":
        return KnowledgeTag(tag=await memory_git.tag_weekly())
    assert name is not None
    if kind == "before":
        return KnowledgeTag(tag=await memory_git.tag_before(name))
    if kind == "extract":
        return KnowledgeTag(tag=await memory_git.tag_extract(name))
    return KnowledgeTag(tag=await memory_git.tag_milestone(name, message or name))


async def knowledge_branches(
    app: "App",
    *,
    prune: Annotated[bool, Param("Delete those that are older than a week.")] = False,
    folder: NotesOption = None,
) -> KnowledgeBranches:
    """List the branches explore/* and extract/*.

    With --prune those that nobody touched for a week are deleted. Where a pruned branch ended is
    kept under refs/ctxmgr/pruned/.
    """
    import time
    from datetime import UTC, datetime

    from ctxmgr.knowledge.repository.branches import Branches

    branches = Branches(app.memory_git(await app.knowledge_layout(folder)))
    pruned = await branches.prune(now=time.time_ns() // 1_000_000) if prune else []
    return KnowledgeBranches(
        branches=tuple(
            KnowledgeBranch(
                name=each.name,
                commit=each.commit,
                modified=datetime.fromtimestamp(each.modified / 1000, UTC).isoformat(),
                ahead=each.ahead,
            )
            for each in await branches.all()
        ),
        pruned=tuple(pruned),
    )


async def knowledge_push(
    app: "App",
    remote: Annotated[str | None, Param("A remote or an absolute path; default: origin.")] = None,
    *,
    folder: NotesOption = None,
) -> KnowledgePush:
    """Push the notes and their tags.

    Refused if a secret is anywhere in the history. Nothing is pushed unless you ask for it.
    """
    pushed = await app.memory_git(await app.knowledge_layout(folder)).push(remote or "origin")
    return KnowledgePush(remote=pushed.remote, branch=pushed.branch, commit=pushed.commit)


async def knowledge_indexed(app: "App", *, folder: NotesOption = None) -> IndexedNotes:
    """Update the search index after a commit.

    The notes that the last commit changed are indexed again, as the hook does.
    """
    import asyncio

    from ctxmgr.errors import InvalidNote, NotFound
    from ctxmgr.knowledge.notes.notes_folder import NotesFolder
    from ctxmgr.search.search_index import SearchIndex

    layout = await app.knowledge_layout(folder or Path.cwd())
    notes = NotesFolder(layout)
    paths = await app.introspection(layout).changed_notes()
    index = await SearchIndex.open(layout.index)
    indexed, removed = [], []
    try:
        for path in paths:
            category = layout.category_of(path)
            if category is None:
                continue
            try:
                note = await asyncio.to_thread(notes.read, path)
            except (NotFound, InvalidNote):
                await index.remove_file(path)
                removed.append(path)
                continue
            await index.index_file(
                path, note.text, category, modified=notes.modified(path), tags=note.tags
            )
            indexed.append(path)
    finally:
        await index.close()
    return IndexedNotes(indexed=tuple(indexed), removed=tuple(removed))


def _commit(made: "GitCommit | None") -> KnowledgeCommit:
    if made is None:
        return KnowledgeCommit(commit=None, message="nothing has changed", paths=(), remarks=())
    return KnowledgeCommit(
        commit=made.id, message=made.message, paths=made.paths, remarks=made.remarks
    )


def _rows(entries: "Sequence[CommitEntry]") -> tuple[KnowledgeCommitRow, ...]:
    return tuple(
        KnowledgeCommitRow(
            commit=each.commit,
            time=each.time,
            author=each.author,
            summary=each.summary,
            session=each.session,
            paths=each.paths,
        )
        for each in entries
    )


def _changes(found: "KnowledgeDiff") -> KnowledgeChanges:
    return KnowledgeChanges(
        before=found.before,
        after=found.after,
        files=tuple(each.described for each in found.files),
        diff=found.diff + ("\n… the diff is longer; name a shorter time\n" if found.cut else ""),
    )


def _note(note: "Note", layout: "Layout", paths: Sequence[str]) -> NoteText:
    from ctxmgr.knowledge.notes.wikilinks import resolve, wikilinks

    found = (resolve(link, source=note.path, paths=paths) for link in wikilinks(note.body))
    category = layout.category_of(note.path)
    return NoteText(
        path=note.path,
        category=None if category is None else str(category),
        title=note.title,
        type=note.type,
        tags=note.tags,
        links=tuple(dict.fromkeys(path for path in found if path is not None)),
        text=note.text,
    )
