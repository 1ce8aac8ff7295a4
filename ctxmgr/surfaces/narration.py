"""What a person sees of a run while it goes on. Writes text as it comes.

    Let me look.                     the model's words
    → bash  ls src                   a tool call
      ok    2 lines                  what came of it

What models and tools say is text of others: control characters, by which it could move the cursor
or forge lines of ours, are not written.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ctxmgr.core.model import Called, Said
from ctxmgr.harness.happenings import Began, Finished, Happening, Lost, Opened, Ran

LINE_MAX: Final = 100
"""Characters of a tool call's arguments and of a failure: a line of a terminal."""

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Narrator:
    """Tells a run."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._in_line = False
        self.opened = False
        """Whether there is a session to go on with."""

    def hear(self, happening: Happening) -> None:
        match happening:
            case Opened(session=session, turn=turn):
                self.opened = True
                self.line(f"session {session}" + (f", from turn {turn}" if turn > 1 else ""))
            case Said(text=text):
                self._say(text)
            case Called(tool=tool, args=args):
                self.line(f"→ {_cut(tool)}  {_brief(args)}")
            case Lost(reason=reason):
                self.line(f"… {reason}; asking again")
            case Ran(ok=True, message=message):
                self.line(f"  ok    {_size(message)}")
            case Ran(message=message):
                self.line(f"  fail  {_cut(message)}")
            case Began() | Finished():
                self._end_line()

    def line(self, text: str) -> None:
        """Write a line of its own."""
        self._end_line()
        self._write(_CONTROL.sub("", text) + "\n")

    def _say(self, text: str) -> None:
        shown = _CONTROL.sub("", text)
        if shown:
            self._write(shown)
            self._in_line = not shown.endswith("\n")

    def _end_line(self) -> None:
        if self._in_line:
            self._write("\n")
            self._in_line = False


def _brief(args: Mapping[str, Any] | str) -> str:
    if isinstance(args, str):
        return _cut(args)
    if len(args) == 1:
        (only,) = args.values()
        return _cut(only if isinstance(only, str) else json.dumps(only, ensure_ascii=False))
    return _cut(json.dumps(dict(args), ensure_ascii=False))


def _size(message: str) -> str:
    lines = len(message.splitlines())
    return "1 line" if lines == 1 else f"{lines} lines"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…"
