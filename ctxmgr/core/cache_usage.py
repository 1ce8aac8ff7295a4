"""Why a cache broke in a session whose provider reported usage. Pure.

The bytes that were sent are not known, but how many tokens of each prompt came from the cache is.
A call should find the prompt before it there. Where it found less:

    model       another model answered: its cache is another one
    idle        more time had passed than the provider keeps what nobody reads
    beginning   nothing of it was found: system prompt or tools are others, or nothing was cached
    shortened   the prompt is shorter than the one before: a summary took the place of turns
    prefix      something changed in what had been sent; the cache ended inside what was new then

Where the cache ended is told by the sizes of the earlier prompts: tokens that call k was the first
to send belong to what was new before call k.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ctxmgr.core.cache_breaks import READ_PRICE, WRITE_PRICE
from ctxmgr.core.model import Usage

TTL_MS: Final = 300_000
"""How long a provider keeps what nobody reads, unless more is paid for."""

LOST_MIN: Final = 1_024
"""Tokens: fewer are not a break. Providers cache in blocks, and no block is smaller than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCall:
    """A call as it was recorded."""

    n: int
    usage: Usage
    model: str | None
    timestamp: int | None
    toolcall_ids: tuple[str, ...] = ()
    """Of the calls that its answer asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCost:
    """One call, and what its provider's cache gave."""

    n: int
    prompt_tokens: int
    cache_read: int
    cache_write: int
    why: str | None
    """None: it found what it should."""
    idle_seconds: int | None
    ended_before_call: int | None
    """The call for which the first lost tokens had been new."""
    object_ids: tuple[str, ...]
    """Tool calls whose outputs were new then."""
    lost_tokens: int
    cost: int
    """Of writing instead of reading these, in uncached input tokens."""


def recorded_costs(
    calls: Iterable[ReportedCall],
    *,
    ttl_ms: int = TTL_MS,
    read: float = READ_PRICE,
    write: float = WRITE_PRICE,
) -> list[RecordedCost]:
    """Say for each call what was lost, and why."""
    costs: list[RecordedCost] = []
    earlier: list[ReportedCall] = []
    for call in calls:
        lost = _lost(earlier[-1], call) if earlier else 0
        why = _why(earlier[-1], call, ttl_ms) if lost else None
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
                cost=round(lost * (write - read)),
            )
        )
        if call.usage.prompt_tokens:
            earlier.append(call)
    return costs


def _lost(before: ReportedCall, call: ReportedCall) -> int:
    lost = min(before.usage.prompt_tokens, call.usage.prompt_tokens) - call.usage.cache_read_tokens
    return lost if lost >= LOST_MIN else 0


def _why(before: ReportedCall, call: ReportedCall, ttl_ms: int) -> str:
    if before.model != call.model:
        return "model"
    if _idle_ms(before, call) > ttl_ms:
        return "idle"
    if not call.usage.cache_read_tokens:
        return "beginning"
    return "shortened" if call.usage.prompt_tokens < before.usage.prompt_tokens else "prefix"


def _idle_ms(before: ReportedCall, call: ReportedCall) -> int:
    if before.timestamp is None or call.timestamp is None:
        return 0
    return max(0, call.timestamp - before.timestamp)


def _ended_before(earlier: Sequence[ReportedCall], call: ReportedCall) -> int:
    """Return the place of the call whose prompt was the first to reach beyond the cached part."""
    sizes: list[int] = []
    for each in earlier:  # a shortened prompt does not make earlier tokens newer
        sizes.append(max(each.usage.prompt_tokens, sizes[-1] if sizes else 0))
    return min(bisect_right(sizes, call.usage.cache_read_tokens), len(earlier) - 1)
