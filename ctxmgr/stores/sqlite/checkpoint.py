"""Checkpoints of the write-ahead log (WAL) beside the writer. Owns a thread, once it is needed.

    COMMIT ─► the WAL has WAL_PAGES ─► the thread checkpoints, while commits continue
                                       └► the next COMMIT checkpoints the few pages added meanwhile,
                                          and the WAL starts from its beginning
              it has TRUNCATE_PAGES ─► the thread blocks all writers during the last few pages

SQLite's automatic checkpoint runs inside the COMMIT that fills the WAL, which delays one commit in
eighty by some ten milliseconds. Durability does not depend on this module: a commit is durable
once it is in the WAL. A checkpoint that is blocked by a process reading an old state is tried again
later.

The WAL starts from its beginning only if a transaction starts while all of it is checkpointed.
With several writing processes that hardly ever happens, so at TRUNCATE_PAGES it is enforced.
"""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

import apsw

WAL_PAGES: Final = 1_000
"""Pages in the WAL before a checkpoint: 16 MB, as with SQLite's automatic checkpoint."""

TRUNCATE_PAGES: Final = 4 * WAL_PAGES
"""Pages in the WAL from which writers are blocked to truncate it, because it would grow forever."""

TRUNCATE_WAIT_MS: Final = 1_000
"""How long truncating may wait for readers, and writers for it."""

REMAINING_PAGES_MAX: Final = 64
"""Pages that a COMMIT may checkpoint itself, in about a millisecond."""

PASSES_MAX: Final = 4
"""Checkpoints in a row, each of the pages that were added during the one before."""

_log = logging.getLogger(__name__)


class WalCheckpointer:
    """Keeps the WAL of one writing connection short."""

    def __init__(
        self, writing: apsw.Connection, *, url: str, open_: Callable[[], apsw.Connection]
    ) -> None:
        """``open_`` returns a connection for the thread."""
        self._url = url
        self._open = open_
        self._due = WAL_PAGES
        self._pages = 0
        self._requested = False
        self._finished = False
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        writing.set_wal_hook(self._on_commit)

    def close(self) -> None:
        """End the thread after its current checkpoint. The writer must have ended before."""
        if self._thread is not None:
            self._requests.put(False)
            self._thread.join()

    def _on_commit(self, writing: apsw.Connection, _name: str, pages: int) -> int:
        """Run at the end of each COMMIT, in the thread that writes."""
        if pages < self._pages:  # the WAL has started from its beginning
            self._due = WAL_PAGES
        self._pages = pages
        if self._finished:
            self._requested = self._finished = False
            self._due = pages + WAL_PAGES
            self._checkpoint(writing)
        elif pages >= self._due and not self._requested:
            self._requested = True
            self._request()
        return apsw.SQLITE_OK

    def _request(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="ctxmgr-sqlite-log", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the next COMMIT checkpoints instead
                _log.warning("%s: cannot start the checkpoint thread: %s", self._url, error)
                self._finished = True
                return
            self._thread = thread
        self._requests.put(True)

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        try:
            while self._requests.get():
                connection = connection or self._connect()
                if connection is not None:
                    self._checkpoint_in_passes(connection)
                self._finished = True
        finally:
            if connection is not None:
                connection.close()

    def _connect(self) -> apsw.Connection | None:
        try:
            connection = self._open()
            connection.set_busy_timeout(TRUNCATE_WAIT_MS)
        except apsw.Error as error:
            _log.warning("%s: cannot open a connection for checkpoints: %s", self._url, error)
            return None
        return connection

    def _checkpoint_in_passes(self, connection: apsw.Connection) -> None:
        for _ in range(PASSES_MAX):
            if self._checkpoint(connection) <= REMAINING_PAGES_MAX:
                if self._pages >= TRUNCATE_PAGES:
                    self._checkpoint(connection, mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                return

    def _checkpoint(
        self, connection: apsw.Connection, *, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE
    ) -> int:
        """Checkpoint, without waiting unless ``mode`` says so; return how many pages are left."""
        try:
            pages, checkpointed = connection.wal_checkpoint(mode=mode)
        except apsw.BusyError:  # another process checkpoints, reads or writes
            return 0
        except apsw.Error as error:
            _log.warning("%s: checkpoint failed: %s", self._url, error)
            return 0
        return pages - checkpointed
