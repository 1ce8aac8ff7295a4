"""What entered, changed or left since the last prompt, in words. Pure.

[#7 src/a.py]              a file's text, shown for the first time
[#7 src/a.py changed]      what differs from what was shown, or all if that is less
[#7 src/a.py put away]
[#4 bash again, in full]   an output that was folded and is wanted after all
"""

import difflib
from typing import Final

from ctxmgr.core.lines import escaped
from ctxmgr.core.stream_turns import Notice

DIFF_CHARS_MAX: Final = 200_000
"""Comparing longer texts takes too long for what stands between an agent and its next call."""

_CONTEXT_LINES: Final = 1


def entered(handle: str, object_id: str, *, path: str, content: str) -> Notice:
    return Notice(
        handle=handle, object_id=object_id, heading=f"[{handle} {escaped(path)}]", content=content
    )


def changed(handle: str, object_id: str, *, path: str, before: str | None, content: str) -> Notice:
    """Tell of a file's new text; ``before`` is what was shown, None: not known any more."""
    difference = None if before is None else _difference(before, content)
    shorter = difference is not None and len(difference) < len(content)
    return Notice(
        handle=handle,
        object_id=object_id,
        heading=f"[{handle} {escaped(path)} changed]",
        content=difference if difference is not None and shorter else content,
    )


def left(handle: str, object_id: str, *, path: str) -> Notice:
    return Notice(
        handle=handle, object_id=object_id, heading=f"[{handle} {escaped(path)} put away]"
    )


def asked_back(handle: str, object_id: str, *, content: str) -> Notice:
    return Notice(
        handle=handle, object_id=object_id, heading=f"[{handle} again, in full]", content=content
    )


def _difference(before: str, content: str) -> str | None:
    if len(before) + len(content) > DIFF_CHARS_MAX:
        return None
    lines = difflib.unified_diff(
        before.splitlines(), content.splitlines(), lineterm="", n=_CONTEXT_LINES
    )
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))
