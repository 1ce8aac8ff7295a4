"""Where a record of a log comes from, and whether its event was recorded before.

Logs that record a store's events (audit, experience) may outlive the store, follow several stores,
and meet one that was restored from a backup. They name each event by its store and its id
(``EventOrigin``):

    StoreEvents       what a listener asks the store for
    StoreLineage      the name under which a store's events are recorded
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from ctxmgr.core.events.events import EventOrigin, ToolCallCreated
from ctxmgr.core.store.contract import AsOf, Store
from ctxmgr.errors import Corrupt

LINEAGES_MAX: Final = 100
"""How often one store may have been restored from a backup."""


class EventSource(Protocol):
    """What a listener needs to know of the store."""

    async def identity(self) -> str | None:
        """Return what tells this store from others, also after it was moved; None: empty."""
        ...

    async def time_of(self, sequence: int) -> int | None:
        """Return the time of a transaction; None if there is none."""
        ...

    async def tool_call(self, event: ToolCallCreated) -> Mapping[str, Any] | None:
        """Return the arguments and the output of a call, as the store holds them."""
        ...


class StoreEvents:
    """The ``EventSource`` of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def identity(self) -> str | None:
        """Return what tells this store from others: its first transaction."""
        first = await self._store.feed(after=None, limit=1)
        return f"{first[0].key}@{first[0].system_time}" if first else None

    async def time_of(self, sequence: int) -> int | None:
        """Return when a transaction was stored; None if there is none."""
        found = await self._store.feed(after=sequence - 1 if sequence else None, limit=1)
        return found[0].system_time if found and found[0].sequence == sequence else None

    async def tool_call(self, event: ToolCallCreated) -> Mapping[str, Any] | None:
        """Return the arguments and the output of a tool call."""
        as_of = AsOf(sequence=event.id.sequence)
        stored = await self._store.get_many((event.object_id,), as_of=as_of)
        version = stored.get(event.object_id)
        if version is None:
            return None
        return {name: version.document.get(name) for name in ("args", "content")}


class StoreLineage:
    """The name under which a store's events are recorded.

    A store that was restored from a backup assigns sequences again that were recorded with other
    events. Its events are recorded under another name, from its beginning.
    """

    def __init__(
        self,
        source: EventSource,
        last_event: Callable[[str], Awaitable[tuple[EventOrigin, int] | None]],
    ) -> None:
        """``last_event`` returns the last recorded event of a name, and when it happened."""
        self._source = source
        self._last_event = last_event
        self._name: str | None = None

    async def name(self) -> str | None:
        """Return the name; None while the store is empty."""
        if self._name is None:
            identity = await self._source.identity()
            if identity is None:
                return None
            for number in range(LINEAGES_MAX):
                name = f"{identity}+{number}" if number else identity
                last = await self._last_event(name)
                if last is None or await self._source.time_of(last[0].sequence) == last[1]:
                    self._name = name
                    return name
            raise Corrupt(f"the store {identity} was restored more than {LINEAGES_MAX} times")
        return self._name
