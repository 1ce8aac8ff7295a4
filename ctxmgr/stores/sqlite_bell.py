"""A bell that a thread rings and the event loop hears. Owns a pipe.

asyncio's own way to be called from a thread empties a socket until it fails, between the outcome
and the task that waits for it: 15 µs of each durable put, more than half of what telling it takes.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_READ_BYTES: Final = 4_096
"""Rings heard at once; a writer rings once per group, and its queue holds fewer."""


class Bell:
    """Made on the event loop; ``ring`` may be called by any thread until ``close``."""

    def __init__(self, heard: Callable[[], None]) -> None:
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._ear, self._rope = os.pipe()
        os.set_blocking(self._ear, False)
        os.set_blocking(self._rope, False)
        self._loop.add_reader(self._ear, self._hear)

    def ring(self) -> None:
        """Have ``heard`` called soon, on the event loop; rings may be heard together."""
        with suppress(BlockingIOError):  # full of rings that nobody has heard yet
            os.write(self._rope, b"!")

    def close(self) -> None:
        """Let go of the pipe, on the event loop; nobody rings any more."""
        self._loop.remove_reader(self._ear)
        os.close(self._ear)
        os.close(self._rope)

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._ear, _READ_BYTES)
        self._heard()
