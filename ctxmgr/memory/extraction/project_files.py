"""Conventions that a project's own files state. Pure.

    AGENTS.md, CLAUDE.md   every point of a list that is a rule
    pyproject.toml         Python version, linter, formatter, type checker, test runner, line length
    Makefile               the command of each well-known target

These files are written for whoever works on the project; what they say is data like any other, and
never decides what runs.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ctxmgr.errors import Incorrect
from ctxmgr.memory.extraction.findings import LearntItem, as_line
from ctxmgr.memory.extraction.statements import key_of, scope_of, split_reason
from ctxmgr.memory.records.bodies import VALUE_CHARS_MAX, Fact
from ctxmgr.memory.records.memory import MemoryKind

NAME: Final = "project_files"

FILE_CHARS_MAX: Final = 100_000
CONVENTIONS_MAX: Final = 60
"""From one file."""
RULE_WORDS_MAX: Final = 50

_POINT: Final = re.compile(
    r"^\s{0,3}(?:[-*+]|\d{1,2}[.)])\s+(?P<text>\S.*(?:\n[ \t]{2,}\S.*)*)", re.MULTILINE
)
_RULE: Final = re.compile(
    r"^(?:always|never|do not|don't|avoid|prefer|use|run|keep|write|name|put|add|make sure|ensure"
    r"|follow|place|commit|format|test|document|we (?:use|don't|never|always|prefer)|no |only |all "
    r"|every )\b",
    re.IGNORECASE,
)
_OBJECT: Final = re.compile(
    r"^(?:always|never|do not|don't|avoid|prefer|make sure to|ensure|please|we)?\s*"
    r"(?:use|run|keep|write|name|put|add|follow|place|commit|format|test|document)?\s*(?P<object>.+)$",
    re.IGNORECASE,
)
_FENCED: Final = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_MARKUP: Final = re.compile(r"\*\*|__|\[([^\[\]]*)\]\([^()]*\)")
_TARGET: Final = re.compile(
    r"^(?P<name>[A-Za-z][\w-]*)\s*:(?!=)[^\n]*\n\t@?(?P<command>[^\n]+)", re.MULTILINE
)
_TARGETS: Final = frozenset(
    {
        "test",
        "tests",
        "check",
        "lint",
        "format",
        "fmt",
        "build",
        "run",
        "docs",
        "install",
        "release",
    }
    | {"deploy", "clean", "typecheck", "bench", "migrate", "dev"}
)


def conventions_of(
    name: str, text: str, *, object_id: str, object_hash: str | None
) -> tuple[LearntItem, ...]:
    """Return what a project file states; ``name`` is the file's name."""
    read = READERS.get(name)
    if read is None:
        return ()
    facts = list(dict.fromkeys(read(text[:FILE_CHARS_MAX])))[:CONVENTIONS_MAX]
    return tuple(
        LearntItem(
            body=fact,
            kind=MemoryKind.CONVENTION,
            original=f"{fact.key}: {fact.value} ({name})",
            extractor=NAME,
            turn=0,
            object_id=object_id,
            object_hash=object_hash,
        )
        for fact in facts
    )


def _rules(text: str) -> Iterator[Fact]:
    for point in _POINT.finditer(_FENCED.sub("", text)):
        line = as_line(_MARKUP.sub(r"\1", point["text"]), VALUE_CHARS_MAX)
        if not _RULE.match(line) or len(line.split()) > RULE_WORDS_MAX:
            continue
        statement, reason = split_reason(line)
        found = _OBJECT.match(statement)
        key = key_of(found["object"] if found else statement)
        yield from _fact(key, statement, scope=scope_of(statement), reason=reason)


def _pyproject(text: str) -> Iterator[Fact]:
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    tools = _table(settings, "tool")
    version = _table(settings, "project").get("requires-python")
    if isinstance(version, str):
        yield from _fact("Python version", version)
    width = _table(tools, "ruff").get("line-length") or _table(tools, "black").get("line-length")
    if isinstance(width, int):
        yield from _fact("line length", str(width), scope="python")
    for key, names in _TOOLS.items():
        found = [name for name in names if name in tools]
        if len(found) == 1:
            yield from _fact(key, found[0], scope="python")


def _makefile(text: str) -> Iterator[Fact]:
    for target in _TARGET.finditer(text):
        if target["name"] in _TARGETS:
            command = as_line(target["command"].strip().lstrip("@-"))
            yield from _fact(f"command to {target['name']}", f"make {target['name']}", why=command)


def _fact(
    key: str,
    value: str,
    *,
    scope: str | None = None,
    reason: str | None = None,
    why: str | None = None,
) -> Iterator[Fact]:
    """Yield a fact, or nothing if a file states something that cannot be one."""
    try:
        yield Fact(
            key=key, value=value, scope=scope, reason=reason or (f"it runs {why}" if why else None)
        )
    except Incorrect:
        return


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = settings.get(name)
    return table if isinstance(table, Mapping) else {}


_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "test runner": ("pytest", "nose2", "unittest"),
    "linter": ("ruff", "flake8", "pylint"),
    "formatter": ("black", "yapf"),
    "type checker": ("mypy", "pyright", "pyre"),
    "package manager": ("poetry", "pdm", "hatch", "uv"),
}

READERS: Final[Mapping[str, Callable[[str], Iterator[Fact]]]] = {
    "AGENTS.md": _rules,
    "CLAUDE.md": _rules,
    "pyproject.toml": _pyproject,
    "Makefile": _makefile,
}
"""How the files of a project are read, by name."""
