"""Navigation in a concept pack."""

from pathlib import Path

import apsw
import pytest

from ctxmgr.errors import Corrupt, CtxmgrError, Incorrect, NewerFormat, NotFound
from ctxmgr.experience.concepts.graph import ConceptGraph
from ctxmgr.experience.concepts.write_pack import write_pack
from tests.experience.packs import MANIFEST, PACK, small_pack, source


def test_children_and_parents_are_one_step_away(small: ConceptGraph) -> None:
    """000-R130, 000-R131: a concept may have several parents."""
    assert [c.name for c in small.children(f"{PACK}::Trait")] == ["Deceit", "Honesty"]
    assert [c.name for c in small.parents(f"{PACK}::Honesty")] == ["Trait", "Virtue"]
    assert [c.name for c in small.roots()] == ["Entity"]


def test_related_concepts_name_the_relation(small: ConceptGraph) -> None:
    """000-R132: an antonym is neither a parent nor a child."""
    related = small.related(f"{PACK}::Honesty")

    assert [(each.concept.name, each.relation) for each in related] == [("Deceit", "antonym")]


def test_ids_may_have_dots_slashes_and_colons(small: ConceptGraph) -> None:
    """PG-17: an id is a string; nothing in it is syntax."""
    odd = f"{PACK}::A/B.test::v2"

    assert small.require(odd).name == "A/B.test::v2"
    assert odd in [c.concept_id for c in small.children(f"{PACK}::Entity")]


def test_a_concept_is_found_by_any_of_its_names(small: ConceptGraph) -> None:
    """000-R166: case does not matter, and the beginning of a name is enough."""
    assert [c.name for c in small.find("HONEST")] == ["Honesty"]
    assert [c.name for c in small.find("truth")] == ["Honesty"]
    assert small.find("100%") == []


def test_ancestors_come_once_and_the_nearest_first(small: ConceptGraph) -> None:
    """000-R221: tags are inherited from all concepts above, whatever the path."""
    assert [c.name for c in small.ancestors(f"{PACK}::Honesty")] == ["Trait", "Virtue", "Entity"]


def test_an_unknown_concept_is_an_error(small: ConceptGraph) -> None:
    """PG-18: an empty list would say that the concept has no children."""
    with pytest.raises(NotFound, match="no concept nothing"):
        small.children("nothing")


def test_lists_can_be_paged(small: ConceptGraph) -> None:
    """A wide concept does not flood the answer."""
    first = small.children(f"{PACK}::Entity", limit=2)
    rest = small.children(f"{PACK}::Entity", limit=2, offset=2)

    assert [c.name for c in first + rest] == ["A/B.test::v2", "Trait", "Virtue"]
    with pytest.raises(Incorrect, match="a limit of 0"):
        small.roots(limit=0)


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    """A pack is data of others: a circle in it must not hang the reader."""
    path = tmp_path / "circle.pack"
    concepts = [source("a", "", ("is_a", "b")), source("b", "", ("is_a", "a"))]
    write_pack(path, manifest=MANIFEST, concepts=concepts, embedder=None)

    with ConceptGraph.opened(path) as graph:
        assert [c.name for c in graph.ancestors(f"{PACK}::a")] == ["b"]


def test_a_check_reads_the_whole_pack(small: ConceptGraph) -> None:
    """Somebody who got a pack wants to know what is inside, and under which licence."""
    report = small.check()

    assert (report.concepts, report.primaries, report.relations) == (6, 5, 8)
    assert report.licence == "Public domain"


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        ("PRAGMA application_id = 1", Incorrect, "is not a concept pack"),
        ("PRAGMA user_version = 2", NewerFormat, "format 2"),
        ("CREATE TRIGGER t AFTER DELETE ON names BEGIN SELECT 1; END", Corrupt, "tables"),
        ("CREATE VIEW v AS SELECT 1", Corrupt, "tables"),
        ("DROP INDEX names_concept", Corrupt, "tables"),
        ("DELETE FROM manifest WHERE key = 'licence'", Corrupt, "no valid licence"),
        ("UPDATE manifest SET value = '' WHERE key = 'name'", Corrupt, "no valid name"),
        ("UPDATE concepts SET id = ''", Corrupt, "invalid concept id"),
        ("UPDATE concepts SET name = char(0) || 'x'", Corrupt, "no valid name"),
        ("UPDATE concepts SET gloss = hex(zeroblob(20000))", Corrupt, "gloss"),
        ("DELETE FROM concepts WHERE name = 'Virtue'", Corrupt, "does not have"),
        ("UPDATE concepts SET is_root = 1", Corrupt, "mark as a root"),
        ("UPDATE concepts SET gloss = hex(zeroblob(600000))", CtxmgrError, "large|too"),
    ],
)
def test_a_damaged_or_foreign_pack_is_refused(
    tmp_path: Path, damage: str, error: type[CtxmgrError], message: str
) -> None:
    """Packs are not trusted: each is checked where it enters."""
    path = small_pack(tmp_path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(damage.replace("id = ''", "id = '' WHERE name = 'Entity'"))
    connection.close()

    with pytest.raises(error, match=message):
        _read_everything(path)


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + bytes(600)])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    """The message names the file, and it is not an exception of the driver."""
    path = tmp_path / "x.pack"
    path.write_bytes(content)

    with pytest.raises(CtxmgrError, match=r"x\.pack"):
        ConceptGraph.open(path)
    with pytest.raises(NotFound, match="no concept pack"):
        ConceptGraph.open(tmp_path / "missing.pack")


@pytest.mark.parametrize(
    "concepts",
    [
        [source("a"), source("a")],
        [source("a", "", ("is_a", "elsewhere"))],
        [source("a" * 600)],
        [source("a", "g" * 30_000)],
    ],
)
def test_an_unsound_pack_is_not_written(tmp_path: Path, concepts: list) -> None:
    """The earlier pack stays, and no temporary file is left."""
    path = small_pack(tmp_path)
    before = path.read_bytes()

    with pytest.raises(Incorrect):
        write_pack(path, manifest=MANIFEST, concepts=concepts, embedder=None)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def _read_everything(path: Path) -> None:
    with ConceptGraph.opened(path) as graph:
        graph.roots()
        graph.check()
