"""Find the files that a command line prints: the operands of ``cat``, ``head`` and the like. Pure.

    cd src && cat a.py | head -5        src/a.py
    ls && sed -n '1,20p' README.md      README.md

Only what is written out counts: patterns, variables, what a shell would compute and what runs only
if something failed are left out.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ctxmgr.core.discovery.command_line import (
    Command,
    join_path,
    options,
    simple_commands,
)

READ_MAX: Final = 50
"""Files taken from one command line."""

_VALUED: Final = {
    "bat": "lrH",
    "cat": "",
    "head": "cn",
    "less": "",
    "more": "",
    "nl": "bdfhilnpsvw",
    "sed": "efl",
    "tac": "s",
    "tail": "cn",
}
"""Programs that print files, each with its options that take a value."""


def read_files(command: str | Sequence[str], *, directory: str) -> tuple[str, ...]:
    """Return the paths that a command line reads, each once, in order."""
    found: dict[str, None] = {}
    for simple in simple_commands(command, directory=directory):
        for name in _operands(simple):
            found[join_path(simple.directory, name)] = None
    return tuple(found)[:READ_MAX]


def _operands(command: Command) -> Iterator[str]:
    if command.program not in _VALUED:
        return
    opts = options(command.args, valued=_VALUED[command.program])
    operands = opts.operands
    if command.program == "sed":
        if opts.has("-i", "--in-place"):
            return
        operands = operands if opts.has("-e", "-f", "--expression", "--file") else operands[1:]
    for word in operands:
        if word.literal and word.text != "-" and "\0" not in word.text:
            yield word.text
