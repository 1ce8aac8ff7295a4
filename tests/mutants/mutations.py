"""The mutations: where the code is broken, which rows that breaks, and which tests name them."""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.components import ROOT
from tests.coverage_map import named

TESTS: Final = ROOT / "tests"
LIST: Final = Path(__file__).with_name("mutations.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One place in the package, replaced by a text that breaks a requirement."""

    rows: tuple[str, ...]
    file: str
    """Below ``ctxmgr/``."""
    old: str
    """Occurs exactly once in the file."""
    new: str

    @property
    def path(self) -> Path:
        return ROOT / "ctxmgr" / self.file

    @property
    def module(self) -> str:
        return "ctxmgr." + self.file.removesuffix(".py").replace("/", ".")

    def mutated(self) -> str:
        """Return the module's text with the mutation applied."""
        text = self.path.read_text(encoding="utf-8")
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.file}: {self.old!r} occurs {count} times, must be once")
        return text.replace(self.old, self.new)


@cache
def load() -> tuple[Mutation, ...]:
    """Return all mutations, in the order of the list."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutation"]
    return tuple(
        Mutation(
            rows=tuple(entry["rows"].split()),
            file=entry["file"],
            old=entry["old"],
            new=entry["new"],
        )
        for entry in entries
    )


def files_naming(rows: Iterable[str]) -> list[str]:
    """Return the test files to collect for these rows, relative to the repository.

    A contract is a class without tests of its own: it is run by the files that import it.
    """
    by_row, importers = _named(), _importers()
    files = {name for row in rows for name in by_row.get(row, ())}
    running = {importer for name in files for importer in importers.get(name, ())}
    return sorted(
        f"tests/{name}" for name in files | running if Path(name).name.startswith("test_")
    )


@cache
def _named() -> dict[str, set[str]]:
    return named(TESTS)


@cache
def _importers() -> dict[str, set[str]]:
    """Return, for every helper module of the tests, the files that import it, even indirectly."""
    direct: dict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
                imported = (node.module or "").removeprefix("tests.").replace(".", "/") + ".py"
                direct[imported].add(str(path.relative_to(TESTS)))
    return {name: _reached(name, direct) for name in list(direct)}


def _reached(name: str, direct: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        for importer in direct.get(waiting.pop(), set()) - reached:
            reached.add(importer)
            waiting.append(importer)
    return reached
