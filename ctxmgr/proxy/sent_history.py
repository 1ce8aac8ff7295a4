"""The messages of a conversation as they were forwarded, one after the other. Pure.

A request repeats all messages of the one before. Their bytes are therefore kept with the position
at which each message ends, and only those that are new, or differ, are written.
"""

from collections.abc import Callable, Mapping, Sequence

from ctxmgr.proxy.requests import Entry
from ctxmgr.proxy.wire.json_spans import ByteSpan


class SentHistory:
    """Messages and what is between them, from the first byte of the first one on."""

    def __init__(self) -> None:
        self._entries: tuple[Entry, ...] = ()
        self._spans: tuple[ByteSpan, ...] = ()
        self._bytes = bytearray()
        self._starts: list[int] = []
        """Where each message starts in ``_bytes``: a client may space the same messages anew."""
        self._ends: list[int] = []
        """Where each message ends in ``_bytes``."""

    def forget(self, start: int) -> None:
        """Write the messages from an index on again."""
        if start < len(self._ends):
            del self._starts[start:], self._ends[start:]
            del self._bytes[self._ends[-1] if self._ends else 0 :]

    def update(
        self,
        body: bytes,
        entries: tuple[Entry, ...],
        spans: tuple[ByteSpan, ...],
        *,
        written: Callable[[int, Entry], bytes],
    ) -> None:
        """Hold these messages; ``written`` returns one as it is forwarded."""
        self.forget(self._same(entries, spans))
        for index in range(len(self._ends), len(entries)):
            if index:
                self._bytes += body[spans[index - 1].end : spans[index].start]
            self._starts.append(len(self._bytes))
            self._bytes += written(index, entries[index])
            self._ends.append(len(self._bytes))
        self._entries, self._spans = entries, spans

    def text(self, changes: Mapping[int, Callable[[bytes], bytes]]) -> bytes:
        """Return all messages; some of them are changed in this request only."""
        pieces, position = list[bytes](), 0
        for index in sorted(changes):
            start = self._starts[index]
            pieces += (
                bytes(self._bytes[position:start]),
                changes[index](bytes(self._bytes[start : self._ends[index]])),
            )
            position = self._ends[index]
        return b"".join([*pieces, bytes(self._bytes[position:])])

    def _same(self, entries: Sequence[Entry], spans: Sequence[ByteSpan]) -> int:
        """Return how many messages at the beginning are those that were written before."""
        limit = min(len(entries), len(self._ends))
        if not limit:
            return 0
        by = spans[0].start - self._spans[0].start
        if not by and self._entries[:limit] == entries[:limit]:  # compares identities first
            same = limit
        else:
            pairs = zip(entries[:limit], self._entries, strict=False)
            same = next((at for at, (new, old) in enumerate(pairs) if new.raw != old.raw), limit)
        if same and spans[same - 1].end - by != self._spans[same - 1].end:
            return 0  # what is between the messages differs
        return same
