"""How Anthropic's memory tool shows files and folders. Pure.

    a file      its lines, numbered from 1 and right-aligned in six columns
    a folder    sizes and paths of two levels, hidden names left out

The model was trained on this form, so it is the one that the tool's documentation gives.
"""

from collections.abc import Mapping, Sequence
from typing import Final

LEVELS: Final = 2
"""Of a folder that are listed."""

AROUND: Final = 2
"""Lines shown before and after a change."""

_UNITS: Final = ("B", "K", "M", "G")
_STEP: Final = 1024


def file_view(path: str, text: str, *, shown: Sequence[int] | None = None) -> str:
    """Show a file, or the lines from the first to the second of ``shown``; -1: to the end."""
    first, last = shown if shown is not None and len(shown) == LEVELS else (1, -1)
    lines = text.split("\n")
    first, last = max(first, 1), len(lines) if last == -1 else last
    return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first, last)}"


def snippet(text: str, *, at: int) -> str:
    """Show the lines around a changed one, counted from 0."""
    return _numbered(text.split("\n"), max(1, at + 1 - AROUND), at + 1 + AROUND)


def folder_view(path: str, files: Mapping[str, str]) -> str:
    """List what is below a folder; ``files`` are the texts by path."""
    sizes = {path: 0}
    for name, text in sorted(files.items()):
        parts = name.removeprefix(path).strip("/").split("/")
        if any(part.startswith(".") for part in parts):
            continue
        size = len(text.encode())
        sizes[path] += size
        for depth in range(1, min(LEVELS, len(parts)) + 1):
            shown = "/".join([path, *parts[:depth]]) + ("/" if depth < len(parts) else "")
            sizes[shown] = sizes.get(shown, 0) + size
    listed = "\n".join(f"{_size(size)}\t{name}" for name, size in sizes.items())
    return (
        f"Here're the files and directories up to {LEVELS} levels deep in {path}, "
        f"excluding hidden items and node_modules:\n{listed}"
    )


def _numbered(lines: Sequence[str], first: int, last: int) -> str:
    numbered = enumerate(lines[first - 1 : last], start=first)
    return "\n".join(f"{number:6d}\t{line}" for number, line in numbered)


def _size(size: float) -> str:
    unit = 0
    while size >= _STEP and unit < len(_UNITS) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{size:.1f}".removesuffix(".0") + _UNITS[unit]
