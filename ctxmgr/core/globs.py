"""Names that a shell's glob stands for. Pure."""

import re
from functools import lru_cache
from typing import Final

PATTERNS_MAX: Final = 256
"""Compiled patterns that are kept."""

_PARTS = re.compile(r"\*\*|\*|\?|\[[!^]?\]?[^\]]*\]|\{[^{}]*\}|.", re.DOTALL)


@lru_cache(maxsize=PATTERNS_MAX)
def pattern(glob: str) -> re.Pattern[str]:
    """Return what matches the paths that the glob can be expanded to. Variables match anything."""
    if glob.startswith("~") or "$" in glob or "`" in glob:
        return re.compile(r".+", re.DOTALL)
    return re.compile("".join(map(_regex, _PARTS.findall(glob.removesuffix("/")))), re.DOTALL)


def _regex(part: str) -> str:
    if part == "**":
        return ".*"
    if part == "*":
        return "[^/]*"
    if part == "?":
        return "[^/]"
    if part.startswith("[") and len(part) > 1:
        inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"
    if part.startswith("{") and len(part) > 1:
        choices = ("".join(map(_regex, _PARTS.findall(each))) for each in part[1:-1].split(","))
        return f"(?:{'|'.join(choices)})"
    return re.escape(part)
