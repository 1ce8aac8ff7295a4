"""Statements that are run together. Touches the database.

    few rows     one script in one call of the driver, at two thirds of what its statements cost
                 one by one
    many rows    each statement with dozens of its rows at once: no slower than the driver's own
                 loop, and the interpreter is free for other threads between calls, not rows

What is gathered is run statement by statement, each with its rows in their order. So no row may
depend on another statement's, and none may give a row back: the driver would hand it over and
leave the rest for later.

An insert of several rows that would be undone by itself when one of them fails (``OR ABORT``, which
SQLite takes for granted, and ``OR REPLACE``) keeps a copy of each page that it touches, which takes
longer than all of its rows. Whoever writes undoes the whole transaction, so ours say ``OR FAIL``.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import apsw

SCRIPT_ROWS_MAX: Final = 64
"""Rows that are run as a script, whose text is parsed anew wherever it differs from the last."""

AT_ONCE: Final = (64, 8, 1)
"""Rows of one call, the most that fit: few texts, which the driver keeps parsed; it keeps none
above 16 KB."""

_TEXTS_MAX: Final = 256
"""Texts kept: a dozen statements, each for so many rows as documents have values to be found by."""


class Script:
    """Gathers writes until they are run."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self._gathered: dict[str, list[Any]] = {}
        """What is bound to each statement, row after row; a tuple for each would cost more."""

    def add(self, text: str, values: Sequence[Any]) -> None:
        """Take a statement with what is bound to it: the values of a row, of several or of none."""
        bound = self._gathered.get(text)
        if bound is not None:
            bound += values
        elif values:
            self._gathered[text] = list(values)

    def run(self) -> None:
        """Run what was gathered."""
        gathered = self._gathered
        self.clear()
        counts = {text: len(bound) // text.count("?") for text, bound in gathered.items()}
        if sum(counts.values()) > SCRIPT_ROWS_MAX:
            for text, bound in gathered.items():
                for count, some in _portions(bound, text.count("?")):
                    self._execute(for_rows(text, count), some)
        elif gathered:
            texts = [for_rows(text, count) for text, count in counts.items()]
            self._execute(";".join(texts), [*chain(*gathered.values())])

    def clear(self) -> None:
        """Drop what was not run."""
        self._gathered = {}


@lru_cache(_TEXTS_MAX)
def for_rows(text: str, count: int) -> str:
    """The statement for so many rows: an insert of all of them, or it as often."""
    row = f"({', '.join('?' * text.count('?'))})"
    if row not in text:
        return ";".join([text] * count)
    return text.replace(row, ", ".join([row] * count))


def _portions(bound: list[Any], width: int) -> Iterator[tuple[int, list[Any]]]:
    start = 0
    for count in AT_ONCE:
        while len(bound) - start >= count * width:
            yield count, bound[start : start + count * width]
            start += count * width
