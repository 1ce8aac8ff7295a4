"""The leases of a client's open sessions, and the task that renews them. Commits.

    acquire      with the transaction that opens a session
    take         before a session is changed without being opened
    in_use       a prompt is rendered: a lease that has run out is acquired again first
    beat         every ``HEARTBEAT_S``: renew the leases of sessions that were used meanwhile
    release      when a session is paused, or the client ends

A lease that cannot be renewed never fails a turn: it only warns. A client whose lease another one
has taken leaves it to the other, and says so with the next prompt.
"""

import asyncio
import logging
import os
import platform
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.sessions.lease import (
    HEARTBEAT_S,
    LEASE_MS,
    Lease,
    LeaseHolder,
    lease_document,
    lease_id,
)
from ctxmgr.core.store.commits import commit_once
from ctxmgr.core.store.contract import Commit, Instant, Match, Put, Store
from ctxmgr.errors import Conflict, CtxmgrError, Incorrect, Unavailable

_log = logging.getLogger(__name__)


class SessionLease:
    """The lease of one open session."""

    def __init__(self, store: Store, session_id: str, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._session_id = session_id
        self._clock = clock
        self._own = LeaseHolder(
            holder=uuid.uuid4().hex, host=_host(), process=_process(), machine=platform.node()
        )
        self._before: Lease | None = None
        self._token: str | None = None
        self._renewed_at: float | None = None
        """By the client's clock; None: never, or another client has it."""
        self._renewals = 0
        self._used = False
        self._in_turn = False
        self.also_open: LeaseHolder | None = None
        """Another client that had the session open when this one last saw its lease."""

    async def look(self) -> None:
        """Read whose lease there is, before the session is opened."""
        stored = await self._store.get(lease_id(self._session_id))
        self._before = Lease.of(stored)
        self._token = None if stored is None else stored.token

    async def require_free(self) -> None:
        """Raise ``Incorrect`` if another client has the session open.

        Only a transaction tells the store's time, so the lease is taken, and given back if it was
        not free.
        """
        if self._before is not None:
            await self.take()

    async def take(self) -> None:
        """Acquire the lease, if it is as ``look`` has read it and no other client has it.

        Raises ``Incorrect`` otherwise.
        """
        before = self._before
        try:
            commit = await commit_once(
                self._store, [Match(lease_id(self._session_id), self._token), self.put()]
            )
        except Conflict:  # acquired, renewed or released at this very moment
            raise self._refusal(before) from None
        self._noted(commit)
        if before is not None and self._is_alive(before, commit.system_time):
            await self._give_back(before)
            raise self._refusal(before)
        self._before = None

    async def _give_back(self, lease: Lease) -> None:
        document = lease_document(self._session_id, lease.holder, renewals=self._renewals)
        try:
            await commit_once(self._store, [self.guard, Put(document)])
        except Conflict:
            _log.debug("session %s: its client has renewed the lease itself", self._session_id)
        self._renewed_at = None

    @property
    def guard(self) -> Match:
        """The match that holds as long as nobody has written the lease since it was acquired."""
        return Match(lease_id(self._session_id), self._token)

    def put(self) -> Put:
        """Return the operation that acquires or renews the lease."""
        self._renewals += 1
        return Put(lease_document(self._session_id, self._own, renewals=self._renewals))

    def put_released(self) -> Put:
        """Return the operation that ends the lease."""
        return Put(lease_document(self._session_id, None, renewals=self._renewals))

    def acquired(self, commit: Commit, *, warn: bool = True) -> None:
        """Note the transaction that acquired the lease."""
        self._token, self._renewed_at = commit.token, self._clock()
        before, self._before = self._before, None
        if before is not None and self._is_alive(before, commit.system_time):
            self._found(before, warn=warn)

    @property
    def is_ours(self) -> bool:
        """Whether this client wrote the lease last, as far as it knows."""
        return self._renewed_at is not None

    async def in_use(self) -> None:
        """Note that a prompt is rendered; acquire the lease again if it has run out."""
        self._used = self._in_turn = True
        age_ms = None if self._renewed_at is None else (self._clock() - self._renewed_at) * 1_000
        if age_ms is None or not 0 <= age_ms < LEASE_MS:  # a clock may be set back
            await self.renew()

    def turn_ended(self) -> None:
        """Note that no answer is waited for."""
        self._in_turn = False

    async def renew(self) -> None:
        """Renew the lease, unless another client has it; errors of the store are logged."""
        self._used = False
        try:
            await self._renew()
        except CtxmgrError as error:
            _log.warning("the lease of session %s was not renewed: %s", self._session_id, error)

    async def renew_if_used(self) -> None:
        if self._used or self._in_turn:
            await self.renew()

    async def release(self) -> None:
        """End the lease, if this client has it; errors of the store are logged."""
        if not self.is_ours:
            return
        try:
            await commit_once(self._store, [self.guard, self.put_released()])
        except Conflict:
            return  # another client has it
        except CtxmgrError as error:
            _log.warning("the lease of session %s was not released: %s", self._session_id, error)

    async def _renew(self) -> None:
        object_id = lease_id(self._session_id)
        try:
            self._noted(await commit_once(self._store, [Match(object_id, self._token), self.put()]))
        except Conflict:
            current = await self._store.get(object_id)
            self._token = None if current is None else current.token
            other = Lease.of(current)
            # The last transaction is no later than now: a lease may be taken for alive.
            now = (await self._store.status()).system_time or 0
            if other is not None and self._is_alive(other, now):
                self._renewed_at = None
                self._found(other, warn=True)
                return
            self._noted(await commit_once(self._store, [Match(object_id, self._token), self.put()]))
            self.also_open = None

    def _noted(self, commit: Commit) -> None:
        self._token, self._renewed_at = commit.token, self._clock()

    def _found(self, lease: Lease, *, warn: bool) -> None:
        if warn and self.also_open != lease.holder:
            _log.warning(
                "session %s is also open in %s: the one that ends its turn second cannot store it",
                self._session_id,
                lease.holder,
            )
        self.also_open = lease.holder

    def _is_alive(self, lease: Lease, now: Instant) -> bool:
        """Whether a lease is another's and holds; that of a process that has ended does not."""
        if lease.holder.holder == self._own.holder or not lease.holds_at(now):
            return False
        return lease.holder.host != self._own.host or _is_running(lease.holder.process)

    def _refusal(self, lease: Lease | None) -> Incorrect:
        where = "another client since a moment ago" if lease is None else str(lease.holder)
        return Incorrect(
            f"session {self._session_id} is open in {where}; end it there, or take it over"
        )


class LeaseHeartbeat:
    """Renews the leases of a client while it is open."""

    def __init__(self) -> None:
        self._leases: dict[str, SessionLease] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, session_id: str, lease: SessionLease) -> None:
        self._leases[session_id] = lease

    def remove(self, session_id: str) -> SessionLease | None:
        return self._leases.pop(session_id, None)

    async def beat(self) -> None:
        """Renew the leases of all sessions that were used since the last time."""
        for lease in tuple(self._leases.values()):
            await lease.renew_if_used()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop, and release the leases of sessions that were not paused."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for session_id, lease in tuple(self._leases.items()):
            del self._leases[session_id]
            await lease.release()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self.beat()


PROC: Final = Path("/proc")


def _host() -> str:
    try:
        return host_filesystem_id()
    except Unavailable:
        return "unknown"


def _process(pid: int | None = None) -> str:
    """Identify a process of this machine: its number, when it began, and who counts them.

    A number is given again some day, and containers count for themselves.
    """
    pid = os.getpid() if pid is None else pid
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        began = stat.rpartition(")")[2].split()[19]
        counted_by = (PROC / "self" / "ns" / "pid").readlink()
    except (OSError, IndexError):
        return f"{pid}:?:?"
    return f"{pid}:{began}:{counted_by}"


def _is_running(process: str) -> bool:
    """Whether a process of this machine is still running; True if that cannot be known."""
    number, _, rest = process.partition(":")
    own = _process()
    if not number.isdecimal() or rest.rpartition(":")[2] != own.rpartition(":")[2]:
        return True
    if own.endswith(":?"):
        return True
    return _process(int(number)) == process
