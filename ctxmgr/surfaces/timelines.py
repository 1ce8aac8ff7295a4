"""A session's prompts turn by turn: what each was made of, and what became of the cached prefix.

Reads the store once for all of them. Making and comparing them is done in a thread of its own, so
that a server has time for others meanwhile.
"""

import asyncio
from dataclasses import dataclass, field
from itertools import tee
from typing import Final

from ctxmgr.core.assembly import Section
from ctxmgr.core.cache_breaks import CallCost, call_costs
from ctxmgr.core.cache_reading import UNBROKEN, counted_as
from ctxmgr.core.infrastructure import Turn
from ctxmgr.core.prompt_reading import ReadPrompts, read_chat, read_prompts
from ctxmgr.core.store import Instant, Store
from ctxmgr.core.turns import TurnRecord
from ctxmgr.core.usage import read_usage
from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.session_views import said, shortened

TURNS_MAX: Final = 10_000
"""Turns that are told at once: a bar of each still fits on a screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Tokens of a call as its provider reported them; none is counted twice."""

    input: int
    cached: int
    written: int
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One turn's prompt."""

    turn: int
    valid_time: Instant | None
    """When its record was stored."""
    tokens: tuple[int, ...]
    """By section, in the order of ``Timeline.sections``."""
    prompt_tokens: int
    cached_tokens: int
    """Of the beginning that it shares with the prompt before."""
    change: str
    """first, appended, new, changed, removed or moved: what happened to the prefix."""
    section: str | None
    object_id: str | None
    """Where the prefix broke."""
    rewritten_tokens: int
    """Had been sent before, and had to be written again."""
    policy: str | None
    """None: the plain form."""
    model: str | None
    calls: int
    """Tool calls of the turn."""
    reported: Reported | None
    """None: no usage was recorded with the turn."""
    user: str
    answer: str
    """In short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The prompts of a session, oldest first."""

    session_id: str
    turns: int
    """Of the whole session."""
    sections: tuple[str, ...]
    """Those that occur, in the order of a prompt."""
    prompt_tokens: int
    cached_tokens: int
    rewritten_tokens: int
    breaks: int
    entries: tuple[TimelineEntry, ...] = field(repr=False)
    earlier: int | None
    """Give it as ``before`` to see the turns before these; None: there are none."""


async def tell_timeline(
    store: Store, session_id: str, *, before: int | None, limit: int
) -> Timeline:
    """Tell what the last prompts of a session were, or the last ones before some turn."""
    if not 1 <= limit <= TURNS_MAX:
        raise Incorrect(f"limit is 1 to {TURNS_MAX}, not {limit}")
    if before is not None and before < 1:
        raise Incorrect(f"turns are numbered from 1; there is none before turn {before}")
    chat = await read_chat(store, session_id)
    last = chat.turn_count if before is None else min(before - 1, chat.turn_count)
    first = max(1, last - limit + 1)
    sections: tuple[Section, ...] = ()
    entries: list[TimelineEntry] = []
    if last:
        read = await read_prompts(store, chat, first=max(1, first - 1), last=last)
        sections, entries = await asyncio.to_thread(_told, read, first)
    return Timeline(
        session_id=session_id,
        turns=chat.turn_count,
        sections=tuple(map(str, sections)),
        prompt_tokens=sum(each.prompt_tokens for each in entries),
        cached_tokens=sum(each.cached_tokens for each in entries),
        rewritten_tokens=sum(each.rewritten_tokens for each in entries),
        breaks=sum(each.change not in UNBROKEN for each in entries),
        entries=tuple(entries),
        earlier=first if first > 1 else None,
    )


def _told(read: ReadPrompts, first: int) -> tuple[tuple[Section, ...], list[TimelineEntry]]:
    """Make the prompts and compare them; the one before the first is there to compare with."""
    count = counted_as(read.chat)
    made, compared = tee(read.prompts(count=count))
    costs = call_costs(((record.n, prompt) for record, prompt in compared), count=count)
    steps = [
        (record, {row.section: row.tokens for row in prompt.rows}, cost)
        for (record, prompt), cost in zip(made, costs, strict=True)
        if record.n >= first
    ]
    sections = tuple(each for each in Section if any(each in tokens for _, tokens, _ in steps))
    return sections, [
        _entry(
            read,
            record,
            cost,
            tokens=tuple(tokens.get(section, 0) for section in sections),
        )
        for record, tokens, cost in steps
    ]


def _entry(
    read: ReadPrompts, record: TurnRecord, cost: CallCost, *, tokens: tuple[int, ...]
) -> TimelineEntry:
    turn = read.chat.turns[record.n - 1]
    return TimelineEntry(
        turn=record.n,
        valid_time=read.valid_times[record.n],
        tokens=tokens,
        prompt_tokens=cost.prompt_tokens,
        cached_tokens=cost.cached_tokens,
        change=cost.change,
        section=cost.section,
        object_id=cost.object_id,
        rewritten_tokens=cost.rewritten_tokens,
        policy=policy_name(record),
        model=turn.assistant_meta.model,
        calls=len(turn.toolcall_ids),
        reported=_reported(turn),
        user=shortened(turn.user),
        answer=shortened(said(turn)),
    )


def policy_name(record: TurnRecord) -> str | None:
    """Return what a prompt's policy is called; None: it was the plain form."""
    return None if record.policy is None else str(record.policy.get("name"))


def _reported(turn: Turn) -> Reported | None:
    usage = read_usage(turn.assistant_meta.usage)
    if usage is None:
        return None
    return Reported(
        input=usage.input_tokens,
        cached=usage.cache_read_tokens,
        written=usage.cache_written_tokens,
        output=usage.output_tokens,
    )
