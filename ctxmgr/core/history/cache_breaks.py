"""Find where and why a provider's cached prefix broke. Pure.

Two consecutive prompts are compared byte by byte (``call_costs``):

    appended   this prompt begins with the previous one: nothing broke
    new        a new block precedes text that had been sent
    changed    the text of a block changed
    removed    a block is gone
    moved      a block is in another position

The first byte that differs is reported with its section, object and field. The cost of a break is
that of writing to the cache again what could have been read from it.

For a session whose provider reported usage, the prompts are not known, but how many tokens of each
came from the cache is (``recorded_costs``). A call should find the previous prompt there. If less
was found, the cause is one of these:

    model       another model answered, which has another cache
    idle        the call came later than the provider keeps an unused prefix
    beginning   nothing was found: system prompt or tools changed, or nothing was cached
    shortened   the prompt is shorter than the previous one: a summary replaced turns
    prefix      something changed in text that had been sent

The sizes of the earlier prompts show where the cache ended: tokens that call k was the first to
send belong to what was new before call k.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ctxmgr.core.economy.policy import Prices
from ctxmgr.core.history.prompt_rows import Count, CountedBlock, Prompt, first_difference
from ctxmgr.core.model import Usage

PRICES: Final = Prices()
REWRITE_PRICE: Final = PRICES.write - PRICES.read
"""What it costs to write a token to the cache that could have been read from it."""

_LINE_ID: Final = re.compile(r"(?:^|\s|\[|#)id=(\S+)")
_NAMED: Final = re.compile(r"(\w+)=\S*")


class PrefixChange(StrEnum):
    """What happened to the prefix."""

    FIRST = "first"
    APPENDED = "appended"
    NEW = "new"
    CHANGED = "changed"
    REMOVED = "removed"
    MOVED = "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBreak:
    """Where the prompt of a call first differs from the previous one."""

    change: PrefixChange
    kept_tokens: int
    """Of the beginning that both share."""
    first_byte: int | None = None
    """In the UTF-8 text, from 0; None if nothing broke."""
    section: str | None = None
    object_id: str | None = None
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """One call, and how much of its prompt was cached."""

    n: int
    prompt_tokens: int
    cached_tokens: int
    """Of the beginning that it shares with the previous call."""
    change: str
    first_byte: int | None
    section: str | None
    object_id: str | None
    field: str | None
    rewritten_tokens: int
    """Tokens that had been sent before and were written again."""
    cost: int
    """Of writing instead of reading these, in uncached input tokens."""


def compare(before: Prompt, now: Prompt, *, count: Count) -> PrefixBreak:
    """Return where and why a prompt differs from the previous one; ``count`` counts tokens."""
    old, new = first_difference(before, now)
    if old.block is None:
        return PrefixBreak(change=PrefixChange.APPENDED, kept_tokens=before.tokens)
    change = _change(before, now, old.block, new.block)
    cursor = old if new.block is None or change is PrefixChange.REMOVED else new
    assert cursor.block is not None, "the previous prompt was longer, so it has a block there"
    return PrefixBreak(
        change=change,
        kept_tokens=new.tokens_before(before, count=count),
        first_byte=new.bytes_before(before),
        section=cursor.block.section,
        object_id=_object_at(cursor.block, cursor.chars),
        field=field_at(cursor.block, cursor.chars),
    )


def call_costs(prompts: Iterable[tuple[int, Prompt]], *, count: Count) -> Iterator[CallCost]:
    """Compare each prompt with the previous one."""
    before: Prompt | None = None
    for n, now in prompts:
        tokens, again = now.tokens, 0
        if before is None:
            broken = PrefixBreak(change=PrefixChange.FIRST, kept_tokens=0)
        else:
            broken = compare(before, now, count=count)
        cached = min(broken.kept_tokens, tokens)
        if before is not None and broken.first_byte is not None:
            again = max(0, min(before.tokens, tokens) - cached)
        yield _cost(n, tokens, cached, broken, again)
        before = now


def field_at(block: CountedBlock, position: int) -> str:
    """Return the name of the field that a character of a block belongs to."""
    line_start = block.text.rfind("\n", 0, position) + 1
    line_end = block.text.find("\n", position)
    line = block.text[line_start : line_end if line_end >= 0 else None]
    match str(block.section):
        case "metadata_pool":
            return _named_at(line, position - line_start)
        case "chat":
            word = line.partition(" ")[0].rstrip(":")
            return word if word in {"user", "assistant", "toolcall_ref"} else "text"
        case "active_content" if line_start == 0:
            return "heading"
        case "active_content":
            return f"content, line {block.text.count(chr(10), 0, position)}"
        case _:
            return f"content, line {block.text.count(chr(10), 0, position) + 1}"


def _named_at(line: str, position: int) -> str:
    """Return the name of the ``name=value`` at a position; a marker such as [unread] is a state."""
    for match in _NAMED.finditer(line):
        if match.start() <= position < match.end():
            return match[1]
    return "state"


def _object_at(block: CountedBlock, position: int) -> str | None:
    """Return the object that the text belongs to; in the chat, that of the nearest id above."""
    if str(block.section) != "chat":
        return block.object_id
    line_end = block.text.find("\n", position)
    above = block.text[: line_end if line_end >= 0 else None]
    ids: Sequence[str] = _LINE_ID.findall(above)
    return ids[-1] if ids else block.object_id


def _change(
    before: Prompt, now: Prompt, old: CountedBlock, new: CountedBlock | None
) -> PrefixChange:
    if new is None:
        return PrefixChange.REMOVED
    if (old.section, old.object_id) == (new.section, new.object_id):
        return PrefixChange.CHANGED
    if not before.row(new.section).has(new.object_id):
        return PrefixChange.NEW
    gone = not now.row(old.section).has(old.object_id)
    return PrefixChange.REMOVED if gone else PrefixChange.MOVED


def _cost(n: int, tokens: int, cached: int, broken: PrefixBreak, again: int) -> CallCost:
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
        cost=round(again * REWRITE_PRICE),
    )


LOST_MIN: Final = 1_024
"""Tokens; a smaller loss is not a break. Providers cache in blocks of at least this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCall:
    """A recorded call."""

    n: int
    usage: Usage
    model: str | None
    timestamp: int | None
    toolcall_ids: tuple[str, ...] = ()
    """Of the tool calls in its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCost:
    """One call, and what it read from its provider's cache."""

    n: int
    prompt_tokens: int
    cache_read: int
    cache_write: int
    why: str | None
    """None if nothing was lost."""
    idle_seconds: int | None
    ended_before_call: int | None
    """The call that was the first to send the first lost tokens."""
    object_ids: tuple[str, ...]
    """Tool calls whose outputs were new in that call."""
    lost_tokens: int
    cost: int
    """Of writing instead of reading these, in uncached input tokens."""


