"""A simulated year: 50 sessions a week learn, use and forget, with a consolidation every week.

The project has things that stay true. Some are useful: sessions ask about them, by a weight of
their own, some only every few months. Sessions also learn the same again in other words, and noise
that nobody asks for. What is asked for and shown is cited; what else matched was ignored. A server
consolidates every night; here it is every week, which is harder and keeps the run short.

    useful memories forgotten   of those that were asked for, or will be: no longer known
    paraphrased duplicates      memories that hold and say what another one says
    median rank                 of useful memories among all, by usefulness: 0 is the best
    size                        memories in all, per new statement, in each half of the year
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Final

from ctxmgr.app import open_store
from ctxmgr.bench.report import Figure, Say, reported
from ctxmgr.core.store.contract import Instant
from ctxmgr.errors import Incorrect
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.memory import Author, Memory, MemoryKind
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.repository import MEMORY_KINDS
from ctxmgr.memory.tiers.ranking import DAY_MS, FLOOR, usefulness

START: Final = 1_760_000_000_000
WHO: Final = Principal(user_id="ada", project_id="year")
SESSIONS_PER_WEEK: Final = 50
NOISE_PER_SESSION: Final = 2
LEARNT_AGAIN: Final = 0.3
"""The share of sessions that state something known in other words."""
ASKED_PER_SESSION: Final = 3
SHOWN: Final = 5

_PARTS: Final = ("billing", "search", "login", "export", "mail", "cart", "stock", "report", "cache")
_THINGS: Final = ("timeout", "owner", "schema", "queue", "retry", "format", "region", "quota")
_VALUES: Final = ("alpha", "bravo", "delta", "gamma", "kappa", "omega", "sigma", "theta", "zeta")


@dataclass(kw_only=True)
class _Year:
    memory: LivingMemory
    random: Random
    clock: list[Instant]
    statements: int = 0
    useful: dict[tuple[str, str], float] = field(default_factory=dict)
    """What sessions ask about, and how often."""
    last_asked: dict[tuple[str, str], Instant] = field(default_factory=dict)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Statements and stored memories, week by week."""


async def year_figures(*, weeks: int, say: Say) -> list[Figure]:
    """Live through some weeks."""
    clock = [START]
    async with await open_store("sqlite://:memory:", kinds=MEMORY_KINDS) as store:
        memory = LivingMemory(store, WHO, now=lambda: clock[0])
        year = _Year(memory=memory, random=Random(3), clock=clock)  # noqa: S311 -- repeatable
        pairs = [(part, thing) for part in _PARTS for thing in _THINGS]
        year.random.shuffle(pairs)
        for place, pair in enumerate(pairs):
            year.useful[pair] = 1 / (1 + place)
        for week in range(weeks):
            if week % 4 == 0:
                say(f"memory: a simulated year, week {week + 1} of {weeks}")
            await _week(year)
        return await _figures(year)


async def _week(year: _Year) -> None:
    end = year.clock[0] + 7 * DAY_MS
    for _ in range(SESSIONS_PER_WEEK):
        year.clock[0] += 7 * DAY_MS // (SESSIONS_PER_WEEK + 1)
        await _session(year)
    year.clock[0] = end
    await year.memory.consolidate()
    known = len(await year.memory.memories(forgotten=True))
    year.sizes.append((year.statements, known))


async def _session(year: _Year) -> None:
    random = year.random
    for pair in random.choices(list(year.useful), list(year.useful.values()), k=ASKED_PER_SESSION):
        if pair not in year.last_asked:
            await _learn(year, *pair, value=_VALUES[sum(map(ord, "".join(pair))) % len(_VALUES)])
        elif random.random() < LEARNT_AGAIN:
            await _learn_again(year, *pair)
        year.last_asked[pair] = year.clock[0]
        await _ask(year, *pair)
    for _ in range(NOISE_PER_SESSION):
        await _learn(
            year, f"run {year.statements}", "duration", value=f"{random.randrange(900)} seconds"
        )


