"""Points in time as XTDB takes them, and how far a node must have got. Touches the network.

read-your-writes     every read waits for the last transaction this store saw, with a bound
a sequence           waits for it, briefly: it may be another node's, 100 ms away
a system time        is looked up once and becomes a sequence
a sequence is gone   where the log ends before it: the database was replaced, and is read afresh
an unnamed point     is fixed with one request when an answer takes several
"""

from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.core.store import INSTANT_MAX, AsOf, Instant
from ctxmgr.errors import Unavailable
from ctxmgr.stores.edn import Inst, Keyword
from ctxmgr.stores.xtdb_http import Transport
from ctxmgr.stores.xtdb_replies import Behind, Replaced, readable

SEQUENCE_WAIT_MS: Final = 2_000
"""For a sequence we have not seen ourselves: nodes that share a log look at it every 100 ms."""

_TX, _TX_ID, _TX_TIME = (Keyword(f"xtdb.api/{name}") for name in ("tx", "tx-id", "tx-time"))
_VALID_TIME: Final = Keyword("xtdb.api/valid-time")


@dataclass(frozen=True, slots=True)
class Point:
    """Where a read looks; None leaves an axis at its newest, the present."""

    valid_time: Instant | None
    sequence: int | None


class Points:
    """How far this store has got, and the points that its reads ask for."""

    def __init__(self, http: Transport, *, wait_ms: int) -> None:
        self._http = http
        self._wait_ms = wait_ms
        self._seen: int | None = None

    @property
    def seen(self) -> int | None:
        """The last transaction that this store saw."""
        return self._seen

    def landed(self, sequence: int, *, seen: int | None) -> None:
        """Note where a transaction landed that was sent when ``seen`` was the last we saw.

        A log goes on from its end. One that goes on before that is another log.
        """
        if seen is not None and self._seen is not None and sequence <= seen <= self._seen:
            self._seen = None

    async def refuse_replaced(self, behind: Behind) -> None:
        """Raise ``Replaced`` if no node will ever get to what we saw, and wait for it no more."""
        if self._seen is None:
            return
        newest = await self._http.get("latest-submitted-tx", {})
        with readable(self._http.node):
            end = -1 if newest is None else newest[_TX_ID]
        if self._seen is not None and end < self._seen:
            seen, self._seen = self._seen, None
            raise Replaced(
                f"{self._http.node}: the log ends at {end}, and this store had seen {seen}; the "
                "database was replaced, or an older copy restored: ask again to read what it holds"
            ) from behind

    def saw(self, sequence: int) -> None:
        """Note a transaction that every later read must take in."""
        if self._seen is None or sequence > self._seen:
            self._seen = sequence

    def waiting(self, sequence: int | None = None) -> dict[str, str]:
        """Parameters that make a node wait until it has got there."""
        waits = self._wait_ms
        if sequence is None or (self._seen is not None and sequence <= self._seen):
            sequence = self._seen
        else:
            waits = min(SEQUENCE_WAIT_MS, waits)
        if sequence is None:
            return {}
        return {"await-tx-id": str(sequence), "await-tx-timeout": str(waits)}

    def params(self, point: Point) -> dict[str, str]:
        """Parameters of a read at that point."""
        params = self.waiting(point.sequence)
        if point.valid_time is not None:
            params["valid-time"] = url_instant(point.valid_time)
        if point.sequence is not None:
            params["tx-id"] = str(point.sequence)
        return params

    def confirming(self, sequence: int) -> dict[str, str]:
        """Parameters that wait for a transaction of our own, within the bound."""
        return {"await-tx-id": str(sequence), "await-tx-timeout": str(self._wait_ms)}

    async def resolve(self, as_of: AsOf) -> Point | None:
        """Turn the caller's point into one that XTDB can be asked for; None: nothing was known."""
        if as_of.system_time is None:
            return Point(as_of.valid_time, as_of.sequence)
        asked = {"tx-time": url_instant(as_of.system_time), **self.waiting()}
        for _ in range(2):
            try:
                sequence = self._sequence(await self._http.get("db", asked))
            except Behind:
                newest = await self._newest()
                if newest is None:
                    return None
                sequence, time = newest
                if time > as_of.system_time:
                    continue  # written between the two questions: the first has an answer now
            return None if sequence is None else Point(as_of.valid_time, sequence)
        raise Unavailable(f"{self._http.node} knows no transaction at {as_of.system_time}")

    async def fixed(self, point: Point) -> Point:
        """Name both axes, so that several requests see the same."""
        if point.valid_time is not None and point.sequence is not None:
            return point
        basis = await self._http.get("db", self.params(point))
        with readable(self._http.node):
            return Point(basis[_VALID_TIME].ms, basis[_TX][_TX_ID])

    def _sequence(self, basis: Any) -> int | None:
        with readable(self._http.node):
            found: int | None = basis[_TX][_TX_ID]
            return found

    async def _newest(self) -> tuple[int, Instant] | None:
        found = await self._http.get("latest-completed-tx", self.waiting())
        if found is None:
            return None
        with readable(self._http.node):
            return found[_TX_ID], found[_TX_TIME].ms


def url_id(object_id: str) -> str:
    """Write an id for a URL with as few escapes as EDN needs: each becomes up to six bytes."""
    return '"' + object_id.replace("\\", "\\\\").replace('"', '\\"') + '"'


def url_instant(instant: Instant) -> str:
    """Write an instant for a URL, whose dates have four digits for the year."""
    return Inst(min(instant, INSTANT_MAX)).to_iso().removesuffix("-00:00") + "Z"
