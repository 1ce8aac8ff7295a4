"""Paths in the output of ``ls``. Pure.

    ls            the names in one directory
    ls a b        files as given, then blocks: a header with a colon, names, an empty line
    ls -R         only blocks
    ls -l         each name after mode, owner, size and date; the mode identifies directories

Columns (``-C``, ``-x``, ``-m``) are parsed only if names are quoted, so that spaces separate them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.discovery.command_line import Command, Options, join_path, options
from ctxmgr.core.discovery.quoting import STYLES, glob_pattern
from ctxmgr.core.discovery.shell_words import Word

LONG: Final = ("-l", "-g", "-n", "-o", "--full-time")
COLUMNS: Final = ("-C", "-x", "-m", "--format")
UNSUPPORTED: Final = ("-Z", "--context", "--dired", "-q", "--hide-control-chars")
"""Options that add a column or replace characters."""

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


def ls_paths(command: Command, output: str) -> Iterator[str]:
    """Yield the files that ``ls`` prints; directories only if they look like files."""
    opts = options(command.args, valued="ITw", long_valued=_VALUED)
    layout = _layout(opts)
    if opts.has(*UNSUPPORTED) or layout is None:
        return
    operands = opts.operands or (Word("."),)
    ends = "\0" if opts.has("--zero") else "\n"
    lines = [line for line in output.split(ends) if not line.startswith("ls: cannot ")]
    if opts.has("-R", "--recursive") or len(operands) > 1 or not operands[0].literal:
        if not command.picked:
            yield from _blocks(lines, operands, layout, recursive=opts.has("-R", "--recursive"))
    elif opts.has("-d", "--directory"):
        yield from _as_given(lines, operands, layout)
    else:
        operand = operands[0].text
        entries = [entry for line in lines for entry in layout.entries(line)]
        if len(entries) == 1 and operand in entries[0].names and entries[0].is_file:
            # Either the operand is a file, or a directory with one entry of the same name.
            yield operand
        yield from _below(operand, entries)


@dataclass(frozen=True, slots=True)
class _Entry:
    names: tuple[str, ...]
    """Two if the last character may be a type indicator or a part of the name."""
    is_file: bool


@dataclass(frozen=True, slots=True)
class _Layout:
    unquote: Callable[[str], str]
    long: bool
    columns: bool
    numbers: int
    """How many columns precede the name or the mode: inode, blocks."""
    marks: str
    """Type indicators that may follow a name; those of sockets and FIFOs are not needed."""

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
            match = _LINE.fullmatch(text)
            if match is None:
                return None
            kind, text = match.groups()
        if kind == "l":
            return _Entry((self.unquote(text.partition(" -> ")[0]),), is_file=True)
        mark = text[-1:] if text[-1:] and text[-1:] in self.marks else ""
        names: tuple[str, ...] = (self.unquote(text),)
        if mark in {"*", "@"}:
            names = (self.unquote(text[:-1]), *names)
        return _Entry(names, is_file=kind == "-" and mark != "/")


def _layout(opts: Options) -> _Layout | None:
    style = opts.value("--quoting-style") or "literal"
    for flag, _ in opts.flags:
        style = {"-Q": "c", "--quote-name": "c", "-b": "escape", "--escape": "escape"}.get(
            flag, {"-N": "literal", "--literal": "literal"}.get(flag, style)
        )
    long = opts.has(*LONG)
    columns = opts.has(*COLUMNS)
    if style not in STYLES or opts.has("-m") or (columns and style == "literal"):
        return None
    marks = "/*@" if opts.has("-F", "--classify") else ""
    return _Layout(
        unquote=STYLES[style],
        long=long,
        columns=columns,
        numbers=opts.has("-i", "--inode") + opts.has("-s", "--size"),
        marks=marks or ("/" if opts.has("-p", "--file-type", "--indicator-style") else ""),
    )


def _below(directory: str, entries: Iterable[_Entry]) -> Iterator[str]:
    for entry in entries:
        if entry.is_file:
            yield from (f"{directory}/{name}" for name in entry.names if "/" not in name)


def _as_given(lines: Sequence[str], operands: Sequence[Word], layout: _Layout) -> Iterator[str]:
    for line in lines:
        for entry in layout.entries(line):
            if entry.is_file:
                yield from (name for name in entry.names if _is_one_of(name, operands))


def _blocks(
    lines: Sequence[str], operands: Sequence[Word], layout: _Layout, *, recursive: bool
) -> Iterator[str]:
    paths: list[str] = []
    directories: set[str] = set()
    directory: str | None = None
    starting = True
    for line in lines:
        header = layout.unquote(line.removesuffix(":")) if line.endswith(":") else None
        if starting and header is not None and (recursive or _is_one_of(header, operands)):
            directory = header
            directories.add(join_path("", header))
        elif directory is None:
            paths += _as_given([line], operands, layout)
        else:
            paths += _below(directory, layout.entries(line))
        starting = not line
    yield from (path for path in paths if join_path("", path) not in directories)


def _is_one_of(name: str, operands: Sequence[Word]) -> bool:
    return any(
        name == word.text if word.literal else glob_pattern(word.text).fullmatch(name)
        for word in operands
    )
