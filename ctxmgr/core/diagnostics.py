"""Paths in what compilers, linters and test runners print. Pure.

    gcc, clang, go, mypy, ruff, javac    path:12:5: text, path:12: text
    rustc, ruff                          --> path:12:5
    tsc                                  path(12,5): error TS2322, path:12:5 - error TS2322
    Python, pytest                       File "path", line 12;  path::test;  path:12: Error
    Node.js, eslint                      at f (path:12:5);  a path, then lines 12:5  error  text
    make                                 Entering directory 'path', from which others count

Each tool has its own forms; a runner, which may start any of them, has all.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ctxmgr.core.commandlines import Command, joined

LINE_LENGTH_MAX: Final = 8_192
"""Characters of a line that names a file: the longest path, and as much again."""

_PATH = r"(?P<path>[^\s:(\"'<][^:(\"'<>\n]*?)"
_COLONS = re.compile(rf"{_PATH}:\d+:(?:\d+:)? ")
_INCLUDED = re.compile(rf"(?:In file included| {{0,40}}) ?from {_PATH}:\d+(?::\d+)?[,:]")
_ARROW = re.compile(rf"\s*(?:-->|:::) {_PATH}:\d+:\d+")
_PARENTHESES = re.compile(rf"{_PATH}\(\d+,\d+\): (?:error|warning|message) ")
_DASHED = re.compile(rf"{_PATH}:\d+:\d+ - (?:error|warning|message) ")
_TRACEBACK = re.compile(r'\s*File "(?P<path>[^"<>]+)", line \d+')
_NODE_ID = re.compile(r"(?:(?:FAILED|ERROR|PASSED|SKIPPED|XFAIL|XPASS) )?(?P<path>[^\s:]+\.py)::\S")
_PROGRESS = re.compile(r"(?P<path>\S+\.py) [.FEsxX]+ *(?:\[ *\d+%\])?")
_COLLECTING = re.compile(r"_+ ERROR collecting (?P<path>.+?) _+")
_STACK = re.compile(r"\s*at (?:.*\()?(?:file://)?(?P<path>/[^:()]+):\d+:\d+\)?")
_GOROUTINE = re.compile(r"\t(?P<path>/[^:\s]+\.go):\d+(?: \+0x[0-9a-f]+)?")
_ESLINT = re.compile(r"(?P<path>/\S.*)\n +\d+:\d+  (?:error|warning)  ")
_ROOTDIR = re.compile(r"^rootdir: (/[^,\n]*)", re.MULTILINE)
_ENTERING = re.compile(r"\S*make(?:\[\d+\])?: (Entering|Leaving) directory ['`](.*)'")

Forms = tuple[re.Pattern[str], ...]
_C: Final[Forms] = (_COLONS, _INCLUDED)
_RUST: Final[Forms] = (_ARROW,)
_TYPESCRIPT: Final[Forms] = (_PARENTHESES, _DASHED, _STACK)
_NODE: Final[Forms] = (_STACK, _COLONS)
_PYTHON: Final[Forms] = (_TRACEBACK,)
_PYTEST: Final[Forms] = (_NODE_ID, _PROGRESS, _COLLECTING, _COLONS, _TRACEBACK)
_CHECK: Final[Forms] = (_COLONS, _ARROW, _DASHED)
_GO: Final[Forms] = (_COLONS, _GOROUTINE)
_ALL: Final[Forms] = tuple(dict.fromkeys((*_C, *_RUST, *_TYPESCRIPT, *_PYTEST, *_GO)))
_ROOTED: Final = frozenset({_NODE_ID, _PROGRESS, _COLLECTING})
"""They name paths from pytest's root folder, which it prints."""

TOOLS: Final[Mapping[str, Forms]] = {
    **dict.fromkeys(("cc", "c++", "gcc", "g++", "clang", "clang++", "javac", "clang-tidy"), _C),
    **dict.fromkeys(("cargo", "rustc"), _RUST),
    **dict.fromkeys(("tsc",), _TYPESCRIPT),
    **dict.fromkeys(("node", "eslint"), _NODE),
    **dict.fromkeys(("python", "python3"), _PYTHON),
    **dict.fromkeys(("pytest", "py.test"), _PYTEST),
    **dict.fromkeys(("mypy", "pyright", "ruff", "flake8", "pylint"), _CHECK),
    **dict.fromkeys(("go", "gofmt", "golangci-lint", "staticcheck"), _GO),
    **dict.fromkeys(("make", "gmake", "ninja", "cmake", "npm", "yarn", "pnpm", "tox"), _ALL),
}
"""By program: the forms in which it names files."""


def diagnosed(command: Command, output: str) -> Iterator[str]:
    """Yield the files that a diagnostic, a test's name or a traceback names."""
    forms = TOOLS[command.program]
    rooted = _ROOTDIR.search(output)
    top = rooted[1] if rooted else command.directory
    if _STACK in forms:
        yield from (found["path"] for found in _ESLINT.finditer(output))
    folders = [command.directory]
    for line in output.split("\n"):
        moved = _ENTERING.fullmatch(line)
        if moved is None:
            found, form = _first(forms, line[:LINE_LENGTH_MAX])
            if found is not None:
                yield joined(top if form in _ROOTED else folders[-1], found["path"].strip())
        elif moved[1] == "Entering":
            folders.append(joined(folders[-1], moved[2]))
        elif len(folders) > 1:
            folders.pop()


def _first(forms: Forms, line: str) -> tuple[re.Match[str] | None, re.Pattern[str] | None]:
    for form in forms:
        found = form.match(line)
        if found is not None:
            return found, form
    return None, None
