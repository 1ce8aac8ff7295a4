"""Which command an output is from: the one of a command line that speaks. Pure.

    cd src && ls -la | head -5      ls -la, in src; only its first lines
    mkdir -p x; grep -rn a . || echo none    grep; a line "none" is not its

Nothing is guessed: where two commands speak, or a shell would have to be asked, there is none.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from ctxmgr.core.shell_words import Operator, Redirection, Token, UnreadableError, Word, tokens

SILENT: Final = frozenset(
    {"cd", "chmod", "chown", "cp", "export", "ln", "mkdir", "mv", "rm", "rmdir", "set", "sleep"}
    | {"touch", "true", "umask", "unset", ":"}
)
"""They print nothing when all is well."""

BEGINNING: Final = frozenset({"cat", "head", "less", "more", "tee"})
"""In a pipe they let lines through from the first on."""

PICKING: Final = frozenset({"egrep", "fgrep", "grep", "sort", "tail", "uniq"})
"""In a pipe they let whole lines through, but not all or not in order."""

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
"""They run the command that follows, after so many words of their own."""

RUNNERS: Final = frozenset({("uv", "run"), ("poetry", "run"), ("pnpm", "exec"), ("npm", "exec")})

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PYTHON = re.compile(r"python[\d.]*")
_REWRITES = re.compile(r"-[A-Za-z]*[nobcHlLZ]|--(?:line-number|only-matching|count|files-with.*)")
_XARGS_WITH_VALUE: Final = frozenset({"-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"})
_ANY: Final = Word("*", literal=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command whose output is at hand."""

    program: str
    args: tuple[Word, ...]
    directory: str
    """The agent path it ran in."""
    picked: bool = False
    """True: lines may be missing before and between those at hand."""
    noise: frozenset[str] = frozenset()
    """Lines that others said."""


@dataclass(frozen=True, slots=True)
class Options:
    """A command's arguments, sorted."""

    flags: tuple[tuple[str, str | None], ...]
    operands: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        return any(flag in names for flag, _ in self.flags)

    def value(self, *names: str) -> str | None:
        """The last value given."""
        return next((value for flag, value in reversed(self.flags) if flag in names), None)


def speaking(command: str | Sequence[str], *, directory: str) -> Command | None:
    """Return the command that an output is from; None where that cannot be told."""
    try:
        line = tokens(command) if isinstance(command, str) else [Word(each) for each in command]
        return _speaking(line, directory)
    except UnreadableError:
        return None


def options(
    args: Sequence[Word], *, valued: str = "", long_valued: AbstractSet[str] = frozenset()
) -> Options:
    """Sort arguments; ``valued`` are the short options that take a value."""
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


def joined(directory: str, name: str) -> str:
    """Return the path of a name in a folder. ``..`` stays: only the sandbox knows what is above."""
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


def _speaking(line: Sequence[Token], directory: str) -> Command | None:
    found: Command | None = None
    noise: set[str] = set()
    for pipeline in _pipelines(line):
        first = _simple(pipeline[0], directory)
        if first is None or (first.program in SILENT and first.program != "cd"):
            continue
        if first.program == "cd":
            directory = _entered(first)
        elif first.program == "echo" and len(pipeline) == 1:
            noise.add(_said(first))
        elif found is not None:
            return None
        else:
            found = _piped(first, pipeline[1:])
            if found is None:
                return None
    return found and replace(found, noise=frozenset(noise))


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


def _simple(line: Sequence[Token], directory: str) -> Command | None:
    """Return the command of one part; None if it says nothing here."""
    for token in line:
        if isinstance(token, Redirection) and ">" in token.text and not token.text.startswith("2"):
            return None
    words = [token for token in line if isinstance(token, Word)]
    while words and _ASSIGNMENT.match(words[0].text):
        del words[0]
    words = _unwrapped(words)
    if not words:
        return None
    program = words[0].text.rpartition("/")[2]
    return Command(program=program, args=tuple(words[1:]), directory=directory)


def _unwrapped(words: list[Word]) -> list[Word]:
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


def _entered(command: Command) -> str:
    if len(command.args) != 1 or not command.args[0].literal or command.args[0].text[:1] == "-":
        raise UnreadableError("cd to where only the shell knows")
    return joined(command.directory, command.args[0].text)


def _said(command: Command) -> str:
    words = [word.text for word in command.args if word.text not in {"-n", "-e"}]
    return " ".join(words)


def _piped(first: Command, rest: Sequence[Sequence[Token]]) -> Command | None:
    found = first
    for part in rest:
        command = _simple(part, first.directory)
        if command is None:
            return None
        if command.program == "xargs":
            found = _given_names(command)
        elif _rewrites(command) or command.program not in PICKING | BEGINNING:
            return None
        elif command.program in PICKING:
            found = replace(found, picked=True)
    return found


def _rewrites(command: Command) -> bool:
    """Tell whether it changes the lines that it lets through."""
    if command.program == "cat":
        return any(word.text.startswith("-") for word in command.args)
    if command.program in {"egrep", "fgrep", "grep", "uniq"}:
        return any(_REWRITES.fullmatch(word.text) for word in command.args)
    return False


def _given_names(command: Command) -> Command:
    rest = list(command.args)
    while rest and rest[0].text.startswith("-"):
        taken = 2 if rest[0].text in _XARGS_WITH_VALUE else 1
        del rest[:taken]
    inner = _simple(rest, command.directory)
    if inner is None:
        raise UnreadableError("xargs alone echoes words")
    return replace(inner, args=(*inner.args, _ANY, _ANY))
