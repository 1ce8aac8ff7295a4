"""Paths in what ``git status``, ``git ls-files`` and ``git grep`` print. Pure.

    long            a heading, then one path to a line after a tab, with a word before changed ones
    short           XY path, XY old -> new
    porcelain v2    1 XY … path, 2 XY … path TAB old, u XY … path, ? path
    -z              as short and v2, ended by NUL and without quotes

Deleted files are not there, so they are not named; nor is the old name of a renamed one. The long
and short forms name paths from where the command runs, the porcelain forms from the repository's
top folder.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ctxmgr.core.commandlines import Command, Options, joined, options
from ctxmgr.core.matches import matched
from ctxmgr.core.quoted_names import from_c

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


def git_named(command: Command, output: str, *, repository: str | None) -> Iterator[str]:
    """Yield the files that a git command names. ``repository``: its top folder, if known."""
    inner = _subcommand(command)
    if inner is None:
        return
    if inner.program == "grep":
        yield from _inside(inner, matched(replace(inner, program="git"), output))
        return
    given = options(inner.args, valued="uxX")
    if inner.program == "ls-files":
        yield from _inside(inner, _listed(given, output))
    elif inner.program == "status":
        top = repository if _is_porcelain(given) and repository is not None else inner.directory
        yield from _inside(replace(inner, directory=top), _status(given, output))


def _subcommand(command: Command) -> Command | None:
    words, directory = list(command.args), command.directory
    while words and words[0].text.startswith("-"):
        option = words.pop(0).text
        if option in _GLOBAL_VALUED and words:
            value = words.pop(0)
            if option == "-C" and not value.literal:
                return None
            directory = joined(directory, value.text) if option == "-C" else directory
    if not words:
        return None
    return replace(command, program=words[0].text, args=tuple(words[1:]), directory=directory)


def _inside(command: Command, names: Iterator[str]) -> Iterator[str]:
    return (joined(command.directory, name) for name in names if name and name[-1] != "/")


def _listed(given: Options, output: str) -> Iterator[str]:
    if given.has("-s", "--stage", "-t", "-v", "--format", "--debug", "--eol", "-d", "--deleted"):
        return
    yield from output.split("\0") if given.has("-z") else map(from_c, output.split("\n"))


def _is_porcelain(given: Options) -> bool:
    return given.has("--porcelain", "-z")


def _status(given: Options, output: str) -> Iterator[str]:
    if given.value("--porcelain") in {"v2", "2"}:
        yield from _second_form(output, null=given.has("-z"))
    elif given.has("-z"):
        yield from _short_null(output.split("\0"))
    elif given.has("-s", "--short", "--porcelain"):
        yield from filter(None, map(_short, output.split("\n")))
    else:
        yield from filter(None, map(_long, output.split("\n")))


def _long(line: str) -> str | None:
    if not line.startswith("\t"):
        return None
    found = _STATE.fullmatch(line[1:])
    if found is None:
        return from_c(line[1:])
    state, name = found.groups()
    if state in _GONE:
        return None
    return _new_name(name) if state in {"renamed", "copied"} else from_c(name)


def _short(line: str) -> str | None:
    state, name = line[:2], line[3:]
    if not name or state == "##" or _is_gone(state):
        return None
    return _new_name(name) if set("RC") & set(state) else from_c(name)


def _short_null(entries: Sequence[str]) -> Iterator[str]:
    waiting = iter(entries)
    for entry in waiting:
        state = entry[:2]
        if set("RC") & set(state):
            next(waiting, None)  # the old name
        if state != "##" and not _is_gone(state):
            yield entry[3:]


def _second_form(output: str, *, null: bool) -> Iterator[str]:
    waiting = iter(output.split("\0" if null else "\n"))
    for entry in waiting:
        found = _V2.fullmatch(entry)
        if found is None:
            continue
        state = found[1] or found[2] or found[3] or "??"
        if found[2] and null:
            next(waiting, None)
        if not _is_gone(state.replace(".", " ")):
            yield found[4] if null else from_c(found[4].partition("\t")[0])


def _is_gone(state: str) -> bool:
    return state[1:] == "D" or state == "D "


def _new_name(name: str) -> str | None:
    found = _RENAMED.fullmatch(name)
    return from_c(found[1]) if found else None
