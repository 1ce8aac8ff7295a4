"""``ctxmgr memory``: what agents learnt, kept beyond their sessions. Imports when it runs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.encoding import iso
from ctxmgr.surfaces.operation import DETAIL, Cursor, Limit, Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.memory.living import AddedMemory, LivingMemory
    from ctxmgr.memory.records.bodies import Body
    from ctxmgr.memory.records.contradiction import Contradiction
    from ctxmgr.memory.records.memory import Memory

KindName = Literal[
    "instruction", "decision", "adr", "convention", "preference", "error_fix", "question", "note"
]
VisibilityName = Literal["user-private", "project-shared", "system"]
OutcomeName = Literal["cited", "ignored"]
ResolutionName = Literal["a_wins", "b_wins", "both_valid", "merged"]

_PROJECT = Param("The project's folder; default: the current one.", metavar="DIR", local=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """A memory, in short."""

    id: str
    type: str
    kind: str
    text: str
    visibility: str = field(metadata=DETAIL)
    author: str
    valid_from: str = field(metadata=DETAIL)
    valid_to: str | None
    learnt_at: str
    session_id: str | None
    turn: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRows:
    memories: tuple[MemoryRow, ...]
    total: int
    """Memories on all pages."""
    damaged: tuple[str, ...]
    """Why others are missing: they cannot be read."""
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContradictionRow:
    """Two memories that cannot both hold."""

    id: str
    memory_a: str
    memory_b: str
    reason: str
    detected_at: str
    resolved_at: str | None
    resolution: str | None
    resolution_note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContradictionRows:
    contradictions: tuple[ContradictionRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory:
    """A memory that was stored, and what it contradicts."""

    memory: MemoryRow
    known: bool
    """Whether it was known already, and nothing was stored."""
    contradictions: tuple[ContradictionRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDetails:
    """A memory with all levels, where it was learnt, and how it was used."""

    memory: MemoryRow
    project_id: str
    user_id: str
    content_full: str
    content_summary: str
    content_compressed: str
    content_index: str
    tags: tuple[str, ...]
    session_id: str | None
    turn: int | None
    supersedes: tuple[str, ...]
    superseded_by: str | None
    ended_because: str | None
    retrieval_count: int
    citation_count: int
    ignore_count: int
    imported_from: str | None
    """The hash of the memory file that it came from; None if it was learnt or written here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedMemory:
    """A memory in full."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """A memory as it was believed from a moment on."""

    believed_from: str
    sequence: int
    text: str
    author: str
    visibility: str
    valid_from: str
    valid_to: str | None
    ended_because: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStates:
    versions: tuple[MemoryState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemory:
    score: float
    memory: MemoryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemories:
    memories: tuple[FoundMemory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """A memory that is, or is not, in the assembled text."""

    id: str
    tier: int
    shown: bool
    tokens: int
    why: str
    """Why it was offered."""
    reason: str | None
    """Why it is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledMemory:
    """The text that a prompt gets from memory."""

    context: str
    token_count: int
    tiers: dict[str, int]
    items: tuple[ContextItem, ...]


async def memory_add(
    app: "App",
    key: Annotated[str, Param("What it is about, such as 'test runner'.")],
    value: Annotated[str, Param("What holds, such as pytest.")],
    *,
    scope: Annotated[str | None, Param("Only there: a language, a folder, a service.")] = None,
    reason: Annotated[str | None, Param("Why.")] = None,
    kind: Annotated[KindName, Param("What it is for.")] = "note",
    visibility: Annotated[VisibilityName, Param("Who may see it.")] = "user-private",
    since: Annotated[int | None, Param("When it became true; default: now.", instant=True)] = None,
    tag: Annotated[tuple[str, ...], Param("A file, folder or person it is about.")] = (),
    project: Annotated[Path | None, _PROJECT] = None,
) -> StoredMemory:
    """Remember a fact, and report what it contradicts.

    What a person adds is theirs: it is never rewritten.
    """
    from ctxmgr.memory.records.bodies import Fact
    from ctxmgr.memory.records.memory import MemoryKind, Visibility

    memory = await app.memory(project)
    added = await memory.add(
        Fact(key=key, value=value, scope=scope, reason=reason),
        kind=MemoryKind(kind),
        visibility=Visibility(visibility),
        valid_from=since,
        tags=tag,
    )
    return stored(added)


