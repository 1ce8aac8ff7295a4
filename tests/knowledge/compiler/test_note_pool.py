"""NotePool: how well notes fit a query."""

import random
from collections.abc import Sequence

import pytest

from ctxmgr.knowledge.compiler.compiled import KnowledgeFile
from ctxmgr.knowledge.compiler.context_compiler import ContextCompiler
from ctxmgr.knowledge.compiler.note_pool import NotePool
from ctxmgr.knowledge.compiler.scoring import NoteRelevance
from ctxmgr.knowledge.config import KnowledgeConfig
from ctxmgr.search.embedder import Vectors
from ctxmgr.search.static_vectors import StaticEmbedder


class _CountingEmbedder(StaticEmbedder):
    count = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.count += len(texts)
        return super().embed(texts)


def note(path: str, text: str) -> KnowledgeFile:
    return KnowledgeFile(path=path, text=text, modified=0, category="reference")


NOTES = (
    note("knowledge/reference/tea.md", "Green tea needs 80 degrees."),
    note("knowledge/reference/ports.md", "The gateway listens on port 8443."),
    note("knowledge/people/ann.md", "Ann has a dog."),
)


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder.load()


def _passage(fit: NoteRelevance, path: str) -> str:
    assert fit.passage is not None
    return fit.passage(path)


def best(pool: NotePool, query: str, notes: Sequence[KnowledgeFile]) -> str:
    fits = pool(query, notes)
    return max(fits, key=lambda path: 0.4 * fits[path].bm25 + 0.6 * (fits[path].vector or 0))


def test_words_and_vectors_are_from_0_to_1(embedder: StaticEmbedder) -> None:
    """002-R145: both sides are comparable: the note that stands out most has all of its side."""
    fits = NotePool(embedder)("which port is the gateway on", NOTES)

    assert max(max(fit.bm25, fit.vector or 0) for fit in fits.values()) == 1.0
    assert fits["knowledge/reference/ports.md"].bm25 > 0.8
    assert fits["knowledge/people/ann.md"].bm25 == 0.0
    assert all(0 <= fit.bm25 <= 1 and 0 <= (fit.vector or 0) <= 1 for fit in fits.values())
    assert best(NotePool(embedder), "somebody with a puppy", NOTES) == "knowledge/people/ann.md"


def test_without_an_embedder_words_alone_decide() -> None:
    """002-A36: nothing needs vectors."""
    fits = NotePool()("green tea", NOTES)

    assert fits["knowledge/reference/tea.md"].bm25 == 1.0
    assert fits["knowledge/reference/tea.md"].vector is None
    assert "knowledge/people/ann.md" not in fits


def test_the_snippet_begins_at_the_passage_that_fits(embedder: StaticEmbedder) -> None:
    """002-R148: of a long note, the model sees what the message is about."""
    filler = "\n".join(f"Line {number} is about nothing much at all." for number in range(100))
    long = note(
        "knowledge/reference/long.md", f"{filler}\nThe password rotates on Mondays.\n{filler}"
    )

    fit = NotePool(embedder)("when does the password rotate", [long])[long.path]

    assert fit.passage is not None
    assert "rotates on Mondays" in fit.passage(long.path)
    assert len(fit.passage(long.path)) <= 500


def test_changed_notes_are_found_as_in_a_new_pool() -> None:
    """002-R006: an index that was updated answers as one that was built from the same notes."""
    chance = random.Random(7)
    words = [f"word{number}" for number in range(60)]
    folders = ("knowledge/reference", "knowledge/people", "knowledge/procedures/deep")
    notes = {
        f"{chance.choice(folders)}/{number}.md": " ".join(chance.choices(words, k=30))
        for number in range(30)
    }
    pool = NotePool()
    for _ in range(20):
        changed = chance.choice(sorted(notes))
        notes[changed] = " ".join(chance.choices(words, k=30))
        notes.pop(chance.choice(sorted(notes)))
        notes[f"knowledge/reference/new{chance.random()}.md"] = " ".join(chance.choices(words, k=9))
        files = [note(path, text) for path, text in notes.items()]
        query = " ".join(chance.choices(words, k=3))

        updated, new = pool(query, files), NotePool()(query, files)

        assert updated.keys() == new.keys()
        for path, fit in new.items():
            assert updated[path].bm25 == pytest.approx(fit.bm25, abs=1e-4)
            assert _passage(updated[path], path) == _passage(fit, path)


