"""Find the command in a command line that produced its output. Pure.

    cd src && ls -la | head -5               ls -la, in src; only its first lines
    mkdir -p x; grep -rn a . || echo none    grep; the line "none" is not from it

Nothing is guessed: if two commands print something, or the answer depends on the shell's state,
there is no producing command.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from ctxmgr.core.discovery.shell_words import (
    Operator,
    Redirection,
    Token,
    UnreadableError,
    Word,
    tokens,
)

SILENT: Final = frozenset(
    {"cd", "chmod", "chown", "cp", "export", "ln", "mkdir", "mv", "rm", "rmdir", "set", "sleep"}
    | {"touch", "true", "umask", "unset", ":"}
)
"""Commands that print nothing on success."""

BEGINNING: Final = frozenset({"cat", "head", "less", "more", "tee"})
"""Filters that pass lines on from the first one."""

PICKING: Final = frozenset({"egrep", "fgrep", "grep", "sort", "tail", "uniq"})
"""Filters that pass on whole lines, but not all of them or in another order."""

WRAPPERS: Final = {
    "command": 0,
    "env": 0,
    "nice": 0,
    "nohup": 0,
    "npx": 0,
    "sudo": 0,
    "time": 0,
    "timeout": 1,
}
"""Commands that run another command, with the number of arguments before it."""

RUNNERS: Final = frozenset({("uv", "run"), ("poetry", "run"), ("pnpm", "exec"), ("npm", "exec")})

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PYTHON = re.compile(r"python[\d.]*")
_REWRITES = re.compile(r"-[A-Za-z]*[nobcHlLZ]|--(?:line-number|only-matching|count|files-with.*)")
_XARGS_WITH_VALUE: Final = frozenset({"-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"})
_ANY: Final = Word("*", literal=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The command that produced an output."""

    program: str
    args: tuple[Word, ...]
    directory: str
    """The agent path it ran in."""
    picked: bool = False
    """True if a filter may have removed lines before or between the others."""
    noise: frozenset[str] = frozenset()
    """Lines that ``echo`` printed in the same command line."""


@dataclass(frozen=True, slots=True)
class Options:
    """A command's arguments, separated into options and operands."""

    flags: tuple[tuple[str, str | None], ...]
    operands: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        return any(flag in names for flag, _ in self.flags)

    def value(self, *names: str) -> str | None:
        """Return the last value of an option."""
        return next((value for flag, value in reversed(self.flags) if flag in names), None)


def producing_command(command: str | Sequence[str], *, directory: str) -> Command | None:
    """Return the command that produced the output, or None if that cannot be determined."""
    try:
        line = tokens(command) if isinstance(command, str) else [Word(text) for text in command]
        return _find_producer(line, directory)
    except UnreadableError:
        return None


def simple_commands(command: str | Sequence[str], *, directory: str) -> list[Command]:
    """Return the commands whose output is printed, except what only filters other output.

    What follows ``||`` is left out: it runs only if something failed. Empty if the line cannot be
    read, or changes to a directory that is not written out.
    """
    found: list[Command] = []
    try:
        line = tokens(command) if isinstance(command, str) else [Word(text) for text in command]
        for pipeline in _pipelines(_without_alternatives(line)):
            first = _simple(pipeline[0], directory)
            if first is not None and first.program == "cd":
                directory = _changed(first)
            elif first is not None:
                found.append(first)
    except UnreadableError:
        return []
    return found


def options(
    args: Sequence[Word], *, valued: str = "", long_valued: AbstractSet[str] = frozenset()
) -> Options:
    """Separate options from operands; ``valued`` are the short options that take a value."""
    flags: list[tuple[str, str | None]] = []
    operands: list[Word] = []
    waiting = list(reversed(args))
    while waiting:
        word = waiting.pop()
        if word.text == "--":
            operands += reversed(waiting)
            break
        if word.text.startswith("--"):
            name, equals, value = word.text.partition("=")
            takes = not equals and name in long_valued and waiting
            flags.append((name, waiting.pop().text if takes else value if equals else None))
        elif word.text.startswith("-") and len(word.text) > 1:
            flags += _cluster(word.text[1:], waiting, valued)
        else:
            operands.append(word)
    return Options(tuple(flags), tuple(operands))


def join_path(directory: str, name: str) -> str:
    """Return the path of a name in a directory. ``..`` is kept: only the sandbox can resolve it."""
    path = name if name.startswith("/") else f"{directory}/{name}"
    return "/" + "/".join(part for part in path.split("/") if part not in {"", "."})


