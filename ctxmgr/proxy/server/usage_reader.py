"""Reads the usage in an answer while it passes by, and keeps a copy of the answer. Pure.

    Anthropic    message_start has the prompt's counts, message_delta the final ones
    OpenAI Chat  the last chunk has them, if the client asked for usage
    Responses    response.completed has them
    not a stream the JSON body has them

Only events that contain the word ``usage`` are parsed. A line longer than ``LINE_BYTES_MAX`` is
skipped, and of an answer at most ``ANSWER_BYTES_MAX`` are kept.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from ctxmgr.core.model import Usage, read_usage

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Kept of an answer for the record; the longest answers of models have about one."""

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one line of a stream: Responses repeats the whole answer in its last event."""

_DATA: Final = b"data:"
_USAGE: Final = b'"usage"'


class UsageReader:
    """Reads one answer, piece by piece."""

    def __init__(self, *, streamed: bool) -> None:
        self.streamed = streamed
        self._kept = bytearray()
        self._line = bytearray()
        self._skipping = False
        self._reported: dict[str, Any] = {}
        self.model: str | None = None
        """The model that answered, if the answer names it."""
        self.complete_copy = True
        """Whether ``answer`` is the whole answer."""

    def feed(self, data: bytes) -> None:
        """Add the next bytes, decompressed."""
        room = ANSWER_BYTES_MAX - len(self._kept)
        self._kept += data[:room]
        self.complete_copy = self.complete_copy and len(data) <= room
        if self.streamed:
            self._scan(data)

    def usage(self) -> Usage | None:
        """Return the usage that was reported so far; None if there was none."""
        if self.streamed:
            self._end_line()
        elif not self._reported:
            self._note(bytes(self._kept))
        return read_usage(self._reported)

    @property
    def answer(self) -> bytes:
        """The answer as it came, decompressed, up to ``ANSWER_BYTES_MAX``."""
        return bytes(self._kept)

    def _scan(self, data: bytes) -> None:
        """Read the lines that report usage. All others are skipped without being split."""
        start, rest = data.find(b"\n") + 1, data.rfind(b"\n") + 1
        if start:
            self._add(data[: start - 1])
            self._end_line()
        while (found := data.find(_USAGE, start, rest)) >= 0:
            end = data.index(b"\n", found)
            self._add(data[data.rindex(b"\n", 0, found) + 1 : end])
            self._end_line()
            start = end + 1
        self._add(data[rest:])

    def _add(self, part: bytes) -> None:
        if len(self._line) + len(part) > LINE_BYTES_MAX:
            self._skipping = True
            self._line.clear()
        if not self._skipping:
            self._line += part

    def _end_line(self) -> None:
        if not self._skipping and self._line.startswith(_DATA) and _USAGE in self._line:
            self._note(bytes(self._line[len(_DATA) :]))
        self._line.clear()
        self._skipping = False

    def _note(self, data: bytes) -> None:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            return  # what is no JSON has no usage
        for holder in (event, *_inner(event)):
            if not isinstance(holder, Mapping):
                continue
            model, usage = holder.get("model"), holder.get("usage")
            if isinstance(model, str):
                self.model = model
            if isinstance(usage, Mapping):
                self._reported.update(
                    {name: value for name, value in usage.items() if value is not None}
                )


def _inner(event: object) -> tuple[object, ...]:
    """Return the parts of an event that may hold the usage."""
    if not isinstance(event, Mapping):
        return ()
    return event.get("message"), event.get("response")
