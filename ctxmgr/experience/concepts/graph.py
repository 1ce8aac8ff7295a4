"""Navigate the concepts of a pack. Reads the pack's file, and nothing else.

Each question is one indexed query, so a pack of 100,000 concepts costs no more memory than a small
one. Lists are ordered by name and have a limit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ctxmgr.errors import Corrupt, Incorrect, NotFound
from ctxmgr.experience.concepts.concept import (
    CONCEPT_ID_CHARS_MAX,
    GLOSS_CHARS_MAX,
    NAME_CHARS_MAX,
    Concept,
    PackManifest,
    RelatedConcept,
    read_concept,
)
from ctxmgr.stores.concept_pack import ConceptPackFile, Row

LISTED_DEFAULT: Final = 1_000
"""Concepts of one answer, unless told otherwise. WordNet's widest concept has some 700 children."""

LISTED_MAX: Final = 10_000

PRIMARIES_MAX: Final = 200_000
"""A lens keeps its primary concepts in memory, at some 2 KB each."""

ANCESTORS_MAX: Final = 1_000
"""Concepts above one concept. WordNet's deepest has some 40; a pack with a circle ends here."""

_AFTER_ALL_NAMES: Final = "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReport:
    """What a pack contains, after it was checked."""

    name: str
    version: str
    source: str
    licence: str
    concepts: int
    primaries: int
    relations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LensEntry:
    """What a lens knows of a primary concept."""

    number: int
    concept: Concept
    names: tuple[tuple[str, float], ...]


class ConceptGraph:
    """The concepts of one pack."""

    def __init__(self, file: ConceptPackFile) -> None:
        self._file = file
        rows = {str(key): value for key, value in file.select("manifest")}
        self.manifest = PackManifest.from_rows(rows, where=str(file.path))

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """Open a pack for the length of a ``with`` block."""
        graph = cls.open(path)
        try:
            yield graph
        finally:
            graph.close()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a pack; ``Incorrect``, ``NewerFormat`` or ``Corrupt`` if it is not usable."""
        file = ConceptPackFile.open(path)
        try:
            return cls(file)
        except BaseException:
            file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def get(self, concept_id: str) -> Concept | None:
        return next(iter(self._concepts("concept", id=concept_id)), None)

    def require(self, concept_id: str) -> Concept:
        """Return a concept; ``NotFound`` if the pack has none with this id."""
        found = self.get(concept_id)
        if found is None:
            raise NotFound(f"the pack {self.manifest.name} has no concept {concept_id}")
        return found

    def roots(self, *, limit: int = LISTED_DEFAULT, offset: int = 0) -> list[Concept]:
        """Return the concepts without a parent."""
        return self._concepts("roots", limit=_limit(limit), offset=offset)

    def children(
        self, concept_id: str, *, limit: int = LISTED_DEFAULT, offset: int = 0
    ) -> list[Concept]:
        """Return the more specific concepts, one step down."""
        self.require(concept_id)
        return self._concepts("children", id=concept_id, limit=_limit(limit), offset=offset)

    def parents(self, concept_id: str) -> list[Concept]:
        """Return the more general concepts, one step up; there may be several."""
        self.require(concept_id)
        return self._concepts("parents", id=concept_id, limit=LISTED_MAX)

    def related(self, concept_id: str, *, limit: int = LISTED_DEFAULT) -> list[RelatedConcept]:
        """Return what is connected with a concept in other ways, such as its parts."""
        self.require(concept_id)
        rows = self._file.select("related", {"id": concept_id, "limit": _limit(limit)})
        return [
            RelatedConcept(concept=self._read(row[:4]), relation=str(row[4])[:NAME_CHARS_MAX])
            for row in rows
        ]

    def ancestors(self, concept_id: str) -> list[Concept]:
        """Return all concepts above one, the nearest first."""
        seen = {concept_id}
        found: list[Concept] = []
        level = [concept_id]
        while level:
            above = [parent for each in level for parent in self.parents(each)]
            fresh = {parent.concept_id: parent for parent in above if parent.concept_id not in seen}
            seen |= fresh.keys()
            found += fresh.values()
            if len(found) > ANCESTORS_MAX:
                raise Corrupt(f"{self._file.path}: more than {ANCESTORS_MAX} above {concept_id}")
            level = list(fresh)
        return found

    def find(self, name: str, *, limit: int = 20) -> list[Concept]:
        """Return the concepts whose name begins so, exact ones first, whatever the case."""
        wanted = " ".join(name.replace("_", " ").split())
        if not wanted:
            raise Incorrect("a concept is found by the beginning of its name, which is empty")
        return self._concepts(
            "named", first=wanted, last=wanted + _AFTER_ALL_NAMES, limit=_limit(limit)
        )

    def primaries(self) -> list[LensEntry]:
        """Return the concepts that lenses score, with their names."""
        names: dict[int, list[tuple[str, float]]] = {}
        for number, name, weight in self._file.select("primary_names"):
            if isinstance(number, int) and isinstance(weight, int | float):
                share = min(max(float(weight), 0.0), 1.0)
                names.setdefault(number, []).append((str(name)[:NAME_CHARS_MAX], share))
        rows = self._file.select("primaries", {"limit": PRIMARIES_MAX + 1})
        if len(rows) > PRIMARIES_MAX:
            raise Incorrect(f"{self._file.path}: more than {PRIMARIES_MAX} primary concepts")
        return [
            LensEntry(
                number=int(str(row[0])),
                concept=self._read((*row[1:], 1)),
                names=tuple(names.get(int(str(row[0])), ())),
            )
            for row in rows
        ]

    def primary_parents(self) -> list[tuple[str, str]]:
        """Return the ids of parent and child for each parent of a primary concept."""
        rows = self._file.select("primary_parents")
        return [(str(parent), str(child)) for parent, child in rows]

    def primary_vectors(self) -> list[Row]:
        """Return the stored vectors: concept, embedder, dimension, little-endian float16."""
        return self._file.select("primary_vectors")

    def check(self) -> PackReport:
        """Read the whole pack and return what it contains; ``Corrupt`` if it is not sound."""
        where = str(self._file.path)
        self._file.check_integrity()
        for statement, meaning in (
            ("dangling", "names or relations of concepts that it does not have"),
            ("false_roots", "concepts whose mark as a root does not fit their relations"),
        ):
            count = self._file.select(statement)[0][0]
            if count:
                raise Corrupt(f"{where} has {count!r} {meaning}")
        limits = (CONCEPT_ID_CHARS_MAX, NAME_CHARS_MAX, GLOSS_CHARS_MAX)
        for longest, limit in zip(self._file.select("longest")[0], limits, strict=True):
            if isinstance(longest, int) and longest > limit:
                raise Corrupt(f"{where} has a value of {longest} characters; the limit is {limit}")
        concepts, primaries, relations = self._file.select("counts")[0]
        return PackReport(
            name=self.manifest.name,
            version=self.manifest.version,
            source=self.manifest.source,
            licence=self.manifest.licence,
            concepts=int(str(concepts)),
            primaries=int(str(primaries)),
            relations=int(str(relations)),
        )

    def _concepts(self, statement: str, **parameters: str | int) -> list[Concept]:
        return [self._read(row) for row in self._file.select(statement, parameters)]

    def _read(self, row: Row) -> Concept:
        return read_concept(row, where=str(self._file.path))


def _limit(limit: int) -> int:
    if not 1 <= limit <= LISTED_MAX:
        raise Incorrect(f"a limit of {limit} is not between 1 and {LISTED_MAX}")
    return limit
