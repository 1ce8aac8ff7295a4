"""Paths in what ``find`` and ``tree`` print. Pure.

    find   ./src/main.py       each line begins with one of the folders it was asked for
    tree   ├── src             the depth of a line tells whose entry it is
           │   └── main.py

Whatever others are below is a folder, and no file.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from ctxmgr.core.commandlines import Command, joined, options
from ctxmgr.core.globs import pattern
from ctxmgr.core.matches import matched
from ctxmgr.core.quoted_names import unescaped
from ctxmgr.core.shell_words import Word

STEP: Final = 4
"""Columns that one level of a tree takes."""

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


def walked(command: Command, output: str) -> Iterator[str]:
    """Yield the files that ``find`` names."""
    roots, expression = _find_arguments(command.args)
    texts = [word.text for word in expression]
    if "-exec" in texts:
        yield from _executed(command, expression[texts.index("-exec") + 1 :], output)
    if {"-exec", "-execdir", *_OTHER_OUTPUT} & set(texts) or not _finds_files(texts):
        return
    ends = "\0" if "-print0" in texts else "\n"
    names = [name for name in output.split(ends) if _is_below_one(name, roots)]
    yield from _without_folders(names)


def drawn(command: Command, output: str) -> Iterator[str]:
    """Yield the files that ``tree`` draws."""
    given = options(command.args, valued="LPIoHT", long_valued=_TREE_VALUED)
    if command.picked or given.has("-d", "-J", "-X", "-H", "-o", "--fromfile"):
        return
    full, quoted = given.has("-f"), given.has("-Q")
    reading = _Reading(given.operands or (Word("."),), given.has(*_BRACKETED), quoted)
    rows = list(_rows(output.split("\n"), reading))
    for at, (depth, parents, name) in enumerate(rows):
        deeper = at + 1 < len(rows) and rows[at + 1][0] > depth
        if depth and name is not None and not deeper and not name.endswith("/"):
            for spelt in _spellings(name, quoted=quoted, marked=given.has("-F")):
                yield spelt if full else f"{parents}/{spelt}"


_BRACKETED: Final = ("-p", "-s", "-h", "-u", "-g", "-D", "--du", "--si", "--inodes", "--device")
_TREE_VALUED: Final = frozenset({"--charset", "--filelimit", "--timefmt", "--sort", "--gitfile"})


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


def _executed(command: Command, args: Sequence[Word], output: str) -> Iterator[str]:
    if args and args[0].text in {"grep", "egrep", "fgrep"}:
        named = [Word("*", literal=False) if word.text == "{}" else word for word in args[1:]]
        inner = [word for word in named if word.text not in {";", "+"}]
        yield from matched(replace(command, program=args[0].text, args=tuple(inner)), output)


def _is_below_one(name: str, roots: Sequence[Word]) -> bool:
    for root in roots:
        if not root.literal:
            parts = name.split("/")
            ends = range(1, len(parts) + 1)
            if any(pattern(root.text).fullmatch("/".join(parts[:end])) for end in ends):
                return True
        elif name == root.text or name.startswith(f"{root.text.rstrip('/')}/"):
            return True
    return False


def _without_folders(names: Sequence[str]) -> Iterator[str]:
    folders = {"/", joined("", "")}
    for name in names:
        parent = joined("", name).rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    yield from (name for name in names if joined("", name) not in folders)


@dataclass(frozen=True, slots=True)
class _Reading:
    roots: Sequence[Word]
    brackets: bool
    """Something stands in brackets before a name."""
    quoted: bool


def _rows(lines: Sequence[str], reading: _Reading) -> Iterator[tuple[int, str, str | None]]:
    """Yield the depth, the folder and the name of each line; None for what is no file."""
    above: list[str] = []
    for line in lines:
        found = _ROW.fullmatch(line)
        if found is None:
            text = _unbracketed(line, reading)[1]
            text = text.strip('"') if reading.quoted else text
            if _is_root(text, reading.roots):
                above = [text.rstrip("/") or "/"]
                yield 0, "", None
            continue
        if not above:
            continue
        depth = len(found[1]) // STEP + 1
        kind, text = _unbracketed(found[2], reading)
        name = _REMARK.sub(r"\1/", text)
        yield depth, "/".join(above[:depth]), None if kind == "d" else name
        plain = next(_spellings(name, quoted=reading.quoted, marked=False))
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


def _unbracketed(text: str, reading: _Reading) -> tuple[str, str]:
    found = _BRACKET.fullmatch(text) if reading.brackets else None
    return (found[1][:1], found[2]) if found else ("", text)


def _spellings(name: str, *, quoted: bool, marked: bool) -> Iterator[str]:
    """What a name may stand for: a tree escapes more or less, by the locale it runs in."""
    link, arrow, _ = name.partition(" -> ")
    for each in (name, link) if arrow else (name,):
        plain = each.removeprefix('"').removesuffix('"') if quoted else each
        if marked and plain[-1:] in set("*=|>"):
            yield plain[:-1]
        octal = _OCTAL.sub(lambda found: unescaped(found[0]), plain)
        yield from dict.fromkeys((_bytewise(octal), unescaped(plain), plain))


def _bytewise(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
