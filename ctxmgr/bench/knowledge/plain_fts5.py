"""The baseline of the search benchmark: texts in SQLite's FTS5 with its porter stemmer."""

from collections.abc import Iterable, Sequence
from typing import Final

import apsw

from ctxmgr.search.terms import STOP_WORDS, words

_TABLE: Final = (
    "CREATE VIRTUAL TABLE text USING fts5(body, content = '', tokenize = 'porter unicode61')"
)
_SEARCH: Final = "SELECT rowid FROM text WHERE text MATCH ? ORDER BY rank LIMIT ?"


class PlainFts5:
    """Texts, numbered from 0 in their order, that contain any word of a question but stop words."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(_TABLE)
        with self._connection:
            self._connection.executemany(
                "INSERT INTO text (rowid, body) VALUES (?, ?)", enumerate(texts)
            )

    def search(self, question: str, *, limit: int) -> Sequence[int]:
        """Return the numbers of the best texts, best first."""
        asked = " OR ".join(f'"{word}"' for word in words(question) if word not in STOP_WORDS)
        if not asked:
            return []
        return [row[0] for row in self._connection.execute(_SEARCH, (asked, limit))]

    def close(self) -> None:
        self._connection.close()
