"""Patterns: functions of one file that have the same shape. Imports the installed grammars.

    @get("/users")                          @{…}
    def users(request):                     def {…}({…}):
        check(request)              ×3  ─►      check({…})
        return reply(load(request))             return reply({…})

Two functions have the same shape if their statements are of the same kinds and call the same
functions, in the same order; tree-sitter reads them, with the extra ``signatures``. Without it, or
for other languages, there are no patterns.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import Any, Final

from ctxmgr.core.context.grammars import parser_for
from ctxmgr.memory.extraction.findings import LearntItem, as_line, file_tags
from ctxmgr.memory.records.bodies import (
    HINT_CHARS_MAX,
    KEY_CHARS_MAX,
    SLOTS_MAX,
    VALUE_CHARS_MAX,
    Pattern,
)
from ctxmgr.memory.records.memory import MemoryKind

NAME: Final = "patterns"

SOURCE_CHARS_MAX: Final = 200_000
FUNCTIONS_MIN: Final = 3
"""Functions of one shape that make a pattern."""
STATEMENTS_MIN: Final = 2
"""Of a function: one statement has no shape."""
CALLS_MIN: Final = 2
"""Of a shape: without calls, functions are alike by chance."""
PATTERNS_MAX: Final = 5
"""Of one file."""
HOLE: Final = "{…}"

_SUFFIXES: Final = frozenset({".py", ".js", ".ts", ".go"})
_FUNCTIONS: Final = frozenset(
    {"function_definition", "function_declaration", "method_definition", "method_declaration"}
)
_CALLS: Final = frozenset({"call", "call_expression"})


@dataclass(frozen=True, slots=True)
class _Shape:
    """One function: what it is called, its head, and its statements."""

    name: str
    head: str
    statements: tuple[str, ...]
    signature: tuple[tuple[str, tuple[str, ...]], ...]
    """The kind of each statement, and what it calls."""


def patterns_of(
    path: str, text: str, *, object_id: str, object_hash: str | None
) -> tuple[LearntItem, ...]:
    """Return the shapes that several functions of a file share."""
    parser = parser_for(PurePosixPath(path).suffix.lower()) if is_source(path) else None
    if parser is None or len(text) > SOURCE_CHARS_MAX:
        return ()
    source = text.encode(errors="replace")
    alike: dict[object, list[_Shape]] = defaultdict(list)
    for shape in _shapes(parser.parse(source).root_node, source):
        alike[shape.signature].append(shape)
    repeated = [shapes for shapes in alike.values() if len(shapes) >= FUNCTIONS_MIN]
    repeated.sort(key=lambda shapes: -len(shapes))
    return tuple(
        LearntItem(
            body=_pattern(path, shapes),
            kind=MemoryKind.NOTE,
            original=f"{', '.join(shape.name for shape in shapes)} in {path} have one shape",
            extractor=NAME,
            turn=0,
            object_id=object_id,
            object_hash=object_hash,
            tags=file_tags((path,)),
        )
        for shapes in repeated[:PATTERNS_MAX]
    )


def is_source(path: str) -> bool:
    """Whether patterns are looked for in a file."""
    return PurePosixPath(path).suffix.lower() in _SUFFIXES


def _shapes(root: Any, source: bytes) -> Iterator[_Shape]:
    stack = [root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        body, name = node.child_by_field_name("body"), node.child_by_field_name("name")
        if node.type not in _FUNCTIONS or body is None or name is None:
            continue
        statements = [each for each in body.named_children if not _is_remark(each)]
        signature = tuple((each.type, tuple(_called(each, source))) for each in statements)
        calls = sum(len(called) for _, called in signature)
        if STATEMENTS_MIN <= len(statements) < SLOTS_MAX and calls >= CALLS_MIN:
            outer = node.parent if node.parent is not None else node
            first = outer if outer.type == "decorated_definition" else node
            yield _Shape(
                name=_text(name, source),
                head=source[first.start_byte : body.start_byte].decode(errors="replace"),
                statements=tuple(_text(each, source) for each in statements),
                signature=signature,
            )


def _is_remark(node: Any) -> bool:
    """Whether a node is a comment or a docstring."""
    only = node.named_children[0] if len(node.named_children) == 1 else None
    return node.type == "comment" or (
        node.type == "expression_statement" and only is not None and only.type == "string"
    )


def _called(node: Any, source: bytes) -> Iterator[str]:
    """Yield the names of the functions that a statement calls, in the order of the text."""
    if node.type in _CALLS:
        function = node.child_by_field_name("function")
        if function is not None:
            yield _text(function, source).rsplit(".", maxsplit=1)[-1][:KEY_CHARS_MAX]
    for child in node.named_children:
        yield from _called(child, source)


def _pattern(path: str, shapes: Sequence[_Shape]) -> Pattern:
    calls = list(dict.fromkeys(name for _, called in shapes[0].signature for name in called))
    slots = {"head": _common([shape.head for shape in shapes])}
    for number, texts in enumerate(zip(*(shape.statements for shape in shapes), strict=True)):
        slots[f"step {number + 1}"] = _common(texts)
    used = ", ".join(calls)
    return Pattern(
        name=as_line(f"{shapes[0].name} and {len(shapes) - 1} alike"),
        trigger=as_line(f"a function like {shapes[0].name} in {path}", HINT_CHARS_MAX),
        template=slots,
        hint=as_line(f"functions of {path} are built alike: {used}", HINT_CHARS_MAX),
    )


def _common(texts: Sequence[str]) -> str:
    """Return what texts have in common, with holes for the words in which they differ."""
    kept: list[str] = []
    for words in zip_longest(*(text.split() for text in texts)):
        word = words[0] if len(set(words)) == 1 and words[0] is not None else HOLE
        if word != HOLE or kept[-1:] != [HOLE]:
            kept.append(word)
    return as_line(" ".join(kept), VALUE_CHARS_MAX) or HOLE


def _text(node: Any, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode(errors="replace")
