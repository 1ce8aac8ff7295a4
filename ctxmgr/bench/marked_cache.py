"""What a request costs where a cache holds only prefixes that were marked. Pure.

Anthropic's keeps an entry where a block with ``cache_control`` ended, and finds one that ends at
such a block or at most ``LOOKBACK_BLOCKS`` before it. (Its minimum length and time to live are left
out, as in every other figure here.)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ctxmgr.core.canonical import canonical
from ctxmgr.core.folding import Count
from ctxmgr.core.hashes import sha256
from ctxmgr.core.tokens import MESSAGE_TOKENS

LOOKBACK_BLOCKS: Final = 20


class MarkedCache:
    """The cache of one session."""

    def __init__(self, *, count: Count) -> None:
        self._count = count
        self._entries: set[str] = set()

    def send(self, request: Mapping[str, Any]) -> tuple[int, int]:
        """Return the tokens that are read from the cache and those that are not."""
        ends: list[tuple[str, int]] = []
        marks: list[int] = []
        prefix, tokens = "", 0
        for at, (text, marked, framing) in enumerate(_blocks(request)):
            prefix = sha256(f"{prefix}{text}".encode())
            tokens += self._count(text) + framing
            ends.append((prefix, tokens))
            if marked:
                marks.append(at)
        found = self._found(ends, marks)
        self._entries.update(ends[at][0] for at in marks)
        read = ends[found][1] if found is not None else 0
        return read, tokens - read

    def _found(self, ends: list[tuple[str, int]], marks: list[int]) -> int | None:
        near = {at for mark in marks for at in range(max(0, mark - LOOKBACK_BLOCKS), mark + 1)}
        return max((at for at in near if ends[at][0] in self._entries), default=None)


def _blocks(request: Mapping[str, Any]) -> Iterator[tuple[str, bool, int]]:
    """Give every block as text, whether it is marked, and what its framing costs.

    An output is a message of its own in other APIs, and is counted as one here too.
    """
    for content in (request["system"], *(each["content"] for each in request["messages"])):
        for at, block in enumerate(content):
            framed = at == 0 or block["type"] == "tool_result"
            yield _text(block), "cache_control" in block, MESSAGE_TOKENS if framed else 0


def _text(block: Mapping[str, Any]) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "tool_result":
            return str(block["content"])
        case _:
            return canonical({"tool": block["name"], "args": block["input"]}).decode()
