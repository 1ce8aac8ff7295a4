"""Split a shell command line into words. Pure.

    cd src && grep -rn "to do" . | head -5
    ──┬───  ┬ ────────┬─────────  ┬ ───┬───
    words   AND      words      PIPE  words

Text that a shell would expand (variables, globs, braces, ``~``) is kept as written, and the word is
marked. A line that cannot be split without running it (a subshell, a loop, a here-document) raises
``UnreadableError``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

COMMAND_LENGTH_MAX: Final = 100_000
"""Characters of a command line; a longer one is a script."""

KEYWORDS: Final = frozenset(
    {"for", "while", "until", "if", "case", "function", "select", "{", "[["}
)

_OPERATOR = re.compile(r"&&|\|\||\|&|;;|[|;&\n]")
_REDIRECTION = re.compile(r"(?:\d*|&)(?:>>|>\||>|<)&?")
_EXPANDS = frozenset("*?[{")


@dataclass(frozen=True, slots=True)
class Word:
    """One word, without its quotes."""

    text: str
    literal: bool = True
    """False if a shell would expand it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator between two commands; a newline is ``;``."""

    text: str


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection of output or input."""

    text: str
    target: Word


Token = Word | Operator | Redirection


class UnreadableError(ValueError):
    """The command line cannot be understood without running it."""


def tokens(line: str) -> list[Token]:
    """Split a command line; raise ``UnreadableError`` if only a shell could."""
    if len(line) > COMMAND_LENGTH_MAX:
        raise UnreadableError("too long")
    result = list(_Lexer(line).tokens())
    starts = [True, *(isinstance(token, Operator) for token in result)]
    for token, starting in zip(result, starts, strict=False):
        if starting and isinstance(token, Word) and token.text in KEYWORDS:
            raise UnreadableError(token.text)
    return result


class _Lexer:
    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0

    def tokens(self) -> Iterator[Token]:
        while self._skip_space():
            if self._line.startswith(("<<", "(", ")"), self._at):
                raise UnreadableError(self._line[self._at])
            redirection = _REDIRECTION.match(self._line, self._at)
            operator = _OPERATOR.match(self._line, self._at)
            if redirection:
                self._at = redirection.end()
                self._skip_space()
                yield Redirection(redirection[0], self._word())
            elif operator:
                self._at = operator.end()
                yield Operator(";" if operator[0] == "\n" else operator[0])
            else:
                yield self._word()

    def _skip_space(self) -> bool:
        while self._at < len(self._line):
            letter = self._line[self._at]
            if letter == "#":
                end = self._line.find("\n", self._at)
                self._at = len(self._line) if end < 0 else end
            elif letter in " \t\r":
                self._at += 1
            elif self._line.startswith("\\\n", self._at):
                self._at += 2
            else:
                return True
        return False

    def _word(self) -> Word:
        text, literal = "", not self._line.startswith("~", self._at)
        while self._at < len(self._line) and self._line[self._at] not in " \t\r\n|;&<>()":
            letter = self._line[self._at]
            if letter in "'\"":
                part, plain = self._quoted(letter)
            elif letter == "\\":
                part, plain = self._line[self._at + 1 : self._at + 2].strip("\n"), True
                self._at += 2
            elif letter in "$`":
                if self._line.startswith(("$(", "`", "$'"), self._at):
                    raise UnreadableError(self._line[self._at : self._at + 2])
                part, plain = "$", False
                self._at += 1
            else:
                part, plain = letter, letter not in _EXPANDS
                self._at += 1
            text, literal = text + part, literal and plain
        return Word(text, literal)

    def _quoted(self, quote: str) -> tuple[str, bool]:
        text, plain = "", True
        self._at += 1
        while not self._line.startswith(quote, self._at):
            if self._at >= len(self._line):
                raise UnreadableError("unterminated quote")
            letter = self._line[self._at]
            following = self._line[self._at + 1 : self._at + 2]
            if quote == '"' and letter == "\\" and following in {'"', "\\", "$", "`"}:
                letter = following
                self._at += 1
            elif quote == '"' and letter in "$`":
                plain = False
            text += letter
            self._at += 1
        self._at += 1
        return text, plain
