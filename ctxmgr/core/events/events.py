"""Events, and the contract of their listeners. Pure.

Every event can be derived again from its transaction (``derive``), so that a listener that was not
running receives the same events later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from ctxmgr.core.store.contract import Instant


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """The position of an event among all events of a store."""

    sequence: int
    """The sequence of its transaction."""
    position: int
    """Its position among the events of that transaction."""


class EventOrigin(NamedTuple):
    """The event that a record was made from; a later event of the same store is larger."""

    store: str
    sequence: int
    position: int
    part: int
    """An event can result in several records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened and is stored. Events have an order, given by their ids."""

    name: ClassVar[str] = "event"

    id: EventId
    system_time: Instant
    """When it was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(Event):
    """A session was stored for the first time."""

    name = "session_started"

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPaused(Event):
    """A client closed a session with ``pause``."""

    name = "session_paused"

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed(Event):
    """A client opened a session with ``resume``."""

    name = "session_resumed"

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPromptChanged(Event):
    """A session got its first or another system prompt."""

    name = "system_prompt_changed"

    session_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetsChanged(Event):
    """One of a session's four sets changed."""

    name = "sets_changed"

    session_id: str
    set_name: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished(Event):
    """A turn was stored."""

    name = "turn_finished"

    session_id: str
    n: int
    turn: Mapping[str, Any] | None = field(repr=False)
    """As the chat stores it; None if the transaction does not hold the chat."""
    prompt_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted(Event):
    """Old turns of a session are shown as a summary from now on; they stay stored whole."""

    name = "compacted"

    session_id: str
    n: int
    """The number of the compaction in its session, from 1."""
    trigger: str
    range_start: int
    """The first turn that is no longer rendered."""
    range_end: int
    """The last one."""
    tokens_before: int
    """Of the prompt."""
    tokens_after: int
    summary: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCreated(Event):
    """A tool call was recorded."""

    name = "toolcall_created"

    object_id: str
    chat_ref: str
    tool: str
    status: str
    object_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEvent(Event):
    """A new version of a file was stored."""

    object_id: str
    source: Mapping[str, str]
    object_hash: str
    valid_time: Instant
    """When the file changed, as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiscovered(FileEvent):
    """A file became known without being read."""

    name = "file_discovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexed(FileEvent):
    """A file was read for the first time."""

    name = "file_indexed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUpdated(FileEvent):
    """A known file changed."""

    name = "file_updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDeleted(FileEvent):
    """A known file was deleted."""

    name = "file_deleted"


class Listener(Protocol):
    """Receives every event at least once and in order.

    A listener stores the id of the last event it has handled, best in the same transaction as its
    own data; when it starts, it receives everything after that. If it fails, the failure is logged
    and the same event is delivered again later; a failing listener never fails a turn.
    """

    name: str
    """Identifies the listener in logs."""

    async def last_handled(self) -> EventId | None:
        """Return the id after which to continue; None: from the beginning."""
        ...

    async def handle(self, event: Event) -> None:
        """Handle one event. One with an id up to ``last_handled`` was handled before."""
        ...
