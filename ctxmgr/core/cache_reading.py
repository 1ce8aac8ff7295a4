"""The prompts of a stored session, made again and compared. Reads the store."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from ctxmgr.core.cache_breaks import CallCost, Change, call_costs
from ctxmgr.core.cache_usage import RecordedCost, ReportedCall, recorded_costs
from ctxmgr.core.infrastructure import Chat
from ctxmgr.core.model import Usage
from ctxmgr.core.prompt_reading import ReadPrompts, read_chat, read_prompts
from ctxmgr.core.prompt_rows import Count
from ctxmgr.core.store import Store
from ctxmgr.core.tokens import TokenCounter
from ctxmgr.core.usage import read_usage
from ctxmgr.core.vocabularies import named_vocabulary, vocabulary
from ctxmgr.errors import Incorrect, NotFound

Say = Callable[[str], None]

UNBROKEN = frozenset({Change.FIRST, Change.APPENDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReport:
    """What became of the cached prefix, call by call."""

    session_id: str
    breaks: int
    prompt_tokens: int
    cached_tokens: int
    hit: float
    """Share of all prompt tokens that the cache could give."""
    rewritten_tokens: int
    cost: int
    """Of all breaks, in uncached input tokens."""
    calls: tuple[CallCost | RecordedCost, ...] = field(repr=False)


async def cache_report(
    store: Store, session_id: str, *, last: int, say: Say = lambda _: None
) -> CacheReport:
    """Compare the prompts of the last calls of a session, each made again from its record."""
    chat = await _chat(store, session_id)
    first = max(1, chat.turn_count - last + 1)
    say(f"making {chat.turn_count - first + 1} prompts again")
    read = await read_prompts(store, chat, first=first, last=chat.turn_count)
    calls = await asyncio.to_thread(_costs, read, counted_as(chat))
    broken = [each for each in calls if each.change not in UNBROKEN]
    return _report(
        session_id,
        calls,
        breaks=len(broken),
        cached=sum(each.cached_tokens for each in calls),
        rewritten=sum(each.rewritten_tokens for each in calls),
    )


async def recorded_cache_report(store: Store, session_id: str, *, last: int) -> CacheReport:
    """Tell what the provider's cache gave, by the usage recorded with a session's turns."""
    chat = await _chat(store, session_id)
    answered = list(_answered(chat))
    if not any(each.usage.prompt_tokens for each in answered):
        raise Incorrect(f"session {session_id}: no usage was recorded with its turns")
    calls = tuple(recorded_costs(answered)[-last:])
    return _report(
        session_id,
        calls,
        breaks=sum(each.why is not None for each in calls),
        cached=sum(each.cache_read for each in calls),
        rewritten=sum(each.lost_tokens for each in calls),
    )


def _report(
    session_id: str,
    calls: tuple[CallCost, ...] | tuple[RecordedCost, ...],
    *,
    breaks: int,
    cached: int,
    rewritten: int,
) -> CacheReport:
    prompt_tokens = sum(each.prompt_tokens for each in calls)
    return CacheReport(
        session_id=session_id,
        breaks=breaks,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached,
        hit=cached / prompt_tokens if prompt_tokens else 0.0,
        rewritten_tokens=rewritten,
        cost=sum(each.cost for each in calls),
        calls=tuple(calls),
    )


async def _chat(store: Store, session_id: str) -> Chat:
    chat = await read_chat(store, session_id)
    if not chat.turn_count:
        raise NotFound(f"session {session_id} has no turn yet")
    return chat


def counted_as(chat: Chat) -> Count:
    """Return how a session's model counts tokens, each text once in a process."""
    model = chat.turns[-1].assistant_meta.model
    return _counter(vocabulary(model or "").name).count


@cache
def _counter(name: str) -> TokenCounter:
    # Threads may use it at once: a count that two of them make is made twice, and no harm done.
    return TokenCounter(named_vocabulary(name))


def _costs(read: ReadPrompts, count: Count) -> tuple[CallCost, ...]:
    prompts = ((record.n, prompt) for record, prompt in read.prompts(count=count))
    return tuple(call_costs(prompts, count=count))


def _answered(chat: Chat) -> list[ReportedCall]:
    return [
        ReportedCall(
            n=n,
            usage=read_usage(turn.assistant_meta.usage) or Usage(),
            model=turn.assistant_meta.model,
            timestamp=turn.assistant_meta.timestamp,
            toolcall_ids=turn.toolcall_ids,
        )
        for n, turn in enumerate(chat.turns, start=1)
    ]
