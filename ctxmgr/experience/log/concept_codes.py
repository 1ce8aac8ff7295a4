"""Numbers for concept ids, which the tail stores in place of the ids. Touches ``log.sqlite``.

A number is never given to another concept. They are cached: a pack has some 100,000 concepts.
"""

from collections.abc import Iterable, Mapping
from threading import Lock

from ctxmgr.errors import Corrupt
from ctxmgr.stores.layer_file import LayerFile, SqlConnection


class ConceptCodes:
    """The numbers of one log. Thread-safe."""

    def __init__(self, file: LayerFile) -> None:
        self._file = file
        self._lock = Lock()
        self._codes: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def codes_of(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return a number for each concept; new ones are stored."""
        missing = {name for name in names if name not in self._codes}
        if missing:
            with self._file.writing() as connection:
                connection.executemany(
                    "INSERT OR IGNORE INTO concept (concept_id) VALUES (?)",
                    [(name,) for name in sorted(missing)],
                )
            with self._file.reading() as connection:  # only what was committed
                self._load(connection)
        return self._codes

    def names(self, connection: SqlConnection) -> Mapping[int, str]:
        """Return the concepts of all numbers that this transaction sees."""
        self._load(connection)
        return self._names

    def name_of(self, code: int) -> str:
        """Return the concept of a number that was read before; ``Corrupt`` if there is none."""
        name = self._names.get(code)
        if name is None:
            raise Corrupt(f"{self._file.path}: a batch names the concept {code}, which is unknown")
        return name

    def code_of(self, name: str) -> int | None:
        """Return the number of a concept that was read before; None: no step has it."""
        return self._codes.get(name)

    def _load(self, connection: SqlConnection) -> None:
        with self._lock:
            newest = max(self._names, default=-1)
            rows = connection.execute(
                "SELECT code, concept_id FROM concept WHERE code > ?", (newest,)
            )
            for code, name in rows:
                self._codes[name] = code
                self._names[code] = name
