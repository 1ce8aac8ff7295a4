"""``XDB``, the door of the experience layer: record, recall, annotate. Touches its folder.

    storage_path/experience    the log
    storage_path/exports       packages of evidence

An ``XDB`` has one current session. The audit log is not a part of it, and cannot be reached from
here.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.events.events import Listener
from ctxmgr.core.events.origins import EventSource
from ctxmgr.errors import Incorrect
from ctxmgr.experience.listener import ExperienceListener
from ctxmgr.experience.log.batches import TOP_K
from ctxmgr.experience.log.filters import LIMIT
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.annotations import Comment, choose_target
from ctxmgr.experience.records.timestep import (
    NewTimestep,
    Role,
    TimestepRecord,
    check_session_id,
    timestep_id,
)
from ctxmgr.experience.streams import TokenStream

LOG_FOLDER: Final = "experience"
CONTEXT_TOKENS: Final = 8_192
"""The window of a session, unless it is started with another one."""

CONCEPT_SCORE_MIN: Final = 0.5
"""A concept that is asked for without a score has at least this one."""


class XDB:
    """The experience of one agent. Use it with ``async with XDB(path, be_id) as xdb``."""

    def __init__(
        self,
        storage_path: Path,
        be_id: str,
        concept_pack_path: Path | None = None,
        *,
        top_k: int = TOP_K,
        create: bool = True,
    ) -> None:
        self.storage_path = storage_path
        self.be_id = be_id
        self._concept_pack_path = concept_pack_path
        self._top_k = top_k
        self._create = create
        self._log: ExperienceLog | None = None
        self._stream: TokenStream | None = None
        self.session_id: str | None = None
        """The current session; None: ``start_session`` was not called."""
        self.current_tick = 0
        """The last tick of the current session that was recorded here."""

    async def __aenter__(self) -> Self:
        self._log = await ExperienceLog.open(
            self.storage_path / LOG_FOLDER, top_k=self._top_k, create=self._create
        )
        self._stream = TokenStream(self._log)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._stream is not None:
            await self._stream.close()
        if self._log is not None:
            await self._log.close()
            self._log = None

    @property
    def experience_log(self) -> ExperienceLog:
        if self._log is None:
            raise Incorrect("the XDB is not open: use `async with XDB(…) as xdb`")
        return self._log

    # Sessions and recording.

    async def start_session(
        self, session_id: str, max_context_tokens: int = CONTEXT_TOKENS
    ) -> None:
        """Make a session the current one; a known one continues after its last tick."""
        check_session_id(session_id)
        if max_context_tokens < 1:
            raise Incorrect(f"a context has at least one token, not {max_context_tokens}")
        self.current_tick = await self.experience_log.last_tick(session_id)
        self.session_id = session_id

    async def end_session(self) -> None:
        """Leave the current session."""
        self.session_id = None
        self.current_tick = 0

    async def record(
        self,
        event_type: EventType,
        content: str,
        concept_activations: Mapping[str, float] | None = None,
        *,
        event_id: str | None = None,
        event_start: bool = False,
        event_end: bool = False,
        token_id: int | None = None,
        role: Role | None = None,
        token_count: int = 1,
    ) -> str:
        """Store a timestep of the current session durably; return its id."""
        session_id = self._session()
        if token_count < 0:
            raise Incorrect(f"a timestep has no fewer than 0 tokens, not {token_count}")
        step = NewTimestep(
            timestamp=_now(),
            event_type=event_type,
            content=content,
            concept_activations=concept_activations or {},
            event_id=event_id,
            event_start=event_start,
            event_end=event_end,
            token_id=token_id,
            role=role,
        )
        appended = await self.experience_log.append(session_id, [step])
        assert appended is not None
        self.current_tick = appended.last_tick
        return timestep_id(session_id, appended.last_tick)

    # Recall.

    async def recall(
        self,
        *,
        tags: Sequence[str] | None = None,
        concepts: Sequence[str] | None = None,
        text_search: str | None = None,
        tick_range: tuple[int, int] | None = None,
        time_range: tuple[int, int] | None = None,
        event_types: Sequence[str] | None = None,
        session_id: str | None = None,
        limit: int = LIMIT,
    ) -> list[TimestepRecord]:
        """Return timesteps of a session, by default the current one, that match all filters.

        Of ``tags`` one is enough; each of ``concepts`` has at least a score of 0.5.
        """
        wanted = dict.fromkeys(concepts or (), (CONCEPT_SCORE_MIN, 1.0))
        return await self.experience_log.query(
            session_id=session_id or self.session_id,
            tick_range=tick_range,
            time_range=time_range,
            event_types=event_types,
            tags=tags,
            concept_activations=wanted,
            text_search=text_search,
            limit=limit,
        )

    async def recall_by_concept(
        self, concept_id: str, min_activation: float = CONCEPT_SCORE_MIN, limit: int = LIMIT
    ) -> list[TimestepRecord]:
        """Return the timesteps of all sessions with such a score of a concept, highest first."""
        found = await self.experience_log.top_by_concept(
            concept_id, minimum=min_activation, limit=limit
        )
        return [step.record for step in found]

    # Annotate.

    async def comment(
        self,
        content: str,
        *,
        timestep_id: str | None = None,
        event_id: str | None = None,
        tick_range: tuple[int, int] | None = None,
    ) -> str:
        """Comment on one timestep, event or range of ticks; return the comment's id."""
        target = choose_target(
            self.session_id, timestep_id=timestep_id, event_id=event_id, tick_range=tick_range
        )
        comment = Comment(
            id=f"comment-{uuid.uuid4().hex[:12]}",
            content=content,
            created_at=_now(),
            **target.fields(),
        )
        return await self.experience_log.add_comment(comment)

    # What happens in a store, and what a model streams.

    def listener(self, source: EventSource) -> Listener:
        """Return a listener that records what happens in a store."""
        assert self._stream is not None, "the XDB is open"
        return ExperienceListener(
            self.experience_log, source, stream=self._stream, activations=self.activations
        )

    def stream(self, step: NewTimestep, *, token_count: int = 1) -> None:
        """Record a timestep of the current session soon; returns at once."""
        assert self._stream is not None, "the XDB is open"
        if token_count < 0:
            raise Incorrect(f"a timestep has no fewer than 0 tokens, not {token_count}")
        self._stream.add(self._session(), step)

    async def flush(self) -> None:
        """Wait until everything that was streamed is in the log."""
        assert self._stream is not None, "the XDB is open"
        await self._stream.flush()

    def activations(self, text: str) -> Mapping[str, float]:  # noqa: ARG002 (no lens yet)
        """Return what the lenses say about a text that the agent may see."""
        return {}

    async def get_state(self) -> dict[str, Any]:
        """Return what there is: counts, the current session and its last tick."""
        status = await self.experience_log.status()
        return {
            "be_id": self.be_id,
            "session_id": self.session_id,
            "current_tick": self.current_tick,
            "tag_count": status.tags,
        }

    def _session(self) -> str:
        if self.session_id is None:
            raise Incorrect("no session is active: call start_session first")
        return self.session_id


def _now() -> int:
    return time.time_ns() // 1_000_000
