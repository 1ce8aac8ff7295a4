"""A session's prompts turn by turn: tokens by section, and how much was cached. Reads the store.

The store is read once for all turns. Prompts are rebuilt and compared in a thread, so that a server
can answer other requests meanwhile.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import tee
from typing import Final

from ctxmgr.core.context.assembly import PieceKind, Section
from ctxmgr.core.context.compact import COMPACT_RENDERERS
from ctxmgr.core.history.cache_breaks import CallCost, call_costs
from ctxmgr.core.history.cache_report import UNBROKEN, counted_as
from ctxmgr.core.history.prompt_rows import Count
from ctxmgr.core.history.reading import BATCH, ReadPrompts, read_chat, read_prompts
from ctxmgr.core.history.recorded_usage import Captured, completed, recorded_usage
from ctxmgr.core.history.session_policy import PlainForm
from ctxmgr.core.history.turn_records import TurnRecord
from ctxmgr.core.model import Usage, read_usage
from ctxmgr.core.prices import PriceList
from ctxmgr.core.sessions.comments import comments_on
from ctxmgr.core.store.contract import Instant, Store
from ctxmgr.core.store.queries import batched
from ctxmgr.errors import Incorrect
from ctxmgr.messages.answers import answer_text
from ctxmgr.surfaces.views.sessions import shorten

TURNS_MAX: Final = 10_000
"""Turns in one answer: a bar for each still fits on a screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedUsage:
    """Tokens of a call as its provider reported them; no token is counted twice."""

    input: int
    cached: int
    written: int
    output: int
    written_1h: int
    """Those of ``written`` that are kept for an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One turn's prompt."""

    turn: int
    valid_time: Instant | None
    """When its record was stored."""
    tokens: tuple[int, ...]
    """By section, in the order of ``Timeline.sections``."""
    shown: tuple[int, ...]
    """Tokens by what the blocks show, in the order of ``Timeline.kinds``."""
    prompt_tokens: int
    cached_tokens: int
    """Tokens of the prefix shared with the previous prompt."""
    change: str
    """first, appended, new, changed, removed or moved: what happened to the prefix."""
    section: str | None
    object_id: str | None
    """Where the prefix broke."""
    rewritten_tokens: int
    """Sent before, and written to the cache again."""
    policy: str | None
    """None: the plain form."""
    model: str | None
    calls: int
    """Tool calls of the turn."""
    failed: int
    """Those of them that failed."""
    answered: Instant | None
    """When the answer was complete; None: not recorded."""
    reported: ReportedUsage | None
    """None: no usage was recorded with the turn."""
    usd: float | None
    """What the call cost, by reported usage and list price; None: one of them is not known."""
    estimated_usd: float | None
    """Without reported usage: an estimate from our own counts of the prompt and of the answer's
    text. None if ``usd`` is known, or if the model has no price."""
    user: str
    answer: str
    """Both shortened."""
    comment: str | None
    """What a person wrote about the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The prompts of a session, oldest first."""

    session_id: str
    turns: int
    """Of the whole session."""
    sections: tuple[str, ...]
    """Those that occur, in the order of a prompt."""
    kinds: tuple[str, ...]
    """What the blocks show: system, layer, listed, file, output, folded, notice, summary, user,
    assistant; those that occur."""
    prompt_tokens: int
    cached_tokens: int
    rewritten_tokens: int
    breaks: int
    usd: float
    """The sum over the entries, as is the next."""
    estimated_usd: float
    unpriced: int
    """Entries with neither."""
    entries: tuple[TimelineEntry, ...] = field(repr=False)
    earlier: int | None
    """Pass it as ``before`` to get the turns before these; None: there are none."""