def recorded_costs(calls: Iterable[ReportedCall]) -> list[RecordedCost]:
    """Return for each call what was lost, and why."""
    costs: list[RecordedCost] = []
    earlier: list[ReportedCall] = []
    for call in calls:
        lost = _lost(earlier[-1], call) if earlier else 0
        why = _why(earlier[-1], call) if lost else None
        ended = _ended_before(earlier, call) if lost else None
        costs.append(
            RecordedCost(
                n=call.n,
                prompt_tokens=call.usage.prompt_tokens,
                cache_read=call.usage.cache_read_tokens,
                cache_write=call.usage.cache_written_tokens,
                why=why,
                idle_seconds=_idle_ms(earlier[-1], call) // 1_000 if earlier else None,
                ended_before_call=earlier[ended].n if ended is not None else None,
                object_ids=earlier[ended - 1].toolcall_ids if ended else (),
                lost_tokens=lost,
                cost=round(lost * REWRITE_PRICE),
            )
        )
        if call.usage.prompt_tokens:
            earlier.append(call)
    return costs


def _lost(before: ReportedCall, call: ReportedCall) -> int:
    lost = min(before.usage.prompt_tokens, call.usage.prompt_tokens) - call.usage.cache_read_tokens
    return lost if lost >= LOST_MIN else 0


def _why(before: ReportedCall, call: ReportedCall) -> str:
    if before.model != call.model:
        return "model"
    if _idle_ms(before, call) > PRICES.ttl_seconds * 1_000:
        return "idle"
    if not call.usage.cache_read_tokens:
        return "beginning"
    return "shortened" if call.usage.prompt_tokens < before.usage.prompt_tokens else "prefix"


def _idle_ms(before: ReportedCall, call: ReportedCall) -> int:
    if before.timestamp is None or call.timestamp is None:
        return 0
    return max(0, call.timestamp - before.timestamp)


def _ended_before(earlier: Sequence[ReportedCall], call: ReportedCall) -> int:
    """Return the index of the first call whose prompt was longer than the cached part."""
    sizes: list[int] = []
    for earlier_call in earlier:  # a shortened prompt does not make earlier tokens newer
        sizes.append(max(earlier_call.usage.prompt_tokens, sizes[-1] if sizes else 0))
    return min(bisect_right(sizes, call.usage.cache_read_tokens), len(earlier) - 1)