async def _learn(year: _Year, part: str, thing: str, *, value: str) -> None:
    year.statements += 1
    await year.memory.add(
        Fact(key=f"{part} {thing}", value=value, confidence=0.8),
        kind=MemoryKind.NOTE,
        author=Author.RULE,
    )


async def _learn_again(year: _Year, part: str, thing: str) -> None:
    value = _VALUES[sum(map(ord, part + thing)) % len(_VALUES)]
    key = year.random.choice((f"{thing} of the {part}", f"our {part} {thing}", f"{part}: {thing}"))
    year.statements += 1
    await year.memory.add(
        Fact(key=key, value=year.random.choice((f"use {value}", value, f"the {value}"))),
        author=Author.RULE,
    )


async def _ask(year: _Year, part: str, thing: str) -> None:
    found = [each for each, _ in await year.memory.search(f"{part} {thing}", limit=SHOWN)]
    if not found:
        return
    await year.memory.on_memory_retrieved(*(each.id for each in found))
    right = [each.id for each in found if _says(each, part, thing)]
    wrong = [each.id for each in found if not _says(each, part, thing)]
    if right:
        await year.memory.on_memory_cited(right[0])
    if wrong:
        await year.memory.on_memory_ignored(*wrong)


def _says(memory: Memory, part: str, thing: str) -> bool:
    assert isinstance(memory.body, Fact)
    return part in memory.body.key and thing in memory.body.key


async def _figures(year: _Year) -> list[Figure]:
    held = await year.memory.memories()
    usage = await year.memory.repository.usage(each.id for each in held)
    now = year.clock[0]
    scores = {each.id: usefulness(each, usage[each.id], now=now) for each in held}
    if not year.last_asked:
        raise Incorrect("nothing was asked in the simulated time; take more weeks")
    copies = {
        pair: [each for each in held if _says(each, *pair)] for pair in sorted(year.last_asked)
    }
    lost = sum(not each for each in copies.values()) / len(copies)
    extra = sum(max(0, len(each) - 1) for each in copies.values()) / max(1, len(held))
    order = sorted(scores.values(), reverse=True)
    useful = [scores[each[0].id] for each in copies.values() if each]
    rank = median(order.index(score) for score in useful) / max(1, len(order))
    collapsed = sum(score <= FLOOR for score in useful) / len(useful)
    return [
        _bounded("a simulated year: useful memories forgotten", lost, 0.01, "rows: below 1 %"),
        _bounded("a simulated year: paraphrased duplicates", extra, 0.03, "PG-24"),
        Figure(
            what="a simulated year: median rank of useful memories (share of all)",
            value=rank,
            bound="at most 0.5, none at the floor",
            meets=rank <= 0.5 and collapsed == 0,  # noqa: PLR2004 -- better than by chance
            against="PG-20: scores must not collapse",
            note=f"{len(held):,} memories hold; useful ones at the floor: {collapsed:.0%}",
        ),
        _growth(year.sizes),
    ]


def _bounded(what: str, value: float, bound: float, against: str) -> Figure:
    return Figure(
        what=what,
        value=value,
        bound=f"below {bound:g}",
        meets=value < bound,
        against=against,
    )


def _growth(sizes: Sequence[tuple[int, int]]) -> Figure:
    """Compare what a new statement costs in the two halves of the time."""
    middle = sizes[len(sizes) // 2]
    first, second = sizes[0], sizes[-1]
    if middle[0] in (first[0], second[0]):
        return reported("a simulated year: growth", None, against="linear", note="too short")
    early = (middle[1] - first[1]) / (middle[0] - first[0])
    late = (second[1] - middle[1]) / (second[0] - middle[0])
    return Figure(
        what="a simulated year: memories per new statement, second half to first",
        value=late / early,
        bound="at most 1.2×",
        meets=late / early <= 1.2,  # noqa: PLR2004 -- linear, with some room
        against="linear in what is new",
        note=f"{second[0]:,} statements, {second[1]:,} memories stored, forgotten ones included",
    )
