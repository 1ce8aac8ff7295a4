"""Measure what is left of a day of experience at each level of compression.

python -m experiments.experience_day.run [TOKENS]    writes data, report and plot

A day of agents is simulated, as fast as it can be stored: sessions of replies of tokens, in some of
which something happens that is asked for later. Then the day is compressed, level by level.
"""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

from ctxmgr.experience.records.kinds import CompressionLevel, EventType
from ctxmgr.experience.records.timestep import NewTimestep
from ctxmgr.experience.windows.storage_manager import StorageManager
from ctxmgr.experience.xdb import XDB
from experiments.plot import lines
from experiments.replays import Experiment, table

TOKENS: Final = 200_000
DAY_TOKENS: Final = 150_000_000
SESSION_TOKENS: Final = 10_000
REPLY_TOKENS: Final = 100
CONCEPTS: Final = 2_000
TOP_K: Final = 10
FACT_EVERY: Final = 20
"""Replies between two in which something happens that is asked for."""

QUESTIONS_MAX: Final = 100
"""Facts that are asked for at each level."""

FIRST_DAY_MS: Final = 1_767_571_200_000
DAY_MS: Final = 24 * 3_600_000
DAYS: Final = (0, 1, 9, 45, 130)
"""The days of a year that sessions belong to, so that every level has something to join."""

