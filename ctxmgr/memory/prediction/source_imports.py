"""Which files a source imports. Imports the installed grammars.

    from .clock import now        in src/base/time.py    src/base/clock.py, src/base/clock/now.py
    import a.b                                           a/b.py
    import x from "../lib/x"      in src/app/main.ts     src/lib/x.ts

Python, JavaScript and TypeScript are parsed by tree-sitter, with the extra ``signatures``; without
it, imports that begin a line are found. A module is named by the path that it would have; whether
there is such a file is for others to know.
"""

import posixpath
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from ctxmgr.core.context.grammars import parser_for
from ctxmgr.memory.prediction.paths import TEXT_CHARS_MAX, imported_paths

IMPORTS_MAX: Final = 200
"""Of one file."""

_PYTHON: Final = frozenset({".py", ".pyi"})
_JAVASCRIPT: Final = frozenset({".js", ".jsx", ".mjs", ".ts", ".tsx"})


def imports_of(path: str, text: str) -> tuple[str, ...]:
    """Return the files that a source imports, as paths in the way that ``path`` is one."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix not in _PYTHON | _JAVASCRIPT:
        return ()
    # TypeScript's grammar reads JavaScript as well.
    parser = parser_for(suffix) or parser_for(".tsx" if suffix in _JAVASCRIPT else ".py")
    source = text[:TEXT_CHARS_MAX].encode(errors="replace")
    if parser is None:
        found = imported_paths(text, suffix=suffix)
    elif suffix in _PYTHON:
        found = _python(parser.parse(source).root_node, path)
    else:
        found = _javascript(parser.parse(source).root_node, path, suffix)
    once = dict.fromkeys(each for each in found if each != path)
    return tuple(once)[:IMPORTS_MAX]


def _python(root: Any, path: str) -> Iterator[str]:
    for node in _nodes(root, {"import_statement", "import_from_statement"}):
        if node.type == "import_statement":
            for name in node.children_by_field_name("name"):
                yield f"{_dotted(name)}.py"
            continue
        module = node.child_by_field_name("module_name")
        if module is None:
            continue
        folder = _dotted(module)
        if module.type == "relative_import":
            folder = _from_here(path, _text(module))
        if folder and not folder.endswith("/"):
            yield f"{folder}.py"
        for name in node.children_by_field_name("name"):
            yield posixpath.join(folder, f"{_dotted(name)}.py")


def _javascript(root: Any, path: str, suffix: str) -> Iterator[str]:
    for node in _nodes(root, {"import_statement", "export_statement", "call_expression"}):
        source = node.child_by_field_name("source")
        if node.type == "call_expression":
            function, arguments = (
                node.child_by_field_name(field) for field in ("function", "arguments")
            )
            called = "" if function is None else _text(function)
            if called not in ("require", "import") or arguments is None:
                continue
            source = next((each for each in arguments.named_children), None)
        if source is None or source.type != "string":
            continue
        name = _text(source).strip("'\"")
        if not name.startswith("."):
            continue  # a package, or an alias that only the build knows
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if whole.startswith(".."):
            continue
        named = PurePosixPath(whole)
        if named.suffix not in _JAVASCRIPT:
            yield f"{whole}{suffix}"
        else:  # TypeScript may name the file that will be compiled
            yield str(named.with_suffix(suffix)) if named.suffix == ".js" else whole


def _nodes(root: Any, kinds: set[str]) -> Iterator[Any]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
        stack.extend(reversed(node.named_children))


def _dotted(node: Any) -> str:
    """Return a module's name as a path; of ``a.b as c``, that of ``a.b``."""
    inner = node.child_by_field_name("name") if node.type == "aliased_import" else node
    return _text(node if inner is None else inner).replace(".", "/")


def _from_here(path: str, relative: str) -> str:
    """Return the path of ``..a.b`` as a file says it; it ends with ``/`` for dots alone."""
    name = relative.lstrip(".")
    folder = posixpath.dirname(path)
    for _ in range(len(relative) - len(name) - 1):
        folder = posixpath.dirname(folder)
    return posixpath.join(folder, name.replace(".", "/"))


def _text(node: Any) -> str:
    return bytes(node.text).decode(errors="replace")
