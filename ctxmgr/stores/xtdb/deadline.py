"""The deadline of one call of the store, shared by all its requests, pauses and retries.

Reads the clock. A call has ``timeout_s`` seconds, and more for what it sends, receives and writes:
a server that makes progress with a large transaction is not hung.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Final

BYTES_PER_S: Final = 1024 * 1024
"""What a server on two busy cores reads, writes and indexes at least; it takes 0.1 s per MB when it
has nothing else to do."""

WRITES_PER_S: Final = 100
"""Puts and deletes that it indexes at least; 10,000 took a minute on two cores that eight other
programs used."""

EXPIRED_S: Final = 0.05
"""Time left with which no further request is worth sending."""


class Deadline:
    """When a call ends, and which nodes have failed it."""

    __slots__ = ("_end", "failed", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end = monotonic() + timeout_s
        self.failed: set[str] = set()

    @property
    def left_s(self) -> float:
        """Seconds until it ends; not negative."""
        return max(0.0, self._end - monotonic())

    @property
    def expired(self) -> bool:
        """Whether there is no time for another request."""
        return self.left_s < EXPIRED_S

    def share_s(self, nodes: int) -> float:
        """Return the seconds for one request, which leave time for the nodes not tried yet."""
        return self.left_s / max(1, nodes - len(self.failed))

    def extend(self, *, transferred_bytes: int = 0, writes: int = 0) -> None:
        """Add the time that this much work may take."""
        self._end += transferred_bytes / BYTES_PER_S + writes / WRITES_PER_S


_CURRENT: ContextVar[Deadline | None] = ContextVar("ctxmgr_xtdb_deadline", default=None)


@contextmanager
def call_deadline(timeout_s: float) -> Iterator[Deadline]:
    """Start a deadline for everything that runs in this context, tasks included."""
    deadline = Deadline(timeout_s)
    token = _CURRENT.set(deadline)
    try:
        yield deadline
    finally:
        _CURRENT.reset(token)


def current_deadline(timeout_s: float) -> Deadline:
    """Return the deadline of the current call; outside of a call, a new one."""
    return _CURRENT.get() or Deadline(timeout_s)