def _cluster(letters: str, waiting: list[Word], valued: str) -> list[tuple[str, str | None]]:
    flags: list[tuple[str, str | None]] = []
    for at, letter in enumerate(letters):
        if letter in valued:
            rest = letters[at + 1 :]
            value = rest or (waiting.pop().text if waiting else None)
            return [*flags, (f"-{letter}", value)]
        flags.append((f"-{letter}", None))
    return flags


def _find_producer(line: Sequence[Token], directory: str) -> Command | None:
    producer: Command | None = None
    noise: set[str] = set()
    for pipeline in _pipelines(line):
        first = _simple(pipeline[0], directory)
        if first is None or (first.program in SILENT and first.program != "cd"):
            continue
        if first.program == "cd":
            directory = _changed(first)
        elif first.program == "echo" and len(pipeline) == 1:
            words = [word.text for word in first.args if word.text not in {"-n", "-e"}]
            noise.add(" ".join(words))
        elif producer is not None:
            return None
        else:
            producer = _through_filters(first, pipeline[1:])
            if producer is None:
                return None
    return producer and replace(producer, noise=frozenset(noise))


def _changed(command: Command) -> str:
    """Return the directory that ``cd`` changes to."""
    if len(command.args) != 1 or not command.args[0].literal or command.args[0].text[:1] == "-":
        raise UnreadableError("the target of cd depends on the shell's state")
    return join_path(command.directory, command.args[0].text)


def _pipelines(line: Sequence[Token]) -> list[list[list[Token]]]:
    pipelines: list[list[list[Token]]] = [[[]]]
    for token in line:
        if not isinstance(token, Operator):
            pipelines[-1][-1].append(token)
        elif token.text in {"|", "|&"}:
            pipelines[-1].append([])
        elif token.text in {"&&", "||", ";"}:
            pipelines.append([[]])
        else:
            raise UnreadableError(token.text)
    return pipelines


def _without_alternatives(line: Sequence[Token]) -> list[Token]:
    kept: list[Token] = []
    is_alternative = False
    for token in line:
        if isinstance(token, Operator) and token.text not in {"|", "|&"}:
            is_alternative = token.text == "||"
        if not is_alternative:
            kept.append(token)
    return kept


def _simple(line: Sequence[Token], directory: str) -> Command | None:
    """Return the command of one part of a pipeline, or None if its output is redirected."""
    for token in line:
        if isinstance(token, Redirection) and ">" in token.text and not token.text.startswith("2"):
            return None
    words = [token for token in line if isinstance(token, Word)]
    while words and _ASSIGNMENT.match(words[0].text):
        del words[0]
    words = _without_wrappers(words)
    if not words:
        return None
    program = words[0].text.rpartition("/")[2]
    return Command(program=program, args=tuple(words[1:]), directory=directory)


def _without_wrappers(words: list[Word]) -> list[Word]:
    while words:
        texts = [word.text for word in words]
        if texts[0] in WRAPPERS:
            rest = 1
            while rest < len(texts) and (texts[rest][:1] == "-" or _ASSIGNMENT.match(texts[rest])):
                rest += 1
            words = words[rest + WRAPPERS[texts[0]] :]
        elif tuple(texts[:2]) in RUNNERS or (_PYTHON.fullmatch(texts[0]) and texts[1:2] == ["-m"]):
            words = words[2:]
        else:
            break
    return words


def _through_filters(first: Command, rest: Sequence[Sequence[Token]]) -> Command | None:
    producer = first
    for part in rest:
        command = _simple(part, first.directory)
        if command is None:
            return None
        if command.program == "xargs":
            producer = _run_by_xargs(command)
        elif _rewrites(command) or command.program not in PICKING | BEGINNING:
            return None
        elif command.program in PICKING:
            producer = replace(producer, picked=True)
    return producer


def _rewrites(command: Command) -> bool:
    """Return whether a filter changes the lines that it passes on."""
    if command.program == "cat":
        return any(word.text.startswith("-") for word in command.args)
    if command.program in {"egrep", "fgrep", "grep", "uniq"}:
        return any(_REWRITES.fullmatch(word.text) for word in command.args)
    return False


def _run_by_xargs(command: Command) -> Command:
    rest = list(command.args)
    while rest and rest[0].text.startswith("-"):
        taken = 2 if rest[0].text in _XARGS_WITH_VALUE else 1
        del rest[:taken]
    inner = _simple(rest, command.directory)
    if inner is None:
        raise UnreadableError("xargs without a command prints its input")
    return replace(inner, args=(*inner.args, _ANY, _ANY))
