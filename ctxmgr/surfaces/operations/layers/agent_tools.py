"""What agents do with notes and memories: over MCP, or on the command line in their place.

Whose notes and memories these are is decided by who started the server, never by an argument that
an agent can send: folder, project and session are parameters of the command line alone. Imports
when it runs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.layers.memory import StoredMemory, stored
from ctxmgr.surfaces.operations.layers.notes_option import NotesOption

if TYPE_CHECKING:
    from ctxmgr.app import App

LearntKind = Literal["decision", "convention", "preference", "error_fix", "question", "note"]
"""Those of ``memory.agent_tools``, which is imported when it runs."""

_PROJECT = Param("The project's folder; default: the current one.", metavar="DIR", local=True)
_SESSION = Param("The session that it comes from.", metavar="SESSION", local=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteHit:
    """A note that matches."""

    path: str
    category: str
    score: float
    snippet: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteHits:
    notes: tuple[NoteHit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteChange:
    """What became of a note that was written."""

    path: str
    state: str
    """written, unchanged or waiting; rejected or accepted if a person decided before."""
    proposal: str | None
    """The id in the review queue."""
    diff: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteAnswer:
    """An answer about the past of the notes."""

    text: str


async def knowledge_search(
    app: "App",
    query: Annotated[str, Param("Words to search for.", metavar="QUERY")],
    *,
    limit: Annotated[int, Param("At most this many notes, up to 20.")] = 5,
    category: Annotated[str | None, Param("Only this category, such as journal.")] = None,
    folder: NotesOption = None,
) -> NoteHits:
    """Search the notes that are kept beyond sessions."""
    notes = await app.agent_notes(folder)
    found = await notes.search(query, limit=limit, category=category)
    return NoteHits(
        notes=tuple(
            NoteHit(
                path=each.path,
                category=each.category,
                score=round(each.score, 4),
                snippet=each.snippet,
            )
            for each in found
        )
    )


async def knowledge_add(
    app: "App",
    text: Annotated[str, Param("Markdown.")],
    *,
    path: Annotated[
        str | None,
        Param("Such as knowledge/reference/ports.md; default: today's journal."),
    ] = None,
    section: Annotated[str | None, Param("Add it as a bullet of this section.")] = None,
    replaces: Annotated[
        str | None, Param("Text that is in the note exactly once, to be replaced.")
    ] = None,
    reason: Annotated[str, Param("Why, for a person who has to approve it.")] = "",
    session: Annotated[str | None, _SESSION] = None,
    folder: NotesOption = None,
) -> NoteChange:
    """Keep a note for later sessions, or correct one.

    As an agent does it: changes of identity and topics wait for a person.
    """
    notes = await app.agent_notes(folder)
    written = await notes.note(
        text, path=path, section=section, replaces=replaces, reason=reason, session=session
    )
    return NoteChange(
        path=written.path, state=written.state, proposal=written.proposal, diff=written.diff
    )


async def knowledge_ask(
    app: "App",
    question: Annotated[
        Literal["learnt", "origin", "changes", "as_of"],
        Param(
            "learnt: when a text came. origin: where a note's lines came from. changes: what "
            "changed since a commit or tag. as_of: a note as it was."
        ),
    ],
    about: Annotated[str, Param("A text, a path, or a commit or tag.")],
    *,
    at: Annotated[str | None, Param("A commit or tag; default: the last commit.")] = None,
    folder: NotesOption = None,
) -> NoteAnswer:
    """Ask when something was noted, where it came from, what changed."""
    notes = await app.agent_notes(folder)
    return NoteAnswer(text=await notes.history(question, about, at=at))


async def memory_remember(
    app: "App",
    key: Annotated[str, Param("What it is about, such as 'test runner'.")],
    value: Annotated[str, Param("What holds, such as pytest.")],
    *,
    scope: Annotated[str | None, Param("Only there: a language, a folder, a service.")] = None,
    reason: Annotated[str | None, Param("Why.")] = None,
    kind: Annotated[LearntKind, Param("What it is for.")] = "note",
    files: Annotated[
        tuple[str, ...], Param("A file or folder that it is about.", former="file")
    ] = (),
    session: Annotated[str | None, _SESSION] = None,
    project: Annotated[Path | None, _PROJECT] = None,
) -> StoredMemory:
    """Remember a fact in later sessions of this project.

    As an agent does it: people can correct and forget it, and it never replaces what they said.
    """
    from ctxmgr.memory.agent_tools import remember

    added = await remember(
        await app.memory(project),
        key=key,
        value=value,
        scope=scope,
        reason=reason,
        kind=kind,
        files=files,
        session=session,
        mask=lambda text: app.masker.mask(text).text,
    )
    return stored(added)
