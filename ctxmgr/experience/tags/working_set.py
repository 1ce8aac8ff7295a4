"""The tags that are kept in memory: primary concepts, candidate buds, recently used tags.

Of a pack, only the primary concepts are loaded, never the whole graph.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Final

from ctxmgr.errors import Incorrect
from ctxmgr.experience.concepts.concept import Concept
from ctxmgr.experience.concepts.graph import ConceptGraph
from ctxmgr.experience.records.annotations import Tag
from ctxmgr.experience.records.kinds import TagType

WORKING_SET_MAX: Final = 10_000


class InMemoryTagIndex:
    """Tags by id, the least recently used first."""

    def __init__(self) -> None:
        self.active_tags: OrderedDict[str, Tag] = OrderedDict()
        self.concept_hierarchy: dict[str, list[str]] = {}
        """Concept id → ids of its children, as far as they are primary."""

    def get(self, tag_id: str) -> Tag | None:
        """Return a tag and count it as used."""
        tag = self.active_tags.get(tag_id)
        if tag is not None:
            self.active_tags.move_to_end(tag_id)
        return tag

    def add_to_working_set(self, tag: Tag) -> None:
        """Add a tag, or replace it, as the most recently used."""
        self.active_tags[tag.id] = tag
        self.active_tags.move_to_end(tag.id)

    def load_concept_pack_primaries(self, path: Path) -> int:
        """Load the concepts of a pack that have lenses; return how many there are."""
        with ConceptGraph.opened(path) as graph:
            return self.load_primaries(graph)

    def load_primaries(self, graph: ConceptGraph) -> int:
        """Load the primary concepts of an open pack."""
        entries = graph.primaries()
        for entry in entries:
            self.add_to_working_set(concept_tag(entry.concept))
        for parent, child in graph.primary_parents():
            children = self.concept_hierarchy.setdefault(parent, [])
            if child not in children:
                children.append(child)
        return len(entries)

    def evict_unused(self, max_size: int = WORKING_SET_MAX) -> int:
        """Drop the least recently used tags above a size; return how many were dropped."""
        if max_size < 0:
            raise Incorrect(f"a working set of {max_size} tags is not possible")
        dropped = set()
        while len(self.active_tags) > max_size:
            dropped.add(self.active_tags.popitem(last=False)[0])
        if dropped:
            self.concept_hierarchy = {
                parent: kept
                for parent, children in self.concept_hierarchy.items()
                if (kept := [child for child in children if child not in dropped])
            }
        return len(dropped)


def concept_tag(concept: Concept) -> Tag:
    """Return the tag of a concept. Its id is that of the concept."""
    return Tag(
        id=concept.concept_id,
        name=concept.name,
        tag_type=TagType.CONCEPT,
        concept_id=concept.concept_id,
        created_at=0,
        created_by="system",
        description=concept.gloss or None,
    )