SEED: Final = 7


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened once: what was said, what it was about, and how it was tagged."""

    session: str
    word: str
    concept: str
    tag: str


def replies(
    number: int, session: str, chance: random.Random
) -> tuple[list[NewTimestep], list[Fact]]:
    """Return the tokens of a session, and the facts in them."""
    steps: list[NewTimestep] = []
    facts: list[Fact] = []
    start = FIRST_DAY_MS + DAYS[number % len(DAYS)] * DAY_MS + (number * 61_000) % DAY_MS
    for reply in range(SESSION_TOKENS // REPLY_TOKENS):
        about = f"concept-{chance.randrange(CONCEPTS)}"
        texts = [f" word{chance.randrange(5_000)}" for _ in range(REPLY_TOKENS)]
        if reply % FACT_EVERY == 0:
            fact = Fact(session, f"needle{number}x{reply}", about, f"tag-{number}-{reply}")
            texts[chance.randrange(REPLY_TOKENS)] = f" {fact.word}"
            facts.append(fact)
        for place, text in enumerate(texts):
            others = {f"concept-{chance.randrange(CONCEPTS)}": 0.3 for _ in range(TOP_K - 1)}
            steps.append(
                NewTimestep(
                    timestamp=start + 20 * len(steps),
                    event_type=EventType.OUTPUT,
                    content=text,
                    concept_activations={**others, about: 0.9},
                    event_id=f"answer-{reply}",
                    event_start=place == 0,
                    event_end=place == REPLY_TOKENS - 1,
                    role="assistant",
                )
            )
    return steps, facts


async def record_day(xdb: XDB, tokens: int) -> tuple[list[Fact], float]:
    """Record a day; return what happened in it, and the processor time per token in µs."""
    chance = random.Random(SEED)
    facts: list[Fact] = []
    spent = 0.0
    for number in range(tokens // SESSION_TOKENS):
        session = f"agent-{number:05}"
        steps, found = replies(number, session, chance)
        started = time.process_time()
        for at in range(0, len(steps), 1_000):
            await xdb.experience_log.append(session, steps[at : at + 1_000])
        spent += time.process_time() - started
        await xdb.start_session(session)
        for fact in found:
            reply = fact.tag.rsplit("-", 1)[1]
            await xdb.tag(fact.tag, event_id=f"answer-{reply}")
        facts += found
    started = time.process_time()
    await xdb.experience_log.fold()
    return facts, 1e6 * (spent + time.process_time() - started) / tokens


async def ask_tokens(xdb: XDB, fact: Fact) -> dict[str, bool]:
    """Ask the log for a fact while it has every token."""
    log = xdb.experience_log
    said = await log.query(session_id=fact.session, text_search=fact.word)
    about = await log.query(session_id=fact.session, concept_activations={fact.concept: (0.8, 1)})
    tagged = await log.query(tags=await xdb.tag_ids([fact.tag]), limit=1)
    return {"said": bool(said), "about": bool(about), "tagged": bool(tagged)}


async def ask_records(xdb: XDB, fact: Fact, level: CompressionLevel) -> dict[str, bool]:
    """Ask the compressed records for a fact."""
    [tag] = await xdb.tag_ids([fact.tag])
    result = await xdb.experience_log.sql(
        "SELECT bool_or(contains(summary, '{}')), bool_or(contains(top_k_activations, '\"{}\"')),"
        " bool_or(contains(significant_tags, '\"{}\"')) FROM compressed_records"
        " WHERE superseded_by IS NULL{}".format(
            fact.word,
            fact.concept,
            tag,
            f" AND session_id = '{fact.session}'" if level <= CompressionLevel.SESSION else "",
        )
    )
    said, about, tagged = result.rows[0]
    return {"said": bool(said), "about": bool(about), "tagged": bool(tagged)}


async def asked(
    facts: Sequence[Fact], ask: Callable[[Fact], Awaitable[dict[str, bool]]]
) -> dict[str, Any]:
    """Return the share of facts that are found, and how long three questions take."""
    answers, milliseconds = [], []
    for fact in facts:
        started = time.process_time()
        answers.append(await ask(fact))
        milliseconds.append(1e3 * (time.process_time() - started))
    shares = {
        name: round(sum(answer[name] for answer in answers) / len(answers), 2)
        for name in ("said", "about", "tagged")
    }
    return {
        **shares,
        "cpu_ms_p50": round(median(milliseconds), 1),
        "cpu_ms_p99": round(quantiles(milliseconds, n=100)[-1], 1),
    }


async def compress_all(xdb: XDB, level: CompressionLevel) -> None:
    """Compress every record to a level, as if there were no room for finer ones."""
    manager = StorageManager(xdb.experience_log.file, max_storage_bytes=1, batch=1_000)
    while any(0 < other < level for other in await manager.usage_by_level()):
        if not await manager.compress_oldest():
            break


async def measure(tokens: int) -> tuple[dict[str, dict[str, Any]], float]:
    with TemporaryDirectory(prefix="ctxmgr-day-") as folder:
        async with XDB(Path(folder), "agents") as xdb:
            facts, cost = await record_day(xdb, tokens)
            some = random.Random(SEED).sample(facts, min(QUESTIONS_MAX, len(facts)))
            status = await xdb.experience_log.status()
            rows = {
                "token": {
                    "records": tokens,
                    "bytes_per_token": round(status.segment_bytes / tokens, 3),
                    **await asked(some, lambda fact: ask_tokens(xdb, fact)),
                }
            }
            for session in sorted({fact.session for fact in facts}):
                await xdb.windows.expire(session, before_tick=SESSION_TOKENS + 1)
            manager = xdb.storage_manager()
            for level in (*CompressionLevel,)[1:]:
                await compress_all(xdb, level)
                count = await xdb.experience_log.sql(
                    "SELECT count(*) FROM compressed_records WHERE superseded_by IS NULL"
                )
                rows[level.name.lower()] = {
                    "records": count.rows[0][0],
                    "bytes_per_token": round(await manager.get_current_usage() / tokens, 3),
                    **await asked(some, lambda fact, level=level: ask_records(xdb, fact, level)),
                }
    return rows, cost


def main() -> None:
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else TOKENS
    rows, cost = asyncio.run(measure(tokens))
    days = {
        name: {**row, "megabytes_a_day": round(row["bytes_per_token"] * DAY_TOKENS / 1e6)}
        for name, row in rows.items()
    }
    columns = ["records", "bytes_per_token", "megabytes_a_day", "said", "about", "tagged"]
    curves = {
        name: [round(100 * row[name]) for row in rows.values()]
        for name in ("said", "about", "tagged")
    }
    plot = lines(curves, title="Answered, in per cent", x="level, from token to year", y="%")
    Experiment(Path(__file__).parent, "experience-day").write(
        {"tokens": tokens, "cpu_us_per_token": round(cost, 2), "levels": days},
        plot=plot,
        table=table(days, [*columns, "cpu_ms_p50", "cpu_ms_p99"]),
        tokens=f"{tokens:,}",
        cost=f"{cost:.1f}",
        minutes=f"{cost * DAY_TOKENS / 60e6:.0f}",
    )


if __name__ == "__main__":
    main()
