"""Load the lenses of a concept pack. Reads the pack, and the weights of static vectors."""

from ctxmgr.errors import ExtraMissing
from ctxmgr.experience.concepts.graph import ConceptGraph
from ctxmgr.experience.lenses.gloss import GlossLens
from ctxmgr.experience.lenses.lens import Lens, Lenses, LensPolicy
from ctxmgr.search.static_vectors import StaticEmbedder


def load_lenses(
    graph: ConceptGraph, *, others: tuple[Lens, ...], policy: LensPolicy, top_k: int
) -> Lenses:
    """Return the gloss lens of a pack and other lenses, under one policy.

    Without the extra for vectors the gloss lens uses words alone. Takes one to two seconds for
    WordNet.
    """
    try:
        embedder = StaticEmbedder.load()
    except ExtraMissing:
        embedder = None
    gloss = GlossLens(graph, embedder=embedder)
    return Lenses(lenses=(gloss, *others), policy=policy, top_k=top_k)
