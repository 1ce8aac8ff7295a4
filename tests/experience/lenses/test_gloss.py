"""The lens that needs no model."""

from pathlib import Path

import apsw
import pytest

from ctxmgr.errors import Corrupt
from ctxmgr.experience.concepts.graph import ConceptGraph
from ctxmgr.experience.concepts.wordnet import NAME, examples
from ctxmgr.experience.lenses.gloss import GlossLens
from ctxmgr.experience.lenses.lens import Moment, highest
from ctxmgr.search.static_vectors import StaticEmbedder
from tests.experience.packs import PACK, small_pack


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder.load()


@pytest.fixture(scope="module")
def lens(wordnet: ConceptGraph, embedder: StaticEmbedder) -> GlossLens:
    return GlossLens(wordnet, embedder=embedder)


@pytest.mark.parametrize(
    ("text", "concept"),
    [
        ("The dogs barked at the mailman", "dog.n.01"),
        ("She handed him the money", "money.n.01"),
        ("Permission denied: cannot read the file", "permission.n.01"),
        ("The United States signed the treaty", "united_states.n.01"),
    ],
)
def test_what_is_named_is_active(lens: GlossLens, text: str, concept: str) -> None:
    """000-R162: recall by concept asks for 0.5 and more, so a plain mention must reach it."""
    scores = lens.score(Moment(text=text))

    assert scores[f"{NAME}::{concept}"] >= 0.5
    assert all(0 <= score <= 1 for score in scores.values())


def test_the_concept_of_an_unseen_sentence_is_among_the_highest(
    lens: GlossLens, wordnet: ConceptGraph
) -> None:
    """000-R002: sentences that the pack does not contain, among 12,000 senses; measured 0.70."""
    primary = {entry.concept.concept_id for entry in wordnet.primaries()}
    held_back = [pair for pair in examples() if pair[1] in primary][1::2][::20]

    hits = sum(
        concept in highest(lens.score(Moment(text=sentence)), 10) for sentence, concept in held_back
    )

    assert len(held_back) > 200
    assert hits / len(held_back) > 0.55


def test_vectors_find_what_no_word_names(lens: GlossLens, wordnet: ConceptGraph) -> None:
    """000-R002: an embedder adds concepts that share no word with the text."""
    text = Moment(text="Jazz and rock are played on guitars and saxophones")

    added = set(lens.score(text)) - set(GlossLens(wordnet).score(text))

    assert f"{NAME}::musician.n.01" in added


def test_equal_text_gives_equal_scores(wordnet: ConceptGraph, embedder: StaticEmbedder) -> None:
    """A recording can be scored again later, with the same result."""
    text = Moment(text="The committee approved the new budget after a long debate")

    first = GlossLens(wordnet, embedder=embedder).score(text)
    second = GlossLens(wordnet, embedder=embedder).score(text)

    assert list(first.items()) == list(second.items())


def test_text_without_words_activates_nothing(lens: GlossLens) -> None:
    """Whitespace and punctuation are tokens, too."""
    assert lens.score(Moment(text=" \n…{}[]")) == {}


def test_only_the_end_of_a_long_text_counts(lens: GlossLens) -> None:
    """000-R060: an activation belongs to its moment, not to the whole conversation."""
    scores = lens.score(Moment(text="dog " + "budget committee " * 100))

    assert f"{NAME}::dog.n.01" not in scores


def test_a_lens_without_vectors_needs_no_numpy(small: ConceptGraph) -> None:
    """The words alone are enough for a base installation; ids keep their separators (PG-17)."""
    scores = GlossLens(small).score(Moment(text="He kept his promises and told the truth"))

    assert list(scores) == [f"{PACK}::Honesty"]


def test_stored_vectors_are_those_of_the_embedder(tmp_path: Path, embedder: StaticEmbedder) -> None:
    """X-C16: vectors that another embedder made are replaced; damaged ones are refused."""
    path = small_pack(tmp_path, embedder=embedder)
    text = Moment(text="always tell the truth, even to a liar who misleads you")
    with ConceptGraph.opened(path) as graph:
        stored = GlossLens(graph, embedder=embedder).score(text)
    _change(path, "UPDATE vectors SET embedder = 'other', body = zeroblob(8), dimension = 4")
    with ConceptGraph.opened(path) as graph:
        computed = GlossLens(graph, embedder=embedder).score(text)
    _change(path, f"UPDATE vectors SET embedder = '{embedder.name}'")

    assert stored == pytest.approx(dict(computed), abs=0.01)
    with ConceptGraph.opened(path) as graph, pytest.raises(Corrupt, match="invalid vector"):
        GlossLens(graph, embedder=embedder)


def _change(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()
