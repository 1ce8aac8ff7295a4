"""The door: a client of one agent. Owns its files and its background tasks; not its store.

    async with connect(url, mounts=…) as client
        start     a new session
        resume    one that any client left, here or elsewhere
        visit     look into one that another client has
        pause     leave it to the next
        fork      go on from an earlier turn
        …_as_of   what was shown, believed and true

A client runs beside the agent loop, outside the agent's sandbox. It does not run the loop. Two
clients on one store know nothing of each other; what they share are the objects.
"""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.assembly import Context
from ctxmgr.core.bundling import export_session, import_session
from ctxmgr.core.collapse import Activations
from ctxmgr.core.envelopes import check_session_id, turn_id
from ctxmgr.core.events import ACTIVE, PAUSED, Listener, lifecycle_document
from ctxmgr.core.fingerprints import Fingerprints
from ctxmgr.core.forking import fork_document, forked
from ctxmgr.core.infrastructure import Chat, SystemPrompt
from ctxmgr.core.listening import Listening
from ctxmgr.core.live_session import LiveSession
from ctxmgr.core.objects import StoredObject
from ctxmgr.core.past import PastState, believed_at, prompt_as_of, state_as_of, true_at
from ctxmgr.core.resuming import Reconciliation
from ctxmgr.core.session_state import SessionState
from ctxmgr.core.sessions import Session
from ctxmgr.core.store import Instant, Put, Store
from ctxmgr.core.surroundings import Surroundings
from ctxmgr.core.tracking import Tracking
from ctxmgr.core.turns import TurnRecord
from ctxmgr.errors import Incorrect


