"""The parser of a source file's language, by its suffix. Imports the installed grammars.

With the extra ``signatures``, common languages are parsed by tree-sitter, with one wheel per
language. A language whose wheel is not installed has no parser.
"""

from functools import cache
from importlib import import_module
from typing import Any, Final

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


@cache
def parser_for(suffix: str) -> Any:
    """Return the parser for a suffix such as ``.py``; None if no grammar is installed."""
    if suffix not in _GRAMMARS:
        return None
    module, function = _GRAMMARS[suffix]
    try:
        tree_sitter, grammar = import_module("tree_sitter"), import_module(module)
    except ImportError:
        return None
    return tree_sitter.Parser(tree_sitter.Language(getattr(grammar, function)()))
