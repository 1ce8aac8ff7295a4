"""What a tool call is for, as far as its output is concerned. Pure.

A file that was read is used again far more often, for what it costs, than what a test run printed;
so how short an output becomes depends on this.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from ctxmgr.core.tool_traces import LISTING, READING, SHELLS, WRITING

_COMMANDS: Final = ("command", "cmd", "raw")
_READERS: Final = frozenset({"cat", "head", "tail", "sed", "nl", "less", "more", "awk", "bat"})
_SEARCHERS: Final = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack"})
_SETTING_UP: Final = frozenset({"cd", "export", "source", "set", ".", "sudo", "time", "timeout"})
_PARTS = re.compile(r"&&|\|\||;|\n")
_WORD = re.compile(r"[^\s|<>&;]+")
_IN_PLACE = re.compile(r"\bsed\s+(?:-\w+\s+)*(?:-\w*i|--in-place)|<<|>\s*[\w/.]")


class Kind(StrEnum):
    """What an output is."""

    READ = "read"
    """A file's text."""
    SEARCH = "search"
    """Lines of files that match."""
    WRITE = "write"
    """The confirmation of a change."""
    RUN = "run"
    """What a command printed: tests, listings, version control."""
    OTHER = "other"
    """The answer of a tool that nothing is known of."""
    ARGUMENT = "argument"
    """No output: a long argument of the call itself."""


def kind_of(tool: str, args: Mapping[str, Any]) -> Kind:
    """Tell what the output of a call is."""
    name = tool.lower()
    if name in READING:
        return Kind.READ
    if name in WRITING:
        return Kind.WRITE
    if name in SHELLS:
        return _kind_of_command(_command(args))
    if name in LISTING:
        return Kind.SEARCH if name == "grep" else Kind.RUN
    return Kind.OTHER


def _command(args: Mapping[str, Any]) -> str:
    command = next((args[each] for each in _COMMANDS if each in args), "")
    return command if isinstance(command, str) else " ".join(map(str, command))


def _kind_of_command(command: str) -> Kind:
    if _IN_PLACE.search(command):
        return Kind.RUN
    for part in _PARTS.split(command):
        words = _WORD.findall(part)
        if not words or words[0] in _SETTING_UP:
            continue
        if words[0] in _READERS:
            return Kind.READ
        return Kind.SEARCH if words[0] in _SEARCHERS else Kind.RUN
    return Kind.RUN