def test_a_changed_note_costs_what_is_new() -> None:
    """002-R077: however often notes change, a prompt never waits for all of them."""
    notes = [note(f"knowledge/reference/{n}/a.md", f"Port {n} is open.") for n in range(100)]
    embedder = _CountingEmbedder.load()
    pool = NotePool(embedder)
    pool("port", notes)
    counts = []
    for change in range(40):
        path = f"knowledge/reference/{change % 20}/a.md"
        notes[change % 20] = note(path, f"Gate {change} is shut.")
        embedder.count = 0
        pool("port", notes)
        counts.append(embedder.count)

    assert set(counts) == {counts[0]}
    assert 0 < counts[0] < 10
    fits, new = pool("gate 31", notes), NotePool(embedder)("gate 31", notes)
    for path, fit in new.items():
        assert fits[path][:2] == pytest.approx(fit[:2], abs=1e-3)


def test_what_is_beside_a_note_makes_it_more_similar(embedder: StaticEmbedder) -> None:
    """002-R145: a note among notes about the matter is more similar than the same one elsewhere."""
    text = "It is the one that she chose in the end."
    about = [
        note(f"knowledge/reference/pets/{number}.md", f"A puppy named {name} barked at the dogs.")
        for number, name in enumerate(("Rex", "Bello", "Luna", "Max"))
    ]
    inside = note("knowledge/reference/pets/1b.md", text)
    apart = note("knowledge/people/apart.md", text)

    fits = NotePool(embedder)("Which dog did Ann adopt?", [*about, inside, apart])

    assert (fits[inside.path].vector or 0) > (fits[apart.path].vector or 0)


def test_a_telling_word_counts_more_for_the_meaning(embedder: StaticEmbedder) -> None:
    """002-R145: what all notes speak of says little about which one is meant."""
    trips = [
        note(f"knowledge/journal/{number}.md", f"We spent the weekend in city {number}.")
        for number in range(20)
    ]
    dogs = note("knowledge/reference/dogs.md", "Her dogs bark at strangers.")

    fits = NotePool(embedder)("Who spent the weekend with a puppy?", [*trips, dogs])

    assert (fits[dogs.path].vector or 0) > max(fits[trip.path].vector or 0 for trip in trips)


def test_what_hardly_fits_a_lone_note_is_not_shown_for_it(embedder: StaticEmbedder) -> None:
    """002-R148: the only note is the best one, and may still have nothing to do with a message."""
    tea = note("knowledge/reference/tea.md", "Green tea needs 80 degrees.")
    compiler = ContextCompiler(KnowledgeConfig(), relevance=NotePool(embedder))

    def shown(message: str) -> bool:
        compiled = compiler.plan(message, [], [], [tea], now=0)
        return "tea.md" in compiled.text

    assert shown("How hot should green tea be?")
    assert not shown("Please fix the failing unit test in parser.py")


def test_a_note_that_stands_alone_is_not_less_similar(embedder: StaticEmbedder) -> None:
    """002-R145: having no neighbours is not a reason against a note."""
    alone = note("knowledge/people/ann.md", "Ann adopted a dog.")

    fit = NotePool(embedder)("Ann adopted a dog.", [alone])[alone.path]

    assert fit.vector == pytest.approx(1.0, abs=0.02)


def test_an_empty_note_is_not_shown_for_its_folder(embedder: StaticEmbedder) -> None:
    """002-R148: what is beside a note does not make an empty one worth a place."""
    notes = [*NOTES, note("knowledge/reference/empty.md", " \n")]
    compiler = ContextCompiler(KnowledgeConfig(), relevance=NotePool(embedder))

    compiled = compiler.plan("which port is the gateway on", [], [], notes, now=0)

    assert "knowledge/reference/ports.md" in {section.path for section in compiled.included}
    assert "knowledge/reference/empty.md" not in {section.path for section in compiled.included}
