"""The four sets of a session: what it can see, and how that changes. Pure.

    session_index  ⊇  metadata_pool  ⊇  active_set
                      metadata_pool  ⊇  pinned_set

    added by              index  pool  active
    discovery, write        ✓      ✓
    read, a new tool call   ✓      ✓      ✓

All four keep the order of arrival, and contain only content objects. ``session_index`` only grows.
Every operation returns a new Session, which the client saves.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NoReturn, Self

from ctxmgr.core.append_only import AppendOnly, OrderedIds
from ctxmgr.core.objects.envelope import (
    CHAT,
    SESSION,
    SYSTEM_PROMPT,
    chat_id,
    check_session_id,
    session_object_id,
    system_prompt_id,
)
from ctxmgr.core.objects.session_record import SETS, SessionRecord
from ctxmgr.core.store.documents import check_object_id
from ctxmgr.errors import Incorrect, NotContent, NotFound, Unavailable

DEMOTION_ENABLED: Final = False
"""No operation removes an object from the pool (003-A09), though the state model allows one. Only
the new place of a file takes that of the old one (``relocate``)."""


class Level(StrEnum):
    """How much of a content object the agent sees."""

    ACTIVE = "active"
    """In full."""
    METADATA = "metadata"
    """One line."""
    INDEXED = "indexed"
    """Nothing."""


NONE: Final = OrderedIds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The object ids of a session in four sets, each in the order of arrival."""

    session_id: str
    session_index: OrderedIds = NONE
    """Every content object that the session has seen."""
    metadata_pool: OrderedIds = NONE
    """Objects that have a line in the prompt."""
    active_set: OrderedIds = NONE
    """Objects that are shown in full."""
    pinned_set: OrderedIds = NONE
    """Objects that are exempt from automatic collapse."""

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        assert self.metadata_pool <= self.session_index
        assert self.active_set <= self.metadata_pool
        assert self.pinned_set <= self.metadata_pool

    @classmethod
    def from_record(cls, record: SessionRecord) -> Self:
        return cls(
            session_id=record.session_id,
            session_index=OrderedIds(record.session_index),
            metadata_pool=OrderedIds(record.metadata_pool),
            active_set=OrderedIds(record.active_set),
            pinned_set=OrderedIds(record.pinned_set),
        )

    @property
    def is_whole(self) -> bool:
        """Whether the session index has been read."""
        return not isinstance(self.session_index, UnreadIds)

    def shows_same(self, other: Self) -> bool:
        """Whether all sets but the index are equal."""
        return all(getattr(self, name) == getattr(other, name) for name in SETS[1:])

    def unread(self) -> Self:
        """Return the session without its index, as it is before the index has been read."""
        return self._with(session_index=UnreadIds(self.metadata_pool))

    def to_record(self) -> SessionRecord:
        return SessionRecord.of(self.session_id, sets={name: getattr(self, name) for name in SETS})

    def level(self, object_id: str) -> Level | None:
        """Return how much of an object is shown; None if the session does not know it."""
        if object_id in self.active_set:
            return Level.ACTIVE
        if object_id in self.metadata_pool:
            return Level.METADATA
        return Level.INDEXED if object_id in self.session_index else None

    def level_counts(self) -> dict[str, int]:
        """Count the objects by level, and those that are pinned."""
        active, pool = len(self.active_set), len(self.metadata_pool)
        return {
            "active": active,
            "metadata": pool - active,
            "indexed": len(self.session_index) - pool,
            "pinned": len(self.pinned_set),
        }

    def read(self, object_id: str) -> Self:
        """Add a file that the agent read, and show it in full."""
        return self.add((object_id,)).activate(object_id)

    def created(self, toolcall_id: str) -> Self:
        """Add a new tool call, and show its output in full."""
        return self.add((toolcall_id,)).activate(toolcall_id)

    def add(self, object_ids: Iterable[str]) -> Self:
        """Add objects, shown as one line each."""
        new, own = tuple(object_ids), self._own_ids()
        for object_id in new:
            check_object_id(object_id)
            if object_id in own:
                raise NotContent(object_id, own[object_id])
        index, pool = self.session_index.add(new), self.metadata_pool.add(new)
        return self._with(session_index=index, metadata_pool=pool)

    def activate(self, object_id: str) -> Self:
        """Show the object in full; ``NotFound`` if it is not in the session index."""
        self._require_known(object_id)
        shown = (object_id,)
        return self._with(
            metadata_pool=self.metadata_pool.add(shown), active_set=self.active_set.add(shown)
        )

    def deactivate(self, object_id: str) -> Self:
        """Show only the object's line."""
        self._require_known(object_id)
        return self._with(active_set=self.active_set.remove((object_id,)))

    def collapse(self, object_ids: Collection[str]) -> Self:
        """Show only the lines of many objects."""
        return self._with(active_set=self.active_set.remove(frozenset(object_ids)))

    def pin(self, object_id: str) -> Self:
        """Exempt the object from automatic collapse. This does not activate it."""
        self._require_known(object_id)
        pinned = (object_id,)
        return self._with(
            metadata_pool=self.metadata_pool.add(pinned), pinned_set=self.pinned_set.add(pinned)
        )

    def relocate(self, pairs: Mapping[str, str]) -> Self:
        """Show other objects in place of some, which stay in the index: old id → new id.

        Each takes the old one's place in every set, at its end. An object that the session knows
        already keeps what it has.
        """
        sets = {"session_index": self.session_index.add(pairs.values())}
        for name in SETS[1:]:
            ids = getattr(self, name)
            old = [object_id for object_id in ids if object_id in pairs]
            sets[name] = ids.remove(frozenset(old)).add(pairs[object_id] for object_id in old)
        return self._with(**sets)

    def unpin(self, object_id: str) -> Self:
        self._require_known(object_id)
        return self._with(pinned_set=self.pinned_set.remove((object_id,)))

    def demote(self, object_id: str, *, enabled: bool = DEMOTION_ENABLED) -> Self:
        """Remove the object from all sets but the index. Reserved: refused unless enabled."""
        if not enabled:
            raise Incorrect("demotion is reserved: no object can leave the metadata pool")
        self._require_known(object_id)
        gone = (object_id,)
        return self._with(
            metadata_pool=self.metadata_pool.remove(gone),
            active_set=self.active_set.remove(gone),
            pinned_set=self.pinned_set.remove(gone),
        )

    def _require_known(self, object_id: str) -> None:
        if object_id in self.session_index:
            return
        kind = self._own_ids().get(object_id)
        if kind is not None:
            raise NotContent(object_id, kind)
        raise NotFound(f"{object_id} is not in the index of session {self.session_id}")

    def _own_ids(self) -> dict[str, str]:
        return {
            chat_id(self.session_id): CHAT,
            system_prompt_id(self.session_id): SYSTEM_PROMPT,
            session_object_id(self.session_id): SESSION,
        }

    def _with(self, **sets: OrderedIds) -> Self:
        """Replace sets without checking the invariants, which would cost more than the change.

        Every operation preserves them; property tests check that.
        """
        changed = object.__new__(type(self))
        for name in ("session_id", *SETS):
            object.__setattr__(changed, name, sets.get(name, getattr(self, name)))
        return changed


