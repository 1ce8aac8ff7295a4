"""Paths in the output of ``git status``, ``git ls-files`` and ``git grep``. Pure.

    long            a heading, then one path per line after a tab, changed ones after a word
    short           XY path, XY old -> new
    porcelain v2    1 XY … path, 2 XY … path TAB old, u XY … path, ? path
    -z              like short and v2, terminated by NUL and without quotes

Deleted files and the old names of renamed files are left out, because they do not exist. In the
long and short forms, paths are relative to the command's directory. In the porcelain forms they are
relative to the top of the repository, and the command is assumed to run there.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ctxmgr.core.discovery.command_line import Command, Options, join_path, options
from ctxmgr.core.discovery.grep import grep_paths
from ctxmgr.core.discovery.quoting import unquote_c

_GLOBAL_VALUED: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"})
_STATE: Final = re.compile(
    r"(new file|modified|deleted|renamed|copied|typechange|unmerged|both added|both modified"
    r"|both deleted|added by us|added by them|deleted by us|deleted by them): +(.*)",
    re.DOTALL,
)
_GONE: Final = frozenset({"deleted", "both deleted"})
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_RENAMED: Final = re.compile(rf"(?:{_QUOTED}|.+?) -> (.+)", re.DOTALL)
_V2: Final = re.compile(
    r"(?:1 (\S\S) \S+ \S+ \S+ \S+ \S+ \S+ |2 (\S\S) \S+ \S+ \S+ \S+ \S+ \S+ \S+ "
    r"|u (\S\S) \S+ \S+ \S+ \S+ \S+ \S+ \S+ \S+ |[?!] )(.*)",
    re.DOTALL,
)


def git_paths(command: Command, output: str) -> Iterator[str]:
    """Yield the files that a git command prints."""
    inner = _subcommand(command)
    if inner is None:
        return
    names: Iterator[str] = iter(())
    if inner.program == "grep":
        names = grep_paths(replace(inner, program="git"), output)
    elif inner.program == "ls-files":
        names = _ls_files(options(inner.args, valued="uxX"), output)
    elif inner.program == "status":
        names = _status(options(inner.args, valued="uxX"), output)
    yield from (join_path(inner.directory, name) for name in names if name and name[-1] != "/")


def _subcommand(command: Command) -> Command | None:
    words, directory = list(command.args), command.directory
    while words and words[0].text.startswith("-"):
        option = words.pop(0).text
        if option in _GLOBAL_VALUED and words:
            value = words.pop(0)
            if option == "-C" and not value.literal:
                return None
            directory = join_path(directory, value.text) if option == "-C" else directory
    if not words:
        return None
    return replace(command, program=words[0].text, args=tuple(words[1:]), directory=directory)


def _ls_files(opts: Options, output: str) -> Iterator[str]:
    if opts.has("-s", "--stage", "-t", "-v", "--format", "--debug", "--eol", "-d", "--deleted"):
        return
    yield from output.split("\0") if opts.has("-z") else map(unquote_c, output.split("\n"))


def _status(opts: Options, output: str) -> Iterator[str]:
    if opts.value("--porcelain") in {"v2", "2"}:
        yield from _porcelain_v2(output, null=opts.has("-z"))
    elif opts.has("-z"):
        yield from _short_null(output.split("\0"))
    elif opts.has("-s", "--short", "--porcelain"):
        yield from filter(None, map(_short, output.split("\n")))
    else:
        yield from filter(None, map(_long, output.split("\n")))


def _long(line: str) -> str | None:
    if not line.startswith("\t"):
        return None
    match = _STATE.fullmatch(line[1:])
    if match is None:
        return unquote_c(line[1:])
    state, name = match.groups()
    if state in _GONE:
        return None
    return _new_name(name) if state in {"renamed", "copied"} else unquote_c(name)


def _short(line: str) -> str | None:
    state, name = line[:2], line[3:]
    if not name or state == "##" or _is_gone(state):
        return None
    return _new_name(name) if set("RC") & set(state) else unquote_c(name)


def _short_null(entries: Sequence[str]) -> Iterator[str]:
    remaining = iter(entries)
    for entry in remaining:
        state = entry[:2]
        if set("RC") & set(state):
            next(remaining, None)  # the old name
        if state != "##" and not _is_gone(state):
            yield entry[3:]


def _porcelain_v2(output: str, *, null: bool) -> Iterator[str]:
    remaining = iter(output.split("\0" if null else "\n"))
    for entry in remaining:
        match = _V2.fullmatch(entry)
        if match is None:
            continue
        state = match[1] or match[2] or match[3] or "??"
        if match[2] and null:
            next(remaining, None)  # the old name
        if not _is_gone(state.replace(".", " ")):
            yield match[4] if null else unquote_c(match[4].partition("\t")[0])


def _is_gone(state: str) -> bool:
    return state[1:] == "D" or state == "D "


def _new_name(name: str) -> str | None:
    match = _RENAMED.fullmatch(name)
    return unquote_c(match[1]) if match else None
