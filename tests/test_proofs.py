"""Tests that prove requirements: about what is shipped, able to fail, and mapped to the rows."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.components import ROOT
from tests.coverage_map import ids, named, reviewed, rows

FILES = sorted((ROOT / "tests").rglob("*.py"))

SERVER = "tests.xtdb.servers"
"""Starts the server that is shipped, which is no Python."""

ASKED = """
| ID | Lv | Chk | § | Requirement |
|---|---|---|---|---|
| 003-R001 | M | I | §1 | The first thing. |
| 003-R002 | M | I | §1 | The second thing. |
| PG-05 | The guard. | its origin |
"""
TEST = '''
def test_it():
    """It does the first thing (003-R001)."""
'''


def test_no_assertion_is_constant() -> None:
    """A test that cannot fail proves nothing (PG-01)."""
    constant = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(_syntax(path))
        if isinstance(node, ast.Assert) and _is_constant(node.test)
    ]

    assert constant == []


def test_whoever_names_a_row_tests_what_is_shipped() -> None:
    """A stand-in that is defined in the test and tested there proves only itself (PG-01)."""
    proving = {name for by in named(ROOT / "tests").values() for name in by}
    strangers = [name for name in sorted(proving) if not _reaches_us(ROOT / "tests" / name)]

    assert strangers == [Path(__file__).name]  # which is about the tests
    assert not _reaches_us(ROOT / "tests" / "coverage_map.py")


def test_the_map_shows_what_no_test_names(tmp_path: Path) -> None:
    """A row that everybody forgot is seen in a table, not after the release (PG-02)."""
    (tmp_path / "003.md").write_text(ASKED, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")

    asked, told = rows(tmp_path)["003.md"], named(tmp_path)

    assert asked["003-R002"] == "The second thing."
    assert [row for row in asked if row not in told] == ["003-R002", "PG-05"]
    assert told["003-R001"] == {"test_it.py"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("003-R009 to R011", {"003-R009", "003-R010", "003-R011"}),
        ("003-A01…A02, PG-05", {"003-A01", "003-A02", "PG-05"}),
        ("PG-04 to PG-06", {"PG-04", "PG-05", "PG-06"}),
        ("R001 alone names nothing", set()),
    ],
)
def test_ranges_name_every_row_between(text: str, found: set[str]) -> None:
    """Docstrings stay short, and the map stays right (PG-02)."""
    assert ids(text) == found


def test_rows_kept_by_review_are_read_from_the_design_as_built() -> None:
    """They are told apart from forgotten ones, and only there (PG-02)."""
    page = (
        "# x\n003-R001\n\n## Kept by review\n\n| 003-R002, 003-R004 | how |\n\n## Next\n003-R003\n"
    )

    assert reviewed(page) == {"003-R002", "003-R004"}


def _syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _is_constant(test: ast.expr) -> bool:
    names = (ast.Name, ast.Attribute, ast.Call, ast.Await)
    return not any(isinstance(node, names) for node in ast.walk(test))


def _reaches_us(path: Path) -> bool:
    """Whether a test imports the project, by itself or by what it shares with other tests."""
    imported = set(_imported(_syntax(path)))
    if {name.split(".")[0] for name in imported} & {"ctxmgr", "experiments"}:
        return True
    if SERVER in imported:
        return True
    shared = (ROOT / f"{name.replace('.', '/')}.py" for name in imported if "tests." in name)
    return any(each.exists() and _reaches_us(each) for each in shared)


def _imported(syntax: ast.Module) -> Iterator[str]:
    for node in ast.walk(syntax):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
