"""Paths in what ``ls`` prints. Pure.

    ls            names, of the folder it was asked for
    ls a b        files as they were named, then blocks: a header with a colon, names, an empty line
    ls -R         only blocks
    ls -l         each name after mode, owner, size and date; the mode tells folders

Columns (``-C``, ``-x``, ``-m``) are read only where names are quoted, so that spaces tell them
apart. On a terminal both are the rule.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.commandlines import Command, Options, joined, options
from ctxmgr.core.globs import pattern
from ctxmgr.core.quoted_names import STYLES
from ctxmgr.core.shell_words import Word

LONG: Final = ("-l", "-g", "-n", "-o", "--full-time")
COLUMNS: Final = ("-C", "-x", "-m", "--format")
UNREAD: Final = ("-Z", "--context", "--dired", "-q", "--hide-control-chars")
"""With a column more, or with letters taken away."""

_VALUED: Final = frozenset(
    {"--quoting-style", "--indicator-style", "--time-style", "--block-size", "--sort", "--format"}
    | {"--color", "--hide", "--ignore", "--time", "--width", "--tabsize"}
)
_DATE = (
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}|\d{4}-\d\d-\d\d \d\d:\d\d"
    r"|[A-Z][a-z]{2} [ \d]\d (?:\d\d:\d\d| \d{4})|\d\d-\d\d \d\d:\d\d|\d{4}-\d\d-\d\d )"
)
_LINE = re.compile(
    r"([-bcdlpsD])[-rwxsStT]{9}[.+@]? +\d+ +(?:\S+ +){0,3}?(?:[\d.]+[A-Za-z]*|\d+, +\d+) "
    + _DATE
    + " (.*)",
    re.DOTALL,
)
_NUMBER = r" *[\d.]+[A-Za-z]* "
_TOTAL = re.compile(r"total [\d.]+[A-Za-z]*")
_QUOTED_WORD = re.compile(r"(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^\s'\"\\])+")


def listed(command: Command, output: str, *, terminal: bool) -> Iterator[str]:
    """Yield the files that ``ls`` names; folders only where it does not tell them from files."""
    given = options(command.args, valued="ITw", long_valued=_VALUED)
    layout = _layout(given, terminal=terminal)
    if given.has(*UNREAD) or layout is None:
        return
    operands = given.operands or (Word("."),)
    ends = "\0" if given.has("--zero") else "\n"
    lines = [line for line in output.split(ends) if not line.startswith("ls: cannot ")]
    if given.has("-R", "--recursive") or len(operands) > 1 or not operands[0].literal:
        if not command.picked:
            yield from _blocks(lines, operands, layout, recursive=given.has("-R", "--recursive"))
    elif given.has("-d", "--directory"):
        yield from _as_named(lines, operands, layout)
    else:
        yield from _one_folder(lines, operands[0].text, layout)


@dataclass(frozen=True, slots=True)
class _Entry:
    names: tuple[str, ...]
    """More than one where a mark at the end may be a part of the name."""
    is_file: bool


@dataclass(frozen=True, slots=True)
class _Layout:
    unquoted: Callable[[str], str]
    long: bool
    columns: bool
    numbers: int
    """Columns before the name or the mode: inode, blocks."""
    marks: str
    """What may stand behind a name to say what it is; sockets and FIFOs are no files anyway."""

    def entries(self, line: str) -> Iterator[_Entry]:
        if not line or ((self.long or self.numbers) and _TOTAL.fullmatch(line)):
            return
        words = _QUOTED_WORD.findall(line) if self.columns else [line]
        for word in words:
            entry = self._entry(word)
            if entry is not None:
                yield entry

    def _entry(self, text: str) -> _Entry | None:
        before = re.match(_NUMBER * self.numbers, text)
        if before is None:
            return None
        text, kind = text[before.end() :], "-"
        if self.long:
            found = _LINE.fullmatch(text)
            if found is None:
                return None
            kind, text = found.groups()
        if kind == "l":
            return _Entry((self.unquoted(text.partition(" -> ")[0]),), is_file=True)
        mark = text[-1:] if text[-1:] and text[-1:] in self.marks else ""
        names: tuple[str, ...] = (self.unquoted(text),)
        if mark in {"*", "@"}:
            names = (self.unquoted(text[:-1]), *names)
        return _Entry(names, is_file=kind == "-" and mark != "/")


def _layout(given: Options, *, terminal: bool) -> _Layout | None:
    style = given.value("--quoting-style") or ("shell-escape" if terminal else "literal")
    for flag, _ in given.flags:
        style = {"-Q": "c", "--quote-name": "c", "-b": "escape", "--escape": "escape"}.get(
            flag, {"-N": "literal", "--literal": "literal"}.get(flag, style)
        )
    long = given.has(*LONG)
    columns = given.has(*COLUMNS) or (terminal and not long and not given.has("-1"))
    if style not in STYLES or given.has("-m") or (columns and style == "literal"):
        return None
    marks = "/*@" if given.has("-F", "--classify") else ""
    return _Layout(
        unquoted=STYLES[style],
        long=long,
        columns=columns,
        numbers=given.has("-i", "--inode") + given.has("-s", "--size"),
        marks=marks or ("/" if given.has("-p", "--file-type", "--indicator-style") else ""),
    )


def _one_folder(lines: Sequence[str], folder: str, layout: _Layout) -> Iterator[str]:
    entries = [entry for line in lines for entry in layout.entries(line)]
    if len(entries) == 1 and folder in entries[0].names and entries[0].is_file:
        yield folder  # it was asked for a file, unless a folder holds just its namesake
    for entry in entries:
        if entry.is_file:
            yield from (f"{folder}/{name}" for name in entry.names if "/" not in name)


def _as_named(lines: Sequence[str], operands: Sequence[Word], layout: _Layout) -> Iterator[str]:
    for line in lines:
        for entry in layout.entries(line):
            named = (name for name in entry.names if _is_one_of(name, operands))
            yield from (named if entry.is_file else ())


def _blocks(
    lines: Sequence[str], operands: Sequence[Word], layout: _Layout, *, recursive: bool
) -> Iterator[str]:
    found: list[str] = []
    folders: set[str] = set()
    folder: str | None = None
    starting = True
    for line in lines:
        header = layout.unquoted(line.removesuffix(":")) if line.endswith(":") else None
        if starting and header is not None and (recursive or _is_one_of(header, operands)):
            folder = header
            folders.add(joined("", header))
        elif folder is None:
            found += _as_named([line], operands, layout)
        else:
            found += _one_of_many([line], folder, layout)
        starting = not line
    yield from (path for path in found if joined("", path) not in folders)


def _one_of_many(lines: Sequence[str], folder: str, layout: _Layout) -> Iterator[str]:
    for entry in (entry for line in lines for entry in layout.entries(line)):
        if entry.is_file:
            yield from (f"{folder}/{name}" for name in entry.names if "/" not in name)


def _is_one_of(name: str, operands: Sequence[Word]) -> bool:
    return any(
        name == word.text if word.literal else pattern(word.text).fullmatch(name)
        for word in operands
    )