class Client:
    """One agent's client. Use it with ``async with``: nothing runs after that."""

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        fingerprints: Fingerprints,
        listeners: Iterable[Listener] = (),
        tracking: bool = True,
    ) -> None:
        self._around = surroundings
        self._listening = Listening(surroundings.store, listeners=tuple(listeners))
        surroundings.changed = self._listening.wake
        self._fingerprints = fingerprints
        self._open: dict[str, LiveSession] = {}
        self._reconciling: dict[str, Reconciliation] = {}
        self.tracking: Final = (
            Tracking(surroundings, open_sessions=self._open_states) if tracking else None
        )
        """Follows the files of open sessions; None: nobody does."""
        self._closing = AsyncExitStack()

    @property
    def store(self) -> Store:
        return self._around.store

    @property
    def surroundings(self) -> Surroundings:
        """For the client's own parts; not for harnesses."""
        return self._around

    async def __aenter__(self) -> Self:
        self._closing.push_async_callback(asyncio.to_thread, self._fingerprints.save)
        self._closing.callback(self._around.files.close)
        await self._closing.enter_async_context(self._listening)
        if self.tracking is not None:
            await self._closing.enter_async_context(self.tracking)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop what runs in the background. Sessions stay as they are stored."""
        await asyncio.gather(*(each.stop() for each in self._reconciling.values()))
        await self._closing.aclose()

    async def start(self, session_id: str, *, system_prompt: str) -> LiveSession:
        """Start a session; ``Incorrect`` if there is one of that name."""
        check_session_id(session_id)
        state = await SessionState.create(
            self._around,
            Session(session_id=session_id),
            chat=Chat(session_id=session_id),
            prompt=SystemPrompt(session_id=session_id, content=system_prompt),
        )
        return await self._opened(state, None)

    async def resume(
        self, session_id: str, *, eager: bool = True, upgrade_stubs: bool = False
    ) -> LiveSession:
        """Go on with a session that any client left; ``NotFound`` if there is none.

        Its sets stay as they were. Every file that this client can reach is compared with its
        source; stubs stay unread, unless ``upgrade_stubs``. With ``eager=False`` only what is
        active is compared before this returns; ``reconciliation`` shows the rest going on, and can
        be awaited. The session's index is part of the rest: until it is read, asking for it is
        ``Unavailable``, and the first change of the session waits for it.
        """
        if session_id in self._open:
            raise Incorrect(f"session {session_id} is open in this client already")
        state = await SessionState.load(self._around, session_id, whole=eager)
        reconciliation = Reconciliation(state, upgrade_stubs=upgrade_stubs)
        await reconciliation.begin(eager=eager)
        last = await self._last_record(state)
        live = await self._opened(state, last.activations if last else None)
        self._reconciling[session_id] = reconciliation
        state.note(await self._around.commit([Put(lifecycle_document(session_id, state=ACTIVE))]))
        if not eager:
            reconciliation.go_on()
        return live

    async def visit(self, session_id: str) -> LiveSession:
        """Look into a session, or change its sets, while somebody else may have it open.

        Unlike ``resume`` it compares and follows no files, and the store does not learn of it.
        """
        state = await SessionState.load(self._around, session_id)
        last = await self._last_record(state)
        live = LiveSession(state, activations=last.activations if last else None)
        await live.restore()
        return live

    async def fork(self, session_id: str, *, turn: int, new_session_id: str) -> LiveSession:
        """Start a session that goes on after some turn of another; that one stays as it is."""
        check_session_id(new_session_id)
        session, chat, prompt = await forked(
            self.store, session_id, turn=turn, new_session_id=new_session_id
        )
        origin = fork_document(new_session_id, parent=session_id, turn=turn)
        state = await SessionState.create(
            self._around, session, chat=chat, prompt=prompt, besides=[Put(origin)]
        )
        return await self._opened(state, None)

    async def export_session(self, session_id: str, *, path: Path) -> str:
        """Write a session with its whole past as one file; return its root hash."""
        data, root = await export_session(self.store, session_id)
        await asyncio.to_thread(path.write_bytes, data)
        return root

    async def import_session(self, path: Path) -> str:
        """Store the session of a bundle, to be resumed here; return its id.

        ``Corrupt`` if one byte of it was altered; then nothing is written.
        """
        return await import_session(self.store, await asyncio.to_thread(path.read_bytes))

    async def prompt_as_of(self, session_id: str, *, turn: int) -> Context:
        """Make the prompt of a turn again; it proves itself by the hash of what was sent."""
        return await prompt_as_of(self.store, session_id, turn=turn)

    async def state_as_of(
        self,
        session_id: str,
        *,
        valid_time: Instant | None = None,
        system_time: Instant | None = None,
    ) -> PastState:
        """Return a session with its objects as it was; None means now, with all that is known."""
        return await state_as_of(
            self.store, session_id, valid_time=valid_time, system_time=system_time
        )

    async def believed_at(self, object_id: str, *, instant: Instant) -> StoredObject | None:
        """Return what was believed of an object at that moment: what the agent could know."""
        return await believed_at(self.store, object_id, instant=instant)

    async def true_at(self, object_id: str, *, instant: Instant) -> StoredObject | None:
        """Return what was true of it then: for a file, what the disk said, as learnt since."""
        return await true_at(self.store, object_id, instant=instant)

    async def stored_sets(self, session_id: str) -> Session:
        """Return a session's sets as the store has them now, whoever has it open."""
        return (await SessionState.load(self._around, session_id)).session

    async def pause(self, session_id: str) -> None:
        """Leave a session to whoever resumes it; all of it is in the store already."""
        if session_id not in self._open:
            raise Incorrect(f"session {session_id} is not open in this client")
        reconciling = self._reconciling.pop(session_id, None)
        if reconciling is not None:
            await reconciling.stop()
        await self._around.commit([Put(lifecycle_document(session_id, state=PAUSED))])
        self._open.pop(session_id).leave()

    def reconciliation(self, session_id: str) -> Reconciliation:
        """Return how far the comparison of a resumed session's files is."""
        if session_id not in self._reconciling:
            raise Incorrect(f"session {session_id} was not resumed by this client")
        return self._reconciling[session_id]

    async def heard(self) -> None:
        """Wait until every listener has been told all there is, or has failed at it."""
        await self._listening.heard()

    def _open_states(self) -> list[SessionState]:
        return [each.state for each in self._open.values()]

    async def _opened(self, state: SessionState, activations: Activations | None) -> LiveSession:
        live = LiveSession(state, activations=activations)
        await live.restore()
        self._open[live.session_id] = live
        return live

    async def _last_record(self, state: SessionState) -> TurnRecord | None:
        n = state.chat.turn_count
        if n == 0:
            return None
        version = await self.store.get(turn_id(state.session.session_id, number=n))
        return None if version is None else TurnRecord.from_document(version.document)
