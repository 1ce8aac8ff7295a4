"""A bounded queue between answers and the store, so that recording never delays an answer.

One task records exchanges in the order in which they ended. If the store is slower than the
traffic, exchanges that do not fit are counted and reported, and their conversation goes on.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from ctxmgr.proxy.server.accounting import RequestAccount
from ctxmgr.proxy.server.exchange import ProxiedExchange

RECORDS_MAX: Final = 2_000
"""Exchanges that wait to be recorded."""

RECORDS_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of all exchanges that wait."""

DRAIN_SECONDS_MAX: Final = 10.0
"""Time for recording the rest when a proxy ends."""

_log = logging.getLogger(__name__)


Record: TypeAlias = Callable[[ProxiedExchange, RequestAccount | None], Awaitable[None]]


class RecordQueue:
    """Records exchanges one after the other."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._waiting: deque[tuple[ProxiedExchange, RequestAccount | None]] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.recorded = 0
        self.dropped = 0
        """Exchanges that did not fit."""
        self.failed = 0
        """Exchanges that could not be stored."""

    def put(self, exchange: ProxiedExchange, account: RequestAccount | None) -> None:
        """Let an exchange be recorded later; one that does not fit is dropped and counted."""
        size = _size(exchange)
        if len(self._waiting) >= RECORDS_MAX or self._bytes + size > RECORDS_BYTES_MAX:
            self.dropped += 1
            if self.dropped == 1:
                _log.warning("the store is too slow: exchanges are not recorded any more")
            return
        self._waiting.append((exchange, account))
        self._bytes += size
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Record what comes, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                exchange, account = self._waiting.popleft()
                try:
                    await self._record(exchange, account)
                    self.recorded += 1
                except Exception:  # noqa: BLE001 (the next one may be stored again)
                    self.failed += 1
                    _log.exception("an exchange could not be recorded")
                finally:
                    self._bytes -= _size(exchange)
            self._idle.set()

    async def drained(self) -> None:
        """Wait until everything is recorded, for at most ``DRAIN_SECONDS_MAX``."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                await self._idle.wait()
        except TimeoutError:
            self.dropped += len(self._waiting)
            _log.warning("%d exchanges were not recorded in time", len(self._waiting))

    @property
    def waiting(self) -> int:
        return len(self._waiting)


def _size(exchange: ProxiedExchange) -> int:
    return len(exchange.received) + len(exchange.outgoing.body) + len(exchange.answer)
