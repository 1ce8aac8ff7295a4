"""Report cache breaks of a stored session, from its rebuilt prompts or reported usage.

Reads the store.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from ctxmgr.core.context.tokens import TokenCounter, named_vocabulary, vocabulary
from ctxmgr.core.history.cache_breaks import (
    CallCost,
    PrefixChange,
    RecordedCost,
    ReportedCall,
    call_costs,
    recorded_costs,
)
from ctxmgr.core.history.prompt_rows import Count
from ctxmgr.core.history.reading import FirstTurns, ReadPrompts, read_chat, read_prompts
from ctxmgr.core.model import Usage, read_usage
from ctxmgr.core.objects.chat import Chat
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import Incorrect, NotFound

Say = Callable[[str], None]

UNBROKEN = frozenset({PrefixChange.FIRST, PrefixChange.APPENDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReport:
    """How much of each prompt was cached, call by call."""

    session_id: str
    breaks: int
    prompt_tokens: int
    cached_tokens: int
    hit: float
    """Share of all prompt tokens that could be read from the cache."""
    rewritten_tokens: int
    cost: int
    """Of all breaks, in uncached input tokens."""
    calls: tuple[CallCost | RecordedCost, ...] = field(repr=False)


async def cache_report(
    store: Store, session_id: str, *, last: int, say: Say = lambda _: None
) -> CacheReport:
    """Compare the prompts of the last calls of a session, rebuilt from their records."""
    chat = await _chat(store, session_id)
    first = max(1, chat.turn_count - last + 1)
    say(f"rebuilding {chat.turn_count - first + 1} prompts")
    read = await read_prompts(store, chat, first=first, last=chat.turn_count)
    calls = await asyncio.to_thread(_costs, read, counted_as(chat))
    return _report(
        session_id,
        calls,
        breaks=sum(call.change not in UNBROKEN for call in calls),
        cached=sum(call.cached_tokens for call in calls),
        rewritten=sum(call.rewritten_tokens for call in calls),
    )


async def recorded_cache_report(store: Store, session_id: str, *, last: int) -> CacheReport:
    """Report what was read from the provider's cache, by the usage stored with the turns."""
    chat = await _chat(store, session_id)
    reported = [
        ReportedCall(
            n=n,
            usage=read_usage(turn.assistant_meta.usage) or Usage(),
            model=turn.assistant_meta.model,
            timestamp=turn.assistant_meta.timestamp,
            toolcall_ids=turn.toolcall_ids,
        )
        for n, turn in enumerate(chat.turns, start=1)
    ]
    if not any(call.usage.prompt_tokens for call in reported):
        raise Incorrect(f"session {session_id}: no usage was recorded with its turns")
    calls = tuple(recorded_costs(reported)[-last:])
    return _report(
        session_id,
        calls,
        breaks=sum(call.why is not None for call in calls),
        cached=sum(call.cache_read for call in calls),
        rewritten=sum(call.lost_tokens for call in calls),
    )


def _report(
    session_id: str,
    calls: tuple[CallCost, ...] | tuple[RecordedCost, ...],
    *,
    breaks: int,
    cached: int,
    rewritten: int,
) -> CacheReport:
    prompt_tokens = sum(call.prompt_tokens for call in calls)
    return CacheReport(
        session_id=session_id,
        breaks=breaks,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached,
        hit=cached / prompt_tokens if prompt_tokens else 0.0,
        rewritten_tokens=rewritten,
        cost=sum(call.cost for call in calls),
        calls=tuple(calls),
    )


async def _chat(store: Store, session_id: str) -> Chat:
    chat = await read_chat(store, session_id)
    if not chat.turn_count:
        raise NotFound(f"session {session_id} has no turn yet")
    return chat


def counted_as(chat: Chat | FirstTurns) -> Count:
    """Return the token counter of a session's model, which caches its counts."""
    model = chat.turns[-1].assistant_meta.model
    return _counter(vocabulary(model or "").name).count


@cache
def _counter(name: str) -> TokenCounter:
    # Used by several threads at once: at worst a text is counted twice.
    return TokenCounter(named_vocabulary(name))


def _costs(read: ReadPrompts, count: Count) -> tuple[CallCost, ...]:
    prompts = ((record.n, prompt) for record, prompt in read.prompts(count=count))
    return tuple(call_costs(prompts, count=count))
