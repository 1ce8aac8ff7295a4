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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ctxmgr.core.prompt_parting import parted
from ctxmgr.core.prompt_rows import Count, CountedBlock, Prompt

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where the prompt of a call parts from the one before."""

    change: Change
    kept_tokens: int
    """Of the beginning that both share."""
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


def compare(before: Prompt, now: Prompt, *, count: Count) -> Break:
    """Say where and why a prompt parts from the one before; ``count`` counts tokens."""
    old, new = parted(before, now)
    if old.piece is None:
        return Break(change=Change.APPENDED, kept_tokens=before.tokens)
    change = _change(before, now, old.piece, new.piece)
    told = old if new.piece is None or change is Change.REMOVED else new
    assert told.piece is not None, "the prompt before was longer, so it has a piece there"
    return Break(
        change=change,
        kept_tokens=new.tokens_before(before, count=count),
        first_byte=new.bytes_before(before),
        section=told.piece.section,
        object_id=_object_at(told.piece, told.chars),
        field=field_at(told.piece, told.chars),
    )


def call_costs(
    prompts: Iterable[tuple[int, Prompt]],
    *,
    count: Count,
    read: float = READ_PRICE,
    write: float = WRITE_PRICE,
) -> Iterator[CallCost]:
    """Compare each prompt with the one before."""
    before: Prompt | None = None
    for n, now in prompts:
        tokens, again = now.tokens, 0
        if before is None:
            broken = Break(change=Change.FIRST, kept_tokens=0)
        else:
            broken = compare(before, now, count=count)
        cached = min(broken.kept_tokens, tokens)
        if before is not None and broken.first_byte is not None:
            again = max(0, min(before.tokens, tokens) - cached)
        yield _cost(n, tokens, cached, broken, again, price=write - read)
        before = now


def field_at(piece: CountedBlock, place: int) -> str:
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


def _object_at(piece: CountedBlock, place: int) -> str | None:
    """Return whose text it is: inside a conversation, that of the nearest id above."""
    if str(piece.section) != "chat":
        return piece.object_id
    line_end = piece.text.find("\n", place)
    above = piece.text[: line_end if line_end >= 0 else None]
    found: Sequence[str] = _LINE_ID.findall(above)
    return found[-1] if found else piece.object_id


def _change(before: Prompt, now: Prompt, old: CountedBlock, new: CountedBlock | None) -> Change:
    if new is None:
        return Change.REMOVED
    if (old.section, old.object_id) == (new.section, new.object_id):
        return Change.CHANGED
    if not before.row(new.section).has(new.object_id):
        return Change.NEW
    gone = not now.row(old.section).has(old.object_id)
    return Change.REMOVED if gone else Change.MOVED


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
