"""Text that is not UTF-8: what is decoded, and what is not taken for text."""

import pytest

from ctxmgr.core.files.encodings import decode

GERMAN = "Größe: 5 µm, für Käufer\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("plain\n", "utf-8"),
        (GERMAN, "utf-8"),
        (GERMAN, "iso-8859-1"),
        ("\u201cquoted\u201d \u2013 caf\u00e9 \u20ac5\n", "windows-1252"),
        (GERMAN, "utf-16"),
        (GERMAN, "utf-32"),
    ],
)
def test_common_encodings_are_recognised(text: str, encoding: str) -> None:
    """An old source file or a Windows log is text for every person, and so for an agent."""
    decoded = decode(text.encode(encoding))

    assert decoded is not None
    assert (decoded.text, decoded.encoding) == (text, encoding)
    assert decoded.encode(text) == text.encode(encoding)


def test_big_endian_utf_16_is_recognised_by_its_mark() -> None:
    """Java and old Macs write it."""
    decoded = decode(b"\xfe\xff" + GERMAN.encode("utf-16-be"))

    assert decoded is not None
    assert decoded.text == GERMAN


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"\x7fELF\x02\x01\x01\x00" + b"\x00" * 8 + b"\xff",
        b"\x1f\x8b\x08\x00\x9a\xbc",
        b"ab\xffcd\x01",
        "Привет, мир\n".encode("koi8-r"),
        "日本語のテキスト\n".encode("shift-jis"),
        b"\xff\xfe\x00",
        b"\xff\xfe\x00\x00\x01",
    ],
)
def test_what_is_not_certain_is_not_decoded(data: bytes) -> None:
    """Wrong characters that look right mislead a model more than an error."""
    assert decode(data) is None


def test_a_character_that_the_encoding_lacks_is_not_replaced() -> None:
    """An edit must not write a question mark into a file."""
    decoded = decode(GERMAN.encode("iso-8859-1"))

    assert decoded is not None
    assert decoded.encode("costs 5 \u20ac") is None
