"""The tags of an agent, their applications, and the concepts of its pack. Touches ``log.sqlite``.

A tag of a concept has the concept's id and is stored when it is first applied; until then it comes
from the pack. Other tags have the id ``tag-{12 hex}``. A name finds a tag whatever its case, and
only as a whole: ``auth`` does not find ``author``.

Applications count for a timestep, an event or a range of ticks alike. Concepts are inherited: who
applies ``dog`` with ``inherit=True`` also applies ``animal``, marked as inherited from ``dog``.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

import orjson

from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.experience.concepts.concept import check_concept_id
from ctxmgr.experience.concepts.graph import ConceptGraph
from ctxmgr.experience.log.filters import LIMIT_MAX
from ctxmgr.experience.log.tag_targets import TAG_COLUMNS, add_application, read_tag
from ctxmgr.experience.records.annotations import AnnotationTarget, Tag, TagApplication
from ctxmgr.experience.records.contents import storable
from ctxmgr.experience.records.kinds import BudStatus, TagSource, TagType
from ctxmgr.experience.records.timestep import TimestepRecord
from ctxmgr.experience.tags.buds import CANDIDATES, promoted_to_bud, reverted, with_status
from ctxmgr.experience.tags.working_set import InMemoryTagIndex, concept_tag
from ctxmgr.stores.layer_file import LayerFile, SqlConnection, rows_of

NAME_CHARS_MAX: Final = 200
DESCRIPTION_CHARS_MAX: Final = 10_000
NOTE_CHARS_MAX: Final = 10_000
RELATED_CONCEPTS_MAX: Final = 100
FOUND_MAX: Final = 10_000
"""Tags of one answer."""

RECENT_TAGS: Final = 1_000
"""Recently applied custom and entity tags that the working set begins with."""

AUTO_SCORE_MIN: Final = 0.5
"""A lens applies a tag from this score on, as ``recall_by_concept`` looks for it."""


class TaggedSteps(Protocol):
    """What finds timesteps by their tags: the experience log."""

    async def query(
        self, *, tags: Sequence[str] | None = None, limit: int = 100, offset: int = 0
    ) -> list[TimestepRecord]: ...


class TagIndex:
    """The tags in one experience log."""

    def __init__(
        self,
        file: LayerFile,
        steps: TaggedSteps,
        *,
        be_id: str,
        concept_graph: ConceptGraph | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._file = file
        self._steps = steps
        self._be_id = be_id
        self._now = now
        self.concept_graph = concept_graph
        self.working_set = InMemoryTagIndex()

    async def load_working_set(self) -> None:
        """Load primary concepts, candidate buds and recently used custom and entity tags."""
        if self.concept_graph is not None:
            await asyncio.to_thread(self.working_set.load_primaries, self.concept_graph)
        for tag in await self._file.read(_recent_tags):
            self.working_set.add_to_working_set(tag)
        self.working_set.evict_unused()

    # Create and find.

    async def create_tag(
        self,
        name: str,
        tag_type: TagType,
        *,
        concept_id: str | None = None,
        description: str | None = None,
        entity_type: str | None = None,
        related_concepts: Sequence[str] = (),
    ) -> Tag:
        """Create a tag; ``Incorrect`` if one of this type has the name already.

        A new bud collects examples.
        """
        tag = self._new_tag(
            name,
            tag_type,
            concept_id=concept_id,
            description=description,
            entity_type=entity_type,
            related_concepts=tuple(related_concepts),
        )

        def create(connection: SqlConnection) -> None:
            existing = _by_id(connection, tag.id) or next(
                (found for found in _by_name(connection, tag.name) if found.tag_type is tag_type),
                None,
            )
            if existing is not None:
                raise Incorrect(f"there is a {tag_type} tag {tag.name!r} already: {existing.id}")
            _insert(connection, tag)

        await self._file.write(create)
        self.working_set.add_to_working_set(tag)
        return tag

    async def get_tag(self, tag_id: str) -> Tag | None:
        """Return a stored tag, or that of a concept of the pack."""
        stored = await self._file.read(lambda connection: _by_id(connection, tag_id))
        return stored or self._of_concept(tag_id)

    async def require_tag(self, tag_id: str) -> Tag:
        found = await self.get_tag(tag_id)
        if found is None:
            raise NotFound(f"there is no tag {tag_id!r:.80}")
        return found

    async def find_tags(
        self,
        *,
        name_pattern: str | None = None,
        tag_type: TagType | None = None,
        bud_status: BudStatus | None = None,
        limit: int = 1_000,
    ) -> list[Tag]:
        """Return stored tags by name. In a pattern ``*`` and ``?`` stand for other characters."""
        if not 1 <= limit <= FOUND_MAX:
            raise Incorrect(f"a limit of {limit} is not between 1 and {FOUND_MAX}")
        pattern = None if name_pattern is None else _like(name_pattern)
        return await self._file.read(
            lambda connection: [
                read_tag(row)
                for row in connection.execute(
                    f"SELECT {TAG_COLUMNS} FROM tags WHERE (?1 IS NULL OR name LIKE ?1 ESCAPE '\\')"
                    " AND (?2 IS NULL OR tag_type = ?2) AND (?3 IS NULL OR bud_status = ?3)"
                    " ORDER BY name COLLATE NOCASE, id LIMIT ?4",
                    (pattern, tag_type, bud_status, limit),
                )
            ]
        )

    async def resolve(self, name_or_id: str) -> Tag | None:
        """Return the tag with this id, or else the oldest with exactly this name."""

        def find(connection: SqlConnection) -> Tag | None:
            return _by_id(connection, name_or_id) or self._by_name_or_concept(
                connection, name_or_id
            )

        return await self._file.read(find)

    async def count(self) -> tuple[int, int]:
        """Return the number of stored tags, and of buds among them."""

        def read(connection: SqlConnection) -> tuple[int, int]:
            ((tags, buds),) = rows_of(
                connection, "SELECT count(*), count(*) FILTER (WHERE tag_type = 'bud') FROM tags"
            )
            return tags, buds

        return await self._file.read(read)

    # Apply.

    async def apply(
        self,
        name_or_id: str,
        target: AnnotationTarget,
        *,
        confidence: float = 1.0,
        source: TagSource = TagSource.MANUAL,
        note: str | None = None,
        inherit: bool = False,
    ) -> TagApplication:
        """Apply a tag, which is created as a custom tag if nothing has this id or name.

        With ``inherit``, the tags of all concepts above it are applied as well.
        """
        if note is not None and len(note) > NOTE_CHARS_MAX:
            raise Incorrect(f"a note of {len(note)} characters; the limit is {NOTE_CHARS_MAX}")
        note = None if note is None else storable(note)

        def apply(connection: SqlConnection) -> tuple[Tag, TagApplication]:
            tag = _by_id(connection, name_or_id) or self._by_name_or_concept(connection, name_or_id)
            tag = tag or self._new_tag(name_or_id, TagType.CUSTOM)
            application = self._application(target, tag, confidence, source, note)
            self._store(connection, tag, application)
            for parent in self._above(tag) if inherit else ():
                inherited = replace(
                    application,
                    id=_application_id(),
                    tag_id=parent.id,
                    source=TagSource.INHERITED,
                    inherited_from=tag.id,
                )
                self._store(connection, parent, inherited)
            return tag, application

        tag, application = await self._file.write(apply)
        self.working_set.add_to_working_set(tag)
        self.working_set.evict_unused()
        return application

    async def apply_activations(
        self,
        target: AnnotationTarget,
        activations: Mapping[str, float],
        *,
        score_min: float = AUTO_SCORE_MIN,
    ) -> list[TagApplication]:
        """Apply the tags of concepts that lenses scored highly, with the score as confidence.

        Only concepts of the pack become tags. Doing it again for the same target changes nothing.
        """
        high = {each: score for each, score in activations.items() if score >= score_min}
        tags = {each: self._of_concept(each) for each in high}

        def apply(connection: SqlConnection) -> list[TagApplication]:
            applications = []
            for concept_id, tag in tags.items():
                stored = _by_id(connection, concept_id) or tag
                if stored is not None:
                    application = replace(
                        self._application(target, stored, high[concept_id], TagSource.AUTO, None),
                        id=_auto_application_id(target, stored.id),
                    )
                    if not _is_applied(connection, application.id):
                        self._store(connection, stored, application)
                        applications.append(application)
            return applications

        return await self._file.write(apply) if high else []

    # Concepts.

    def get_concept_children(self, concept_id: str) -> list[Tag]:
        """Return the tags of more specific concepts."""
        return [concept_tag(each) for each in self._graph().children(concept_id)]

    def get_concept_parents(self, concept_id: str) -> list[Tag]:
        """Return the tags of more general concepts; there may be several."""
        return [concept_tag(each) for each in self._graph().parents(concept_id)]

    def get_related_concepts(self, concept_id: str) -> list[tuple[Tag, str]]:
        """Return tags of connected concepts, each with the kind of relation."""
        related = self._graph().related(concept_id)
        return [(concept_tag(each.concept), each.relation) for each in related]

    def browse_concepts(self, parent: str | None = None) -> list[Tag]:
        """Return the children of a concept, or the roots of the pack."""
        if parent is not None:
            return self.get_concept_children(parent)
        return [concept_tag(each) for each in self._graph().roots()]

    def find_concept(self, query: str, *, limit: int = 20) -> list[Tag]:
        """Return the tags of concepts whose name begins so."""
        return [concept_tag(each) for each in self._graph().find(query, limit=limit)]

    # Buds.

    async def promote_to_bud(self, tag_id: str) -> Tag:
        """Make a tag a bud, which begins to collect examples."""
        return await self._change(tag_id, promoted_to_bud)

    async def update_bud_status(self, tag_id: str, status: BudStatus) -> Tag:
        """Set the next status of a bud; ``Incorrect`` if it cannot follow the current one."""
        return await self._change(tag_id, lambda tag: with_status(tag, status))

    async def revert_bud(self, tag_id: str) -> Tag:
        """Make an abandoned bud the tag that it was before."""
        return await self._change(tag_id, reverted)

    async def get_buds(self, status: BudStatus | None = None) -> list[Tag]:
        return await self.find_tags(tag_type=TagType.BUD, bud_status=status)

    async def get_bud_examples(
        self, tag_id: str, *, limit: int | None = None, offset: int = 0
    ) -> list[TimestepRecord]:
        """Return the timesteps that a bud was applied to: alone, in an event or in a range.

        These are all of them, unless there is a ``limit``.
        """
        tag = await self.require_tag(tag_id)
        if limit is not None:
            return await self._steps.query(tags=[tag.id], limit=limit, offset=offset)
        found: list[TimestepRecord] = []
        while page := await self._steps.query(
            tags=[tag.id], limit=LIMIT_MAX, offset=offset + len(found)
        ):
            found += page
            if len(page) < LIMIT_MAX:
                break
        return found

    async def _change(self, tag_id: str, change: Callable[[Tag], Tag]) -> Tag:
        """Change a tag in one transaction, so that two processes cannot both take a step."""

        def run(connection: SqlConnection) -> Tag:
            tag = _by_id(connection, tag_id) or self._of_concept(tag_id)
            if tag is None:
                raise NotFound(f"there is no tag {tag_id!r:.80}")
            changed = change(tag)
            self._keep(connection, tag)
            connection.execute(
                "UPDATE tags SET tag_type = ?, bud_status = ?, origin_type = ? WHERE id = ?",
                (changed.tag_type, changed.bud_status, changed.origin_type, changed.id),
            )
            return changed

        changed = await self._file.write(run)
        self.working_set.add_to_working_set(changed)
        return changed

    def _new_tag(
        self,
        name: str,
        tag_type: TagType,
        *,
        concept_id: str | None = None,
        description: str | None = None,
        entity_type: str | None = None,
        related_concepts: tuple[str, ...] = (),
    ) -> Tag:
        if not 0 < len(name.strip()) <= NAME_CHARS_MAX or not name.isprintable():
            raise Incorrect(
                f"{name!r:.80} is not the name of a tag: 1 to {NAME_CHARS_MAX} printable characters"
            )
        if len(description or "") > DESCRIPTION_CHARS_MAX:
            raise Incorrect(f"a description has at most {DESCRIPTION_CHARS_MAX} characters")
        if len(related_concepts) > RELATED_CONCEPTS_MAX:
            raise Incorrect(f"a tag has at most {RELATED_CONCEPTS_MAX} related concepts")
        if (tag_type is TagType.CONCEPT) != (concept_id is not None):
            raise Incorrect("a concept tag has a concept_id, and other tags have none")
        if (tag_type is TagType.ENTITY) != (entity_type is not None):
            raise Incorrect("an entity tag has an entity_type, and other tags have none")
        for each in (*related_concepts, *([concept_id] if concept_id else [])):
            check_concept_id(each)
        return Tag(
            id=concept_id or f"tag-{secrets.token_hex(6)}",
            name=name.strip(),
            tag_type=tag_type,
            concept_id=concept_id,
            entity_type=entity_type,
            bud_status=BudStatus.COLLECTING if tag_type is TagType.BUD else None,
            created_at=self._now(),
            created_by=self._be_id,
            description=description,
            related_concepts=related_concepts,
        )

    def _application(
        self,
        target: AnnotationTarget,
        tag: Tag,
        confidence: float,
        source: TagSource,
        note: str | None,
    ) -> TagApplication:
        return TagApplication(
            **target.fields(),
            id=_application_id(),
            tag_id=tag.id,
            confidence=confidence,
            source=source,
            created_at=self._now(),
            note=note,
        )

    def _store(self, connection: SqlConnection, tag: Tag, application: TagApplication) -> None:
        self._keep(connection, tag)
        add_application(connection, application)

    def _keep(self, connection: SqlConnection, tag: Tag) -> None:
        """Store a tag unless it is stored: that of a concept comes from the pack at first."""
        _insert(connection, tag if tag.created_at else replace(tag, created_at=self._now()))

    def _by_name_or_concept(self, connection: SqlConnection, name_or_id: str) -> Tag | None:
        concept = self._of_concept(name_or_id)
        return concept or next(iter(_by_name(connection, name_or_id)), None)

    def _of_concept(self, concept_id: str) -> Tag | None:
        known = self.working_set.get(concept_id)
        if known is not None and known.tag_type is TagType.CONCEPT:
            return known
        concept = None if self.concept_graph is None else self.concept_graph.get(concept_id)
        return None if concept is None else concept_tag(concept)

    def _above(self, tag: Tag) -> list[Tag]:
        if tag.concept_id is None or self.concept_graph is None:
            return []
        return [concept_tag(each) for each in self.concept_graph.ancestors(tag.concept_id)]

    def _graph(self) -> ConceptGraph:
        if self.concept_graph is None:
            raise Incorrect("there is no concept pack: `ctxmgr experience build-pack` builds one")
        return self.concept_graph


def _by_id(connection: SqlConnection, tag_id: str) -> Tag | None:
    rows = connection.execute(f"SELECT {TAG_COLUMNS} FROM tags WHERE id = ?", (tag_id,))
    return next((read_tag(row) for row in rows), None)


def _by_name(connection: SqlConnection, name: str) -> list[Tag]:
    rows = connection.execute(
        f"SELECT {TAG_COLUMNS} FROM tags WHERE name = ? COLLATE NOCASE ORDER BY created_at, id",
        (name.strip(),),
    )
    return [read_tag(row) for row in rows]


def _insert(connection: SqlConnection, tag: Tag) -> None:
    """Store a tag; one that is stored already stays as it is."""
    connection.execute(
        f"INSERT OR IGNORE INTO tags ({TAG_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            tag.id,
            tag.name,
            tag.tag_type,
            tag.concept_id,
            tag.entity_type,
            tag.bud_status,
            tag.created_at,
            tag.created_by,
            tag.description,
            tag.origin_type,
            orjson.dumps(tag.related_concepts).decode(),
        ),
    )


def _recent_tags(connection: SqlConnection) -> list[Tag]:
    """Return candidate buds and recently applied custom and entity tags, the newest last."""
    marks = ", ".join("?" * len(CANDIDATES))
    buds = connection.execute(
        f"SELECT {TAG_COLUMNS} FROM tags WHERE tag_type = 'bud' AND bud_status IN ({marks})"
        " ORDER BY created_at, id LIMIT ?",
        (*CANDIDATES, FOUND_MAX),
    ).fetchall()
    recent = connection.execute(
        f"SELECT {TAG_COLUMNS} FROM tags JOIN (SELECT tag_id, max(created_at) AS used"
        " FROM tag_applications GROUP BY tag_id) ON tag_id = id"
        " WHERE tag_type IN ('custom', 'entity') ORDER BY used DESC, id LIMIT ?",
        (RECENT_TAGS,),
    ).fetchall()
    return [read_tag(row) for row in (*buds, *reversed(recent))]


def _application_id() -> str:
    return f"ta-{secrets.token_hex(6)}"


def _auto_application_id(target: AnnotationTarget, tag_id: str) -> str:
    """Return the same id for the same target: events are delivered at least once."""
    identity = orjson.dumps([tag_id, *target.fields().values()])
    return f"ta-{hashlib.sha256(identity).hexdigest()[:12]}"


def _is_applied(connection: SqlConnection, application_id: str) -> bool:
    found = rows_of(connection, "SELECT 1 FROM tag_applications WHERE id = ?", (application_id,))
    return bool(found)


def _like(pattern: str) -> str:
    """Return a pattern with ``*`` and ``?`` in SQL's form."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%").replace("?", "_")
