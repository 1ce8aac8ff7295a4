"""Find the file paths in a tool's output. Pure.

    command line, directory, output ─► agent paths, each once, in order

Each tool has its own parser, which knows where names begin and end and which directory they are
relative to. The paths are candidates: the client checks which of them are regular files. Output
that no parser understands yields no paths; nothing is guessed.

``..`` is kept in paths: if there are symbolic links, only the sandbox can resolve it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ctxmgr.core.discovery.command_line import Command, join_path, producing_command
from ctxmgr.core.discovery.compilers import TOOLS, diagnostic_paths
from ctxmgr.core.discovery.find_tree import find_paths, tree_paths
from ctxmgr.core.discovery.git import git_paths
from ctxmgr.core.discovery.grep import GREPS, grep_paths
from ctxmgr.core.discovery.ls import ls_paths
from ctxmgr.errors import Incorrect

OUTPUT_LENGTH_MAX: Final = 10_000_000
"""Characters of an output that are parsed: a listing of 100,000 long paths."""

CANDIDATES_MAX: Final = 100_000
"""Paths taken from one output; each becomes an object."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def discover(
    command: str | Sequence[str],
    *,
    directory: str,
    output: str,
    failed: bool = False,
) -> tuple[str, ...]:
    """Return the paths in the output of a command.

    ``directory`` is the agent path that the command ran in. If the command ``failed``, only the
    output of compilers and test runners is parsed; other output may be an error message.
    """
    if not directory.startswith("/"):
        raise Incorrect(f"the command's directory {directory!r:.200} is not absolute")
    producer = producing_command(command, directory=directory)
    if producer is None or (failed and producer.program not in TOOLS):
        return ()
    text = _COLOUR.sub("", output[:OUTPUT_LENGTH_MAX])
    if producer.noise:
        text = "\n".join(line for line in text.split("\n") if line not in producer.noise)
    paths: dict[str, None] = {}
    for name in _parse(producer, text):
        if len(paths) >= CANDIDATES_MAX:
            break
        last = name.rpartition("/")[2]
        if last not in {"", ".", ".."} and "\0" not in name and not _SCHEME.match(name):
            paths[join_path(producer.directory, name)] = None
    return tuple(paths)


def _parse(command: Command, output: str) -> Iterator[str]:
    program = command.program
    if program in {"ls", "gls"}:
        return ls_paths(command, output)
    if program in {"find", "gfind"}:
        return find_paths(command, output)
    if program == "tree":
        return tree_paths(command, output)
    if program == "git":
        return git_paths(command, output)
    if program == "rg" or program in GREPS:
        return grep_paths(command, output)
    if program in TOOLS:
        return diagnostic_paths(command, output)
    return iter(())
