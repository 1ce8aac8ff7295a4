"""The numbers of texts, as the one who writes knows them. Touches the database.

A number never changes once it is committed, so what is remembered stays true whatever others do;
only which number comes next, and which texts have none, is asked again after they wrote.
"""

from collections.abc import Callable, Collection
from itertools import islice
from typing import Any, Final

from ctxmgr.stores.sqlite_reader import LOOKED_UP_MAX, text_key
from ctxmgr.stores.sqlite_statements import statements

NAMES_MAX: Final = 50_000
"""Numbers of texts kept in memory, some 10 MB; then they are asked for again."""


class Names:
    """Finds and gives numbers on the writer's connection."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute
        self._sql = statements()
        self._insert = self._sql["insert_name"]
        self._known: dict[str, int] = {}
        self._absent: dict[str, str | bytes] = {}
        """Of the texts that were looked up last, those without a number, and how each is kept."""
        self._next = 1

    def begin(self) -> None:
        """Learn which number comes next; the write lock is held."""
        self._absent.clear()
        self._next = (self._execute(self._sql["last_name"]).get or 0) + 1

    def forget(self) -> None:
        """Drop what may have been rolled back."""
        self._known.clear()
        self._absent.clear()

    def trim(self) -> None:
        """Keep the bound. Between transactions: within one, some may not be written yet."""
        if len(self._known) > NAMES_MAX:
            self._known.clear()

    def look_up(self, texts: Collection[str]) -> None:
        """Ask for many numbers at once, so that ``find`` knows them, or that there is none."""
        asked = {text_key(text): text for text in texts if text not in self._known}
        self._absent = {text: key for key, text in asked.items()}
        left = iter(asked)
        while some := tuple(islice(left, LOOKED_UP_MAX)):
            query = self._sql["find_names"].format(places=", ".join("?" * len(some)))
            for key, nid in self._execute(query, some):
                self._known[asked[key]] = nid
                del self._absent[asked[key]]

    def find(self, text: str) -> int | None:
        """The number of a text, if it has one."""
        nid = self._known.get(text)
        if nid is None and text not in self._absent:
            nid = self._execute(self._sql["find_name"], (text_key(text),)).get
            if nid is not None:
                self._known[text] = nid
        return nid

    def number(self, text: str) -> int:
        """The number of a text, which gets one if it has none."""
        return self.find(text) or self.add(text, self._execute)

    def add(self, text: str, write: Callable[[str, tuple[Any, ...]], object]) -> int:
        """Give a text that has none its number, written by ``write`` now or soon."""
        nid = self._known[text] = self._next
        self._next += 1
        write(self._insert, (nid, self._absent.pop(text, None) or text_key(text)))
        return nid
