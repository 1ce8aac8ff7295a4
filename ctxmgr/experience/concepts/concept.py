"""Concepts, how they are connected, and what a pack says about itself. Pure.

A concept id is an opaque string such as ``org.princeton/wordnet-3.0::dog.n.01``: dots, slashes and
colons have no meaning here. Everything that a pack contains is checked when it is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from ctxmgr.errors import Corrupt, Incorrect

CONCEPT_ID_CHARS_MAX: Final = 512
NAME_CHARS_MAX: Final = 256
GLOSS_CHARS_MAX: Final = 20_000
"""The longest gloss of WordNet has 500 characters."""

LICENCE_CHARS_MAX: Final = 100_000

HIERARCHY: Final = frozenset({"is_a", "instance_of"})
"""Relations that lead from a concept to its parents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    concept_id: str
    name: str
    gloss: str
    is_primary: bool
    """Lenses score it; the others only complete the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedConcept:
    concept: Concept
    relation: str
    """Such as ``part_of`` or ``antonym``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConceptSource:
    """A concept to be written to a pack."""

    concept: Concept
    names: Mapping[str, float]
    """Words for it, each with the share of the word's uses that mean this concept (0 to 1)."""
    relations: tuple[tuple[str, str], ...]
    """Kind and id of the other concept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackManifest:
    name: str
    """The beginning of its concepts' ids, such as ``org.princeton/wordnet-3.0``."""
    version: str
    licence: str
    """The notice that has to accompany every copy."""
    source: str

    @classmethod
    def from_rows(cls, rows: Mapping[str, object], *, where: str) -> Self:
        """Read a manifest; ``Corrupt`` if an entry is missing or too long."""
        values = {key: rows.get(key) for key in ("name", "version", "licence", "source")}
        for key, value in values.items():
            limit = LICENCE_CHARS_MAX if key == "licence" else NAME_CHARS_MAX
            if not isinstance(value, str) or not 0 < len(value) <= limit:
                raise Corrupt(f"{where}: the manifest has no valid {key} (1 to {limit} characters)")
        return cls(**{key: str(value) for key, value in values.items()})

    def rows(self) -> tuple[tuple[str, str], ...]:
        return (
            ("licence", self.licence),
            ("name", self.name),
            ("source", self.source),
            ("version", self.version),
        )


def check_concept_id(concept_id: str) -> str:
    """Return the id; ``Incorrect`` if it cannot be one."""
    if not 0 < len(concept_id) <= CONCEPT_ID_CHARS_MAX or not concept_id.isprintable():
        raise Incorrect(
            f"{concept_id[:80]!r} is not a concept id: 1 to {CONCEPT_ID_CHARS_MAX} "
            "printable characters"
        )
    return concept_id


def read_concept(row: tuple[object, ...], *, where: str) -> Concept:
    """Read a row (id, name, gloss, is_primary); ``Corrupt`` if a value breaks a limit."""
    concept_id, name, gloss, is_primary = row
    if not (
        isinstance(concept_id, str)
        and 0 < len(concept_id) <= CONCEPT_ID_CHARS_MAX
        and concept_id.isprintable()
    ):
        raise Corrupt(f"{where}: invalid concept id {str(concept_id)[:80]!r}")
    if not (isinstance(name, str) and 0 < len(name) <= NAME_CHARS_MAX and name.isprintable()):
        raise Corrupt(f"{where}: the concept {concept_id} has no valid name")
    if not (isinstance(gloss, str) and len(gloss) <= GLOSS_CHARS_MAX):
        raise Corrupt(f"{where}: the gloss of {concept_id} exceeds {GLOSS_CHARS_MAX} characters")
    return Concept(concept_id=concept_id, name=name, gloss=gloss, is_primary=is_primary == 1)
