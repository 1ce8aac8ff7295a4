"""Paths in the output of ``find`` and ``tree``. Pure.

    find   ./src/main.py       each line begins with one of the directories that were searched
    tree   ├── src             the depth of a line determines its parent
           │   └── main.py

A path with other paths below it is a directory and is left out.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from ctxmgr.core.discovery.command_line import Command, join_path, options
from ctxmgr.core.discovery.grep import grep_paths
from ctxmgr.core.discovery.quoting import is_at_or_below, unescape
from ctxmgr.core.discovery.shell_words import Word

STEP: Final = 4
"""Columns per level of a tree."""

_OTHER_OUTPUT: Final = frozenset(
    {"-ls", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir"}
)
_ROW = re.compile(r"((?:[│|][ \u00a0]{3}| {4})*)(?:├── |└── |\|-- |`-- )(.*)", re.DOTALL)
_BRACKET = re.compile(r"\[([^\]]*)\]  (.*)", re.DOTALL)
_REMARK = re.compile(
    r"(.*?) +\[(?:error opening dir|recursive, not followed|.* entries exceeds.*)\]"
)
_OCTAL = re.compile(r"\\[0-7]{3}")
_REPORT = re.compile(r"\d+ director(?:y|ies)(?:, \d+ files?)?")
_BRACKETED: Final = ("-p", "-s", "-h", "-u", "-g", "-D", "--du", "--si", "--inodes", "--device")
_TREE_VALUED: Final = frozenset({"--charset", "--filelimit", "--timefmt", "--sort", "--gitfile"})


def find_paths(command: Command, output: str) -> Iterator[str]:
    """Yield the files that ``find`` prints."""
    roots, expression = _find_arguments(command.args)
    texts = [word.text for word in expression]
    if "-exec" in texts:
        yield from _grepped(command, expression[texts.index("-exec") + 1 :], output)
    if {"-exec", "-execdir", *_OTHER_OUTPUT} & set(texts) or not _finds_files(texts):
        return
    ends = "\0" if "-print0" in texts else "\n"
    names = [
        name for name in output.split(ends) if any(is_at_or_below(name, root) for root in roots)
    ]
    directories = {"/", join_path("", "")}
    for name in names:
        parent = join_path("", name).rpartition("/")[0]
        while parent and parent not in directories:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    yield from (name for name in names if join_path("", name) not in directories)


def tree_paths(command: Command, output: str) -> Iterator[str]:
    """Yield the files that ``tree`` prints."""
    opts = options(command.args, valued="LPIoHT", long_valued=_TREE_VALUED)
    if command.picked or opts.has("-d", "-J", "-X", "-H", "-o", "--fromfile"):
        return
    full, quoted = opts.has("-f"), opts.has("-Q")
    layout = _TreeLayout(opts.operands or (Word("."),), opts.has(*_BRACKETED), quoted)
    rows = list(_rows(output.split("\n"), layout))
    for at, (depth, parents, name) in enumerate(rows):
        deeper = at + 1 < len(rows) and rows[at + 1][0] > depth
        if depth and name is not None and not deeper and not name.endswith("/"):
            for spelling in _spellings(name, quoted=quoted, marked=opts.has("-F")):
                yield spelling if full else f"{parents}/{spelling}"


def _find_arguments(args: Sequence[Word]) -> tuple[tuple[Word, ...], list[Word]]:
    start = 0
    while start < len(args) and args[start].text in {"-L", "-H", "-P"}:
        start += 1
    end = start
    while end < len(args) and not args[end].text.startswith(("-", "(", "!", "\\(")):
        end += 1
    return tuple(args[start:end]) or (Word("."),), list(args[end:])


def _finds_files(texts: Sequence[str]) -> bool:
    if "-printf" in texts:
        after = texts[texts.index("-printf") + 1 :]
        return after[:1] in (["%p\\n"], ["%p\n"])
    types = [after for option, after in pairwise(texts) if option == "-type"]
    return all("f" in kinds or "l" in kinds for kinds in types)


def _grepped(command: Command, args: Sequence[Word], output: str) -> Iterator[str]:
    if args and args[0].text in {"grep", "egrep", "fgrep"}:
        words = [Word("*", literal=False) if word.text == "{}" else word for word in args[1:]]
        inner = [word for word in words if word.text not in {";", "+"}]
        yield from grep_paths(replace(command, program=args[0].text, args=tuple(inner)), output)


@dataclass(frozen=True, slots=True)
class _TreeLayout:
    roots: Sequence[Word]
    brackets: bool
    """Whether names are preceded by details in brackets."""
    quoted: bool


def _rows(lines: Sequence[str], layout: _TreeLayout) -> Iterator[tuple[int, str, str | None]]:
    """Yield the depth, the directory and the name of each line; None if it is not a file."""
    above: list[str] = []
    for line in lines:
        match = _ROW.fullmatch(line)
        if match is None:
            text = _without_brackets(line, layout)[1]
            text = text.strip('"') if layout.quoted else text
            if _is_root(text, layout.roots):
                above = [text.rstrip("/") or "/"]
                yield 0, "", None
            continue
        if not above:
            continue
        depth = len(match[1]) // STEP + 1
        kind, text = _without_brackets(match[2], layout)
        name = _REMARK.sub(r"\1/", text)
        yield depth, "/".join(above[:depth]), None if kind == "d" else name
        plain = next(_spellings(name, quoted=layout.quoted, marked=False))
        above = [*above[:depth], plain.rstrip("/")]


def _is_root(text: str, roots: Sequence[Word]) -> bool:
    texts = {text, text.removesuffix("/")}
    return (
        any(
            root.text.rstrip("/") in texts or root.text in texts or not root.literal
            for root in roots
        )
        and not _REPORT.fullmatch(text)
        and bool(text)
    )


def _without_brackets(text: str, layout: _TreeLayout) -> tuple[str, str]:
    match = _BRACKET.fullmatch(text) if layout.brackets else None
    return (match[1][:1], match[2]) if match else ("", text)


def _spellings(name: str, *, quoted: bool, marked: bool) -> Iterator[str]:
    """Yield the possible meanings of a name: how much ``tree`` escapes depends on its locale."""
    link, arrow, _ = name.partition(" -> ")
    for text in (name, link) if arrow else (name,):
        plain = text.removeprefix('"').removesuffix('"') if quoted else text
        if marked and plain[-1:] in set("*=|>"):
            yield plain[:-1]
        octal = _OCTAL.sub(lambda match: unescape(match[0]), plain)
        # Bytes that were escaped one by one become whole characters here.
        decoded = octal.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        yield from dict.fromkeys((decoded, unescape(plain), plain))
