"""Statements that are run together. Touches the database.

    few rows     one script in one call of the driver, at two thirds of what its statements cost
                 one by one
    many rows    each statement once, with all of its rows: a third of that again

What is gathered is run statement by statement, each with its rows in their order. So no row may
depend on another statement's, and none may give a row back: the driver would hand it over and
leave the rest for later.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import apsw

SCRIPT_ROWS_MAX: Final = 64
"""Rows that are run as a script, whose text is parsed anew wherever it differs from the last."""


class Script:
    """Gathers writes until they are run."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._single: dict[str, list[Sequence[Any]]] = {}
        self._several: dict[str, list[Sequence[Any]]] = {}

    def add(self, text: str, values: Sequence[Any]) -> None:
        """Take a statement with what is bound to it."""
        self._single.setdefault(text, []).append(values)

    def add_rows(self, insert: str, rows: Sequence[Sequence[Any]]) -> None:
        """Take an insert, which ends in the places of one row, for several rows."""
        if rows:
            self._several.setdefault(insert, []).extend(rows)

    def run(self) -> None:
        """Run what was gathered."""
        single, several = self._single, self._several
        self.clear()
        gathered = [*single.items(), *several.items()]
        if sum(len(rows) for _, rows in gathered) > SCRIPT_ROWS_MAX:
            for text, rows in gathered:
                self._executemany(text, rows)
        elif gathered:
            texts = [text for text, rows in single.items() for _ in rows]
            texts += [_for_all(insert, rows) for insert, rows in several.items()]
            self._execute(";".join(texts), [*chain(*(row for _, rows in gathered for row in rows))])

    def clear(self) -> None:
        """Drop what was not run."""
        self._single, self._several = {}, {}


def _for_all(insert: str, rows: Sequence[Sequence[Any]]) -> str:
    place = f", ({', '.join('?' * len(rows[0]))})"
    return insert + place * (len(rows) - 1)
