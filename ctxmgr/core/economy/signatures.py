"""Find the lines of a source file that hold signatures. Imports the installed grammars.

Languages with a grammar (``core.context.grammars``) are parsed. Others are read by indentation: a
line of the outer two levels that is followed by a deeper line begins a definition.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

from ctxmgr.core.context.grammars import parser_for

CHARS_MAX: Final = 400_000
"""In longer texts no signatures are looked for: it would delay the next call."""

LEVELS: Final = 2
"""Levels of indentation that are searched: the definitions of a module and of a class."""

_NO_SOURCE: Final = frozenset({"", ".csv", ".json", ".lock", ".log", ".md", ".rst", ".txt", ".xml"})


def signature_rows(content: str, path: str) -> frozenset[int]:
    """Return the numbers, from 0, of lines with signatures; none unless it is a source file."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _NO_SOURCE or len(content) > CHARS_MAX:
        return frozenset()
    parser = parser_for(suffix)
    if parser is None:
        return frozenset(_by_indentation(content))
    return frozenset(_by_grammar(parser, content.encode(errors="replace")))


def _by_grammar(parser: Any, source: bytes) -> Iterator[int]:
    """Yield the rows of every named node with a body, from its start to the start of its body."""
    stack = [parser.parse(source).root_node]
    while stack:
        node = stack.pop()
        body = node.child_by_field_name("body")
        names = (node.child_by_field_name(field) for field in ("name", "declarator"))
        if body is not None and any(name is not None for name in names):
            first, last = node.start_point[0], body.start_point[0]
            braced = source[body.start_byte : body.start_byte + 1] == b"{"
            yield from range(first, max(first + 1, last + braced))
        stack.extend(node.named_children)


def _by_indentation(content: str) -> Iterator[int]:
    lines = [(row, line) for row, line in enumerate(content.split("\n")) if line.strip()]
    depths = sorted({_depth(line) for _, line in lines})[:LEVELS]
    for (row, line), (_, following) in pairwise(lines):
        if _depth(line) in depths and _depth(following) > _depth(line):
            yield row


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
