"""Content codings of HTTP bodies: gzip, deflate; zstd and br if their packages are installed.

A decoder takes pieces of any size and never returns more than its limit: compressed data can be a
thousand times as large when it is decompressed.
"""

import zlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

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


PIECE_BYTES_MAX: Final = 1024 * 1024
"""Of decoded data that is returned at once, or a block of zstd more."""

_Decode: TypeAlias = Callable[[bytes], Iterator[bytes]]


class ContentDecoder:
    """Decodes one body, piece by piece."""

    def __init__(self, coding: str, *, bytes_max: int) -> None:
        self._left = bytes_max
        self._coding = coding
        self._decode = _decoder(coding)

    def feed(self, data: bytes) -> bytes:
        """Return what more of the body is known; ``Incorrect`` if it is damaged or too large."""
        return b"".join(self.pieces(data))

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the same in pieces, so that a caller can keep little of it in memory."""
        pieces = self._decode(data)
        while (piece := self._next(pieces)) is not None:
            self._left -= len(piece)
            if self._left < 0:
                raise Incorrect("the decompressed body is too large")
            yield piece

    def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        try:
            return next(pieces, None)
        except Exception as error:
            if type(error).__name__ not in _ERRORS:
                raise
            raise Incorrect(f"the body is not valid {self._coding}: {error}") from error


def _decoder(coding: str) -> _Decode:
    if coding in {"", IDENTITY}:
        return lambda data: iter((data,))
    if coding in _ZLIB_WINDOWS:
        return _zlib(coding)
    if coding not in readable_codings():
        raise Incorrect(f"the content coding {coding!r:.40} cannot be read here")
    package: Any = import_module(_PACKAGES[coding])
    return _zstd(package) if coding == "zstd" else _brotli(package)


def _zlib(coding: str) -> _Decode:
    decompressor = zlib.decompressobj(_ZLIB_WINDOWS[coding])

    def decode(data: bytes) -> Iterator[bytes]:
        while piece := decompressor.decompress(data, PIECE_BYTES_MAX):
            yield piece
            data = decompressor.unconsumed_tail

    return decode


def _brotli(package: Any) -> _Decode:
    decompressor = package.Decompressor()

    def decode(data: bytes) -> Iterator[bytes]:
        # It takes all of a short input at once and may have more to return: until it has nothing.
        while piece := bytes(decompressor.process(data, output_buffer_limit=PIECE_BYTES_MAX)):
            yield piece
            data = b""

    return decode


def _zstd(package: Any) -> _Decode:
    """Decode zstd in small parts: its decompressor has no limit for its output."""
    decompressor = package.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX).decompressobj()

    def decode(data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_PART):
            yield decompressor.decompress(data[start : start + _ZSTD_PART])

    return decode


_ZSTD_PART: Final = 64
"""Bytes decoded at once. A block of at most 128 KiB may take four bytes."""

_ZSTD_WINDOW_MAX: Final = 8 * 1024 * 1024
"""The window that RFC 9659 requires readers of HTTP content to support."""
