"""Any query of any log agrees with a plain list of records."""

import random
from pathlib import Path
from typing import Any

import pytest

from ctxmgr.core.events.event_type import EventType
from ctxmgr.experience.log import fold
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.timestep import NewTimestep, TimestepRecord

CONCEPTS = ("a.b/c::D", "x", "y'; --", "Ünïcode")
WORDS = ("alpha", "Beta", "ÉCOLE", "", "it's", "100%", "_")
SESSIONS = ("s", "s-1", "t'x")


def random_step(chance: random.Random) -> NewTimestep:
    chosen = chance.sample(CONCEPTS, chance.randint(0, len(CONCEPTS)))
    return NewTimestep(
        timestamp=chance.randint(0, 50),
        event_type=chance.choice(list(EventType)),
        content=" ".join(chance.choices(WORDS, k=2)),
        concept_activations={concept: chance.randint(0, 10) / 10 for concept in chosen},
        event_id=chance.choice([None, "e1", "e2"]),
        role=chance.choice([None, "user", "tool"]),
        token_id=chance.choice([None, 7]),
    )


def random_filters(chance: random.Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return value if chance.random() < 0.4 else None

    low, high = sorted(chance.choices(range(51), k=2))
    first, last = sorted(chance.choices(range(40), k=2))
    scores = sorted(chance.choices(range(11), k=2))
    concepts = chance.sample(CONCEPTS, chance.randint(1, 2))
    return {
        "session_id": maybe(chance.choice(SESSIONS)),
        "tick_range": maybe((first, last)),
        "time_range": maybe((low, high)),
        "event_types": maybe(chance.sample(list(EventType), 3)),
        "text_search": maybe(chance.choice(WORDS).swapcase()),
        "concept_activations": maybe(dict.fromkeys(concepts, (scores[0] / 10, scores[1] / 10))),
        "limit": chance.choice([3, 1_000]),
        "offset": chance.choice([0, 2]),
    }


def expected(records: list[TimestepRecord], wanted: dict[str, Any]) -> list[TimestepRecord]:
    def matches(record: TimestepRecord) -> bool:
        ticks, times = wanted["tick_range"], wanted["time_range"]
        scores = record.concept_activations
        return (
            wanted["session_id"] in {None, record.session_id}
            and (ticks is None or ticks[0] <= record.tick <= ticks[1])
            and (times is None or times[0] <= record.timestamp <= times[1])
            and (wanted["event_types"] is None or record.event_type in wanted["event_types"])
            and (wanted["text_search"] or "").lower() in record.content.lower()
            and all(
                name in scores and low <= scores[name] <= high
                for name, (low, high) in (wanted["concept_activations"] or {}).items()
            )
        )

    found = sorted(filter(matches, records), key=lambda each: (each.session_id, each.tick))
    return found[wanted["offset"] : wanted["offset"] + wanted["limit"]]


@pytest.mark.parametrize("seed", range(4))
async def test_queries_agree_with_a_plain_list(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """000-R115 to 000-R122, 000-R161: over the tail, segments, merged ones, and what is gone."""
    monkeypatch.setattr(fold, "MERGE_SEGMENTS", 3)
    chance = random.Random(seed)
    records: list[TimestepRecord] = []
    async with await ExperienceLog.open(tmp_path) as log:
        for _ in range(18):
            session = chance.choice(SESSIONS)
            steps = [random_step(chance) for _ in range(chance.randint(1, 6))]
            appended = await log.append(session, steps)
            assert appended is not None
            for tick, step in enumerate(steps, appended.first_tick):
                fields = {name: getattr(step, name) for name in NewTimestep.__slots__}
                records.append(TimestepRecord(session_id=session, tick=tick, **fields))
            action = chance.random()
            if action < 0.3:
                await log.fold()
            elif action < 0.4:
                start = chance.randint(1, 20)
                await log.drop(session, start, start + 3)
                records = [
                    each
                    for each in records
                    if each.session_id != session or not start <= each.tick <= start + 3
                ]
            wanted = random_filters(chance)
            assert await log.query(**wanted) == expected(records, wanted), wanted
        for record in chance.sample(records, 5):
            assert await log.get_timestep(record.id) == record
        count = await log.sql("SELECT count(*) FROM timesteps")
        assert count.rows == ((len(records),),)
