"""The public names of ``ctxmgr``: each resolves, and importing the package stays cheap."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import ctxmgr
from tests.components import ROOT

SOURCE = ROOT / "ctxmgr" / "__init__.py"


@pytest.mark.parametrize("name", ctxmgr.__all__)
def test_every_public_name_resolves(name: str) -> None:
    """A lazy name is not checked by importing the package, so it is checked here."""
    value = getattr(ctxmgr, name)

    assert value is not None
    assert getattr(value, "__name__", name) == name


def test_the_three_lists_of_public_names_agree() -> None:
    """``__all__``, the lazy table and the imports for type checkers name the same things."""
    typed = _typed_imports(SOURCE)

    assert typed == ctxmgr._HOME
    assert sorted(typed) == sorted(ctxmgr.__all__)


@pytest.mark.parametrize("name", ctxmgr.__all__)
def test_a_public_name_is_imported_from_the_module_that_defines_it(name: str) -> None:
    """A name taken from a module that only imports it would break when that import goes."""
    value = getattr(ctxmgr, name)

    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__module__ == ctxmgr._HOME[name]


def test_dir_lists_the_public_names() -> None:
    """``dir(ctxmgr)`` and completion in a shell or notebook show names not imported yet."""
    script = "import ctxmgr; print(*dir(ctxmgr))"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert set(ctxmgr.__all__) <= set(done.stdout.decode().split())


def test_a_misspelt_name_is_an_attribute_error() -> None:
    """Python then suggests the right one, and ``hasattr`` works."""
    with pytest.raises(AttributeError, match="Cleint"):
        _ = ctxmgr.Cleint  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    """Every command starts with this import, ``--help`` included."""
    script = "import sys, ctxmgr; print(*[name for name in sys.modules if 'ctxmgr.' in name])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert done.stdout.split() == []


def _typed_imports(path: Path) -> dict[str, str]:
    """Return our own names imported for type checkers only, each with its module."""
    (guarded,) = (
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    return {
        alias.name: str(node.module)
        for node in guarded.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
