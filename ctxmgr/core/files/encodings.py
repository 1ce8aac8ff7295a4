"""Decode text that is not UTF-8. Pure.

    a byte order mark            UTF-16 or UTF-32
    otherwise, no control bytes  Windows-1252 if it has bytes that ISO 8859-1 keeps for control
    and few bytes beyond ASCII   characters, such as curly quotes; otherwise ISO 8859-1

Text in another script has mostly bytes beyond ASCII, many in a row. It is not decoded, since wrong
characters would look right. What is stored of a file
is decided elsewhere: an object of a file has text only if its bytes are UTF-8 (003-A13).
"""

import codecs
import re
from dataclasses import dataclass, field
from typing import Final

UTF_8: Final = "utf-8"

HIGH_SHARE_MAX: Final = 0.3
"""Of bytes beyond ASCII: text of western Europe has up to a sixth, Cyrillic or Greek most."""

HIGH_SHARE_SHORT_MAX: Final = 0.5
"""The same for a text of a few words, if no more than ``HIGH_RUN_MAX`` of them are in a row."""

HIGH_RUN_MAX: Final = 3

_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark begins it
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL: Final = frozenset(range(32)) - frozenset(b"\t\n\r\f\b\x1b") | {127}
_CONTROL_BYTES: Final = bytes(sorted(_CONTROL))
_ASCII: Final = bytes(range(128))
_HIGH_RUN: Final = re.compile(rb"[\x80-\xff]+")
_C1: Final = frozenset(range(0x80, 0xA0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedText:
    """A text, and the encoding of its bytes."""

    text: str = field(repr=False)
    encoding: str
    """As ``bytes.decode`` takes it."""

    def encode(self, text: str) -> bytes | None:
        """Return a changed text in the same encoding; None if it lacks a character."""
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError:
            return None


def decode(data: bytes) -> DecodedText | None:
    """Decode the bytes of a text file; None if they are not text in a known encoding."""
    try:
        return DecodedText(text=data.decode(), encoding=UTF_8)
    except UnicodeDecodeError:
        return _decode_other(data)


def _decode_other(data: bytes) -> DecodedText | None:
    """Decode bytes that are not UTF-8."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data, encoding)
    if data.translate(None, _CONTROL_BYTES) != data:
        return None
    high = data.translate(None, _ASCII)
    longest = max(map(len, _HIGH_RUN.findall(data)), default=0)
    most = HIGH_SHARE_SHORT_MAX if longest <= HIGH_RUN_MAX else HIGH_SHARE_MAX
    if len(high) > most * len(data):
        return None
    return _decoded(data, "iso-8859-1" if _C1.isdisjoint(high) else "windows-1252")


def _decoded(data: bytes, encoding: str) -> DecodedText | None:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    if any(ord(character) in _CONTROL for character in text):
        return None
    return DecodedText(text=text, encoding=encoding)
