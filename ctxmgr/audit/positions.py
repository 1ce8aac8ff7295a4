"""What has been recorded of each session and of each store, for ids and for events. Pure.

    sessions   session → its latest tick, and the last sequence at that tick
    stores     store → the last event that was recorded

Both follow from the records. They are kept so that an append needs no search, and the first record
of a segment holds them, so that opening a log reads one segment.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

from ctxmgr.core.events.events import EventOrigin

SESSIONS_MAX: Final = 10_000
"""Sessions remembered, the most recent ones. Every segment begins with them: some 500 KB."""


class Positions:
    """The latest tick of each session, and the last event of each store."""

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[int, int]] = {}
        self._stores: dict[str, EventOrigin] = {}
        self._times: dict[str, int] = {}
        self._forgot = False
        """Whether sessions were dropped, so that an unknown one may have records."""

    def sequence(self, session_id: str, tick: int, *, number: int) -> int:
        """Return a sequence that no record of this session and tick has.

        It counts from 0. For a tick before the latest one, which is not remembered, it is the
        record's number: larger than every sequence before it.
        """
        latest = self._sessions.get(session_id)
        if latest is None:
            return number if self._forgot else 0
        last_tick, last = latest
        if tick == last_tick:
            return last + 1
        return 0 if tick > last_tick else number

    def note(
        self,
        session_id: str,
        tick: int,
        sequence: int,
        source: EventOrigin | None,
        *,
        timestamp: int,
    ) -> None:
        """Remember a record."""
        latest = self._sessions.pop(session_id, None)
        if latest is None or tick >= latest[0]:
            latest = (tick, sequence)
        self._sessions[session_id] = latest
        if len(self._sessions) > SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
            self._forgot = True
        if source is not None and source > self._stores.get(source.store, _NONE):
            self._stores[source.store] = source
            self._times[source.store] = timestamp

    def note_values(self, values: Mapping[str, Any]) -> None:
        """Remember the record of a line."""
        source = values["source"]
        self.note(
            values["session_id"],
            values["tick"],
            values["sequence"],
            None if source is None else EventOrigin(*source),
            timestamp=values["timestamp"],
        )

    def last_event(self, store: str) -> EventOrigin | None:
        """Return the last event of a store that was recorded."""
        return self._stores.get(store)

    def last_time(self, store: str) -> int | None:
        """Return when that event happened, by the store's clock."""
        return self._times.get(store)

    def has(self, source: EventOrigin) -> bool:
        """Return whether an event was recorded. A store's events come in their order."""
        last = self._stores.get(source.store)
        return last is not None and source <= last

    def to_value(self) -> dict[str, Any]:
        return {
            "sessions": self._sessions,
            "stores": [[*source, self._times[store]] for store, source in self._stores.items()],
            "forgot": self._forgot,
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        positions = cls()
        positions._sessions = {
            session: (int(tick), int(last)) for session, (tick, last) in value["sessions"].items()
        }
        for *source, timestamp in value["stores"]:
            positions._stores[source[0]] = EventOrigin(*source)
            positions._times[source[0]] = int(timestamp)
        positions._forgot = bool(value["forgot"])
        return positions


_NONE: Final = EventOrigin("", -1, -1, -1)
