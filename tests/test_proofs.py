"""The tests themselves: they test the package, can fail, and are mapped to requirements."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.components import ROOT
from tests.coverage_map import ids, named, reviewed, rows

FILES = sorted((ROOT / "tests").rglob("*.py"))

SERVER = "tests.xtdb.servers"
"""Starts the XTDB server of this repository, which is not Python."""

REQUIREMENTS = """
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


def test_a_test_that_names_a_row_tests_the_package() -> None:
    """A test of its own double proves nothing about the package (PG-01)."""
    proving = {name for by in named(ROOT / "tests").values() for name in by}
    unrelated = [
        name for name in sorted(proving) if not _imports_the_project(ROOT / "tests" / name)
    ]

    # The first reads the package's source instead of importing it, the second tests the tests.
    assert unrelated == ["test_architecture.py", Path(__file__).name]
    assert not _imports_the_project(ROOT / "tests" / "coverage_map.py")


def test_the_map_shows_rows_that_no_test_names(tmp_path: Path) -> None:
    """A forgotten row must be noticed before a release (PG-02)."""
    (tmp_path / "003.md").write_text(REQUIREMENTS, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")

    requirements, tested = rows(tmp_path)["003.md"], named(tmp_path)

    assert requirements["003-R002"] == "The second thing."
    assert [row for row in requirements if row not in tested] == ["003-R002", "PG-05"]
    assert tested["003-R001"] == {"test_it.py"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("003-R009 to R011", {"003-R009", "003-R010", "003-R011"}),
        ("003-A01…A02, PG-05", {"003-A01", "003-A02", "PG-05"}),
        ("PG-04 to PG-06", {"PG-04", "PG-05", "PG-06"}),
        ("R001 alone names nothing", set()),
    ],
)
def test_ranges_name_every_row_between(text: str, expected: set[str]) -> None:
    """Docstrings stay short, and the map stays right (PG-02)."""
    assert ids(text) == expected


def test_rows_verified_by_review_are_read_from_their_section() -> None:
    """They do not count as forgotten; rows elsewhere on the page do (PG-02)."""
    page = (
        "# x\n003-R001\n\n## Verified by review\n\n"
        "| 003-R002, 003-R004 | how |\n\n## Next\n003-R003\n"
    )

    assert reviewed(page) == {"003-R002", "003-R004"}


def _syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _is_constant(test: ast.expr) -> bool:
    names = (ast.Name, ast.Attribute, ast.Call, ast.Await)
    return not any(isinstance(node, names) for node in ast.walk(test))


def _imports_the_project(path: Path) -> bool:
    """Return whether a test imports the project, directly or through other test modules."""
    imported = set(_imported(_syntax(path)))
    if {name.split(".")[0] for name in imported} & {"ctxmgr", "experiments"}:
        return True
    if SERVER in imported:
        return True
    shared = (ROOT / f"{name.replace('.', '/')}.py" for name in imported if "tests." in name)
    return any(module.exists() and _imports_the_project(module) for module in shared)


def _imported(syntax: ast.Module) -> Iterator[str]:
    for node in ast.walk(syntax):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
