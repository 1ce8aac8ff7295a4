"""The pack that is built from WordNet."""

import tracemalloc
from pathlib import Path

import pytest

from ctxmgr.errors import NotFound
from ctxmgr.experience.concepts.graph import ConceptGraph
from ctxmgr.experience.concepts.wordnet import NAME, build_wordnet_pack

DOG = f"{NAME}::dog.n.01"


def test_nouns_and_verbs_are_concepts_with_their_relations(wordnet: ConceptGraph) -> None:
    """000-R126, 000-R130, 000-R131, 000-R132: a real graph, not a toy one."""
    dog = wordnet.require(DOG)

    assert dog.gloss.startswith("a member of the genus Canis")
    assert '"' not in dog.gloss
    assert {c.name for c in wordnet.parents(DOG)} == {"canine", "domestic animal"}
    assert "puppy" in {c.name for c in wordnet.children(DOG)}
    assert ("member_of", "pack") in {(r.relation, r.concept.name) for r in wordnet.related(DOG)}
    assert wordnet.require(f"{NAME}::run.v.01").is_primary
    assert wordnet.find("dog")[0].concept_id == DOG


def test_every_noun_leads_up_to_entity(wordnet: ConceptGraph) -> None:
    """WordNet's nouns have one root; a lost relation would show here."""
    roots = [c.concept_id for c in wordnet.roots() if ".n." in c.concept_id]

    assert roots == [f"{NAME}::entity.n.01"]
    assert wordnet.ancestors(DOG)[-1].name == "entity"


def test_the_licence_notice_goes_with_the_pack(wordnet: ConceptGraph) -> None:
    """Princeton's licence demands that the notice is on every copy."""
    licence = wordnet.check().licence

    assert "WordNet 3.0 Copyright 2006 by Princeton University" in licence
    assert licence.endswith("LICENSEE agrees to preserve same.")


def test_the_graph_is_not_loaded_into_memory(wordnet_path: Path) -> None:
    """000-R196: navigation in 96,000 concepts takes no more memory than in ten."""
    tracemalloc.start()
    try:
        with ConceptGraph.opened(wordnet_path) as graph:
            for concept in [*graph.children(DOG), *graph.ancestors(DOG)]:
                graph.related(concept.concept_id)
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


def test_a_missing_wordnet_is_named(tmp_path: Path) -> None:
    """The message says what to install."""
    with pytest.raises(NotFound, match="install the Debian package wordnet-base"):
        build_wordnet_pack(tmp_path / "x.pack", folder=tmp_path)
