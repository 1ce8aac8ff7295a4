"""Why a cached prefix broke: two prompts in a row, compared to the byte. Pure.

    appended   the one before is the beginning of this one: nothing broke
    new        something that was not there stands before what had been sent
    changed    the same piece says something else
    removed    a piece that was there is gone
    moved      a piece stands elsewhere

The first byte that differs is named with the section, the object and the field it belongs to. What
it costs is what had been sent and cached, and must be written again for reading it.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

READ_PRICE: Final = 0.1
WRITE_PRICE: Final = 1.25
"""Of a token from the cache and into it, with an uncached input token as 1 (Anthropic's)."""

_LINE_ID: Final = re.compile(r"(?:^|\s|\[|#)id=(\S+)")
_NAMED: Final = re.compile(r"(\w+)=\S*")


class Change(StrEnum):
    """What happened to the prefix."""

    FIRST = "first"
    APPENDED = "appended"
    NEW = "new"
    CHANGED = "changed"
    REMOVED = "removed"
    MOVED = "moved"


class Piece(Protocol):
    """A piece of a prompt, as ``assembly.Block`` is one."""

    @property
    def section(self) -> str: ...
    @property
    def object_id(self) -> str | None: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text of a prompt, and which piece stands where."""

    text: str = field(repr=False)
    pieces: tuple[Piece, ...] = field(repr=False)
    starts: tuple[int, ...] = field(repr=False)
    """Of each piece, in characters."""

    @classmethod
    def of(cls, text: str, pieces: Iterable[Piece]) -> "Prompt":
        """Find the pieces in the text: in their order, with at most line ends between them."""
        known = tuple(pieces)
        starts, at = [], 0
        for piece in known:
            while not text.startswith(piece.text, at) and text[at : at + 1] == "\n":
                at += 1
            assert text.startswith(piece.text, at), "the pieces are the text's own"
            starts.append(at)
            at += len(piece.text)
        return cls(text, known, tuple(starts))

    def at(self, position: int) -> tuple[Piece, int] | None:
        """Return the piece at a character, and the place in it; None: beyond the last.

        What stands between two pieces belongs to the second.
        """
        number = max(0, bisect_right(self.starts, position) - 1)
        if number < len(self.pieces) and position >= self._end(number):
            number += 1
        if number >= len(self.pieces):
            return None
        return self.pieces[number], max(0, position - self.starts[number])

    def _end(self, number: int) -> int:
        return self.starts[number] + len(self.pieces[number].text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where the prompt of a call parts from the one before."""

    change: Change
    kept_chars: int
    """Characters that both begin with."""
    first_byte: int | None = None
    """Of the UTF-8 text, from 0; None: nothing broke."""
    section: str | None = None
    object_id: str | None = None
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """One call, and what became of its cached prefix."""

    n: int
    prompt_tokens: int
    cached_tokens: int
    """Of the beginning that it shares with the call before."""
    change: str
    first_byte: int | None
    section: str | None
    object_id: str | None
    field: str | None
    rewritten_tokens: int
    """Had been sent before, and had to be written again."""
    cost: int
    """Of writing instead of reading these, in uncached input tokens."""


def compare(before: Prompt, now: Prompt) -> Break:
    """Say where and why a prompt parts from the one before."""
    kept = common_prefix(before.text, now.text)
    if kept == len(before.text):
        return Break(change=Change.APPENDED, kept_chars=kept)
    old, new = before.at(kept), now.at(kept)
    change = _change(before, now, old, new)
    piece, place = new if new is not None and change is not Change.REMOVED else old or (None, 0)
    assert piece is not None, "the prompt before was longer, so it has a piece there"
    return Break(
        change=change,
        kept_chars=kept,
        first_byte=len(now.text[:kept].encode(errors="surrogatepass")),
        section=piece.section,
        object_id=_object_at(piece, place),
        field=field_at(piece, place),
    )


def call_costs(
    prompts: Iterable[tuple[int, Prompt]],
    *,
    count: Callable[[str], int],
    read: float = READ_PRICE,
    write: float = WRITE_PRICE,
) -> list[CallCost]:
    """Compare each prompt with the one before; ``count`` counts tokens."""
    costs: list[CallCost] = []
    before: Prompt | None = None
    tokens_before = 0
    for n, now in prompts:
        tokens = count(now.text)
        if before is None:
            broken, cached = Break(change=Change.FIRST, kept_chars=0), 0
        else:
            broken = compare(before, now)
            cached = min(count(now.text[: broken.kept_chars]), tokens)
        again = max(0, min(tokens_before, tokens) - cached) if broken.first_byte is not None else 0
        costs.append(_cost(n, tokens, cached, broken, again, price=write - read))
        before, tokens_before = now, tokens
    return costs


def common_prefix(one: str, two: str) -> int:
    """Return how many characters both begin with, by halves: comparing parts is fast."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def field_at(piece: Piece, place: int) -> str:
    """Name the part of a piece that a character belongs to."""
    line_start = piece.text.rfind("\n", 0, place) + 1
    line_end = piece.text.find("\n", place)
    line = piece.text[line_start : line_end if line_end >= 0 else None]
    match str(piece.section):
        case "metadata_pool":
            return _named_at(line, place - line_start)
        case "chat":
            word = line.partition(" ")[0].rstrip(":")
            return word if word in {"user", "assistant", "toolcall_ref"} else "text"
        case "active_content" if line_start == 0:
            return "heading"
        case "active_content":
            return f"content, line {piece.text.count(chr(10), 0, place)}"
        case _:
            return f"content, line {piece.text.count(chr(10), 0, place) + 1}"


def _named_at(line: str, place: int) -> str:
    """Name the ``name=value`` of a pool line at a place; a marker such as [unread] has no name."""
    for found in _NAMED.finditer(line):
        if found.start() <= place < found.end():
            return found[1]
    return "state"


def _object_at(piece: Piece, place: int) -> str | None:
    """Return whose text it is: inside a conversation, that of the nearest id above."""
    if str(piece.section) != "chat":
        return piece.object_id
    line_end = piece.text.find("\n", place)
    above = piece.text[: line_end if line_end >= 0 else None]
    found: Sequence[str] = _LINE_ID.findall(above)
    return found[-1] if found else piece.object_id


def _change(
    before: Prompt, now: Prompt, old: tuple[Piece, int] | None, new: tuple[Piece, int] | None
) -> Change:
    if new is None or old is None:
        return Change.REMOVED if new is None else Change.NEW
    if _key(old[0]) == _key(new[0]):
        return Change.CHANGED
    if _key(new[0]) not in set(map(_key, before.pieces)):
        return Change.NEW
    gone = _key(old[0]) not in set(map(_key, now.pieces))
    return Change.REMOVED if gone else Change.MOVED


def _key(piece: Piece) -> tuple[str, str | None]:
    return str(piece.section), piece.object_id


def _cost(n: int, tokens: int, cached: int, broken: Break, again: int, *, price: float) -> CallCost:
    return CallCost(
        n=n,
        prompt_tokens=tokens,
        cached_tokens=cached,
        change=str(broken.change),
        first_byte=broken.first_byte,
        section=broken.section,
        object_id=broken.object_id,
        field=broken.field,
        rewritten_tokens=again,
        cost=round(again * price),
    )
