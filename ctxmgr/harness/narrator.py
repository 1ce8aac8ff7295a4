"""Shows a run to a person while it is in progress. Writes text as it arrives.

    Let me look.                     the model's text
    → bash  ls src                   a tool call
      ok    2 lines                  its result

Control characters in the text of models and tools are not written: they could move the cursor or
forge lines.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ctxmgr.core.model import TextDelta, ToolUse
from ctxmgr.harness.loop_events import (
    AnswerRestarted,
    BudgetReached,
    LoopEvent,
    RunOpened,
    ToolRan,
    TurnEnded,
    TurnStarted,
)

LINE_MAX: Final = 100
"""Characters of a tool call's arguments or of a failure: one terminal line."""

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Narrator:
    """Writes the events of a run as text."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._in_line = False
        self.opened = False
        """Whether there is a session that can be resumed."""

    def on_event(self, event: LoopEvent) -> None:
        match event:
            case RunOpened(session=session, turn=turn):
                self.opened = True
                self.line(f"session {session}" + (f", from turn {turn}" if turn > 1 else ""))
            case TextDelta(text=text):
                visible = _CONTROL.sub("", text)
                if visible:
                    self._write(visible)
                    self._in_line = not visible.endswith("\n")
            case ToolUse(tool=tool, args=args):
                self.line(f"→ {_cut(tool)}  {_brief(args)}")
            case AnswerRestarted(reason=reason):
                self.line(f"… {reason}; asking again")
            case ToolRan(ok=True, message=message):
                lines = len(message.splitlines())
                self.line(f"  ok    {lines} {'line' if lines == 1 else 'lines'}")
            case ToolRan(message=message):
                self.line(f"  fail  {_cut(message)}")
            case BudgetReached(max_usd=most, spent_usd=spent, next_usd=following):
                self.line(
                    f"stopped: ${spent:.4f} of ${most:.4f} spent, and the next call would cost "
                    f"about ${following:.4f}"
                )
            case TurnStarted() | TurnEnded():
                self._end_line()

    def line(self, text: str) -> None:
        """Write one line."""
        self._end_line()
        self._write(_CONTROL.sub("", text) + "\n")

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


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…"
