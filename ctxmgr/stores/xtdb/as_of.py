"""Read points: what a read asks XTDB for, and which transaction it waits for. Uses the network.

read-your-writes     a read waits, with a timeout, for the last transaction this store has seen
a sequence           the read waits for it briefly, since nodes share a log within 100 ms
a system time        is looked up once and becomes a sequence
a missing sequence   if the log ends before it, the database was replaced; it is forgotten
the present          is resolved with one request if a result takes several requests
"""

from dataclasses import dataclass
from typing import Any, Final

from ctxmgr.core.store.contract import INSTANT_MAX, AsOf, Instant
from ctxmgr.errors import Unavailable
from ctxmgr.stores.edn.values import Inst, Keyword
from ctxmgr.stores.xtdb.replies import DatabaseReplaced, NodeBehind, readable
from ctxmgr.stores.xtdb.transport import XtdbTransport

SEQUENCE_WAIT_MS: Final = 2_000
"""Wait for a sequence we have not seen ourselves: nodes poll a shared log every 100 ms."""

WAIT_SHARE: Final = 0.5
"""Share of a call's remaining time that a node may wait for a transaction, so that its reply comes
in time."""

_TX, _TX_ID, _TX_TIME = (Keyword(f"xtdb.api/{name}") for name in ("tx", "tx-id", "tx-time"))
_VALID_TIME: Final = Keyword("xtdb.api/valid-time")


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """The times a read is made at; None stands for the present."""

    valid_time: Instant | None
    sequence: int | None


class ReadPoints:
    """Keeps the last transaction this store has seen, and makes read points of it."""

    def __init__(self, http: XtdbTransport) -> None:
        self._http = http
        self._seen: int | None = None

    @property
    def seen(self) -> int | None:
        """The sequence of the last transaction this store has seen."""
        return self._seen

    def landed(self, sequence: int, *, seen: int | None) -> None:
        """Note the sequence of a transaction that was sent when ``seen`` was the last one seen.

        A log continues at its end. If the new sequence is not after ``seen``, it is another log.
        """
        if seen is not None and self._seen is not None and sequence <= seen <= self._seen:
            self._seen = None

    async def refuse_replaced(self, behind: NodeBehind) -> None:
        """Raise ``DatabaseReplaced`` if the log ends before the last transaction we have seen."""
        if self._seen is None:
            return
        newest = await self._http.get("latest-submitted-tx", {})
        with readable(self._http.node):
            end = -1 if newest is None else newest[_TX_ID]
        if self._seen is not None and end < self._seen:
            seen, self._seen = self._seen, None
            raise DatabaseReplaced(
                f"{self._http.node}: the log ends at {end}, but this store has seen {seen}; the "
                "database was replaced, or an older copy was restored: read again to use it"
            ) from behind

    def saw(self, sequence: int) -> None:
        """Note a transaction that every later read must include."""
        if self._seen is None or sequence > self._seen:
            self._seen = sequence

    def waiting(self, sequence: int | None = None) -> dict[str, str]:
        """Return the parameters that make a node wait until it has indexed the transaction."""
        wait_ms = self._wait_ms()
        if sequence is None or (self._seen is not None and sequence <= self._seen):
            sequence = self._seen
        else:
            wait_ms = min(SEQUENCE_WAIT_MS, wait_ms)
        if sequence is None:
            return {}
        return {"await-tx-id": str(sequence), "await-tx-timeout": str(wait_ms)}

    def params(self, point: ReadPoint) -> dict[str, str]:
        """Return the parameters of a read at that point."""
        params = self.waiting(point.sequence)
        if point.valid_time is not None:
            params["valid-time"] = url_instant(point.valid_time)
        if point.sequence is not None:
            params["tx-id"] = str(point.sequence)
        return params

    def confirming(self, sequence: int) -> dict[str, str]:
        """Return the parameters that make a node wait for our own transaction."""
        return {"await-tx-id": str(sequence), "await-tx-timeout": str(self._wait_ms())}

    async def resolve(self, as_of: AsOf) -> ReadPoint | None:
        """Return the read point of a caller's times; None if the store was empty then."""
        if as_of.system_time is None:
            return ReadPoint(as_of.valid_time, as_of.sequence)
        params = {"tx-time": url_instant(as_of.system_time), **self.waiting()}
        for _ in range(2):
            try:
                sequence = self._sequence(await self._http.get("db", params))
            except NodeBehind:
                newest = await self._newest()
                if newest is None:
                    return None
                sequence, time = newest
                if time > as_of.system_time:
                    continue  # written between the two requests: the first one succeeds now
            return None if sequence is None else ReadPoint(as_of.valid_time, sequence)
        raise Unavailable(f"{self._http.node} found no transaction at {as_of.system_time}")

    async def fixed(self, point: ReadPoint) -> ReadPoint:
        """Return the point with both times fixed, so that several requests see the same."""
        if point.valid_time is not None and point.sequence is not None:
            return point
        basis = await self._http.get("db", self.params(point))
        with readable(self._http.node):
            return ReadPoint(basis[_VALID_TIME].ms, basis[_TX][_TX_ID])

    def _wait_ms(self) -> int:
        return int(self._http.deadline.left_s * WAIT_SHARE * 1000)

    def _sequence(self, basis: Any) -> int | None:
        with readable(self._http.node):
            sequence: int | None = basis[_TX][_TX_ID]
            return sequence

    async def _newest(self) -> tuple[int, Instant] | None:
        newest = await self._http.get("latest-completed-tx", self.waiting())
        if newest is None:
            return None
        with readable(self._http.node):
            return newest[_TX_ID], newest[_TX_TIME].ms


def url_id(object_id: str) -> str:
    """Return an id as EDN for a URL with few escapes, since each takes up to six bytes."""
    return '"' + object_id.replace("\\", "\\\\").replace('"', '\\"') + '"'


def url_instant(instant: Instant) -> str:
    """Return an instant for a URL, where a year has four digits."""
    return Inst(min(instant, INSTANT_MAX)).to_iso().removesuffix("-00:00") + "Z"