async def memory_list(
    app: "App",
    *,
    kind: Annotated[KindName | None, Param("Only memories of this kind.")] = None,
    forgotten: Annotated[bool, Param("Forgotten ones, too.")] = False,
    as_of: Annotated[
        int | None, Param("What held at that time, as known today.", instant=True)
    ] = None,
    believed_at: Annotated[
        int | None, Param("What was believed at that time.", instant=True)
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    project: Annotated[Path | None, _PROJECT] = None,
) -> MemoryRows:
    """List what is remembered, oldest first, by page."""
    from ctxmgr.core.store.contract import AsOf
    from ctxmgr.core.store.queries import page_of

    memory = await app.memory(project)
    at = AsOf(valid_time=as_of, system_time=believed_at)
    found = await memory.memories(as_of=at, forgotten=forgotten)
    chosen = [each for each in found if kind in (None, each.kind)]
    page, following = page_of(
        ["memories", kind, forgotten, as_of, believed_at],
        chosen,
        key=lambda each: (each.created_at, each.id),
        limit=limit,
        cursor=cursor,
    )
    return MemoryRows(
        memories=tuple(map(row, page)),
        total=len(chosen),
        damaged=tuple(each.reason for each in memory.repository.damaged.values()),
        cursor=following,
    )


async def memory_show(
    app: "App",
    memory_id: Annotated[str, Param("The id, or the start of it.")],
    *,
    project: Annotated[Path | None, _PROJECT] = None,
) -> MemoryDetails:
    """Show a memory at all its lengths, and its use."""
    memory = await app.memory(project)
    found = await memory.get(await memory.repository.find_id(memory_id))
    usage = (await memory.repository.usage([found.id]))[found.id]
    return MemoryDetails(
        memory=row(found),
        project_id=found.project_id,
        user_id=found.user_id,
        content_full=found.levels.full,
        content_summary=found.levels.summary,
        content_compressed=found.levels.compressed,
        content_index=found.levels.index,
        tags=found.tags,
        session_id=found.origin.session_id,
        turn=found.origin.turn,
        supersedes=found.supersedes,
        superseded_by=found.superseded_by,
        ended_because=found.ended_because,
        retrieval_count=usage.retrieval_count,
        citation_count=usage.citation_count,
        ignore_count=usage.ignore_count,
        imported_from=found.imported_from,
    )


async def memory_expand(
    app: "App",
    memory_id: Annotated[str, Param("The id, or the start of it.")],
    *,
    project: Annotated[Path | None, _PROJECT] = None,
) -> ExpandedMemory:
    """Show the full text of a memory, and count that."""
    memory = await app.memory(project)
    found = await memory.expand(memory_id)
    return ExpandedMemory(id=found.id, text=found.levels.full)


async def memory_feedback(
    app: "App",
    memory_id: Annotated[str, Param("The id, or the start of it.")],
    outcome: Annotated[OutcomeName, Param("What became of it after it was shown.")],
    *,
    project: Annotated[Path | None, _PROJECT] = None,
) -> MemoryDetails:
    """Record that a memory was used, or shown in vain."""
    memory = await app.memory(project)
    found = await memory.repository.find_id(memory_id)
    if outcome == "cited":
        await memory.on_memory_cited(found)
    else:
        await memory.on_memory_ignored(found)
    return await memory_show(app, found, project=project)


async def memory_history(
    app: "App",
    memory_id: Annotated[str, Param("The id, or the start of it.")],
    *,
    project: Annotated[Path | None, _PROJECT] = None,
) -> MemoryStates:
    """List everything that was ever believed about a memory."""
    memory = await app.memory(project)
    versions = await memory.history(await memory.repository.find_id(memory_id))
    return MemoryStates(
        versions=tuple(
            MemoryState(
                believed_from=iso(version.system_time),
                sequence=version.sequence,
                text=version.memory.levels.summary,
                author=str(version.memory.author),
                visibility=str(version.memory.visibility),
                valid_from=iso(version.memory.valid_from),
                valid_to=_iso_or_none(version.memory.valid_to),
                ended_because=version.memory.ended_because,
            )
            for version in versions
        )
    )


async def memory_search(
    app: "App",
    question: Annotated[str, Param("What to look for.")],
    *,
    limit: Annotated[int, Param("Memories to show.")] = 10,
    project: Annotated[Path | None, _PROJECT] = None,
) -> FoundMemories:
    """Find memories that match a question, best first."""
    memory = await app.memory(project)
    found = await memory.search(question, limit=limit)
    return FoundMemories(
        memories=tuple(
            FoundMemory(score=round(score, 3), memory=row(each)) for each, score in found
        )
    )


async def memory_edit(
    app: "App",
    memory_id: Annotated[str, Param("The id of a fact, or the start of it.")],
    value: Annotated[str, Param("What holds instead.")],
    *,
    project: Annotated[Path | None, _PROJECT] = None,
) -> StoredMemory:
    """Correct a fact.

    From then on it is yours, and is never rewritten.
    """
    from dataclasses import replace

    from ctxmgr.memory.records.bodies import Fact

    memory = await app.memory(project)
    found = await memory.get(await memory.repository.find_id(memory_id))
    if not isinstance(found.body, Fact):
        raise Incorrect(f"{found.id} is a {found.type}; only facts can be corrected so")
    edited = await memory.edit(found.id, replace(found.body, value=value))
    return stored(edited)


async def memory_forget(
    app: "App",
    memory_id: Annotated[str, Param("The id, or the start of it.")],
    *,
    because: Annotated[str, Param("Why.")] = "forgotten",
    project: Annotated[Path | None, _PROJECT] = None,
) -> MemoryRow:
    """End a memory: it is not shown any more.

    Nothing is deleted; restore takes it back.
    """
    memory = await app.memory(project)
    found = await memory.repository.find_id(memory_id)
    return row(await memory.forget(found, because=because))


async def memory_restore(
    app: "App",
    memory_id: Annotated[str, Param("The id, or the start of it.")],
    *,
    project: Annotated[Path | None, _PROJECT] = None,
) -> MemoryRow:
    """Take back a forget."""
    memory = await app.memory(project)
    return row(await memory.restore(await memory.repository.find_id(memory_id)))


async def memory_contradictions(
    app: "App",
    *,
    resolved: Annotated[bool, Param("Resolved ones, too.")] = False,
    project: Annotated[Path | None, _PROJECT] = None,
) -> ContradictionRows:
    """List memories that cannot both hold."""
    memory = await app.memory(project)
    found = await memory.contradictions(only_open=not resolved)
    return ContradictionRows(contradictions=tuple(_pair(pair) for pair in found))


async def memory_resolve(
    app: "App",
    id_: Annotated[str, Param("The id of the contradiction, or the start of it.", metavar="ID")],
    resolution: Annotated[ResolutionName, Param("Which one holds.")],
    *,
    note: Annotated[str | None, Param("Why.")] = None,
    value: Annotated[str | None, Param("What holds instead of both, for merged.")] = None,
    project: Annotated[Path | None, _PROJECT] = None,
) -> ContradictionRow:
    """Resolve a contradiction.

    The memory that loses is superseded, never deleted.
    """
    from ctxmgr.memory.records.contradiction import Resolution

    memory = await app.memory(project)
    merged = None if value is None else await _merged(memory, id_, value)
    resolved = await memory.resolve(id_, Resolution(resolution), note=note, merged=merged)
    return _pair(resolved)


async def memory_assemble(
    app: "App",
    *,
    budget: Annotated[int, Param("Tokens at most.")] = 8_000,
    current_file: Annotated[
        str | None,
        Param("The file that is worked on.", metavar="PATH", part_of=("signals", "current_file")),
    ] = None,
    recent_error: Annotated[
        tuple[str, ...],
        Param("An error message that just occurred.", part_of=("signals", "recent_errors")),
    ] = (),
    activity: Annotated[
        str | None, Param("Such as debugging.", part_of=("signals", "activity"))
    ] = None,
    message: Annotated[
        str | None, Param("What the agent was asked.", part_of=("signals", "message"))
    ] = None,
    collaborator: Annotated[
        str | None, Param("Who works along.", part_of=("signals", "collaborator"))
    ] = None,
    project: Annotated[Path | None, _PROJECT] = None,
) -> AssembledMemory:
    """Show the text that a prompt would get."""
    from ctxmgr.memory.tiers.assembly import Signals

    memory = await app.memory(project)
    assembled = await memory.assemble_context(
        budget,
        signals=Signals(
            current_file=current_file,
            recent_errors=recent_error,
            activity=activity,
            message=message,
            collaborator=collaborator,
        ),
    )
    shown = [
        ContextItem(
            id=item.id, tier=item.tier, shown=True, tokens=item.tokens, why=item.why, reason=None
        )
        for item in assembled.shown
    ]
    visible = {item.id for item in shown}
    return AssembledMemory(
        context=assembled.context,
        token_count=assembled.token_count,
        tiers={f"tier{number}": tokens for number, tokens in enumerate(assembled.tiers, start=1)},
        items=(
            *shown,
            *(
                ContextItem(
                    id=item.id,
                    tier=item.tier,
                    shown=False,
                    tokens=0,
                    why=item.why,
                    reason=item.reason,
                )
                for item in assembled.omitted
                if item.id not in visible
            ),
        ),
    )


def stored(added: "AddedMemory") -> StoredMemory:
    """Describe a memory that was stored."""
    return StoredMemory(
        memory=row(added.memory),
        known=added.known,
        contradictions=tuple(_pair(pair) for pair in added.contradictions),
    )


async def _merged(memory: "LivingMemory", contradiction: str, value: str) -> "Body":
    """Return the fact that takes the place of both."""
    from dataclasses import replace

    from ctxmgr.memory.records.bodies import Fact

    pair = await memory.repository.contradiction(contradiction)
    one = (await memory.get(pair.memory_a)).body
    if not isinstance(one, Fact):
        raise Incorrect(f"{pair.memory_a} is not a fact; merge it in Python")
    return replace(one, value=value)


def row(memory: "Memory") -> MemoryRow:
    """Describe a memory in short."""
    return MemoryRow(
        id=memory.id,
        type=str(memory.type),
        kind=str(memory.kind),
        text=memory.levels.summary,
        visibility=str(memory.visibility),
        author=str(memory.author),
        valid_from=iso(memory.valid_from),
        valid_to=_iso_or_none(memory.valid_to),
        learnt_at=iso(memory.created_at),
        session_id=memory.origin.session_id,
        turn=memory.origin.turn,
    )


def _pair(pair: "Contradiction") -> ContradictionRow:
    return ContradictionRow(
        id=pair.id,
        memory_a=pair.memory_a,
        memory_b=pair.memory_b,
        reason=pair.reason,
        detected_at=iso(pair.detected_at),
        resolved_at=_iso_or_none(pair.resolved_at),
        resolution=None if pair.resolution is None else str(pair.resolution),
        resolution_note=pair.resolution_note,
    )


def _iso_or_none(instant: int | None) -> str | None:
    return None if instant is None else iso(instant)
