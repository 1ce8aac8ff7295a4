"""Content codings of HTTP bodies: gzip, deflate; zstd and br if their packages are installed.

A decoder takes pieces of any size and never returns more than its limit: compressed data can be a
thousand times as large when it is decompressed.
"""

import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ctxmgr.errors import Incorrect

IDENTITY: Final = "identity"

_ZLIB_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PACKAGES: Final = {"zstd": "zstandard", "br": "brotli"}
"""Codings that a package of the extra ``proxy`` reads."""

_ERRORS: Final = ("ZstdError", "error")
"""The names of these packages' exceptions."""


@cache
def readable_codings() -> tuple[str, ...]:
    """Return the codings that can be read here."""
    installed = (coding for coding, package in _PACKAGES.items() if find_spec(package))
    return (*_ZLIB_WINDOWS, *installed)


class ContentDecoder:
    """Decodes one body, piece by piece."""

    def __init__(self, coding: str, *, bytes_max: int) -> None:
        self._left = bytes_max
        self._coding = coding
        self._feed = _decoder(coding)

    def feed(self, data: bytes) -> bytes:
        """Return what more of the body is known; ``Incorrect`` if it is damaged or too large."""
        try:
            decoded = self._feed(data, self._left + 1)
        except Exception as error:
            if type(error).__name__ not in _ERRORS:
                raise
            raise Incorrect(f"the body is not valid {self._coding}: {error}") from error
        self._left -= len(decoded)
        if self._left < 0:
            raise Incorrect("the decompressed body is too large")
        return decoded


def _decoder(coding: str) -> Callable[[bytes, int], bytes]:
    if coding in {"", IDENTITY}:
        return lambda data, _most: data
    if coding in _ZLIB_WINDOWS:
        return zlib.decompressobj(_ZLIB_WINDOWS[coding]).decompress
    if coding not in readable_codings():
        raise Incorrect(f"the content coding {coding!r:.40} cannot be read here")
    package: Any = import_module(_PACKAGES[coding])
    if coding == "zstd":
        return _zstd(package)
    decompressor = package.Decompressor()
    return lambda data, most: bytes(decompressor.process(data, output_buffer_limit=most))


def _zstd(package: Any) -> Callable[[bytes, int], bytes]:
    """Decode zstd in pieces: its decompressor has no limit for its output."""
    decompressor = package.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX).decompressobj()

    def feed(data: bytes, most: int) -> bytes:
        decoded = bytearray()
        for start in range(0, len(data), _ZSTD_PIECE):
            decoded += decompressor.decompress(data[start : start + _ZSTD_PIECE])
            if len(decoded) > most:
                break
        return bytes(decoded)

    return feed


_ZSTD_PIECE: Final = 1_024
"""Bytes decoded at once. A block of at most 128 KiB may take four bytes."""

_ZSTD_WINDOW_MAX: Final = 8 * 1024 * 1024
"""The window that RFC 9659 requires readers of HTTP content to support."""
