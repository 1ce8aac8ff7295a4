"""Find the lines of a source file that hold signatures. Imports the installed grammars.

With the extra ``signatures``, common languages are parsed by tree-sitter, with one wheel
per language. Other languages, and all languages without the extra, are read by indentation: a line
of the outer two levels that is followed by a deeper line begins a definition.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

CHARS_MAX: Final = 400_000
"""In longer texts no signatures are looked for: it would delay the next call."""

LEVELS: Final = 2
"""Levels of indentation that are searched: the definitions of a module and of a class."""

_GRAMMARS: Final = {
    ".bash": ("tree_sitter_bash", "language"),
    ".c": ("tree_sitter_c", "language"),
    ".cc": ("tree_sitter_cpp", "language"),
    ".cpp": ("tree_sitter_cpp", "language"),
    ".go": ("tree_sitter_go", "language"),
    ".h": ("tree_sitter_c", "language"),
    ".hpp": ("tree_sitter_cpp", "language"),
    ".java": ("tree_sitter_java", "language"),
    ".js": ("tree_sitter_javascript", "language"),
    ".jsx": ("tree_sitter_javascript", "language"),
    ".mjs": ("tree_sitter_javascript", "language"),
    ".py": ("tree_sitter_python", "language"),
    ".pyi": ("tree_sitter_python", "language"),
    ".rb": ("tree_sitter_ruby", "language"),
    ".rs": ("tree_sitter_rust", "language"),
    ".sh": ("tree_sitter_bash", "language"),
    ".ts": ("tree_sitter_typescript", "language_typescript"),
    ".tsx": ("tree_sitter_typescript", "language_tsx"),
}
_NO_SOURCE: Final = frozenset({"", ".csv", ".json", ".lock", ".log", ".md", ".rst", ".txt", ".xml"})


def signature_rows(content: str, path: str) -> frozenset[int]:
    """Return the numbers, from 0, of lines with signatures; none unless it is a source file."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _NO_SOURCE or len(content) > CHARS_MAX:
        return frozenset()
    parser = _parser(suffix)
    if parser is None:
        return frozenset(_by_indentation(content))
    return frozenset(_by_grammar(parser, content.encode(errors="replace")))


@cache
def _parser(suffix: str) -> Any:
    """Return a parser for the suffix; None if no grammar is installed."""
    if suffix not in _GRAMMARS:
        return None
    module, function = _GRAMMARS[suffix]
    try:
        tree_sitter, grammar = import_module("tree_sitter"), import_module(module)
    except ImportError:
        return None
    return tree_sitter.Parser(tree_sitter.Language(getattr(grammar, function)()))


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
