"""What a tool call does, by the names of the tool and its arguments. Pure.

    trace_of      the files that it read or wrote, or the command line for discovery
    output_kind   what its output is: a file, search results, a confirmation, a command's output

Harnesses name tools and arguments differently; the common names are listed here. An unknown tool
has an empty trace and output of the kind ``other``.

Folding shortens outputs by kind: for what it costs, the text of a file is used again far more often
than the output of a test run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self

READING: Final = frozenset({"read", "read_file", "view", "view_file", "cat"})
WRITING: Final = frozenset(
    {"write", "write_file", "edit", "edit_file", "multiedit", "multi_edit", "str_replace", "create"}
)
SHELLS: Final = frozenset({"bash", "shell", "exec", "run", "run_command"})
LISTING: Final = frozenset({"ls", "grep", "find", "tree"})

READING_ALSO: Final = frozenset({"open_file", "readfile"})
WRITING_ALSO: Final = frozenset(
    {"create_file", "notebookedit", "replace", "replace_in_file", "writefile", "write_to_file"}
)
SHELLS_ALSO: Final = frozenset(
    {"exec_command", "execute_bash", "execute_command", "run_in_terminal", "run_shell_command"}
    | {"run_terminal_cmd", "shell_command"}
)
LISTING_ALSO: Final = frozenset({"glob", "list_dir", "list_directory", "list_files"})
"""Further names, of Claude Code, Codex, opencode, Gemini CLI, OpenHands, Cline, Cursor and
Copilot."""

SEARCHING: Final = frozenset({"grep", "grep_search", "search_file_content", "search_files"})
"""Tools whose output is matching lines. They are not all traced: their arguments differ."""

EDITORS: Final = frozenset({"str_replace_based_edit_tool", "str_replace_editor"})
"""Anthropic's text editor, whose argument ``command`` says what it does."""

PATCHING: Final = frozenset({"apply_patch"})
"""Codex's tool, whose argument is a patch of several files."""

PATCHED_MAX: Final = 100
"""Files of one patch that are taken from it."""

_PATHS: Final = ("path", "file_path", "filename", "file")
_PATHS_ALSO: Final = (*_PATHS, "filePath", "notebook_path", "target_file")
_COMMANDS: Final = ("command", "cmd")
_PATCHES: Final = ("input", "patch")
_UNPARSED: Final = "raw"
"""Arguments that are not a JSON object are recorded under this name. They determine the kind of the
output, but no paths are taken from it."""
_DIRECTORIES: Final = ("cwd", "workdir", "directory")
_READERS: Final = frozenset({"cat", "head", "tail", "sed", "nl", "less", "more", "awk", "bat"})
_SEARCHERS: Final = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack"})
_SETTING_UP: Final = frozenset({"cd", "export", "source", "set", ".", "sudo", "time", "timeout"})
_HEADINGS: Final = frozenset({"echo", "printf"})
"""Commands that print a line before the output of the next one."""

