"""Static vectors, and vectors of different embedders."""

import socket
import sys

import pytest

from ctxmgr.errors import ExtraMissing, Incorrect
from ctxmgr.search.embedder import Vectors
from ctxmgr.search.static_vectors import StaticEmbedder


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder.load()


def test_loading_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are inside the wheel; a machine without a network can use them."""

    def refuse(*_: object) -> None:
        raise AssertionError("opened a socket")

    monkeypatch.setattr(socket.socket, "connect", refuse)

    assert StaticEmbedder.load().dimension == 256


def test_the_table_is_read_once(embedder: StaticEmbedder) -> None:
    """Every search of an agent's notes asks for it."""
    again = StaticEmbedder.load()

    assert again._table is embedder._table
    assert again._tokenizer is embedder._tokenizer


def test_texts_about_the_same_thing_are_close(embedder: StaticEmbedder) -> None:
    """Vectors add what shared words cannot give."""
    texts = embedder.embed(["the puppy barks", "the parliament passed a law"])

    puppy, law = texts.similarities(embedder.embed(["dogs and other pets"]))

    assert puppy > law + 0.2


def test_vectors_have_length_one_whatever_the_batch(embedder: StaticEmbedder) -> None:
    """A text's vector must not depend on its neighbours, or stored vectors could not be reused."""
    many = embedder.embed(["one text", "", "a much longer text than the others are"])
    alone = embedder.embed(["one text"])

    assert (many.rows[0] == alone.rows[0]).all()
    assert [round(float((row**2).sum()), 4) for row in many.rows] == [1, 0, 1]


def test_words_count_as_much_as_they_weigh(embedder: StaticEmbedder) -> None:
    """A text is the mean of its words, so one that weighs more pulls the mean to its meaning."""
    dog, law = embedder.embed(["dog", "law"]).rows
    even = embedder.embed_words({"dog": 1, "law": 1}).rows[0]
    legal = embedder.embed_words({"dog": 1, "law": 3}).rows[0]

    assert legal @ law > even @ law > 0
    assert legal @ dog < even @ dog
    assert even @ embedder.embed(["dog law"]).rows[0] > 0.999
    assert not embedder.embed_words({}).rows.any()


def test_vectors_of_two_embedders_are_not_compared(embedder: StaticEmbedder) -> None:
    """X-C16: a product of unrelated vectors is a number, and it means nothing."""
    ours = embedder.embed(["text"])
    shorter = Vectors(embedder=embedder.name, rows=ours.rows[:, :128])
    renamed = Vectors(embedder="other/256", rows=ours.rows)

    for other in (shorter, renamed):
        with pytest.raises(Incorrect, match="embed the texts again"):
            ours.similarities(other)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base installation has no vectors, and says how to get them."""
    for name in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(ExtraMissing, match=r"\[vectors\]"):
        StaticEmbedder.load()
