"""Find the lines of an output that are never folded. Pure.

+ added, - removed     changed lines of a diff: they are what was asked for
the last lines         of a command that failed: they say why
"""

import re
from typing import Final

LAST_LINES: Final = 8
"""Lines at the end of a failed command's output that stay."""

LAST_CHARS_MAX: Final = 2_000
"""Characters of these lines: one line can be a whole file."""

_EXIT: Final = re.compile(
    r"(?:return ?code|exit(?:ed with)?(?: code| status)?)\W{0,3}[1-9]\d*", re.IGNORECASE
)
_EXIT_CHARS: Final = 300
"""Characters at both ends of an output in which harnesses report the exit status."""

_HUNK: Final = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")


def has_failed(output: str) -> bool:
    """Whether an output reports an exit status other than 0, as some harnesses do."""
    return bool(_EXIT.search(output[:_EXIT_CHARS]) or _EXIT.search(output[-_EXIT_CHARS:]))


def protected_rows(content: str, *, failed: bool) -> frozenset[int]:
    """Return the numbers, from 0, of the lines that stay."""
    rows: set[int] = set()
    if "@@ -" in content:
        rows |= _changed(content.split("\n"))
    if failed:
        rows |= _last(content.rstrip("\n").split("\n"))
    return frozenset(rows)


def _changed(lines: list[str]) -> set[int]:
    """Return the rows of hunks that begin with + or -; a hunk says how many lines it has."""
    rows: set[int] = set()
    old = new = 0
    for row, line in enumerate(lines):
        hunk = _HUNK.match(line)
        if hunk:
            old, new = (1 if number is None else int(number) for number in hunk.groups())
        elif line.startswith("+") and new > 0:
            rows.add(row)
            new -= 1
        elif line.startswith("-") and old > 0:
            rows.add(row)
            old -= 1
        elif old > 0 or new > 0:
            old, new = old - 1, new - 1
    return rows


def _last(lines: list[str]) -> set[int]:
    rows, chars = set[int](), 0
    for row in range(len(lines) - 1, max(-1, len(lines) - 1 - LAST_LINES), -1):
        chars += len(lines[row])
        if chars > LAST_CHARS_MAX:
            break
        rows.add(row)
    return rows
