"""Which names stand in the prompt now, and how rare they are. Pure.

Two counts, because a name in a list of hidden names is found and still does not stand in its line:

    in_line     a whole line holds it
    anywhere    that, or a list of hidden names
"""

from collections import Counter
from collections.abc import Iterable
from math import sqrt


class Standing:
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
        """Tell what showing a name is worth: the rarer, the more."""
        return 1 / sqrt(max(1, self._held[name]))

    def met(self, names: Iterable[str]) -> None:
        """Note that one more text holds these names, each given once."""
        self._held.update(names)

    def enter(self, lines: Iterable[Iterable[str]], *, names: Iterable[str] = ()) -> None:
        """Count the names of lines, and of a list, that now stand in the prompt."""
        for line in lines:
            self._lines.update(line)
        self._lists.update(names)

    def leave(self, lines: Iterable[Iterable[str]], *, names: Iterable[str] = ()) -> None:
        """Take back what ``enter`` counted."""
        for line in lines:
            self._lines.subtract(line)
        self._lists.subtract(names)
