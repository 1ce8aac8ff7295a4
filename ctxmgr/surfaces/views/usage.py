"""What a session used, and two sessions compared. Reads the store.

    reported   what the provider counted, if it said so
    reusable   how much of the prompts is the same as the beginning of the one before, which a
               provider's cache can serve

Prompts are counted only if the provider reported no usage: that takes a second per thousand turns.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ctxmgr.core.history.as_of import prompt_as_of
from ctxmgr.core.history.cache_report import cache_report
from ctxmgr.core.history.reading import read_chat
from ctxmgr.core.history.recorded_usage import completed, recorded_usage
from ctxmgr.core.model import Usage, read_usage
from ctxmgr.core.objects.chat import Chat, Turn
from ctxmgr.core.prices import PriceList
from ctxmgr.core.sessions.lineage import lineage
from ctxmgr.core.store.contract import Store
from ctxmgr.errors import NotFound
from ctxmgr.surfaces.views.differences import PromptDifference, compare_prompts
from ctxmgr.surfaces.views.last_turn import last_record
from ctxmgr.surfaces.views.sessions import turn_usd
from ctxmgr.surfaces.views.timeline import policy_name

COUNTED_TURNS_MAX: Final = 2_000
"""Turns whose prompts are counted; of a longer session only the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUsage:
    """What a session used."""

    session_id: str
    turns: int
    models: tuple[str, ...]
    """In the order of first use."""
    policy: str | None
    """Of the last prompt; None: the plain form."""
    parent: str | None
    """The session that it was forked from."""
    parent_turn: int | None
    """The last turn that it has in common with its parent."""
    tool_calls: int
    reported: bool
    """Whether the provider reported the tokens below; else they are counted."""
    counted_turns: int
    """Turns that the tokens below are of."""
    prompt_tokens: int
    cached_tokens: int
    """Reported: read from the provider's cache. Counted: reusable."""
    output_tokens: int | None
    """None: not reported."""
    usd: float | None
    """By reported usage and list prices; None: the cost of no turn is known."""
    unpriced_turns: int
    """Turns that ``usd`` leaves out."""


async def session_usage(store: Store, session_id: str, *, prices: PriceList) -> SessionUsage:
    """Return what a session used."""
    chat = await read_chat(store, session_id)
    record = await last_record(store, session_id)
    parent = next(iter((await lineage(store, session_id))[1:]), None)
    turns = completed(chat.turns, await recorded_usage(store, session_id))
    charges = (turn_usd(turn.value, prices) for turn in turns)
    known = [usd for usd in charges if usd is not None]
    counted = SessionUsage(
        session_id=session_id,
        turns=chat.turn_count,
        models=tuple(dict.fromkeys(filter(None, (t.assistant_meta.model for t in turns)))),
        policy=None if record is None else policy_name(record),
        parent=parent.session_id if parent else None,
        parent_turn=parent.turns_until if parent else None,
        tool_calls=sum(len(turn.toolcall_ids) for turn in chat.turns),
        reported=True,
        counted_turns=0,
        prompt_tokens=0,
        cached_tokens=0,
        output_tokens=None,
        usd=sum(known) if known else None,
        unpriced_turns=chat.turn_count - len(known),
    )
    reports = _reports(turns)
    if reports:
        total = sum(reports, start=Usage())
        return replace(
            counted,
            counted_turns=len(reports),
            prompt_tokens=total.prompt_tokens,
            cached_tokens=total.cache_read_tokens,
            output_tokens=total.output_tokens,
        )
    if not chat.turn_count:
        return replace(counted, reported=False)
    report = await cache_report(store, session_id, last=COUNTED_TURNS_MAX)
    return replace(
        counted,
        reported=False,
        counted_turns=len(report.calls),
        prompt_tokens=report.prompt_tokens,
        cached_tokens=report.cached_tokens,
    )


def _reports(turns: Sequence[Turn]) -> list[Usage]:
    read = (read_usage(turn.assistant_meta.usage) for turn in turns)
    return [usage for usage in read if usage is not None and usage.prompt_tokens]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionComparison:
    """Two sessions side by side."""

    one: SessionUsage
    other: SessionUsage
    shared_turns: int
    """Turns that both begin with: the same messages, answers and tool calls."""
    prompts: PromptDifference | None = field(repr=False)
    """From a prompt of the first to one of the other; None: one of them has no turn."""


async def compare_sessions(
    store: Store,
    session_id: str,
    other_id: str,
    *,
    turn: int | None,
    other_turn: int | None,
    prices: PriceList,
) -> SessionComparison:
    """Compare two sessions, and a prompt of each: by default those of the last turns."""
    chats = [await read_chat(store, name) for name in (session_id, other_id)]
    counts = [chat.turn_count for chat in chats]
    turns = [wanted or count for wanted, count in zip((turn, other_turn), counts, strict=True)]
    for chat, number in zip(chats, turns, strict=True):
        if number and not 1 <= number <= chat.turn_count:
            raise NotFound(f"session {chat.session_id} has no turn {number}")
    difference = None
    if all(turns):
        old, new = [
            await prompt_as_of(store, chat.session_id, turn=number)
            for chat, number in zip(chats, turns, strict=True)
        ]
        difference = await asyncio.to_thread(compare_prompts, old, new, turns=(turns[0], turns[1]))
    return SessionComparison(
        one=await session_usage(store, session_id, prices=prices),
        other=await session_usage(store, other_id, prices=prices),
        shared_turns=_shared(*chats),
        prompts=difference,
    )


def _shared(one: Chat, other: Chat) -> int:
    pairs = enumerate(zip(one.turns, other.turns, strict=False))
    unlike = (at for at, (first, second) in pairs if first != second)
    return next(unlike, min(one.turn_count, other.turn_count))
