"""Discovery: the files that a tool's output names. Pure.

    command line, where it ran, what it printed ─► agent paths, each once, in order

Each tool has a parser of its own, which knows where its names begin and end and which folder they
are in. They are candidates: whether a path exists, and as a regular file, is for the client to ask
where the agent lives. What no parser understands gives nothing, and nothing is guessed.

``..`` stays in a path: where links are, only the sandbox knows what is above a folder.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ctxmgr.core.commandlines import Command, joined, speaking
from ctxmgr.core.diagnostics import TOOLS, diagnosed
from ctxmgr.core.git_listings import git_named
from ctxmgr.core.listings import listed
from ctxmgr.core.matches import GREPS, matched
from ctxmgr.core.tree_listings import drawn, walked
from ctxmgr.errors import Incorrect

OUTPUT_LENGTH_MAX: Final = 10_000_000
"""Characters of an output that are looked at: a listing of 100,000 long paths."""

CANDIDATES_MAX: Final = 100_000
"""Paths from one output; each becomes an object."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def discover(
    command: str | Sequence[str],
    *,
    directory: str,
    output: str,
    terminal: bool = False,
    repository: str | None = None,
    failed: bool = False,
) -> tuple[str, ...]:
    """Return the paths that an output names.

    ``directory`` is where the command ran, as the agent names it; ``terminal`` says that it wrote
    to one, for which tools write otherwise; ``repository`` is git's top folder, if known. Of a
    command that ``failed`` only diagnostics are read: what else it printed may be a complaint.
    """
    if not directory.startswith("/"):
        raise Incorrect(f"a command's directory is absolute, not {directory!r:.200}")
    known = speaking(command, directory=directory)
    if known is None or (failed and known.program not in TOOLS):
        return ()
    text = _COLOUR.sub("", output[:OUTPUT_LENGTH_MAX])
    if terminal:
        text = text.replace("\r\n", "\n")
    if known.noise:
        text = "\n".join(line for line in text.split("\n") if line not in known.noise)
    found: dict[str, None] = {}
    for name in _named(known, text, terminal=terminal, repository=repository):
        if len(found) >= CANDIDATES_MAX:
            break
        if _can_be_a_file(name):
            found[joined(known.directory, name)] = None
    return tuple(found)


def _named(
    command: Command, output: str, *, terminal: bool, repository: str | None
) -> Iterator[str]:
    program = command.program
    found: Iterator[str] = iter(())
    if program in {"ls", "gls"}:
        found = listed(command, output, terminal=terminal)
    elif program in {"find", "gfind"}:
        found = walked(command, output)
    elif program == "tree":
        found = drawn(command, output)
    elif program == "git":
        found = git_named(command, output, repository=repository)
    elif program == "rg" or program in GREPS:
        found = matched(command, output, terminal=terminal)
    elif program in TOOLS:
        found = diagnosed(command, output)
    return found


def _can_be_a_file(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last not in {"", ".", ".."} and "\0" not in name and not _SCHEME.match(name)
