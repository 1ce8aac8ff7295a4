"""The client of one agent: starts, resumes and reads sessions. Owns tasks, not its store.

    async with connect(url, mounts=…) as client
        open      start a session, or resume it if it exists
        start     a new session
        resume    a session that any client has paused, on any machine
        visit     inspect a session that another client has open
        pause     close a session, so that any client can resume it
        fork      continue from an earlier turn
        …_as_of   what was shown, believed and true at some time

A client runs next to the agent loop, outside the agent's sandbox; it does not run the loop. Two
clients on one store are independent of each other, but share its objects.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ctxmgr.core.client.leases import LeaseHeartbeat, SessionLease
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.client.reconcile import Reconciliation
from ctxmgr.core.client.runtime import Runtime
from ctxmgr.core.client.session_state import SessionState
from ctxmgr.core.collector import collector_paused
from ctxmgr.core.context.assembly import Context
from ctxmgr.core.events.lifecycle import ACTIVE, PAUSED, lifecycle_document
from ctxmgr.core.files.fingerprints import Fingerprints
from ctxmgr.core.history.session_policy import (
    PlainForm,
    SessionPolicy,
    policy_document,
    read_policy,
    stored_policy,
)
from ctxmgr.core.history.turn_records import TurnRecord
from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.objects.codec import StoredObject
from ctxmgr.core.objects.envelope import check_session_id, turn_id
from ctxmgr.core.objects.purged import deletion_id, refuse_deleted
from ctxmgr.core.objects.session_record import SystemPrompt
from ctxmgr.core.sessions.collapse import Activations
from ctxmgr.core.sessions.lineage import fork_document, forked, was_imported
from ctxmgr.core.sessions.sets import Session
from ctxmgr.core.store.contract import Instant, Put, Store
from ctxmgr.core.store.documents import Document
from ctxmgr.errors import Incorrect, NotFound

if TYPE_CHECKING:
    from datetime import datetime

    from ctxmgr.core.client.tracker_loop import TrackerLoop
    from ctxmgr.core.economy.policy import Economy
    from ctxmgr.core.events.listeners import ListenerFeed
    from ctxmgr.core.history.as_of import PastState


class Client:
    """A client for one agent: it starts, resumes and reads sessions of one store.

    Use it with ``async with``. Background tasks, such as trackers and listeners, end with the
    block; sessions stay as they are stored.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        fingerprints: Fingerprints,
        listeners: "ListenerFeed | None" = None,
        attached: Sequence[asyncio.Event] = (),
        tracking: "TrackerLoop | None" = None,
        policy: SessionPolicy = PlainForm.PLAIN,
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._listeners = listeners
        self._attached = attached
        """One for each listener of a layer, set while it has handled every event."""
        self._fingerprints = fingerprints
        self._open: dict[str, LiveSession] = {}
        self._reconciling: dict[str, Reconciliation] = {}
        self.tracking: Final = tracking
        """Follows the files of open sessions; None: they are not followed."""
        self._closing = AsyncExitStack()
        self.leases: Final = LeaseHeartbeat()
        """The leases of this client's open sessions; not for harnesses."""

    @property
    def store(self) -> Store:
        """The store that this client reads and writes."""
        return self._runtime.store

    @property
    def runtime(self) -> Runtime:
        """The resources that the client's sessions share; not for harnesses."""
        return self._runtime

    async def __aenter__(self) -> Self:
        self._closing.push_async_callback(asyncio.to_thread, self._fingerprints.save)
        self._closing.callback(self._runtime.files.close)
        if self._listeners is not None:
            await self._closing.enter_async_context(self._listeners)
        if self.tracking is not None:
            await self._closing.enter_async_context(self.tracking)
        await self._closing.enter_async_context(self.leases)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End the background tasks. Sessions stay as they are stored."""
        await asyncio.gather(*(running.stop() for running in self._reconciling.values()))
        await self._closing.aclose()

    async def open(
        self, session_id: str, *, system_prompt: str, policy: "str | Economy | None" = None
    ) -> LiveSession:
        """Start a session, or resume it if the store has it, so that a program can run again.

        A session that exists gets this system prompt, and keeps its policy unless one is given
        here. ``resume`` has more options.
        """
        _check_system_prompt(system_prompt)
        try:
            live = await self.resume(session_id, policy=policy)
        except NotFound:
            return await self.start(session_id, system_prompt=system_prompt, policy=policy)
        await live.change_system_prompt(system_prompt)
        return live

    async def start(
        self,
        session_id: str,
        *,
        system_prompt: str,
        policy: "str | Economy | None" = None,
        at: Instant | None = None,
        documents: Iterable[Document] = (),
    ) -> LiveSession:
        """Start a new session; ``Incorrect`` if the id is taken.

        ``policy`` says how its prompts are rendered: ``"plain"``, ``"compact"``, ``"economy"``, or
        an ``Economy`` with other settings; by default, it is the policy that ``connect`` was given.
        It is stored with the session, and holds after a resume, for a fork, and in another store.
        ``at`` is when the session began, in UTC milliseconds, if not now. Other ``documents`` are
        stored in the same transaction.
        """
        check_session_id(session_id)
        _check_system_prompt(system_prompt)
        chosen = self._policy if policy is None else read_policy(policy)
        lease = self._lease(session_id)
        state = await SessionState.create(
            self._runtime,
            Session(session_id=session_id),
            chat=Chat(session_id=session_id),
            prompt=SystemPrompt(session_id=session_id, content=system_prompt),
            besides=[Put(policy_document(session_id, chosen)), lease.put(), *map(Put, documents)],
            created=lease.acquired,
            at=at,
        )
        return await self._opened(state, None, lease, policy=chosen)

    async def resume(
        self,
        session_id: str,
        *,
        eager: bool = True,
        upgrade_stubs: bool = False,
        relocate: Mapping[str, str] | None = None,
        take_over: bool | None = None,
        policy: "str | Economy | None" = None,
    ) -> LiveSession:
        """Continue a stored session in this client; ``NotFound`` if there is none.

        The session's sets stay as they were, and so does its policy, unless another is given. Every
        file that this client can reach is compared with its source on disk; files that were only
        discovered stay unread unless ``upgrade_stubs`` is set.

        A file whose folder is elsewhere now is relocated: another folder is mounted where the
        agent saw the old one, or ``relocate`` names the old folder and the new one, both as paths
        of their host. The file at the new place is shown instead, under its own id;
        ``reconciliation(session_id).relocated`` has the pairs, and ``orphaned`` what stays out of
        reach.

        If another client has the session open, a warning is logged, ``also_open`` of the session
        names it, and whichever ends its turn second gets ``Conflict``. With ``take_over=False``
        that is ``Incorrect`` instead, and nothing changes; with ``take_over=True`` only the other
        client is warned.

        A session that was imported from a bundle names files that somebody else chose. Without
        mounts and sandbox they are not read, and count as orphaned: declare ``mounts`` to read
        them.

        With ``eager=False`` only active files are compared before this returns. The rest, including
        the session index, is read in the background: ``reconciliation`` shows the progress and can
        be awaited. Until then reading ``sets.session_index`` raises ``Unavailable``, and the first
        change of the session waits.
        """
        if session_id in self._open:
            raise Incorrect(f"session {session_id} is open in this client already")
        chosen = None if policy is None else read_policy(policy)
        refuse_deleted(session_id, await self.store.get(deletion_id(session_id)))
        lease = self._lease(session_id)
        await lease.look()
        if take_over is False:
            await lease.require_free()
        track = self.tracking.follow if self.tracking is not None else None
        with collector_paused():
            state = await SessionState.load(self._runtime, session_id, whole=eager)
            state.reads_files = await self._may_read_files_of(session_id)
            reconciliation = Reconciliation(
                state, upgrade_stubs=upgrade_stubs, track=track, relocate=relocate or {}
            )
            await reconciliation.begin(eager=eager)
            last = await self._last_record(state)
            kept = chosen or await self._stored_policy(state)
            activations = last.activations if last else None
            live = await self._opened(state, activations, lease, policy=kept)
        self._reconciling[session_id] = reconciliation
        changed = [] if chosen is None else [Put(policy_document(session_id, chosen))]
        opened = await self._runtime.commit(
            [Put(lifecycle_document(session_id, state=ACTIVE)), *changed, lease.put()]
        )
        state.note(opened)
        lease.acquired(opened, warn=take_over is None)
        if not eager:
            reconciliation.continue_in_background()
        return live

    async def visit(self, session_id: str) -> LiveSession:
        """Open a session to inspect it or change its sets while another client may have it open.

        Unlike ``resume``, this compares and tracks no files, and does not mark the session as
        active.
        """
        state = await SessionState.load(self._runtime, session_id)
        state.reads_files = await self._may_read_files_of(session_id)
        last = await self._last_record(state)
        live = LiveSession(
            state,
            activations=last.activations if last else None,
            policy=await self._stored_policy(state),
        )
        await live.restore()
        return live

    async def fork(self, session_id: str, *, turn: int, new_session_id: str) -> LiveSession:
        """Start a new session that continues after the given turn of another.

        It has the policy, the system prompt and the sets that the session had at the end of that
        turn. The original session does not change.
        """
        check_session_id(new_session_id)
        session, chat, prompt, then = await forked(
            self.store, session_id, turn=turn, new_session_id=new_session_id
        )
        policy = await stored_policy(self.store, session_id, turn=turn, as_of=then)
        origin = fork_document(new_session_id, parent=session_id, turn=turn)
        lease = self._lease(new_session_id)
        state = await SessionState.create(
            self._runtime,
            session,
            chat=chat,
            prompt=prompt,
            besides=[Put(origin), Put(policy_document(new_session_id, policy)), lease.put()],
            created=lease.acquired,
        )
        state.reads_files = await self._may_read_files_of(session_id)
        return await self._opened(state, None, lease, policy=policy)

    async def export_session(
        self, session_id: str, *, path: str | Path, replace: bool = False
    ) -> str:
        """Write a session with its complete history to a file; return the bundle's root hash.

        ``Incorrect`` if the file exists, unless it is to be replaced.
        """
        from ctxmgr.core.sessions.bundle_files import check_free, write_bundle_file
        from ctxmgr.core.sessions.bundle_io import export_session

        path = Path(path)
        if not replace:
            await asyncio.to_thread(check_free, path)  # before a minute of work
        data, root = await export_session(self.store, session_id)
        await asyncio.to_thread(write_bundle_file, path, data, replace=replace)
        return root

    async def import_session(self, path: str | Path) -> str:
        """Import the session of a bundle into this store; return its id, to be resumed.

        A bundle that was altered raises ``BundleDamaged``, and nothing is written. No other session
        of the store changes.
        """
        from ctxmgr.core.history.record_checks import check_record
        from ctxmgr.core.sessions.bundle_files import naming, read_bundle_file
        from ctxmgr.core.sessions.bundle_io import import_session

        path = Path(path)
        data = await asyncio.to_thread(read_bundle_file, path)
        with naming(path):
            return await import_session(self.store, data, check_record=check_record)

    async def prompt_as_of(self, session_id: str, *, turn: int) -> Context:
        """Rebuild the prompt of an earlier turn from its record.

        Raises ``Corrupt`` unless it matches the hash that was recorded when the prompt was sent.
        """
        from ctxmgr.core.history.as_of import prompt_as_of

        with collector_paused():
            return await prompt_as_of(self.store, session_id, turn=turn)

    async def state_as_of(
        self,
        session_id: str,
        *,
        valid_time: "Instant | datetime | None" = None,
        system_time: "Instant | datetime | None" = None,
    ) -> "PastState":
        """Return a session and its objects as of a point on both time axes; None means now.

        ``valid_time`` asks what was true then, ``system_time`` what was stored then. A time is a
        datetime with a time zone, or UTC milliseconds; seconds are ``Incorrect``.
        """
        from ctxmgr.core.history.as_of import state_as_of

        return await state_as_of(
            self.store, session_id, valid_time=valid_time, system_time=system_time
        )

    async def believed_at(
        self, object_id: str, *, instant: "Instant | datetime"
    ) -> StoredObject | None:
        """Return the version of an object that was known at that time, as of that time.

        ``instant`` is a datetime with a time zone, or UTC milliseconds. None if nothing was known.
        """
        from ctxmgr.core.history.as_of import believed_at

        return await believed_at(self.store, object_id, instant=instant)

    async def true_at(
        self, object_id: str, *, instant: "Instant | datetime"
    ) -> StoredObject | None:
        """Return the version of an object that was valid at that time, as known today.

        For a file, this is its content on disk at that time, even if it was read only later.
        ``instant`` is a datetime with a time zone, or UTC milliseconds.
        """
        from ctxmgr.core.history.as_of import true_at

        return await true_at(self.store, object_id, instant=instant)

    async def stored_sets(self, session_id: str) -> Session:
        """Return a session's sets as they are stored now, whether or not it is open."""
        return (await SessionState.load(self._runtime, session_id)).session

    async def pause(self, session_id: str) -> None:
        """Close a session in this client, so that any client can resume it.

        Nothing needs to be saved: everything is stored as it happens.
        """
        if session_id not in self._open:
            raise Incorrect(f"session {session_id} is not open in this client")
        reconciling = self._reconciling.pop(session_id, None)
        if reconciling is not None:
            await reconciling.stop()
        lease = self.leases.remove(session_id)
        released = [lease.put_released()] if lease is not None and lease.is_ours else []
        await self._runtime.commit([Put(lifecycle_document(session_id, state=PAUSED)), *released])
        self._open.pop(session_id).leave()
        if self.tracking is not None:
            await self.tracking.remove_session(session_id)

    def reconciliation(self, session_id: str) -> Reconciliation:
        """Return the progress of comparing a resumed session's files with their sources."""
        if session_id not in self._reconciling:
            raise Incorrect(f"session {session_id} was not resumed by this client")
        return self._reconciling[session_id]

    async def heard(self) -> None:
        """Wait until every listener has handled all events so far, or has failed."""
        if self._listeners is not None:
            await self._listeners.heard()
        await asyncio.gather(*(idle.wait() for idle in self._attached))

    async def _may_read_files_of(self, session_id: str) -> bool:
        """Return whether files may be read because the stored session names them.

        Without mounts, every path of this machine is in reach: then whoever made an imported
        bundle must not choose what is read.
        """
        mounts = self._runtime.files.mounts
        is_host = not mounts.sandboxed and not mounts.mappings
        return not is_host or not await was_imported(self.store, session_id)

    def _lease(self, session_id: str) -> SessionLease:
        return SessionLease(self.store, session_id, clock=self._runtime.clock)

    async def _stored_policy(self, state: SessionState) -> SessionPolicy:
        session_id, turn = state.session.session_id, state.chat.turn_count
        return await stored_policy(self.store, session_id, turn=turn)

    async def _opened(
        self,
        state: SessionState,
        activations: Activations | None,
        lease: SessionLease,
        *,
        policy: SessionPolicy,
    ) -> LiveSession:
        live = LiveSession(state, activations=activations, lease=lease, policy=policy)
        await live.restore()
        self._open[live.session_id] = live
        self.leases.add(live.session_id, lease)
        if self.tracking is not None:
            self.tracking.add_session(state)
        return live

    async def _last_record(self, state: SessionState) -> TurnRecord | None:
        n = state.chat.turn_count
        if n == 0:
            return None
        version = await self.store.get(turn_id(state.session.session_id, number=n))
        return None if version is None else TurnRecord.from_document(version.document)


def _check_system_prompt(text: object) -> None:
    if not isinstance(text, str):
        raise Incorrect(f"system_prompt must be a string, not {text!r:.80}")
