"""Statements that are run together. Touches the database.

The driver runs a script in one call, at two thirds of what its statements cost one by one. None of
them may give a row back: the driver would hand it over and leave the rest for later.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any


class Script:
    """Gathers writes until they are run."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute
        self._texts: list[str] = []
        self._values: list[Any] = []

    def add(self, text: str, values: Sequence[Any]) -> None:
        """Take a statement with what is bound to it."""
        self._texts.append(text)
        self._values.extend(values)

    def add_rows(self, insert: str, rows: Sequence[Sequence[Any]]) -> None:
        """Take an insert, which ends in the places of one row, for several rows."""
        if rows:
            place = f", ({', '.join('?' * len(rows[0]))})"
            self._texts.append(insert + place * (len(rows) - 1))
            self._values.extend(chain.from_iterable(rows))

    def run(self) -> None:
        """Run what was gathered, in its order."""
        if self._texts:
            text, values = ";".join(self._texts), self._values
            self.clear()
            self._execute(text, values)

    def clear(self) -> None:
        """Drop what was not run."""
        self._texts, self._values = [], []
