"""Which files belong to a file: what it imports, and what was committed together with it. Pure.

A file has one name, however much of its path it is called by. How much a commit says depends on
its size: one that changes many files says nothing about any two of them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.memory.prediction.paths import FileNames, normal_path

COMMIT_FILES_MAX: Final = 20
"""A commit that changes more files says nothing about two of them."""

TOGETHER_MIN: Final = 2
"""Commits that changed two files before they belong together."""

SOURCES_MAX: Final = 5_000
"""Files whose imports are remembered, the last ones."""

IMPORTED: Final = 0.7
IMPORTING: Final = 0.5
"""How closely files belong together, one of which imports the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedFile:
    """A file that belongs to another one."""

    path: str
    strength: float
    """0 to 1."""
    why: str


class RelatedFiles:
    """What is known about the files of one project."""

    def __init__(self) -> None:
        self._names = FileNames()
        self._changed: Counter[str] = Counter()
        self._together: dict[str, Counter[str]] = defaultdict(Counter)
        self._imports: dict[str, frozenset[str]] = {}
        self._importing: dict[str, dict[str, None]] = defaultdict(dict)

    def name(self, path: str) -> str:
        """Return the one name of a file."""
        return self._names.one_name(normal_path(path))

    def take_commits(self, commits: Iterable[Sequence[str]]) -> None:
        """Take in the files of commits."""
        for paths in commits:
            if len(set(paths)) > COMMIT_FILES_MAX:  # a commit may have a hundred thousand
                continue
            files = list(dict.fromkeys(map(self.name, paths)))
            self._changed.update(files)
            for path in files:
                self._together[path].update(other for other in files if other != path)

    def take_imports(self, path: str, imported: Iterable[str]) -> None:
        """Take in what a file imports, in place of what was known."""
        source = self.name(path)
        for other in self._imports.pop(source, ()):
            self._importing[other].pop(source, None)
        files = frozenset(map(self.name, imported)) - {source}
        self._imports[source] = files
        for other in files:
            self._importing[other][source] = None
        while len(self._imports) > SOURCES_MAX:
            oldest = next(iter(self._imports))
            for other in self._imports.pop(oldest):
                self._importing[other].pop(oldest, None)

    def imports(self, path: str) -> frozenset[str]:
        """Return what a file imports, as far as is known."""
        return self._imports.get(self.name(path), frozenset())

    def committed_with(self, path: str, other: str) -> float:
        """Return how often a file was committed together with another one, 0 to 1."""
        times = self._together[path][other] if path in self._together else 0
        return 0.0 if times < TOGETHER_MIN else times / (self._changed[path] + 1)

    def most_committed_with(self, path: str, limit: int) -> list[str]:
        """Return the files that were committed most often together with one."""
        found = self._together[path] if path in self._together else Counter[str]()
        return [other for other, times in found.most_common(limit) if times >= TOGETHER_MIN]

    def beside(self, path: str, limit: int) -> list[RelatedFile]:
        """Return the files that belong to one, the closest first."""
        source = self.name(path)
        found: dict[str, RelatedFile] = {}

        def offer(other: str, strength: float, why: str) -> None:
            if other not in found or found[other].strength < strength:
                found[other] = RelatedFile(path=other, strength=round(strength, 3), why=why)

        for other in self._imports.get(source, ()):
            offer(other, IMPORTED, f"imported by {source}")
        for other in self._importing.get(source, ()):
            offer(other, IMPORTING, f"imports {source}")
        for other in self.most_committed_with(source, limit):
            times, of = self._together[source][other], self._changed[source]
            why = f"changed with {source} in {times} of {of} commits"
            offer(other, self.committed_with(source, other), why)
        order = sorted(found.values(), key=lambda each: (-each.strength, each.path))
        return order[:limit]
