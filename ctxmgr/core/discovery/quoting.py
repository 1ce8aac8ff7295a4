r"""Undo the quoting of file names, and match names against globs. Pure.

literal   a b           not quoted
escape    a\ b          backslashes
c         "a b\n"       git, ls -Q
shell     'a b'$'\n'    ls on a terminal
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from ctxmgr.core.discovery.shell_words import Word

PATTERNS_MAX: Final = 256
"""Compiled globs in the cache."""

_GLOB_PARTS = re.compile(r"\*\*|\*|\?|\[[!^]?\]?[^\]]*\]|\{[^{}]*\}|.", re.DOTALL)
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


def unescape(text: str) -> str:
    """Replace backslash escapes: octal, hexadecimal, and letters as in C."""
    if "\\" not in text:
        return text
    parts, at = bytearray(), 0
    for match in _ESCAPE.finditer(text):
        parts += _bytes(text[at : match.start()])
        octal, hexadecimal, letter = match.groups()
        if letter is not None:
            parts += bytes([_LETTERS[letter]]) if letter in _LETTERS else _bytes(letter)
        else:
            parts.append(int(octal, 8) & 0xFF if octal else int(hexadecimal, 16))
        at = match.end()
    parts += _bytes(text[at:])
    return parts.decode("utf-8", "surrogateescape")


def unquote_c(text: str) -> str:
    """Remove double quotes and escapes, if the name is quoted."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return unescape(text[1:-1])
    return text


def unquote_shell(text: str) -> str:
    """Remove a shell's quotes; a text that is not one quoted word is returned unchanged."""
    parts, at = [], 0
    while at < len(text):
        match = _SHELL.match(text, at)
        if match is None:
            return text
        escaped, *others = match.groups()
        if escaped is not None:
            parts.append(unescape(escaped))
        else:
            parts.append(next(part for part in others if part is not None))
        at = match.end()
    return "".join(parts)


STYLES: Final[Mapping[str, Callable[[str], str]]] = {
    "literal": str,
    "escape": unescape,
    "c": unquote_c,
    "c-maybe": unquote_c,
    "shell": unquote_shell,
    "shell-always": unquote_shell,
    "shell-escape": unquote_shell,
    "shell-escape-always": unquote_shell,
}
"""The values of ``ls --quoting-style``."""


@lru_cache(maxsize=PATTERNS_MAX)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Compile a glob to an expression for the paths that it can expand to.

    A glob with variables matches anything.
    """
    if glob.startswith("~") or "$" in glob or "`" in glob:
        return re.compile(r".+", re.DOTALL)
    return re.compile("".join(map(_regex, _GLOB_PARTS.findall(glob.removesuffix("/")))), re.DOTALL)


def is_at_or_below(name: str, root: Word) -> bool:
    """Return whether a name is the root or a path below it; the root may be a glob."""
    if root.literal:
        return name == root.text or name.startswith(f"{root.text.rstrip('/')}/")
    parts = name.split("/")
    ends = range(1, len(parts) + 1)
    return any(glob_pattern(root.text).fullmatch("/".join(parts[:end])) for end in ends)


def _regex(part: str) -> str:
    if part == "**":
        return ".*"
    if part == "*":
        return "[^/]*"
    if part == "?":
        return "[^/]"
    if part.startswith("[") and len(part) > 1:
        inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"
    if part.startswith("{") and len(part) > 1:
        choices = part[1:-1].split(",")
        return f"(?:{'|'.join(''.join(map(_regex, _GLOB_PARTS.findall(c))) for c in choices)})"
    return re.escape(part)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
