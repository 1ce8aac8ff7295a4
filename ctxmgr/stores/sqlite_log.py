"""The log of a SQLite store, moved into its file beside the writing. Owns a thread, when needed.

    COMMIT ─► the log has LOG_PAGES ─► the thread moves them, while commits go on
                                       └► the next COMMIT moves the few that came meanwhile,
                                          and the log begins anew
                  it has LONG_PAGES ─► the thread stops all writers while it moves the last few

SQLite by itself moves the log inside the COMMIT that fills it: some ten milliseconds of disk for
one writer in eighty. Nothing here decides what is durable: a commit is, once it is in the log.
A log that cannot be moved, as long as some process reads an old state, is tried again later.

A log begins anew only if a transaction begins when all of it was moved. Where several processes
write there is hardly such a moment, so at LONG_PAGES one is made.
"""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

import apsw

LOG_PAGES: Final = 1_000
"""Pages in the log before they are moved: 16 MB, as many as SQLite would take by itself."""

LONG_PAGES: Final = 4 * LOG_PAGES
"""Pages in the log from which writers are made to wait for its end: it would grow for ever."""

STOP_WAIT_MS: Final = 1_000
"""How long writers may be kept waiting for those who read, and they for the writers."""

REST_PAGES: Final = 64
"""What a COMMIT may move itself: a millisecond."""

PASSES_MAX: Final = 4
"""Times the thread moves what came while it was moving; each time it is less."""

_log = logging.getLogger(__name__)


class LogKeeper:
    """Keeps the log of one writing connection short."""

    def __init__(
        self, writing: apsw.Connection, *, url: str, open_: Callable[[], apsw.Connection]
    ) -> None:
        """``open_`` gives the thread a connection of its own."""
        self._url = url
        self._open = open_
        self._due = LOG_PAGES
        self._pages = 0
        self._moving = False
        self._moved = False
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        writing.set_wal_hook(self._committed)

    def close(self) -> None:
        """End the thread; may wait for what it is doing. The writer has ended before."""
        if self._thread is not None:
            self._asked.put(False)
            self._thread.join()

    def _committed(self, writing: apsw.Connection, _name: str, pages: int) -> int:
        """Called by SQLite at the end of each COMMIT, in the thread that writes."""
        if pages < self._pages:
            self._due = LOG_PAGES
        self._pages = pages
        if self._moved:
            self._moving = self._moved = False
            self._due = pages + LOG_PAGES
            self._move(writing)
        elif pages >= self._due and not self._moving:
            self._moving = True
            self._ask()
        return apsw.SQLITE_OK

    def _ask(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="ctxmgr-sqlite-log", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no thread is to be had: the next COMMIT moves it
                _log.warning("%s: the log is not kept short: %s", self._url, error)
                self._moved = True
                return
            self._thread = thread
        self._asked.put(True)

    def _serve(self) -> None:
        connection: apsw.Connection | None = None
        try:
            while self._asked.get():
                connection = connection or self._connected()
                if connection is not None:
                    self._shorten(connection)
                self._moved = True
        finally:
            if connection is not None:
                connection.close()

    def _shorten(self, connection: apsw.Connection) -> None:
        for _ in range(PASSES_MAX):
            if self._move(connection) <= REST_PAGES:
                if self._pages >= LONG_PAGES:
                    self._move(connection, mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                return

    def _connected(self) -> apsw.Connection | None:
        try:
            connection = self._open()
            connection.set_busy_timeout(STOP_WAIT_MS)
        except apsw.Error as error:
            _log.warning("%s: the log is not kept short: %s", self._url, error)
            return None
        return connection

    def _move(
        self, connection: apsw.Connection, *, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE
    ) -> int:
        """Move what can be moved, by that mode without waiting; return how many pages are left."""
        try:
            log, moved = connection.wal_checkpoint(mode=mode)
        except apsw.BusyError:  # another process is at it, or reads, or writes
            return 0
        except apsw.Error as error:
            _log.warning("%s: the log could not be moved into the file: %s", self._url, error)
            return 0
        return log - moved
