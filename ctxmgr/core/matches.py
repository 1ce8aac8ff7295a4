"""Paths in what ``grep`` and ``rg`` print. Pure.

    path:12:text     a match, with its line's number
    path-13-text     a line beside one, which names no path that a match does not name
    path:text        without numbers
    path             -l, --files, and the heading of a block
    path:3           -c

Which part is the path follows from where the command was told to search.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.commandlines import Command, Options, options
from ctxmgr.core.globs import pattern
from ctxmgr.core.quoted_names import from_c
from ctxmgr.core.shell_words import Word

GREPS: Final = ("grep", "egrep", "fgrep", "zgrep")
NAMES_ONLY: Final = (
    *("-l", "-L", "--files", "--files-with-matches", "--files-without-match", "--name-only"),
)
COUNTS: Final = ("-c", "--count", "--count-matches")
NUMBERS: Final = ("-n", "--line-number", "--column", "--vimgrep")
RECURSIVE: Final = ("-r", "-R", "--recursive", "--dereference-recursive")

PATH_LENGTH_MAX: Final = 4_096
"""Characters before the first colon: no path is longer."""

_GREP_VALUED: Final = "ABCDdefm"
_RG_VALUED: Final = "ABCEMTdefgjmrt"
_LONG_VALUED: Final = frozenset(
    {"--after-context", "--before-context", "--binary-files", "--color", "--colors", "--context"}
    | {"--devices", "--directories", "--encoding", "--engine", "--exclude", "--exclude-dir"}
    | {"--exclude-from", "--file", "--glob", "--iglob", "--include", "--label", "--max-columns"}
    | {"--max-count", "--max-depth", "--max-filesize", "--path-separator", "--pre", "--regexp"}
    | {"--replace", "--sort", "--sortr", "--threads", "--type", "--type-not"}
)
_OTHER_OUTPUT: Final = ("--json", "-q", "--quiet", "--type-list", "--path-separator")
_BINARY = re.compile(
    r"(?:grep: )?(.+?): binary file matches(?: \(.*\))?|Binary file (.+) matches", re.DOTALL
)
_NUMBERED = re.compile(r"(.{1,4095}?):\d+:", re.DOTALL)
_COUNTED = re.compile(r"(.+):\d+", re.DOTALL)
_BESIDE = re.compile(r"\d+[-:]")


def matched(command: Command, output: str, *, terminal: bool = False) -> Iterator[str]:
    """Yield the files in which something was found. Only git quotes their names."""
    search = _search(command, terminal=terminal)
    if search.given.has(*_OTHER_OUTPUT):
        return
    known = [line for line in output.split("\n") if line not in {"", "--"}]
    names = list(_names(search, output, picked=command.picked))
    if command.program == "git":
        names = [from_c(name) for name in names]
    names += [found[1] or found[2] for found in map(_BINARY.fullmatch, known) if found]
    accepted = [name for name in names if search.may_name(name)]
    alone = search.alone()
    if alone is not None and not accepted and any(not _is_error(line) for line in known):
        yield alone
    yield from accepted


@dataclass(frozen=True, slots=True)
class _Search:
    given: Options
    places: tuple[Word, ...]
    """Files and folders to search; none: where it runs, or its input."""
    is_grep: bool
    headed: bool
    """Names stand above their matches."""

    def may_name(self, name: str) -> bool:
        """Tell whether the search can have come by a file of this name."""
        if not self.places:
            return not name.startswith("/") and not _is_error(name)
        return any(_leads_to(place, name) for place in self.places)

    def alone(self) -> str | None:
        """The one file that was searched, if it was one: then its name is not printed."""
        if len(self.places) != 1 or not self.places[0].literal:
            return None
        recursive = self.given.has(*RECURSIVE) or self.places[0].text.endswith("/")
        return None if recursive or not self.is_grep else self.places[0].text


def _search(command: Command, *, terminal: bool) -> _Search:
    is_grep = command.program in {*GREPS, "git"}
    given = options(
        command.args, valued=_GREP_VALUED if is_grep else _RG_VALUED, long_valued=_LONG_VALUED
    )
    named = given.has("-e", "-f", "--regexp", "--file", "--files")
    headed = given.has("--heading", *(() if is_grep else ("-p", "--pretty")))
    return _Search(
        given,
        places=given.operands if named else given.operands[1:],
        is_grep=is_grep,
        headed=headed or (terminal and not is_grep and not given.has("--no-heading")),
    )


def _names(search: _Search, output: str, *, picked: bool) -> Iterator[str]:
    given, lines = search.given, output.split("\n")
    null = given.has("--null", "-z" if not search.is_grep else "-Z", "-0")
    if given.has(*NAMES_ONLY):
        yield from output.split("\0" if null else "\n")
    elif null:
        yield from (line.partition("\0")[0] for line in lines if "\0" in line)
    elif given.has(*COUNTS):
        yield from _first_groups(_COUNTED.fullmatch(line) for line in lines)
    elif search.headed:
        yield from () if picked else _headings(lines, numbered=not given.has("-N"))
    elif given.has(*NUMBERS):
        found = _first_groups(_NUMBERED.match(line) for line in lines)
        yield from _without_beside(list(found), re.compile(r"-\d+-"))
    else:
        found = (line.partition(":")[0] for line in lines if ":" in line[:PATH_LENGTH_MAX])
        yield from _without_beside(list(found), re.compile("-"))


def _headings(lines: Sequence[str], *, numbered: bool) -> Iterator[str]:
    before = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and not before and following and (not numbered or _BESIDE.match(following)):
            yield line
        before = line


def _without_beside(names: list[str], beside: re.Pattern[str]) -> Iterator[str]:
    """Leave out what is a line beside a match that happens to look like one."""
    unique = set(names)
    for name in names:
        cuts = (name[: found.start()] for found in beside.finditer(name))
        if not any(cut in unique for cut in cuts):
            yield name


def _first_groups(found: Iterator[re.Match[str] | None]) -> Iterator[str]:
    return (each[1] for each in found if each)


def _leads_to(place: Word, name: str) -> bool:
    if place.literal:
        return name == place.text or name.startswith(f"{place.text.rstrip('/')}/")
    parts = name.split("/")
    ends = range(1, len(parts) + 1)
    return any(pattern(place.text).fullmatch("/".join(parts[:end])) for end in ends)


def _is_error(line: str) -> bool:
    return line.startswith(("grep: ", "rg: ", "egrep: ", "fgrep: ", "zgrep: "))
