"""What a tool call says of files: which one it read or wrote, and which command spoke. Pure.

    read, write, edit     the path they name
    bash                  the command line, for discovery
    ls, grep, find, tree  the command that would have given such output

Harnesses name tools and arguments in their own ways; the usual ones are known here. A tool that is
not known leaves no trace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

READING: Final = frozenset({"read", "read_file", "view", "view_file", "cat"})
WRITING: Final = frozenset(
    {"write", "write_file", "edit", "edit_file", "multiedit", "multi_edit", "str_replace", "create"}
)
SHELLS: Final = frozenset({"bash", "shell", "exec", "run", "run_command"})
LISTING: Final = frozenset({"ls", "grep", "find", "tree"})

_PATHS: Final = ("path", "file_path", "filename", "file")
_COMMANDS: Final = ("command", "cmd")
_DIRECTORIES: Final = ("cwd", "workdir", "directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The files that a tool call concerns, as the agent names them."""

    read: str | None = None
    written: str | None = None
    command: str | Sequence[str] | None = None
    directory: str | None = None
    """Where the command ran; absolute."""
    failed: bool = False

    def of_a_failure(self) -> Self:
        """Return what it concerns all the same: nothing was read or written, and a compiler that
        fails names the files it failed at."""
        return replace(self, read=None, written=None, failed=True)


def trace_of(tool: str, args: Mapping[str, Any], *, directory: str | None) -> Trace:
    """Tell what a call concerns. ``directory`` is where relative paths begin; None: unknown."""
    name = tool.lower()
    path = absolute(named_path(args), directory=directory)
    if name in READING:
        return Trace(read=path)
    if name in WRITING:
        return Trace(written=path)
    where = absolute(_text(args, _DIRECTORIES) or ".", directory=directory)
    if name in SHELLS:
        return Trace(command=_command(args), directory=where)
    if name in LISTING and where is not None:
        return Trace(command=_listing(name, args), directory=where)
    return Trace()


def named_path(args: Mapping[str, Any]) -> str | None:
    """Return the path that a call's arguments name, as the agent wrote it."""
    return _text(args, _PATHS)


def absolute(path: str | None, *, directory: str | None) -> str | None:
    """Return the path from the root; None: that cannot be told."""
    if not path or (not path.startswith("/") and directory is None):
        return None
    if path.startswith("/") or path == ".":
        return directory if path == "." else path
    return f"{(directory or '').rstrip('/')}/{path}"


def _command(args: Mapping[str, Any]) -> str | Sequence[str] | None:
    given = next((args[name] for name in _COMMANDS if args.get(name)), None)
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return given
    return given if isinstance(given, str) else None


def _listing(name: str, args: Mapping[str, Any]) -> list[str]:
    path = _text(args, _PATHS) or "."
    if name == "grep":
        return ["grep", "-rnI", "-e", str(args.get("pattern", "")), "--", path]
    return ["ls", "-1Ap", "--", path] if name == "ls" else [name, path]


def _text(args: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((args[name] for name in names if isinstance(args.get(name), str)), None)
