"""The number of the first line of a file that an output shows. Pure.

read {"path": "a.py", "offset": 40}            40
view {"path": "a.py", "view_range": [40, 80]}  40
bash {"command": "sed -n '40,80p' a.py"}       40
    40→def parse(line):                        40: the output numbers its lines

Anything else begins with line 1, which is also right for an output that is not of a file.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from ctxmgr.core.discovery.known_tools import OutputKind, command_text

_OFFSETS: Final = ("offset", "start_line", "line_start", "startLine", "start")
_RANGES: Final = ("view_range", "line_range", "range")

LINES_MAX: Final = 10**9
"""A larger number is not that of a line."""

_SED: Final = re.compile(r"\bsed\s+-n\s+['\"]?(\d{1,9})(?:,\d{1,9})?p")
_TAIL: Final = re.compile(r"\btail\s+-n\s*\+(\d{1,9})\b")
_NUMBERED: Final = re.compile(r"\s*(\d{1,9})(?:→|\t|: |\| )[^\n]*\n\s*(\d{1,9})(?:→|\t|: |\| )")


def first_line(kind: OutputKind, args: Mapping[str, Any], output: str) -> int:
    """Return the number, from 1, of the first line of an output in its file."""
    if kind is not OutputKind.READ:
        return 1
    numbered = _NUMBERED.match(output)
    if numbered and int(numbered[2]) == int(numbered[1]) + 1:
        return int(numbered[1])
    values = [args.get(name) for name in _OFFSETS]
    values += [given[0] for name in _RANGES if isinstance(given := args.get(name), list) and given]
    number = next((value for value in values if type(value) is int and value < LINES_MAX), None)
    if number is not None:
        return max(1, number)
    command = command_text(args) or ""
    found = _SED.search(command) or _TAIL.search(command)
    return max(1, int(found[1])) if found else 1