class UnreadIds(OrderedIds):
    """An index that has not been read: only the objects in the pool are known.

    Every question that they do not answer raises ``Unavailable``.
    """

    __slots__ = ()

    @property
    def in_order(self) -> AppendOnly[str]:
        return self._refuse()

    def __contains__(self, object_id: object) -> bool:
        return super().__contains__(object_id) or self._refuse()

    def __iter__(self) -> Iterator[str]:
        return self._refuse()

    def __len__(self) -> int:
        return self._refuse()

    def __eq__(self, other: object) -> bool:
        return self is other or self._refuse()

    def __hash__(self) -> int:
        return self._refuse()

    def _refuse(self) -> NoReturn:
        raise Unavailable("the session index is still being read; wait for the reconciliation")


def merge(base: Session, ours: Session, *, theirs: Session) -> Session:
    """Merge two sessions that diverged from ``base``; ``theirs`` is stored already.

    The index is the union. In the other sets, whatever either side added or removed since ``base``
    is added or removed; two changes of the same membership are always the same change. Conflicts
    between sets are resolved in favour of showing: an object that one side shows or pins stays in
    the pool even if the other removed it, and an object that one side has pinned since, and shows,
    stays active even if the other folded it, since collapse spares pinned objects.
    """
    assert base.session_id == ours.session_id == theirs.session_id
    index, pool, active, pinned = (
        _merged(getattr(base, name), getattr(ours, name), getattr(theirs, name)) for name in SETS
    )
    active = active.add([*_kept_by_pin(base, theirs), *_kept_by_pin(base, ours)])
    pool = pool.add([*active, *pinned])
    return replace(
        theirs, session_index=index, metadata_pool=pool, active_set=active, pinned_set=pinned
    )


def _kept_by_pin(base: Session, side: Session) -> list[str]:
    since = (object_id for object_id in side.pinned_set if object_id not in base.pinned_set)
    return [object_id for object_id in since if object_id in side.active_set]


def _merged(base: OrderedIds, ours: OrderedIds, theirs: OrderedIds) -> OrderedIds:
    removed = [object_id for object_id in base if object_id not in ours]
    added = [object_id for object_id in ours if object_id not in base]
    return theirs.remove(frozenset(removed)).add(added)
