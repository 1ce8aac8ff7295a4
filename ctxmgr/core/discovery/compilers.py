"""Paths in the output of compilers, linters and test runners. Pure.

    gcc, clang, go, mypy, ruff, javac    path:12:5: text, path:12: text
    rustc, ruff                          --> path:12:5
    tsc                                  path(12,5): error TS2322, path:12:5 - error TS2322
    Python, pytest                       File "path", line 12;  path::test;  path:12: Error
    Node.js, eslint                      at f (path:12:5);  a path, then lines 12:5  error  text
    make                                 Entering directory 'path', which later paths start from

Each tool has its own forms; a build tool, which may run any of the others, has all of them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ctxmgr.core.discovery.command_line import Command, join_path

LINE_LENGTH_MAX: Final = 8_192
"""Characters of a line that are searched for a path: twice the longest path."""

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
"""Forms with paths relative to pytest's root directory, which pytest prints."""

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
"""The forms in which each program prints file names."""


def diagnostic_paths(command: Command, output: str) -> Iterator[str]:
    """Yield the files in diagnostics, test names and tracebacks."""
    forms = TOOLS[command.program]
    rootdir = _ROOTDIR.search(output)
    top = rootdir[1] if rootdir else command.directory
    if _STACK in forms:
        yield from (match["path"] for match in _ESLINT.finditer(output))
    directories = [command.directory]
    for line in output.split("\n"):
        entering = _ENTERING.fullmatch(line)
        if entering is None:
            match = next(filter(None, (form.match(line[:LINE_LENGTH_MAX]) for form in forms)), None)
            if match is not None:
                base = top if match.re in _ROOTED else directories[-1]
                yield join_path(base, match["path"].strip())
        elif entering[1] == "Entering":
            directories.append(join_path(directories[-1], entering[2]))
        elif len(directories) > 1:
            directories.pop()
