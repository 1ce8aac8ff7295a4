"""Leases: which client works on a session at the moment. Pure.

    lease:{session}   holder    identifies one client's work on the session; None: released
                      host      the machine, by its filesystem id
                      process   identifies the client's process on that machine
                      machine   the machine's name, for people
                      renewals  how often it was renewed, so that each renewal is a version

A plain document, not one of the five types; it is in no bundle, and makes no events. A lease holds
for ``LEASE_MS`` after its version was written, both by the store's own time, so that the clocks of
two machines need not agree.

Two clients may work on one session: a lease forbids nothing. It lets the second one say so before
it pays for a model's answer that it may not be able to store.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

from ctxmgr.core.store.contract import Instant, Version
from ctxmgr.core.store.documents import ID, KIND, Document

LEASE: Final = "lease"

LEASE_MS: Final = 180_000
"""How long a lease holds that is not renewed: three times ``HEARTBEAT_S``, so that one renewal may
be late and one may be lost."""

HEARTBEAT_S: Final = 60.0
"""Seconds between renewals while a session is in use. An idle session is not renewed. A day of work
without a break makes 1,440 versions, some 600 KB in SQLite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """A client that has a session open."""

    holder: str
    host: str
    process: str
    machine: str

    def __str__(self) -> str:
        return f"process {self.process.partition(':')[0]!s:.20} on {self.machine!r:.80}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A stored lease."""

    holder: LeaseHolder
    token: str | None
    renewed: Instant
    """When it was written, by the store's time."""

    @classmethod
    def of(cls, version: Version | None) -> Self | None:
        """Read a stored lease; None if there is none, or it was released."""
        if version is None:
            return None
        names = ("holder", "host", "process", "machine")
        values: dict[str, Any] = {name: version.document.get(name) for name in names}
        # Anyone with access to the store may have written it, and it only serves for a warning.
        if not all(isinstance(value, str) and value for value in values.values()):
            return None
        return cls(holder=LeaseHolder(**values), token=version.token, renewed=version.valid_time)

    def holds_at(self, now: Instant) -> bool:
        """Whether it holds at a time of the store."""
        return now < self.renewed + LEASE_MS


def lease_id(session_id: str) -> str:
    return f"{LEASE}:{session_id}"


def lease_document(session_id: str, holder: LeaseHolder | None, *, renewals: int) -> Document:
    """Return the document of a lease; without a holder, one that was released."""
    return {
        ID: lease_id(session_id),
        KIND: LEASE,
        "session": session_id,
        "holder": holder and holder.holder,
        "host": holder and holder.host,
        "process": holder and holder.process,
        "machine": holder and holder.machine,
        "renewals": renewals,
    }
