"""A command's output within a bound: its start and its end, and a line on what is between. Pure.

head       the first half of the bound, as it comes
tail       what came last: a ring of as many bytes
between    dropped, counted, and said so in a line of its own
"""

from collections import deque
from typing import Final

MARKER: Final = "\n[… {} bytes of output left out …]\n"


class BoundedOutput:
    """Takes all that a command writes and keeps ``bytes_max`` of it, the marker line besides."""

    def __init__(self, bytes_max: int) -> None:
        self._head_max = bytes_max - bytes_max // 2
        self._tail_max = bytes_max // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total = 0
        """Bytes taken in all."""

    def add(self, data: bytes) -> None:
        """Take what was written next."""
        self.total += len(data)
        room = self._head_max - len(self._head)
        self._head += data[:room] if room else b""
        rest = data[room:]
        if rest:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._tail_max:
            self._tail_bytes -= len(self._tail.popleft())

    @property
    def truncated(self) -> bool:
        """Whether something is left out."""
        return self.total > self._head_max + self._tail_max

    def kept(self) -> bytes:
        """Return the output as far as it is kept."""
        tail = b"".join(self._tail)
        if not self.truncated:
            return bytes(self._head) + tail
        tail = tail[len(tail) - self._tail_max :]
        left_out = self.total - len(self._head) - len(tail)
        return bytes(self._head) + MARKER.format(left_out).encode() + tail
