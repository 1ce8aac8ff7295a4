"""What a person sees of texts that others wrote. Prints.

Files, tools and models put any character into a name or a text. Control characters, by which they
could move the cursor or forge what a terminal shows, are written as ``\\xNN``. Into a pipe tables
are written as wide as they are: a program, or ``grep``, wants one line for each.
"""

import os
import re
import sys
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

PIPE_COLUMNS: Final = 200
"""Where nobody says how wide: more than any table needs that is not full of long texts."""

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """Return the text with its control characters spelt out; lines and tabs stay."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def print_visibly(renderable: RenderableType, *, stderr: bool = False) -> None:
    """Print for a person."""
    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    console = Console(highlight=False, stderr=stderr, width=PIPE_COLUMNS if piped else None)
    console.print(_Visible(renderable), crop=False)


@dataclass(frozen=True, slots=True)
class _Visible:
    """What it holds, without control characters of others; colours are ours and come later."""

    renderable: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.renderable, options):
            yield Segment(visible(segment.text), segment.style, segment.control)
