"""Write a concept pack. Touches the file.

Concepts are numbered in the order in which they come, so that the same input gives the same pack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ctxmgr.errors import Incorrect
from ctxmgr.experience.concepts.concept import (
    GLOSS_CHARS_MAX,
    HIERARCHY,
    NAME_CHARS_MAX,
    ConceptSource,
    PackManifest,
    check_concept_id,
)
from ctxmgr.stores.concept_pack import ConceptPackWriter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctxmgr.search.embedder import Embedder

CONCEPTS_MAX: Final = 5_000_000


def write_pack(
    path: Path,
    *,
    manifest: PackManifest,
    concepts: Sequence[ConceptSource],
    embedder: Embedder | None,
) -> None:
    """Write a pack, replacing an earlier one only when the new one is complete.

    With an embedder, the vectors of primary concepts are stored with it. ``Incorrect`` if two
    concepts have one id, or a relation leads out of the pack.
    """
    numbers = _numbered(concepts)
    writer = ConceptPackWriter(path)
    try:
        writer.add("add_manifest", manifest.rows())
        writer.add(
            "add_concept",
            (
                (
                    numbers[source.concept.concept_id],
                    source.concept.concept_id,
                    source.concept.name,
                    source.concept.gloss,
                    int(source.concept.is_primary),
                    int(not any(kind in HIERARCHY for kind, _ in source.relations)),
                )
                for source in concepts
            ),
        )
        writer.add(
            "add_name",
            (
                (name, numbers[source.concept.concept_id], weight)
                for source in concepts
                for name, weight in source.names.items()
            ),
        )
        writer.add(
            "add_relation",
            (
                (numbers[source.concept.concept_id], kind, _target(numbers, other))
                for source in concepts
                for kind, other in source.relations
            ),
        )
        if embedder is not None:
            _add_vectors(writer, concepts, numbers, embedder)
        writer.commit()
    finally:
        writer.discard()


def lens_text(name: str, gloss: str) -> str:
    """Return the text that stands for a concept when vectors are compared."""
    return f"{name} {gloss}"


def _add_vectors(
    writer: ConceptPackWriter,
    concepts: Sequence[ConceptSource],
    numbers: dict[str, int],
    embedder: Embedder,
) -> None:
    primaries = [source.concept for source in concepts if source.concept.is_primary]
    vectors = embedder.embed([lens_text(each.name, each.gloss) for each in primaries])
    rows = vectors.rows.astype("<f2")
    writer.add(
        "add_vector",
        (
            (numbers[each.concept_id], vectors.embedder, vectors.dimension, row.tobytes())
            for each, row in zip(primaries, rows, strict=True)
        ),
    )


def _numbered(concepts: Sequence[ConceptSource]) -> dict[str, int]:
    if len(concepts) > CONCEPTS_MAX:
        raise Incorrect(f"{len(concepts)} concepts are more than a pack holds ({CONCEPTS_MAX})")
    numbers: dict[str, int] = {}
    for source in concepts:
        concept = source.concept
        check_concept_id(concept.concept_id)
        if concept.concept_id in numbers:
            raise Incorrect(f"two concepts have the id {concept.concept_id}")
        if not 0 < len(concept.name) <= NAME_CHARS_MAX or len(concept.gloss) > GLOSS_CHARS_MAX:
            raise Incorrect(f"the name or gloss of {concept.concept_id} is empty or too long")
        numbers[concept.concept_id] = len(numbers) + 1
    return numbers


def _target(numbers: dict[str, int], concept_id: str) -> int:
    if concept_id not in numbers:
        raise Incorrect(f"a relation leads to {concept_id}, which is not in the pack")
    return numbers[concept_id]