_IN_SHELL = re.compile(r"(?:\S*/)?(?:ba|da|z)?sh\s+-\w*c\s+")
_THEN_SEARCHED = re.compile(r"\|\s*(?:[ef]?grep|rg)\s")
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_PARTS = re.compile(r"&&|\|\||;|\n")
_WORD = re.compile(r"[^\s|<>&;]+")
_IN_PLACE = re.compile(r"\bsed\s+(?:-\w+\s+)*(?:-\w*i|--in-place)|<<|>\s*[\w/.]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The files that a tool call uses, as agent paths."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    command: str | Sequence[str] | None = None
    """The command line whose output may contain paths."""
    directory: str | None = None
    """The absolute path that the command ran in."""
    failed: bool = False

    def as_failed(self) -> Self:
        """Return the trace of the same call if it failed.

        It read and wrote nothing, but the output of a failed compiler contains paths.
        """
        return replace(self, reads=(), writes=(), failed=True)


class OutputKind(StrEnum):
    """What an output is."""

    READ = "read"
    """The text of a file."""
    SEARCH = "search"
    """Matching lines of files."""
    WRITE = "write"
    """The confirmation of a change."""
    RUN = "run"
    """The output of a command: tests, listings, version control."""
    OTHER = "other"
    """The answer of an unknown tool."""
    ARGUMENT = "argument"
    """Not an output, but a long argument of the call."""


def trace_of(tool: str, args: Mapping[str, Any], *, directory: str | None) -> Trace:
    """Return which files a call uses. ``directory`` is the base of relative paths, if known."""
    name = tool.lower()
    path = absolute(_text(args, _PATHS_ALSO), directory=directory)
    paths = () if path is None else (path,)
    if name in READING | READING_ALSO or (name in EDITORS and args.get("command") == "view"):
        return Trace(reads=paths)
    if name in WRITING | WRITING_ALSO | EDITORS:
        return Trace(writes=paths)
    if name in PATCHING:
        return Trace(writes=_patched(args, directory=directory))
    base = absolute(_text(args, _DIRECTORIES) or ".", directory=directory)
    if name in SHELLS | SHELLS_ALSO:
        return Trace(command=_command(args), directory=base)
    if name in LISTING | LISTING_ALSO and base is not None:
        return Trace(command=_equivalent_command(name, args), directory=base)
    return Trace()


def output_kind(tool: str, args: Mapping[str, Any]) -> OutputKind:
    """Return what the output of a call is."""
    name = tool.lower()
    if name in READING | READING_ALSO or (name in EDITORS and args.get("command") == "view"):
        return OutputKind.READ
    if name in WRITING | WRITING_ALSO | EDITORS | PATCHING:
        return OutputKind.WRITE
    if name in SHELLS | SHELLS_ALSO:
        command = command_text(args)
        return OutputKind.RUN if command is None else _kind_of_command(command)
    if name in SEARCHING:
        return OutputKind.SEARCH
    return OutputKind.RUN if name in LISTING | LISTING_ALSO else OutputKind.OTHER


def command_text(args: Mapping[str, Any]) -> str | None:
    """Return the script that a call of a shell runs: for ``bash -lc "cat a.py"``, ``cat a.py``."""
    command = next((args[key] for key in (*_COMMANDS, _UNPARSED) if key in args), "")
    if isinstance(command, list):
        command = " ".join(map(str, command))
    if not isinstance(command, str):
        return None
    inner = _IN_SHELL.match(command)
    return command if inner is None else command[inner.end() :].strip("'\"")


def named_path(args: Mapping[str, Any]) -> str | None:
    """Return the path in a call's arguments, as the agent wrote it."""
    return _text(args, _PATHS_ALSO)


def absolute(path: str | None, *, directory: str | None) -> str | None:
    """Return an absolute path, or None if the path is relative and the directory unknown."""
    if not path or (not path.startswith("/") and directory is None):
        return None
    if path.startswith("/") or path == ".":
        return directory if path == "." else path
    return f"{(directory or '').rstrip('/')}/{path}"


def _patched(args: Mapping[str, Any], *, directory: str | None) -> tuple[str, ...]:
    """Return the files that a patch adds, changes, deletes or moves."""
    names = dict.fromkeys(_PATCHED.findall(_text(args, _PATCHES) or ""))
    paths = (absolute(name, directory=directory) for name in names)
    return tuple(path for path in paths if path is not None)[:PATCHED_MAX]


def _command(args: Mapping[str, Any]) -> str | Sequence[str] | None:
    command = next((args[name] for name in _COMMANDS if args.get(name)), None)
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return command
    return command if isinstance(command, str) else None


def _equivalent_command(name: str, args: Mapping[str, Any]) -> list[str]:
    """Return the command whose output has the form of a listing tool's."""
    path = _text(args, _PATHS) or "."
    if name == "grep":
        return ["grep", "-rnI", "-e", str(args.get("pattern", "")), "--", path]
    if name == "glob":  # prints absolute paths, wherever it searched
        return ["find", "/"]
    return [name, path] if name in {"find", "tree"} else ["ls", "-1Ap", "--", path]


def _text(args: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((args[name] for name in names if isinstance(args.get(name), str)), None)


def _kind_of_command(command: str) -> OutputKind:
    # Deliberately not parsed with shell_words: a wrong guess only changes how much is shown, and
    # commands that it cannot read need a kind, too.
    if _IN_PLACE.search(command):
        return OutputKind.RUN
    for part in _PARTS.split(command):
        words = _WORD.findall(part)
        if not words or words[0] in _SETTING_UP | _HEADINGS:
            continue
        if words[0] in _READERS:
            return OutputKind.SEARCH if _THEN_SEARCHED.search(part) else OutputKind.READ
        return OutputKind.SEARCH if words[0] in _SEARCHERS else OutputKind.RUN
    return OutputKind.RUN
