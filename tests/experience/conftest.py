"""Fixtures of the experience layer's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ctxmgr.experience.concepts.graph import ConceptGraph
from tests.experience.packs import small_pack, wordnet_pack


@pytest.fixture(scope="session")
def wordnet_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wordnet_pack(tmp_path_factory)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[ConceptGraph]:
    """A graph of six concepts, one of which has an id full of separators."""
    with ConceptGraph.opened(small_pack(tmp_path)) as graph:
        yield graph


@pytest.fixture(scope="session")
def wordnet(wordnet_path: Path) -> Iterator[ConceptGraph]:
    with ConceptGraph.opened(wordnet_path) as graph:
        yield graph
