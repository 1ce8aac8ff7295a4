"""How much a bundle may cost the importer: bytes, memory and time. Pure.

A bundle comes from anywhere. A small file can unpack to any size, and a version of a few bytes can
repeat a long document, which has to be hashed again. So all that is done for a bundle is counted,
and what it may cost grows with its size: as far as the work is quadratic, so is that of an honest
bundle, which pays for it in bytes.

    lines      unpacked bytes, bytes of one line, lists and maps in one line
    documents  versions, values that are held in memory, bytes that are hashed
"""

from collections.abc import Mapping
from typing import Any, Final

from ctxmgr.core.store.contract import OPERATIONS_MAX
from ctxmgr.core.store.documents import TRANSACTION_BYTES_MAX
from ctxmgr.errors import Incorrect

BUNDLE_BYTES_MAX: Final = 1024**3
"""Bytes of a bundle, packed or unpacked: its newest versions are held in memory."""

UNPACKED_FREE: Final = 16 * 1024**2
"""Unpacked bytes that every bundle may have, however small the file is."""

UNPACKED_PER_BYTE: Final = 100
"""Unpacked bytes for each byte of the file. Sessions have 3 to 10; ``export`` stores what can be
compressed further uncompressed."""

LINE_BYTES_MAX: Final = TRANSACTION_BYTES_MAX + OPERATIONS_MAX * 1_024
"""Bytes of one line: the documents of a transaction, and the id, hash and time of each."""

LINE_CONTAINERS_MAX: Final = 4_000_000
"""Brackets and braces in one line: an empty list of three bytes takes seventy in memory. Text of a
program has one in twenty characters."""

VERSIONS_FREE: Final = 10_000
"""Versions that every bundle may hold."""

BYTES_PER_VERSION_MIN: Final = 32
"""Bytes of the file for each further version. One has hashes and a time, and takes some hundred;
only a change between two states that were there before takes less."""

VALUES_MAX: Final = 5_000_000
"""Values in the newest versions, which take up to a hundred bytes of memory each. A session of a
hundred thousand objects has two million."""

HASHED_FREE: Final = 1024**3
"""Bytes of documents that are hashed for every bundle, in two seconds."""

HASHED_PER_BYTE: Final = 16_384
"""Bytes hashed for each byte of the file. Every version of a chat is hashed whole: a chat of n
turns takes about n/2 for each of its bytes."""


class BundleBudget:
    """Counts what a bundle costs; ``Incorrect`` with the limit once it costs too much."""

    def __init__(self, packed_bytes: int) -> None:
        """``packed_bytes`` is the size of the file."""
        self.unpacked_max: Final = min(
            BUNDLE_BYTES_MAX, UNPACKED_FREE + UNPACKED_PER_BYTE * packed_bytes
        )
        self._versions_left = VERSIONS_FREE + packed_bytes // BYTES_PER_VERSION_MIN
        self._hashed_left = HASHED_FREE + HASHED_PER_BYTE * packed_bytes
        self._values_left = VALUES_MAX
        self._packed_bytes = packed_bytes

    def check_unpacked(self, unpacked_bytes: int) -> None:
        """Check the bytes that were unpacked so far."""
        if unpacked_bytes > self.unpacked_max:
            self._refuse("unpacks to more than", self.unpacked_max, "bytes")

    def check_line(self, line: bytes) -> None:
        """Check a line before it is parsed."""
        if len(line) > LINE_BYTES_MAX:
            self._refuse("has a line of more than", LINE_BYTES_MAX, "bytes")
        if line.count(b"[") + line.count(b"{") > LINE_CONTAINERS_MAX:
            self._refuse("has a line of more than", LINE_CONTAINERS_MAX, "lists and maps")

    def add_version(self, *, hashed_bytes: int, values: int) -> None:
        """Count a version; ``values`` is how many more are held than before."""
        self._versions_left -= 1
        self._hashed_left -= hashed_bytes
        self._values_left -= values
        if self._versions_left < 0:
            limit = VERSIONS_FREE + self._packed_bytes // BYTES_PER_VERSION_MIN
            self._refuse("holds more than", limit, "versions")
        if self._hashed_left < 0:
            limit = HASHED_FREE + HASHED_PER_BYTE * self._packed_bytes
            self._refuse("repeats documents of more than", limit, "bytes together")
        if self._values_left < 0:
            self._refuse("holds more than", VALUES_MAX, "values")

    def _refuse(self, what: str, limit: int, unit: str) -> None:
        raise Incorrect(
            f"the bundle {what} {limit:,} {unit}, which is the limit for a file of "
            f"{self._packed_bytes:,} bytes; it was not imported"
        )


def count_values(value: Any) -> int:
    """Count a value and everything in it; its depth has been checked."""
    if isinstance(value, list):
        return 1 + sum(map(count_values, value))
    if isinstance(value, Mapping):
        return 1 + sum(map(count_values, value.values()))
    return 1
