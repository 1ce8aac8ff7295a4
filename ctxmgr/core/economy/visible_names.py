"""The names that are visible in a prompt, and how rare they are. Pure.

Names are what an agent may use again: identifiers, paths and numbers. There are two counts, because
a name in a list of hidden names is visible, but without its line:

    in_line     a whole line holds it
    anywhere    a whole line or a list of hidden names holds it
"""

import re
from collections import Counter
from collections.abc import Iterable
from math import sqrt
from typing import Final

LENGTH_MIN: Final = 6
"""Characters of a name. Shorter ones are mostly words, and occur everywhere."""

IDENTIFIER: Final = re.compile(rf"[A-Za-z_][\w./-]{{{LENGTH_MIN - 1},}}|\b\d{{3,}}\b")


def identifiers(text: str) -> tuple[str, ...]:
    """Return every identifier once, in the order of the text."""
    return tuple(dict.fromkeys(IDENTIFIER.findall(text)))


class VisibleNames:
    """The names of one prompt, counted by the lines and lists that hold them."""

    __slots__ = ("_held", "_lines", "_lists")

    def __init__(self) -> None:
        self._lines: Counter[str] = Counter()
        self._lists: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    def in_line(self, name: str) -> bool:
        return self._lines[name] > 0

    def anywhere(self, name: str) -> bool:
        return self._lines[name] > 0 or self._lists[name] > 0

    def value(self, name: str) -> float:
        """Return the value of showing a name: the rarer, the higher."""
        return 1 / sqrt(max(1, self._held[name]))

    def add_holder(self, names: Iterable[str]) -> None:
        """Count one more text that holds these names; each name is given once."""
        self._held.update(names)

    def enter(self, lines: Iterable[Iterable[str]], *, names: Iterable[str] = ()) -> None:
        """Count the names in lines, and in a list, that became visible."""
        for line in lines:
            self._lines.update(line)
        self._lists.update(names)

    def leave(self, lines: Iterable[Iterable[str]], *, names: Iterable[str] = ()) -> None:
        """Undo ``enter``."""
        for line in lines:
            self._lines.subtract(line)
        self._lists.subtract(names)
