"""Paths that a text names: in commands, outputs and imports. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

TEXT_CHARS_MAX: Final = 60_000
"""Characters of a text that are searched, from its beginning."""

PATH_CHARS_MAX: Final = 200

SAME_NAME_MAX: Final = 100
"""Files with one name, such as ``__init__.py``, that are told apart."""

_ENDINGS: Final = (
    "c|cc|cfg|cpp|css|go|h|hpp|html|ini|java|js|json|jsx|kt|md|php|po|proto|py|pyi|pyx|rb|rs|rst|"
    "scala|scss|sh|sql|swift|toml|ts|tsx|txt|vue|xml|yaml|yml"
)
_PATH: Final = re.compile(rf"(?<![\w.-])(?:[\w.@+-]*/)*[\w.@+-]+\.(?:{_ENDINGS})\b(?![\w/(-])")
_IMPORT: Final = re.compile(
    r"^\s*(?:from\s+([\w.]+)\s+import\b|import\s+([\w.]+))"
    r"|(?:from|require\()\s*['\"]([./][^'\"\n]+)['\"]",
    re.MULTILINE,
)
_HEREDOC: Final = re.compile(
    r"<<-?[ \t]*['\"]?(\w+)['\"]?([^\n]*)\n.*?^\1[ \t]*$", re.DOTALL | re.MULTILINE
)


def named_paths(text: str) -> Iterator[str]:
    """Yield the paths that a text names, in their order, repeated ones included."""
    for match in _PATH.finditer(text[:TEXT_CHARS_MAX]):
        path = normal_path(match[0])
        if path and len(path) <= PATH_CHARS_MAX:
            yield path


def touched_paths(command: str) -> list[str]:
    """Return the files that a command is about; what it writes into a file does not count."""
    return list(dict.fromkeys(named_paths(_HEREDOC.sub(r"\2", command))))


def imported_paths(text: str, *, suffix: str) -> Iterator[str]:
    """Yield the files that a source imports, as paths: ``a.b`` is ``a/b`` with its own ending.

    Imports of Python and JavaScript are read line by line, without a parser: what is built at run
    time, or written over several lines, is missed.
    """
    for match in _IMPORT.finditer(text[:TEXT_CHARS_MAX]):
        module = match[1] or match[2]
        if module is not None:
            yield module.strip(".").replace(".", "/") + suffix
        elif match[3]:
            name = match[3].split("/")[-1]
            yield name if "." in name else name + suffix


class FileNames:
    """One name for a file that is called by more or less of its path."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[str]] = defaultdict(list)

    def one_name(self, path: str) -> str:
        """Return the path under which a file is known; a new one becomes known."""
        known = self._by_name[path.rpartition("/")[2]]
        alike = [
            each
            for each in known
            if each == path or each.endswith(f"/{path}") or path.endswith(f"/{each}")
        ]
        if len(alike) == 1 or path in alike:
            return path if path in alike else alike[0]
        if len(known) < SAME_NAME_MAX:
            known.append(path)
        return path


def normal_path(path: str) -> str:
    """Return a path without what differs between machines: dots, and the root it lies in."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    if path.startswith("/") and len(parts) > 1:
        parts = parts[1:]
    return "/".join(parts)
