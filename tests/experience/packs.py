"""Concept packs for tests: a small one, and WordNet's, built once per run."""

import fcntl
from pathlib import Path
from typing import Final

import pytest

from ctxmgr.experience.concepts.concept import Concept, ConceptSource, PackManifest
from ctxmgr.experience.concepts.wordnet import build_wordnet_pack
from ctxmgr.experience.concepts.write_pack import write_pack
from ctxmgr.search.embedder import Embedder
from ctxmgr.search.static_vectors import StaticEmbedder
from tests.components import need

PACK: Final = "org.example/small.v1"
MANIFEST: Final = PackManifest(name=PACK, version="1", licence="Public domain", source="tests")


def source(
    name: str,
    gloss: str = "",
    *relations: tuple[str, str],
    names: dict[str, float] | None = None,
    is_primary: bool = True,
) -> ConceptSource:
    concept = Concept(concept_id=f"{PACK}::{name}", name=name, gloss=gloss, is_primary=is_primary)
    related = tuple((kind, f"{PACK}::{other}") for kind, other in relations)
    return ConceptSource(concept=concept, names=names or {name: 1.0}, relations=related)


SMALL: Final = (
    source("Entity", "that which exists", is_primary=False),
    source("Trait", "a quality of character", ("is_a", "Entity")),
    source("Virtue", "a good habit", ("is_a", "Entity")),
    source(
        "Honesty",
        "telling the truth and keeping promises",
        ("is_a", "Trait"),
        ("is_a", "Virtue"),
        ("antonym", "Deceit"),
        names={"Honesty": 1.0, "truthfulness": 0.9},
    ),
    source("Deceit", "misleading others on purpose", ("is_a", "Trait"), ("antonym", "Honesty")),
    source("A/B.test::v2", "compares two variants", ("is_a", "Entity")),
)


def small_pack(folder: Path, *, embedder: Embedder | None = None) -> Path:
    path = folder / "small.pack"
    write_pack(path, manifest=MANIFEST, concepts=SMALL, embedder=embedder)
    return path


def wordnet_pack(factory: pytest.TempPathFactory) -> Path:
    """The pack of the whole of WordNet, with vectors; other workers of the run share it."""
    need("wordnet")
    base = factory.getbasetemp()
    path = (base.parent if "popen-gw" in base.name else base) / "wordnet.pack"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            build_wordnet_pack(path, embedder=StaticEmbedder.load())
    return path
