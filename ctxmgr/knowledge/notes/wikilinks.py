"""Links between notes, as Obsidian writes them. Pure.

    [[target]]  [[target|shown]]  [[target#heading]]  ![[embedded]]

A target is a path or the name of a file, with or without ``.md``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ctxmgr.knowledge.notes.sections import outside_code

LINK_CHARS_MAX: Final = 400

_LINK: Final = re.compile(rf"(!?)\[\[([^\[\]\n]{{1,{LINK_CHARS_MAX}}})\]\]")
_TICKS: Final = re.compile("`+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wikilink:
    target: str
    """Empty for a link to a heading of the same note."""
    heading: str | None
    shown: str | None
    """The text to show instead of the target."""
    embedded: bool
    line: int
    """In the body, from 1."""


def wikilinks(body: str) -> tuple[Wikilink, ...]:
    """Return the links of a text in order; those in code are text, not links."""
    found = []
    for number, line in outside_code(body):
        for mark, inside in _LINK.findall(_without_code(line)):
            place, bar, shown = inside.partition("|")
            target, _, heading = place.partition("#")
            found.append(
                Wikilink(
                    target=target.strip().rstrip("\\"),  # in tables the bar is escaped
                    heading=heading.strip() or None,
                    shown=shown.strip() if bar else None,
                    embedded=bool(mark),
                    line=number,
                )
            )
    return tuple(found)


def resolve(link: Wikilink, *, source: str, paths: Iterable[str]) -> str | None:
    """Return the path that a link means; None if there is none.

    A path is tried as it is, then below the folder of the note, then as the end of a path; case
    is ignored, and of several the shortest is taken.
    """
    if not link.target:
        return source
    target = link.target.casefold().lstrip("/")
    folder = source.casefold().rpartition("/")[0]
    wanted = {target, f"{target}.md"}
    beside = {f"{folder}/{each}" for each in wanted}
    ranked = []
    for path in paths:
        known = path.casefold()
        if known in wanted:
            ranked.append((0, len(path), path))
        elif known in beside:
            ranked.append((1, len(path), path))
        elif any(known.endswith(f"/{each}") for each in wanted):
            ranked.append((2, len(path), path))
    return min(ranked)[2] if ranked else None


def _without_code(line: str) -> str:
    """Remove code between backticks: from one run of them to the next that is as long."""
    runs = [match.span() for match in _TICKS.finditer(line)]
    closing: dict[int, int] = {}
    newest: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        if length in newest:
            closing[number] = newest[length]
        newest[length] = number
    kept, position, number = [], 0, 0
    while number < len(runs):
        if number in closing:
            kept.append(line[position : runs[number][0]])
            position, number = runs[closing[number]][1], closing[number]
        number += 1
    return "".join((*kept, line[position:]))
