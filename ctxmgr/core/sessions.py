"""What a session can see, and how that changes. Pure.

    session_index  ⊇  metadata_pool  ⊇  active_set
                      metadata_pool  ⊇  pinned_set

    met by                index  pool  active
    discovery, write        ✓      ✓
    read, a new tool call   ✓      ✓      ✓

All four keep the order of arrival, and only content objects are in them. ``session_index`` only
grows. Every operation returns a new Session; saving it is the client's business.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NoReturn, Self

from ctxmgr.core.documents import check_object_id
from ctxmgr.core.envelopes import (
    CHAT,
    SESSION,
    SYSTEM_PROMPT,
    chat_id,
    check_session_id,
    session_object_id,
    system_prompt_id,
)
from ctxmgr.core.growing import OrderedIds
from ctxmgr.core.infrastructure import SessionRecord
from ctxmgr.errors import Incorrect, NotContent, NotFound, Unavailable

DEMOTION_ENABLED: Final = False
"""No operation takes an object out of the pool (003-A09); the state model admits one."""


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
    """One agent's view: which objects it has met and how much of each it sees."""

    session_id: str
    session_index: OrderedIds = NONE
    metadata_pool: OrderedIds = NONE
    active_set: OrderedIds = NONE
    pinned_set: OrderedIds = NONE

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
        """Whether the index is known, and not only what is shown of it."""
        return not isinstance(self.session_index, UnreadIds)

    def shows_same(self, other: Self) -> bool:
        """Tell whether all sets but the index are equal."""
        return all(getattr(self, name) == getattr(other, name) for name in SETS[1:])

    def unread(self) -> Self:
        """Return the session as it is known while its index has not been read."""
        return self._with(session_index=UnreadIds(self.metadata_pool))

    def to_record(self) -> SessionRecord:
        return SessionRecord(
            session_id=self.session_id,
            session_index=tuple(self.session_index),
            metadata_pool=tuple(self.metadata_pool),
            active_set=tuple(self.active_set),
            pinned_set=tuple(self.pinned_set),
        )

    def level(self, object_id: str) -> Level | None:
        """Tell how much of the object is seen; None: this session has not met it."""
        if object_id in self.active_set:
            return Level.ACTIVE
        if object_id in self.metadata_pool:
            return Level.METADATA
        return Level.INDEXED if object_id in self.session_index else None

    def discover(self, object_id: str) -> Self:
        """Meet a file that some output named."""
        return self.meet_all((object_id,))

    def written(self, object_id: str) -> Self:
        """Meet a file that the agent wrote; whether it is shown in full stays as it was."""
        return self.meet_all((object_id,))

    def read(self, object_id: str) -> Self:
        """Meet a file that the agent read, and show it."""
        return self.meet_all((object_id,)).activate(object_id)

    def created(self, toolcall_id: str) -> Self:
        """Meet a tool call that was just made, and show its output."""
        return self.meet_all((toolcall_id,)).activate(toolcall_id)

    def meet_all(self, object_ids: Iterable[str]) -> Self:
        """Meet many objects at once, one line each."""
        met, own = tuple(object_ids), self._own_ids()
        for object_id in met:
            check_object_id(object_id)
            if object_id in own:
                raise NotContent(object_id, own[object_id])
        index, pool = self.session_index.add(met), self.metadata_pool.add(met)
        return self._with(session_index=index, metadata_pool=pool)

    def activate(self, object_id: str) -> Self:
        """Show the object in full; ``NotFound`` if this session has not met it."""
        self._require_met(object_id)
        shown = (object_id,)
        return self._with(
            metadata_pool=self.metadata_pool.add(shown), active_set=self.active_set.add(shown)
        )

    def deactivate(self, object_id: str) -> Self:
        """Fold the object back to its one line."""
        self._require_met(object_id)
        return self._with(active_set=self.active_set.remove((object_id,)))

    def collapse(self, object_ids: Collection[str]) -> Self:
        """Fold many at once, as a plan says."""
        return self._with(active_set=self.active_set.remove(frozenset(object_ids)))

    def pin(self, object_id: str) -> Self:
        """Exempt the object from automatic collapse. It is not activated by that."""
        self._require_met(object_id)
        pinned = (object_id,)
        return self._with(
            metadata_pool=self.metadata_pool.add(pinned), pinned_set=self.pinned_set.add(pinned)
        )

    def unpin(self, object_id: str) -> Self:
        self._require_met(object_id)
        return self._with(pinned_set=self.pinned_set.remove((object_id,)))

    def demote(self, object_id: str, *, enabled: bool = DEMOTION_ENABLED) -> Self:
        """Take the object out of sight; the index keeps it. Reserved: refused unless enabled."""
        if not enabled:
            raise Incorrect("no object leaves the metadata pool: demotion is reserved")
        self._require_met(object_id)
        gone = (object_id,)
        return self._with(
            metadata_pool=self.metadata_pool.remove(gone),
            active_set=self.active_set.remove(gone),
            pinned_set=self.pinned_set.remove(gone),
        )

    def _require_met(self, object_id: str) -> None:
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
        """Change sets without checking all of them again, which would cost more than the change.

        Each operation keeps the law by what it does; the property tests hold it to that.
        """
        changed = object.__new__(type(self))
        for name in ("session_id", *SETS):
            object.__setattr__(changed, name, sets.get(name, getattr(self, name)))
        return changed


class UnreadIds(OrderedIds):
    """An index that has not been read: of what the pool does not hold nobody knows.

    Asking for more is ``Unavailable``.
    """

    __slots__ = ()

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
        raise Unavailable("the session's index is still being read: wait for its reconciliation")


SETS: Final = ("session_index", "metadata_pool", "active_set", "pinned_set")


def merge(base: Session, ours: Session, *, theirs: Session) -> Session:
    """Join two sessions that went apart from ``base``; theirs is stored already and leads.

    The index is the union. Of the other sets, whatever either side added or removed since ``base``
    is added or removed: a change wins over no change, and two changes of one membership are the
    same change. What is left is between sets: an object that one side shows or pins stays in the
    pool though the other took it out; and what one side has pinned since, and shows, stays active
    though the other folded it, since a sweep that had known of the pin would have let it be.
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
