r"""Names as tools quote them, and what they stand for. Pure.

literal   a b           as it is
escape    a\ b          backslashes
c         "a b\n"       git, ls -Q
shell     'a b'$'\n'    ls on a terminal
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

_ESCAPE = re.compile(r"\\(?:([0-7]{3})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_LETTERS: Final[Mapping[str, int]] = {
    "a": 7,
    "b": 8,
    "t": 9,
    "n": 10,
    "v": 11,
    "f": 12,
    "r": 13,
    "e": 27,
}
_SHELL = re.compile(
    r"\$'((?:[^'\\]|\\.)*)'|'([^']*)'|\"([^\"\\$`]*)\"|\\(.)|([^\\'\"\s]+)", re.DOTALL
)


def unescaped(text: str) -> str:
    """Undo backslashes: octal, hexadecimal, and letters as in C."""
    if "\\" not in text:
        return text
    parts, at = bytearray(), 0
    for found in _ESCAPE.finditer(text):
        parts += _bytes(text[at : found.start()])
        octal, hexadecimal, letter = found.groups()
        if letter is not None:
            parts += bytes([_LETTERS[letter]]) if letter in _LETTERS else _bytes(letter)
        else:
            parts.append(int(octal, 8) & 0xFF if octal else int(hexadecimal, 16))
        at = found.end()
    parts += _bytes(text[at:])
    return parts.decode("utf-8", "surrogateescape")


def from_c(text: str) -> str:
    """Undo double quotes, if there are any."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return unescaped(text[1:-1])
    return text


def from_shell(text: str) -> str:
    """Undo a shell's quotes; what is no quoted word stays as it is."""
    parts, at = [], 0
    while at < len(text):
        found = _SHELL.match(text, at)
        if found is None:
            return text
        escaped, *others = found.groups()
        if escaped is not None:
            parts.append(unescaped(escaped))
        else:
            parts.append(next(part for part in others if part is not None))
        at = found.end()
    return "".join(parts)


STYLES: Final[Mapping[str, Callable[[str], str]]] = {
    "literal": str,
    "escape": unescaped,
    "c": from_c,
    "c-maybe": from_c,
    "shell": from_shell,
    "shell-always": from_shell,
    "shell-escape": from_shell,
    "shell-escape-always": from_shell,
}
"""By the names that ``ls --quoting-style`` has for them."""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
