r"""Print untrusted text safely. Writes to standard output or standard error.

Names and texts from files, tools and models may contain any character. Control characters, which
could move the cursor or forge terminal output, are printed as ``\xNN``. In a pipe, tables are not
wrapped, so that programs such as ``grep`` see one row per line.
"""

import os
import re
import sys
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

PIPE_COLUMNS: Final = 200
"""The width where none is known: more than a table without long texts needs."""

_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")


def escape_controls(text: str) -> str:
    """Return the text with control characters escaped, except line ends and tabs."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def print_escaped(renderable: RenderableType, *, stderr: bool = False) -> None:
    """Print with control characters escaped."""
    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    console = Console(highlight=False, stderr=stderr, width=PIPE_COLUMNS if piped else None)
    console.print(_Escaped(renderable), crop=False)


@dataclass(frozen=True, slots=True)
class _Escaped:
    """A renderable with its control characters escaped; colours are added later by rich."""

    renderable: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.renderable, options):
            yield Segment(escape_controls(segment.text), segment.style, segment.control)
