"""Stores the events of a spool: in order, none twice, by one process at a time. Commits.

A file of events is deleted when all of it is stored. A crash before that has it read again, from
the same state as the first time: ``turns/HASH.json`` holds what was known of a session's open turn
before and after the last file. It is deleted when its session has had no event for a long time:
until then, a session that has ended may be resumed.
"""

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ctxmgr import Incorrect, Store
from ctxmgr.integrations.agents.capture import (
    WAITING,
    OpenTurn,
    capture_events,
    describe_refusal,
)
from ctxmgr.integrations.agents.events import AgentEvent
from ctxmgr.integrations.agents.spool import (
    DRAIN,
    SpooledEvent,
    delete_batch,
    read_batch,
    refuse,
    take_batches,
    try_lock,
)

logger = logging.getLogger(__name__)

TURN_SECONDS_MAX: Final = 90 * 86_400.0
"""How long the open turn of a session without events is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What was stored."""

    events: int = 0
    refused: tuple[str, ...] = ()
    """Why events could not be stored."""
    ended: bool = False
    """Whether a session has ended."""

    def __add__(self, other: "Drained") -> "Drained":
        return Drained(
            events=self.events + other.events,
            refused=self.refused + other.refused,
            ended=self.ended or other.ended,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Stores what waits in one spool."""

    folder: Path
    store: Store
    project_of: Callable[[AgentEvent], Path]
    """Returns the project's folder of an event's session, which a person has chosen."""
    audit: Path | None = None

    async def run(self) -> Drained | None:
        """Store all events that wait; None if another process does it at the moment."""
        lock = try_lock(str(self.folder), DRAIN)
        if lock is None:
            return None
        with lock:
            done = Drained()
            for batch in take_batches(str(self.folder)):
                done += await self._store_batch(Path(batch))
            if done.events:
                self._delete_old_turns()
            return done

    async def _store_batch(self, batch: Path) -> Drained:
        reasons: list[str] = []
        origins: dict[str, SpooledEvent] = {}
        sessions: dict[str, list[AgentEvent]] = {}
        for spooled in read_batch(str(batch)):
            try:
                event = AgentEvent.read(spooled)
            except Incorrect as error:
                self._refuse(spooled, str(error), reasons)
                continue
            origins[event.key] = spooled
            sessions.setdefault(event.session, []).append(event)

        def refuse_event(event: AgentEvent, reason: str) -> None:
            self._refuse(origins[event.key], reason, reasons)

        for events in sessions.values():
            await self._store_session(batch, events, refuse_event)
        delete_batch(str(batch))
        stored = [event.name for events in sessions.values() for event in events]
        return Drained(events=len(stored), refused=tuple(reasons), ended="SessionEnd" in stored)

    async def _store_session(
        self, batch: Path, events: list[AgentEvent], refuse_event: Callable[[AgentEvent, str], None]
    ) -> None:
        file = self._turn_file(events[0].session)
        known = _load(file)
        before = known.get("before" if known.get("batch") == batch.name else "after")
        try:
            project = self.project_of(events[0])
            turn = await capture_events(
                self.store,
                events,
                project=project,
                turn=OpenTurn.load(before if isinstance(before, dict) else None),
                audit=self.audit,
                refuse=refuse_event,
            )
        except WAITING:
            raise
        except Exception as error:  # noqa: BLE001 (the session is deleted, say; others go on)
            for event in events:
                refuse_event(event, describe_refusal(error))
            return
        _save(file, {"batch": batch.name, "before": before, "after": turn.to_value()})

    def _refuse(self, spooled: SpooledEvent, reason: str, reasons: list[str]) -> None:
        reasons.append(reason)
        logger.warning("an event of a hook is not stored: %s", reason)
        refuse(str(self.folder), spooled, reason)

    def _delete_old_turns(self) -> None:
        """Delete the turns of sessions that are over, when no file of events needs them."""
        oldest = time.time() - TURN_SECONDS_MAX
        for file in self.folder.glob("turns/*"):
            if file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)

    def _turn_file(self, session: str) -> Path:
        name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
        return self.folder / "turns" / f"{name}.json"


def _load(file: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        logger.warning("%s is damaged: a turn that had begun starts anew", file)
        return {}
    return value if isinstance(value, dict) else {}


def _save(file: Path, value: Mapping[str, Any]) -> None:
    file.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as written:
        json.dump(value, written)
        written.flush()
        os.fsync(written.fileno())
    Path(temporary).replace(file)