async def read_timeline(
    store: Store, session_id: str, *, before: int | None, limit: int, prices: PriceList
) -> Timeline:
    """Return the last prompts of a session, or the last ones before some turn."""
    if not 1 <= limit <= TURNS_MAX:
        raise Incorrect(f"limit must be 1 to {TURNS_MAX}, not {limit}")
    if before is not None and before < 1:
        raise Incorrect(f"before must be at least 1, not {before}")
    chat = await read_chat(store, session_id)
    last = chat.turn_count if before is None else min(before - 1, chat.turn_count)
    first = max(1, last - limit + 1)
    steps = _Steps()
    if last:
        read = await read_prompts(store, chat, first=max(1, first - 1), last=last)
        failed = await _failed(store, read, first)
        captured = await recorded_usage(store, session_id)
        comments = await comments_on(store, session_id, range(first, last + 1))
        steps = await asyncio.to_thread(_steps, read, first, failed, prices, captured)
        steps = _commented(steps, comments)
    entries = steps.entries
    return Timeline(
        session_id=session_id,
        turns=chat.turn_count,
        sections=tuple(map(str, steps.sections)),
        kinds=tuple(map(str, steps.kinds)),
        prompt_tokens=sum(entry.prompt_tokens for entry in entries),
        cached_tokens=sum(entry.cached_tokens for entry in entries),
        rewritten_tokens=sum(entry.rewritten_tokens for entry in entries),
        breaks=sum(entry.change not in UNBROKEN for entry in entries),
        usd=sum(entry.usd or 0.0 for entry in entries),
        estimated_usd=sum(entry.estimated_usd or 0.0 for entry in entries),
        unpriced=sum(entry.usd is None and entry.estimated_usd is None for entry in entries),
        entries=tuple(entries),
        earlier=first if first > 1 else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    sections: tuple[Section, ...] = ()
    kinds: tuple[PieceKind, ...] = ()
    entries: list[TimelineEntry] = field(default_factory=list)


def _steps(
    read: ReadPrompts,
    first: int,
    failed: Mapping[int, int],
    prices: PriceList,
    captured: Captured,
) -> _Steps:
    """Rebuild and compare the prompts; the one before the first is read for comparison only."""
    count = counted_as(read.chat)
    prompts, compared = tee(read.prompts(count=count))
    costs = call_costs(((record.n, prompt) for record, prompt in compared), count=count)
    steps = [
        (record, {row.section: row.tokens for row in prompt.rows}, prompt.kind_tokens(), cost)
        for (record, prompt), cost in zip(prompts, costs, strict=True)
        if record.n >= first
    ]
    sections = tuple(section for section in Section if any(section in step[1] for step in steps))
    kinds = tuple(kind for kind in PieceKind if any(step[2][kind] for step in steps))
    entries = [
        _entry(
            read,
            record,
            cost,
            tokens=tuple(tokens.get(section, 0) for section in sections),
            shown=tuple(shown[kind] for kind in kinds),
            failed=failed.get(record.n, 0),
            count=count,
            prices=prices,
            captured=captured,
        )
        for record, tokens, shown, cost in steps
    ]
    return _Steps(sections=sections, kinds=kinds, entries=entries)


def _commented(steps: _Steps, comments: Mapping[int, str]) -> _Steps:
    entries = [
        replace(entry, comment=comments[entry.turn]) if entry.turn in comments else entry
        for entry in steps.entries
    ]
    return replace(steps, entries=entries)


async def _failed(store: Store, read: ReadPrompts, first: int) -> Counter[int]:
    """Count the failed calls of each turn; most are known from the prompts that showed them."""
    statuses = {
        version.object_id: version.call.status for version in read.versions.values() if version.call
    }
    turn_of = {
        object_id: record.n
        for record in read.records
        if record.n >= first
        for object_id in read.chat.turns[record.n - 1].toolcall_ids
    }
    missing = [object_id for object_id in turn_of if object_id not in statuses]
    for batch in batched(missing, BATCH):
        versions = await store.get_many(batch, without=("content", "args"))
        statuses |= {
            object_id: version.document["status"] for object_id, version in versions.items()
        }
    return Counter(turn for object_id, turn in turn_of.items() if statuses.get(object_id) == "fail")


def _entry(
    read: ReadPrompts,
    record: TurnRecord,
    cost: CallCost,
    *,
    tokens: tuple[int, ...],
    shown: tuple[int, ...],
    failed: int,
    count: Count,
    prices: PriceList,
    captured: Captured,
) -> TimelineEntry:
    (turn,) = completed(read.chat.turns[record.n - 1 : record.n], captured, first=record.n)
    model, usage = turn.assistant_meta.model, read_usage(turn.assistant_meta.usage)
    usd, estimated = prices.usd(model, usage), None
    if usage is None:
        estimated = prices.estimate(
            model,
            prompt_tokens=cost.prompt_tokens,
            cached_tokens=cost.cached_tokens,
            output_tokens=count(answer_text(turn.assistant)),
        )
    return TimelineEntry(
        turn=record.n,
        valid_time=read.valid_times[record.n],
        tokens=tokens,
        shown=shown,
        prompt_tokens=cost.prompt_tokens,
        cached_tokens=cost.cached_tokens,
        change=cost.change,
        section=cost.section,
        object_id=cost.object_id,
        rewritten_tokens=cost.rewritten_tokens,
        policy=policy_name(record),
        model=model,
        calls=len(turn.toolcall_ids),
        failed=failed,
        answered=turn.assistant_meta.timestamp,
        reported=None if usage is None else _reported(usage),
        usd=usd,
        estimated_usd=estimated,
        user=shorten(turn.user),
        answer=shorten(answer_text(turn.assistant)),
        comment=None,
    )


def policy_name(record: TurnRecord) -> str | None:
    """Return the name of a prompt's policy; None: the plain form."""
    if record.renderer in COMPACT_RENDERERS:
        return str(PlainForm.COMPACT)
    return None if record.policy is None else str(record.policy.get("name"))


def _reported(usage: Usage) -> ReportedUsage:
    return ReportedUsage(
        input=usage.input_tokens,
        cached=usage.cache_read_tokens,
        written=usage.cache_written_tokens,
        output=usage.output_tokens,
        written_1h=usage.cache_written_1h_tokens,
    )
