"""What an agent is told of what was found: marked, short, with the ids to activate. Pure.

    [recalled] 2 objects hold: retry timeout
    id=call-7 type=toolcall tool=bash status=ok
      12: raise TimeoutError("no reply")
    id=5f0c… type=file path=/src/retry.py file_type=py char_count=812
      3: def retry(call, timeout):
    Activate an id to see all of it.

Of each object the lines that hold the most of the words, in their order.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

MARK: Final = "[recalled]"
"""Begins every such text, so that neither agent nor program takes it for something new."""

TOOL: Final = "recall"
"""Its calls are stored like any other, and neither searched for files nor found again."""

LINES_PER_OBJECT: Final = 3
LINE_CHARS_MAX: Final = 200

_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """One object that was found."""

    heading: str
    """Its line of the pool, without the newline."""
    text: str = field(repr=False)


def told(query: str, found: Sequence[Recalled]) -> str:
    """Return the text for the agent."""
    asked = " ".join(query.split())[:LINE_CHARS_MAX]
    if not found:
        return f"{MARK} nothing that this session has met holds: {asked}\n"
    objects = "1 object holds" if len(found) == 1 else f"{len(found)} objects hold"
    pieces = [f"{MARK} {objects}: {asked}\n"]
    for each in found:
        pieces.append(f"{each.heading}\n")
        pieces += (f"  {n}: {line}\n" for n, line in best_lines(each.text, words(query)))
    return "".join([*pieces, "Activate an id to see all of it.\n"])


def words(query: str) -> frozenset[str]:
    """Return the words of a query, in lower case."""
    return frozenset(_WORD.findall(query.lower()))


def best_lines(text: str, wanted: frozenset[str]) -> list[tuple[int, str]]:
    """Return the lines with the most of the words, numbered from 1, in their order."""
    scored = []
    for number, line in enumerate(text.splitlines(), start=1):
        lower = line.lower()
        held = sum(word in lower for word in wanted)
        if held:
            scored.append((-held, number, line))
    best = sorted(scored)[:LINES_PER_OBJECT]
    return [(n, _cut(line, wanted)) for _, n, line in sorted(best, key=lambda each: each[1])]


def _cut(line: str, wanted: frozenset[str]) -> str:
    """Cut a long line to the part around the first word."""
    line = line.strip()
    if len(line) <= LINE_CHARS_MAX:
        return line
    lower = line.lower()
    first = min((at for word in wanted if (at := lower.find(word)) >= 0), default=0)
    start = max(0, min(first - LINE_CHARS_MAX // 3, len(line) - LINE_CHARS_MAX))
    end = start + LINE_CHARS_MAX
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
