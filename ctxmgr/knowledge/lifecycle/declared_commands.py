"""Commands that a project declares: npm scripts and Python's console scripts. Pure.

The files are read by their lines, or as JSON of a limited size: they are the project's, and only
the names that they declare are of interest.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final, TypeVar

DECLARATION_CHARS_MAX: Final = 256 * 1024
"""Of one version of a file; a longer one declares nothing."""

_SECTION: Final = re.compile(r"\[([^\[\]]{1,100})\]\s*(?:#.*)?")
_ENTRY: Final = re.compile(r"""["']?([A-Za-z][\w.-]{0,80})["']?\s{0,9}=""")
_SCRIPT_SECTIONS: Final = frozenset(
    {"project.scripts", "project.gui-scripts", "tool.poetry.scripts"}
)
_Removal = TypeVar("_Removal")


def console_scripts(text: str) -> frozenset[str]:
    """Return the programs that a ``pyproject.toml`` installs."""
    names = set()
    section = ""
    for line in text[:DECLARATION_CHARS_MAX].splitlines():
        if found := _SECTION.fullmatch(line.strip()):
            section = "".join(found[1].split()).replace('"', "")
        elif section in _SCRIPT_SECTIONS and (found := _ENTRY.match(line.strip())):
            names.add(found[1])
    return frozenset(names)


def npm_scripts(text: str) -> frozenset[str]:
    """Return the scripts of a ``package.json``."""
    if len(text) > DECLARATION_CHARS_MAX:
        return frozenset()
    try:
        scripts = json.loads(text)["scripts"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return frozenset()
    return frozenset(scripts) if isinstance(scripts, dict) else frozenset()


READERS: Final[Mapping[str, Callable[[str], frozenset[str]]]] = MappingProxyType(
    {"pyproject.toml": console_scripts, "package.json": npm_scripts}
)
"""The files that declare commands, and what reads them."""


def removed_names(
    versions: Sequence[tuple[_Removal, frozenset[str]]],
) -> dict[str, _Removal]:
    """Return which version removed each name; versions are in order, the newest first."""
    removed: dict[str, _Removal] = {}
    current = versions[0][1] if versions else frozenset[str]()
    for (change, _), (_, names) in pairwise(versions):
        for name in names - current:
            removed.setdefault(name, change)
    return removed
