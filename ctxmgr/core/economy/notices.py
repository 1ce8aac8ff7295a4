"""Notices of active files that entered, changed or left since the last prompt. Pure.

[#7 src/a.py]              a file's text, shown for the first time
[#7 src/a.py changed]      the difference to the text that was shown, or all if that is shorter
[#7 src/a.py put away]     a file that is not active any more
[#4 bash again, in full]   an output that was folded, and is requested in full
[#4 bash ok {"command":"make"}: again, in full]
                           the same, if its turn is part of a summary
[#5 bash ok {"command":"make"}: its turn was interrupted]
                           a call of a process that was killed before the turn ended
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ctxmgr.core.context.lines import escaped
from ctxmgr.core.economy.stream_turns import Notice
from ctxmgr.core.objects.hashes import sha256
from ctxmgr.core.objects.toolcall import ToolCall

DIFF_CHARS_MAX: Final = 200_000
"""Comparing longer texts would delay the next call too much."""

ARGS_CHARS_MAX: Final = 300
"""Of the arguments in the heading of a call that was interrupted."""

_CONTEXT_LINES: Final = 1


def entered(handle: str, object_id: str, *, path: str, content: str) -> Notice:
    return Notice(
        handle=handle, object_id=object_id, heading=f"[{handle} {escaped(path)}]", content=content
    )


def changed(handle: str, object_id: str, *, path: str, before: str | None, content: str) -> Notice:
    """Return the notice of a file's new text; ``before`` is the shown one, None if unknown."""
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


def interrupted_call(handle: str, call: ToolCall, *, args: str, output: str) -> Notice:
    return _call(handle, call, "its turn was interrupted", args=args, output=output)


def shown_again(handle: str, call: ToolCall, *, args: str, output: str) -> Notice:
    """Return the notice of a call that is requested, and whose turn is part of a summary."""
    return _call(handle, call, "again, in full", args=args, output=output)


def _call(handle: str, call: ToolCall, why: str, *, args: str, output: str) -> Notice:
    shown = args if len(args) <= ARGS_CHARS_MAX else f"{args[:ARGS_CHARS_MAX]}…"
    heading = f"[{handle} {escaped(call.tool)} {call.status} {escaped(shown)}: {why}]"
    return Notice(handle=handle, object_id=call.object_id, heading=heading, content=output)


def _difference(before: str, content: str) -> str | None:
    if len(before) + len(content) > DIFF_CHARS_MAX:
        return None
    lines = difflib.unified_diff(
        before.splitlines(), content.splitlines(), lineterm="", n=_CONTEXT_LINES
    )
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveFile:
    """A file that is shown in full."""

    object_id: str
    path: str
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Text:
    hash: str
    content: str | None
    """None: shown by an earlier client, and not in the store any more."""
    path: str


class ShownFiles:
    """The texts of active files as they were last shown."""

    def __init__(self) -> None:
        self._shown: dict[str, _Text] = {}
        self._handles: dict[str, str] = {}

    def hashes(self) -> dict[str, str]:
        """Return the hash of each text, for a record."""
        return {object_id: text.hash for object_id, text in self._shown.items()}

    def restore(
        self,
        hashes: Mapping[str, str],
        notices: Iterable[Notice],
        *,
        texts: Mapping[str, str],
        paths: Mapping[str, str],
    ) -> None:
        """Restore what a record says was shown; ``texts`` and ``paths`` by object, if known."""
        self._shown = {
            object_id: _Text(hashed, texts.get(object_id), paths.get(object_id, object_id))
            for object_id, hashed in hashes.items()
        }
        self._handles.update((notice.object_id, notice.handle) for notice in notices)

    def learn(self, notices: Iterable[Notice]) -> None:
        """Note the handles of files that other notices have shown."""
        for notice in notices:
            self._handles.setdefault(notice.object_id, notice.handle)

    def is_shown(self, file: ActiveFile) -> bool:
        """Return whether the text of a file was shown, by a notice or by a call of the agent."""
        before = self._shown.get(file.object_id)
        return before is not None and before.hash == sha256(file.content.encode())

    def notices(
        self,
        active: Iterable[ActiveFile],
        *,
        touched: Collection[str],
        next_handle: Callable[[], str],
    ) -> Iterator[Notice]:
        """Yield a notice for every file that entered, changed or left.

        ``touched`` are files that the agent has just read or written: its own tool calls show them.
        ``next_handle`` is called once per new file, after the previous notice was consumed.
        """
        current = {file.object_id: file for file in active}
        for object_id in [object_id for object_id in self._shown if object_id not in current]:
            text = self._shown.pop(object_id)
            if object_id in self._handles:
                yield left(self._handles[object_id], object_id, path=text.path)
        for file in current.values():
            before = self._shown.get(file.object_id)
            hashed = sha256(file.content.encode())
            self._shown[file.object_id] = _Text(hashed, file.content, file.path)
            if file.object_id in touched or (before is not None and before.hash == hashed):
                continue
            handle = self._handles.get(file.object_id) or next_handle()
            self._handles[file.object_id] = handle
            if before is None:
                yield entered(handle, file.object_id, path=file.path, content=file.content)
            else:
                yield changed(
                    handle,
                    file.object_id,
                    path=file.path,
                    before=before.content,
                    content=file.content,
                )
