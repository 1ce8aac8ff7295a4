"""``ctxmgr experience``: tags, comments, buds, concepts and documents. Imports when it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.surfaces.operation import Param
from ctxmgr.surfaces.operations.layers.experience import tick_range

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.experience.documents.document import Document
    from ctxmgr.experience.records.annotations import (
        AnnotationTarget,
        Comment,
        Tag,
        TagApplication,
    )

TagKind = Literal["concept", "entity", "bud", "custom"]
BudState = Literal["collecting", "ready", "training", "promoted", "abandoned"]
DocumentKind = Literal[
    "system_instruction", "tool_documentation", "tribal_policy", "specification", "reference"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRow:
    """A tag."""

    id: str
    name: str
    tag_type: str
    bud_status: str | None
    concept_id: str | None
    entity_type: str | None
    description: str | None
    related_concepts: tuple[str, ...]
    created_at: str | None
    created_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRows:
    tags: tuple[TagRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudRows:
    buds: tuple[TagRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConceptRows:
    concepts: tuple[TagRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTag:
    """A tag that was applied."""

    application_id: str
    tag: TagRow


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredComment:
    comment_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """A reference document."""

    id: str
    path: str
    name: str
    doc_type: str
    version: str | None
    updated_at: str
    content_hash: str
    source: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRows:
    documents: tuple[DocumentRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSync:
    """What was read from a folder."""

    added: tuple[str, ...]
    updated: tuple[str, ...]
    unchanged: int
    without_file: tuple[str, ...]
    """Documents whose file is gone; they stay."""
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConceptPack:
    """A concept pack that was checked."""

    file: str
    name: str
    version: str
    source: str
    concepts: int
    primaries: int
    relations: int
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TagMark:
    """A tag on some ticks."""

    application_id: str
    tag_id: str
    name: str
    start_tick: int
    end_tick: int
    event_id: str | None
    confidence: float
    source: str
    note: str | None
    time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentMark:
    """A comment on some ticks."""

    comment_id: str
    content: str
    start_tick: int
    end_tick: int
    event_id: str | None
    time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMarks:
    """The tags and comments on a range of ticks."""

    session_id: str
    last_tick: int
    """The last tick of the session; 0 if nothing of it was recorded."""
    start_tick: int
    end_tick: int
    tags: tuple[TagMark, ...]
    """The newest first."""
    comments: tuple[CommentMark, ...]
    """The newest first."""


MARK_TICKS_MAX: Final = 2_000
"""Ticks that are looked at at once."""

MARKS_MAX: Final = 10_000
"""Tags, and comments, of one answer."""

_FOLDER = Param("The folder with the experience; default: the setting.", metavar="DIR", local=True)


async def experience_tags(
    app: "App",
    name: Annotated[str | None, Param("The name; * and ? stand for other characters.")] = None,
    *,
    kind: Annotated[TagKind | None, Param("Only tags of this type.")] = None,
    status: Annotated[BudState | None, Param("Only buds with this status.")] = None,
    limit: Annotated[int, Param("Tags to show.")] = 1_000,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> TagRows:
    """List the tags that were created or applied."""
    from ctxmgr.experience.records.kinds import BudStatus, TagType

    async with app.xdb(folder) as xdb:
        found = await xdb.tag_index.find_tags(
            name_pattern=name,
            tag_type=None if kind is None else TagType(kind),
            bud_status=None if status is None else BudStatus(status),
            limit=limit,
        )
    return TagRows(tags=tuple(_tag_row(tag) for tag in found))


async def experience_tag(
    app: "App",
    tag: Annotated[str, Param("The id or name of a tag; a new name creates a custom tag.")],
    *,
    session: Annotated[str | None, Param("The session of the event or the ticks.")] = None,
    timestep_id: Annotated[
        str | None, Param("Apply it to this timestep.", metavar="TIMESTEP")
    ] = None,
    event_id: Annotated[str | None, Param("Apply it to this event.", metavar="EVENT")] = None,
    ticks: Annotated[
        str | None, Param("Apply it to these ticks, such as 10-20.", metavar="RANGE")
    ] = None,
    confidence: Annotated[float, Param("How certain it is, 0 to 1.")] = 1.0,
    note: Annotated[str | None, Param("Why.")] = None,
    inherit: Annotated[bool, Param("Apply the concepts above it, too.")] = False,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> AppliedTag:
    """Apply a tag to a timestep, an event or a range of ticks."""
    async with app.xdb(folder) as xdb:
        xdb.session_id = session
        target = _target(timestep_id=timestep_id, event_id=event_id, ticks=ticks)
        application_id = await xdb.tag(
            tag, **target, confidence=confidence, note=note, inherit=inherit
        )
        applied = await xdb.tag_index.resolve(tag)
    assert applied is not None
    return AppliedTag(application_id=application_id, tag=_tag_row(applied))


async def experience_comment(
    app: "App",
    content: Annotated[str, Param("The text of the comment.", metavar="TEXT")],
    *,
    session: Annotated[str | None, Param("The session of the event or the ticks.")] = None,
    timestep_id: Annotated[str | None, Param("Comment on this timestep.")] = None,
    event_id: Annotated[str | None, Param("Comment on this event.")] = None,
    ticks: Annotated[
        str | None, Param("Comment on these ticks, such as 10-20.", metavar="RANGE")
    ] = None,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> StoredComment:
    """Comment on a timestep, an event or a range of ticks."""
    async with app.xdb(folder) as xdb:
        xdb.session_id = session
        target = _target(timestep_id=timestep_id, event_id=event_id, ticks=ticks)
        return StoredComment(comment_id=await xdb.comment(content, **target))


async def experience_marks(
    app: "App",
    session: Annotated[str, Param("The session.")],
    *,
    ticks: Annotated[
        str | None, Param("The ticks, such as 10-20; default: the last ones.", metavar="RANGE")
    ] = None,
    limit: Annotated[int, Param("Tags, and comments, to show.")] = 1_000,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> SessionMarks:
    """List the tags and comments on a range of ticks.

    Those on an event are shown as long as the event is kept token by token.
    """
    from ctxmgr.experience.records.timestep import check_session_id

    check_session_id(session)
    if not 0 < limit <= MARKS_MAX:
        raise Incorrect(f"limit is 1 to {MARKS_MAX:,}, not {limit}")
    async with app.xdb(folder) as xdb:
        log = xdb.experience_log
        last = await log.last_tick(session)
        wanted = (max(1, last - MARK_TICKS_MAX + 1), max(1, last))
        if ticks is not None:
            wanted = tick_range(ticks)
        if not 0 <= wanted[1] - wanted[0] < MARK_TICKS_MAX:
            raise Incorrect(
                f"{ticks!r:.80} is not a range of 1 to {MARK_TICKS_MAX:,} ticks, lowest first"
            )
        steps = await log.query(session_id=session, tick_range=wanted, limit=MARK_TICKS_MAX)
        events: dict[str, tuple[int, int]] = {}
        for step in steps:
            if step.event_id is not None:
                first, _ = events.get(step.event_id, (step.tick, step.tick))
                events[step.event_id] = (first, step.tick)
        tags = await log.get_tags_for_range(session, wanted, event_ids=tuple(events), limit=limit)
        comments = await log.get_comments_for_range(session, *wanted)
    return SessionMarks(
        session_id=session,
        last_tick=last,
        start_tick=wanted[0],
        end_tick=wanted[1],
        tags=tuple(
            _tag_mark(name, applied, _ticks_of(applied, events, wanted)) for name, applied in tags
        ),
        comments=tuple(
            _comment_mark(comment, _ticks_of(comment, events, wanted))
            for comment in comments[: -limit - 1 : -1]
        ),
    )


async def experience_buds(
    app: "App",
    *,
    status: Annotated[BudState | None, Param("Only buds with this status.")] = None,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> BudRows:
    """List buds: tags that collect examples."""
    from ctxmgr.experience.records.kinds import BudStatus

    async with app.xdb(folder) as xdb:
        buds = await xdb.get_buds(None if status is None else BudStatus(status))
    return BudRows(buds=tuple(_tag_row(bud) for bud in buds))


async def experience_bud(
    app: "App",
    tag: Annotated[str, Param("The id or name of a tag.")],
    status: Annotated[
        Literal["collecting", "ready", "training", "promoted", "abandoned", "reverted"],
        Param("The next status; collecting makes a tag a bud."),
    ],
    *,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> TagRow:
    """Make a tag a bud, or change the status of one.

    collecting, ready, training, promoted follow each other; training may go back to collecting,
    each may be abandoned, and an abandoned bud be reverted to the tag it was.
    """
    from ctxmgr.experience.records.kinds import BudStatus, TagType

    async with app.xdb(folder) as xdb:
        index = xdb.tag_index
        found = await index.resolve(tag)
        if found is None:
            raise NotFound(f"there is no tag {tag!r:.80}")
        if status == "reverted":
            changed = await index.revert_bud(found.id)
        elif found.tag_type is not TagType.BUD and status == "collecting":
            changed = await index.promote_to_bud(found.id)
        else:
            changed = await index.update_bud_status(found.id, BudStatus(status))
    return _tag_row(changed)


async def experience_concepts(
    app: "App",
    name: Annotated[str | None, Param("Find concepts whose name begins so.")] = None,
    *,
    parent: Annotated[
        str | None, Param("Show what is below this concept; default: the roots.", metavar="ID")
    ] = None,
    folder: Annotated[Path | None, _FOLDER] = None,
) -> ConceptRows:
    """Browse the concept pack, or find a concept by name."""
    if name is not None and parent is not None:
        raise Incorrect("give a name to find concepts, or a parent to browse, not both")
    async with app.xdb(folder) as xdb:
        if name is None:
            found = await xdb.browse_concepts(parent)
        else:
            found = await xdb.find_concept(name)
    return ConceptRows(concepts=tuple(_tag_row(tag) for tag in found))


async def experience_documents(
    app: "App",
    query: Annotated[str | None, Param("Only documents with these words.")] = None,
    *,
    doc_type: Annotated[
        DocumentKind | None, Param("Only documents of this type.", metavar="TYPE")
    ] = None,
) -> DocumentRows:
    """List the reference documents of the store."""
    from ctxmgr.experience.documents.document import DocumentType
    from ctxmgr.experience.documents.repository import DocumentRepository

    documents = DocumentRepository(await app.store())
    wanted = None if doc_type is None else DocumentType(doc_type)
    if query is None:
        found = await documents.list_documents(wanted)
    else:
        found = await documents.search(query, doc_type=wanted)
    return DocumentRows(documents=tuple(_document_row(document) for document in found))


async def experience_sync_documents(
    app: "App",
    folder: Annotated[Path, Param("The folder with policies/, specs/ and so on.", metavar="DIR")],
) -> DocumentSync:
    """Store what is new or changed in a folder of documents.

    The folders are system_instructions, tool_docs, policies, specs and references. Nothing is
    deleted.
    """
    from ctxmgr.experience.documents.repository import DocumentRepository

    done = await DocumentRepository(await app.store()).sync_folder(folder)
    return DocumentSync(
        added=done.added,
        updated=done.updated,
        unchanged=done.unchanged,
        without_file=done.without_file,
        skipped=tuple(f"{each.path}: {each.reason}" for each in done.skipped),
    )


async def experience_build_pack(
    app: "App",
    *,
    out: Annotated[
        Path | None,
        Param(
            "The file; default: concepts.pack in the folder with the experience.", metavar="FILE"
        ),
    ] = None,
    wordnet: Annotated[Path, Param("The folder with WordNet's files.", metavar="DIR")] = Path(
        "/usr/share/wordnet"
    ),
) -> ConceptPack:
    """Build a concept pack from WordNet.

    Its files are those of the Debian package wordnet-base. Vectors are included if the extra
    ctxmgr-agent[vectors] is installed. The licence of WordNet is part of the pack and has to stay
    with every copy.
    """
    import asyncio

    from ctxmgr.errors import ExtraMissing
    from ctxmgr.experience.concepts.wordnet import build_wordnet_pack
    from ctxmgr.search.static_vectors import StaticEmbedder

    try:
        embedder = await asyncio.to_thread(StaticEmbedder.load)
    except ExtraMissing:
        embedder = None
    path = out or app.concept_pack_path()
    await asyncio.to_thread(build_wordnet_pack, path, folder=wordnet, embedder=embedder)
    return await experience_check_pack(app, path)


async def experience_check_pack(
    app: "App",  # noqa: ARG001 (every operation has it)
    file: Annotated[Path, Param("The concept pack.", metavar="FILE")],
) -> ConceptPack:
    """Read a whole concept pack, and show what it contains."""
    import asyncio

    from ctxmgr.experience.concepts.graph import ConceptGraph

    def check() -> ConceptPack:
        with ConceptGraph.opened(file) as graph:
            report = graph.check()
        return ConceptPack(
            file=str(file),
            name=report.name,
            version=report.version,
            source=report.source,
            concepts=report.concepts,
            primaries=report.primaries,
            relations=report.relations,
            licence=report.licence,
        )

    return await asyncio.to_thread(check)


def _target(*, timestep_id: str | None, event_id: str | None, ticks: str | None) -> dict[str, Any]:
    """Return the one target that is given, as the arguments of ``XDB``."""
    target = {
        "timestep_id": timestep_id,
        "event_id": event_id,
        "tick_range": None if ticks is None else tick_range(ticks),
    }
    given = sum(value is not None for value in target.values())
    if given != 1:
        raise Incorrect(f"exactly one of timestep_id, event_id and ticks is needed, not {given}")
    return target


def _tag_mark(name: str, applied: "TagApplication", ticks: tuple[int, int]) -> TagMark:
    from ctxmgr.surfaces.encoding import iso

    return TagMark(
        application_id=applied.id,
        tag_id=applied.tag_id,
        name=name,
        start_tick=ticks[0],
        end_tick=ticks[1],
        event_id=applied.event_id,
        confidence=applied.confidence,
        source=applied.source,
        note=applied.note,
        time=iso(applied.created_at),
    )


def _comment_mark(comment: "Comment", ticks: tuple[int, int]) -> CommentMark:
    from ctxmgr.surfaces.encoding import iso

    return CommentMark(
        comment_id=comment.id,
        content=comment.content,
        start_tick=ticks[0],
        end_tick=ticks[1],
        event_id=comment.event_id,
        time=iso(comment.created_at),
    )


def _ticks_of(
    target: "AnnotationTarget", events: Mapping[str, tuple[int, int]], wanted: tuple[int, int]
) -> tuple[int, int]:
    """Return the ticks of a target; of an event, those that were looked at."""
    from ctxmgr.experience.records.timestep import parse_timestep_id

    if target.timestep_id is not None:
        tick = parse_timestep_id(target.timestep_id)[1]
        return tick, tick
    if target.event_id is not None:
        return events.get(target.event_id, wanted)  # its steps may just have been compressed
    assert target.range_start is not None
    assert target.range_end is not None
    return target.range_start, target.range_end


def _tag_row(tag: "Tag") -> TagRow:
    from ctxmgr.surfaces.encoding import iso

    return TagRow(
        id=tag.id,
        name=tag.name,
        tag_type=tag.tag_type,
        bud_status=tag.bud_status,
        concept_id=tag.concept_id,
        entity_type=tag.entity_type,
        description=tag.description,
        related_concepts=tag.related_concepts,
        created_at=iso(tag.created_at) if tag.created_at else None,
        created_by=tag.created_by,
    )


def _document_row(document: "Document") -> DocumentRow:
    from ctxmgr.surfaces.encoding import iso

    return DocumentRow(
        id=document.id,
        path=document.path,
        name=document.name,
        doc_type=document.doc_type,
        version=document.version,
        updated_at=iso(document.updated_at),
        content_hash=document.content_hash,
        source=document.source,
        tags=document.tags,
    )
