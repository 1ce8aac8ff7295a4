"""The sections of a markdown text, and the dated bullets in them. Pure.

Headings are lines that begin with ``#``, outside of code fences. A section ends at the next
heading, whatever its level.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.notes.frontmatter import split

BULLET_CHARS_MAX: Final = 4_000
"""One bullet is one thought; a longer text is a note of its own."""

TITLE_CHARS_MAX: Final = 200

_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_BULLET: Final = re.compile(r"([ \t]*)[-*+][ \t]+(.*)")
_DATED: Final = re.compile(r"\[?(\d{4}-\d\d-\d\d)\]?[ \t]*[:—–-]?[ \t]*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSection:
    """A heading and the lines below it."""

    title: str
    """Empty for the lines before the first heading."""
    level: int
    """1 to 6; 0 for the lines before the first heading."""
    start_line: int
    """The line of the heading in the text, from 1."""
    lines: tuple[str, ...]
    """Without the heading."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip()

    @property
    def bullets(self) -> tuple["Bullet", ...]:
        """The bullets of the section; the lines below one that are indented are part of it."""
        return tuple(_bullets(self.lines, first_line=self.start_line + (1 if self.level else 0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullet:
    text: str
    """Without the date and the mark."""
    day: date | None
    """None if it does not begin with a date."""
    line: int
    """In the text, from 1."""


def sections(body: str) -> tuple[NoteSection, ...]:
    """Return the sections of a text in order; lines before the first heading only if not blank."""
    return tuple(_sections(body.splitlines()))


def find_section(body: str, title: str) -> NoteSection | None:
    """Return the first section with a title; case is ignored."""
    wanted = title.strip().casefold()
    return next((each for each in sections(body) if each.title.casefold() == wanted), None)


def dated(day: date, text: str) -> str:
    """Return the text of a bullet with its date, as MEMORY.md has them."""
    return f"{day.isoformat()}: {text}"


def add_bullet(text: str, section: str, bullet: str) -> str:
    """Return a note's text with a bullet at the end of a section.

    A missing section is added at the end, with level 2. A bullet that the section has already is
    not added again. Line breaks become spaces, so that a bullet cannot begin a section.
    """
    title, content = one_line(section), one_line(bullet).removeprefix("- ").strip()
    if not title or len(title) > TITLE_CHARS_MAX or title.startswith("#"):
        raise Incorrect(f"{section!r:.80} is not the title of a section")
    if not content or len(content) > BULLET_CHARS_MAX:
        raise Incorrect(f"a bullet has 1 to {BULLET_CHARS_MAX:,} characters, not {len(content):,}")
    parts = split(text)
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = parts.body.splitlines()
    found = find_section(parts.body, title)
    if found is None:
        while lines and not lines[-1].strip():
            lines.pop()
        lines += [*([""] if lines else []), f"## {title}", "", f"- {content}"]
    else:
        if any(line.strip() == f"- {content}" for line in found.lines):
            return text
        end = found.start_line + len(found.lines)
        while end > found.start_line and not lines[end - 1].strip():
            end -= 1
        lines[end:end] = [*([""] if end == found.start_line else []), f"- {content}"]
        following = end + (2 if end == found.start_line else 1)
        if following < len(lines) and lines[following].strip():
            lines.insert(following, "")
    head = text[: len(text) - len(parts.body)]
    return head + line_end.join(lines) + line_end


def one_line(text: str) -> str:
    """Return a text with each run of white space as one space."""
    return " ".join(text.split())


def outside_code(body: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not in a code fence, numbered from 1."""
    fence = ""
    for number, line in enumerate(body.splitlines(), 1):
        mark = _FENCE.match(line)
        if fence:
            closing = line.strip()
            if mark and len(closing) >= len(fence) and set(closing) == {fence[0]}:
                fence = ""
        elif mark:
            fence = mark.group(1)
        else:
            yield number, line


def _sections(lines: list[str]) -> Iterator[NoteSection]:
    headings = [
        (number, len(heading.group(1)), _title(line[heading.end() :]))
        for number, line in outside_code("\n".join(lines))
        if (heading := _HEADING.match(line))
    ]
    first = headings[0][0] - 1 if headings else len(lines)
    if any(line.strip() for line in lines[:first]):
        yield NoteSection(title="", level=0, start_line=1, lines=tuple(lines[:first]))
    ends = [number - 1 for number, _, _ in headings[1:]] + [len(lines)]
    for (number, level, title), end in zip(headings, ends[: len(headings)], strict=True):
        yield NoteSection(
            title=title, level=level, start_line=number, lines=tuple(lines[number:end])
        )


def _title(rest: str) -> str:
    """Return what a heading says, without the marks that may close it."""
    title = rest.strip()
    opened = title.rstrip("#")
    return opened.rstrip() if not opened or opened[-1] in " \t" else title


def _bullets(lines: tuple[str, ...], *, first_line: int) -> Iterator[Bullet]:
    found: list[tuple[int, str]] = []
    for number, line in enumerate(lines, first_line):
        mark = _BULLET.fullmatch(line)
        if mark and not mark.group(1):
            found.append((number, mark.group(2)))
        elif found and line[:1].isspace() and line.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line.strip()}")
    for number, text in found:
        day, rest = _day(text)
        yield Bullet(text=rest, day=day, line=number)


def _day(text: str) -> tuple[date | None, str]:
    found = _DATED.fullmatch(text.replace("**", "", 2) if text.startswith("**") else text)
    if found is None:
        return None, text
    try:
        return date.fromisoformat(found.group(1)), found.group(2)
    except ValueError:  # such as 2026-02-30
        return None, text
