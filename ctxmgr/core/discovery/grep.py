"""Paths in the output of ``grep`` and ``rg``. Pure.

    path:12:text     a match with its line number
    path-13-text     a context line; its path also appears with a match
    path:text        a match without a line number
    path             -l, --files, and the heading of a block
    path:3           -c

The paths that were searched determine which part of a line is the path.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.discovery.command_line import Command, Options, options
from ctxmgr.core.discovery.quoting import is_at_or_below, unquote_c
from ctxmgr.core.discovery.shell_words import Word

GREPS: Final = ("grep", "egrep", "fgrep", "zgrep")
NAMES_ONLY: Final = (
    *("-l", "-L", "--files", "--files-with-matches", "--files-without-match", "--name-only"),
)
COUNTS: Final = ("-c", "--count", "--count-matches")
NUMBERS: Final = ("-n", "--line-number", "--column", "--vimgrep")
RECURSIVE: Final = ("-r", "-R", "--recursive", "--dereference-recursive")

PATH_LENGTH_MAX: Final = 4_096
"""Characters searched for the first colon; paths are not longer."""

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
_LINE_NUMBER = re.compile(r"\d+[-:]")


def grep_paths(command: Command, output: str) -> Iterator[str]:
    """Yield the files with matches. Only git quotes their names."""
    search = _search(command)
    if search.opts.has(*_OTHER_OUTPUT):
        return
    lines = [line for line in output.split("\n") if line not in {"", "--"}]
    names = list(_names(search, output, picked=command.picked))
    if command.program == "git":
        names = [unquote_c(name) for name in names]
    names += [match[1] or match[2] for match in map(_BINARY.fullmatch, lines) if match]
    accepted = [name for name in names if search.covers(name)]
    only = search.only_file()
    if only is not None and not accepted and any(not _is_error(line) for line in lines):
        yield only
    yield from accepted


@dataclass(frozen=True, slots=True)
class _Search:
    opts: Options
    paths: tuple[Word, ...]
    """Files and directories to search; empty means the working directory or standard input."""
    is_grep: bool
    headed: bool
    """Whether names are printed above their matches."""

    def covers(self, name: str) -> bool:
        """Return whether the search can have reached a file of this name."""
        if not self.paths:
            return not name.startswith("/") and not _is_error(name)
        return any(is_at_or_below(name, path) for path in self.paths)

    def only_file(self) -> str | None:
        """Return the file if only one was searched; grep does not print its name then."""
        if len(self.paths) != 1 or not self.paths[0].literal:
            return None
        recursive = self.opts.has(*RECURSIVE) or self.paths[0].text.endswith("/")
        return None if recursive or not self.is_grep else self.paths[0].text


def _search(command: Command) -> _Search:
    is_grep = command.program in {*GREPS, "git"}
    opts = options(
        command.args, valued=_GREP_VALUED if is_grep else _RG_VALUED, long_valued=_LONG_VALUED
    )
    pattern_is_option = opts.has("-e", "-f", "--regexp", "--file", "--files")
    return _Search(
        opts,
        paths=opts.operands if pattern_is_option else opts.operands[1:],
        is_grep=is_grep,
        headed=opts.has("--heading", *(() if is_grep else ("-p", "--pretty"))),
    )


def _names(search: _Search, output: str, *, picked: bool) -> Iterator[str]:
    opts, lines = search.opts, output.split("\n")
    null = opts.has("--null", "-z" if not search.is_grep else "-Z", "-0")
    if opts.has(*NAMES_ONLY):
        yield from output.split("\0" if null else "\n")
    elif null:
        yield from (line.partition("\0")[0] for line in lines if "\0" in line)
    elif opts.has(*COUNTS):
        yield from _first_groups(_COUNTED.fullmatch(line) for line in lines)
    elif search.headed:
        yield from () if picked else _headings(lines, numbered=not opts.has("-N"))
    elif opts.has(*NUMBERS):
        names = _first_groups(_NUMBERED.match(line) for line in lines)
        yield from _without_context_lines(list(names), re.compile(r"-\d+-"))
    else:
        names = (line.partition(":")[0] for line in lines if ":" in line[:PATH_LENGTH_MAX])
        yield from _without_context_lines(list(names), re.compile("-"))


def _headings(lines: Sequence[str], *, numbered: bool) -> Iterator[str]:
    before = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and not before and following and (not numbered or _LINE_NUMBER.match(following)):
            yield line
        before = line


def _without_context_lines(names: list[str], separator: re.Pattern[str]) -> Iterator[str]:
    """Leave out context lines that happen to look like a match."""
    unique = set(names)
    for name in names:
        cuts = (name[: match.start()] for match in separator.finditer(name))
        if not any(cut in unique for cut in cuts):
            yield name


def _first_groups(matches: Iterator[re.Match[str] | None]) -> Iterator[str]:
    return (match[1] for match in matches if match)


def _is_error(line: str) -> bool:
    return line.startswith(("grep: ", "rg: ", "egrep: ", "fgrep: ", "zgrep: "))
