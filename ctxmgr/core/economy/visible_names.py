"""The names that are visible in a prompt, and how rare they are. Pure.

Names are what an agent may use again: identifiers, paths and numbers. There are two counts, because
a name in a list of hidden names is visible, but without its line:

    in_line     a whole line holds it
    anywhere    a whole line or a list of hidden names holds it
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from math import sqrt
from typing import Final

LENGTH_MIN: Final = 6
"""Characters of a name. Shorter ones are mostly words, and occur everywhere."""

DIGITS_MIN: Final = 3
"""Digits of a number that counts as a name."""

IDENTIFIER: Final = re.compile(rf"[A-Za-z_][\w./-]{{{LENGTH_MIN - 1},}}|\b\d{{{DIGITS_MIN},}}\b")

_RUNS: Final = bytes(
    byte if re.match(r"[\w./-]", chr(byte), re.ASCII) else ord(" ") for byte in range(256)
)
"""Replaces ASCII characters that no identifier holds by spaces."""

RUNS_MAX: Final = 16_384
"""Runs whose identifiers are cached, before the cache is emptied: about 4 MB."""

RUN_CHARS_MAX: Final = 128
"""Longer runs are rare, and are not cached."""


def identifiers(text: str) -> tuple[str, ...]:
    """Return every identifier once, in the order of the text."""
    return tuple(dict.fromkeys(IDENTIFIER.findall(text)))


def identifier_set(text: str) -> frozenset[str]:
    """Return every identifier, in no order. Takes a quarter of the time of ``identifiers``."""
    if not text.isascii():
        return frozenset(IDENTIFIER.findall(text))
    if len(_NAMES) > RUNS_MAX:
        _NAMES.clear()
    runs = set(text.encode().translate(_RUNS).split())
    return frozenset(chain.from_iterable(map(_NAMES.__getitem__, runs)))


class _NamesOfRuns(dict[bytes, tuple[str, ...]]):
    """The identifiers of each run of characters: the runs of a text come again in others."""

    def __missing__(self, run: bytes) -> tuple[str, ...]:
        text = run.decode().lstrip("./-")
        names: tuple[str, ...] = ()
        # From its first letter on, a run is one identifier, if that is long enough. Only digits
        # before the letter, or in what is too short, need a closer look.
        if len(text) >= LENGTH_MIN and (text[0].isalpha() or text[0] == "_"):
            names = (text,)
        elif len(text) >= DIGITS_MIN and not text.isalpha():
            names = tuple(IDENTIFIER.findall(text))
        if len(run) <= RUN_CHARS_MAX:
            self[run] = names
        return names


_NAMES: Final = _NamesOfRuns()


class VisibleNames:
    """The names of one prompt, counted by the texts and lists that hold them."""

    __slots__ = ("_held", "_later", "_lines", "_lists")

    def __init__(self) -> None:
        self._lines: Counter[str] = Counter()
        self._lists: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._later: Callable[[], None] | None = None

    def later(self, count: Callable[[], None]) -> None:
        """Call ``count``, which counts more names, before the first question is answered."""
        self._later = count

    def in_line(self, name: str) -> bool:
        self.complete()
        return self._lines[name] > 0

    def anywhere(self, name: str) -> bool:
        self.complete()
        return self._lines[name] > 0 or self._lists[name] > 0

    def value(self, name: str) -> float:
        """Return the value of showing a name: the rarer, the higher."""
        self.complete()
        return 1 / sqrt(max(1, self._held[name]))

    def complete(self) -> None:
        """Count what was left for later."""
        if self._later is not None:
            count, self._later = self._later, None
            count()

    def add_holder(self, names: Iterable[str]) -> None:
        """Count one more text that holds these names; each name is given once."""
        self._held.update(names)

    def enter(self, lines: Iterable[str], *, names: Iterable[str] = ()) -> None:
        """Count the names in the lines of a text, each once, and in a list, that became visible."""
        self._lines.update(lines)
        self._lists.update(names)

    def leave(self, lines: Iterable[str], *, names: Iterable[str] = ()) -> None:
        """Undo ``enter``."""
        self._lines.subtract(lines)
        self._lists.subtract(names)
