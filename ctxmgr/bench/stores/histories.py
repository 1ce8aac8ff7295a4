"""Random histories for comparing stores: transactions, and questions to ask afterwards. Pure.

A history depends only on its seed. Its valid times are days of a small grid in the past and in the
future, so that boundaries coincide, or instants at which the store committed earlier steps, which
differ between stores. Steps without a valid time get the store's.

    step        one transaction: guards, puts and deletes over a few ids
    quiet       the clock advances between steps, so two stores see the same order of times
    burst       no pauses: steps share milliseconds if the store is fast enough
"""

import random
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from ctxmgr.core.store.contract import FieldType, Instant, Kind, Order, Query, Range
from ctxmgr.core.store.documents import Document

HISTORY_KIND: Final = Kind(
    "history-step",
    {
        "lot": FieldType.TEXT,
        "rank": FieldType.INTEGER,
        "word": FieldType.TEXT,
        "even": FieldType.BOOLEAN,
    },
)
"""Declare it in both stores. ``lot`` marks the history, so that many can share a database."""

IDS: Final = ("a", "b", "c")
STEPS_MIN: Final = 4
STEPS_MAX: Final = 10
QUESTIONS: Final = 20
"""Enough to expose a wrong rule in a few histories; 200 histories still take only a minute."""
BURST_SHARE: Final = 0.15

_DAY_MS: Final = 86_400_000
PAST: Final[tuple[Instant, ...]] = tuple(1_577_836_800_000 + n * _DAY_MS for n in range(6))
FUTURE: Final[tuple[Instant, ...]] = tuple(4_102_444_800_000 + n * _DAY_MS for n in range(2))
_GRID: Final = PAST + FUTURE
_WORDS: Final = (None, "", "a", "aa", "B", "é", "中", "\ue000", "😀")
_RANKS: Final = (None, -1, 0, 1, 1, 2)
_LARGE: Final = 300_000
"""Characters of a text that stores store in a special way."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The instant of a step's commit plus an offset; of the commit before it if it was rejected."""

    step: int
    offset_ms: int = 0


When: TypeAlias = Instant | StepTime | None


@dataclass(frozen=True, slots=True)
class RandomGuard:
    """A match: the object is as it is visible now, absent, or as that step put it."""

    object_id: str
    expect: Literal["visible", "absent"] | int
    at: When


@dataclass(frozen=True, slots=True)
class RandomChange:
    """A put, or a delete if there is no document."""

    object_id: str
    document: Document | None
    start: When
    end: When


@dataclass(frozen=True, slots=True)
class Step:
    guards: tuple[RandomGuard, ...]
    changes: tuple[RandomChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPoint:
    """A point on both time axes; ``known`` is the last step that is visible."""

    valid: When = None
    known: int | None = None
    by_clock: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomRead:
    """One read. Which fields apply depends on ``call``."""

    call: Literal["get", "get_many", "history", "find"]
    point: StepPoint
    object_ids: tuple[str, ...] = ()
    since: When = None
    newest_first: bool = False
    corrections: bool = False
    documents: bool = True
    query: Query = field(default_factory=lambda: Query(HISTORY_KIND.name))
    limit: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomHistory:
    seed: int
    mark: str
    burst: bool
    steps: tuple[Step, ...]
    questions: tuple[RandomRead, ...]


class Dice(random.Random):
    """A reproducible random generator."""

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.random() < share


def random_history(seed: int, *, mark: str) -> RandomHistory:
    """Return the history of a seed; its ids begin with the mark."""
    dice = Dice(seed)
    count = dice.randint(STEPS_MIN, STEPS_MAX)
    return RandomHistory(
        seed=seed,
        mark=mark,
        burst=dice.chance(BURST_SHARE),
        steps=tuple(_step(dice, mark, number) for number in range(count)),
        questions=tuple(_question(dice, mark, count) for _ in range(QUESTIONS)),
    )


def _step(dice: Dice, mark: str, number: int) -> Step:
    names = [IDS[0]] if dice.chance(0.6) else dice.sample(IDS, dice.randint(1, 3))
    guarded = dice.sample(IDS, dice.choice((0, 0, 0, 1, 2)))
    return Step(
        tuple(_guard(dice, _id(mark, name), number) for name in guarded),
        tuple(_change(dice, mark, name, number) for name in names),
    )


def _guard(dice: Dice, object_id: str, number: int) -> RandomGuard:
    expect: Literal["visible", "absent"] | int = "visible"
    if dice.chance(0.3):
        expect = dice.randrange(number) if number and dice.chance(0.5) else "absent"
    return RandomGuard(object_id, expect, None if dice.chance(0.5) else _when(dice, number))


def _change(dice: Dice, mark: str, name: str, number: int) -> RandomChange:
    document = None if dice.chance(0.25) else _document(dice, mark, name, number)
    if dice.chance(0.25):
        return RandomChange(_id(mark, name), document, None, None)
    if dice.chance(0.5):
        return RandomChange(_id(mark, name), document, _when(dice, number), None)
    start, end = sorted(dice.sample(_GRID, 2))
    if number and start in PAST and end in FUTURE and dice.chance(0.5):
        return RandomChange(_id(mark, name), document, StepTime(dice.randrange(number)), end)
    return RandomChange(_id(mark, name), document, start, end)


def _when(dice: Dice, number: int) -> When:
    if number and dice.chance(0.2):
        return StepTime(dice.randrange(number), dice.choice((-1, 0, 0, 1)))
    return dice.choice(_GRID)


def _document(dice: Dice, mark: str, name: str, number: int) -> Document:
    document: Document = {
        "xt/id": _id(mark, name),
        "type": HISTORY_KIND.name,
        "lot": mark,
        "step": number,
        "even": number % 2 == 0,
    }
    if dice.chance(0.9):
        document["rank"] = dice.choice(_RANKS)
    if dice.chance(0.8):
        document["word"] = dice.choice(_WORDS)
    if dice.chance(0.05):
        document["content"] = f"{number % 2}" * _LARGE
    if dice.chance(0.3):
        document["turns"] = _turns(dice, number)
    return document


def _turns(dice: Dice, number: int) -> list[str]:
    """Return a long list that shares its beginning with others: complete, or changed."""
    turns = [f"turn {turn}" for turn in range(dice.randint(0, 600))]
    at = dice.randrange(len(turns) + 1)
    match dice.choice(("grown", "gap", "branch", "turned")):
        case "gap":
            return turns[:at] + turns[at + 1 :]
        case "branch":
            return [*turns[:at], f"turn of step {number}"]
        case "turned":
            return turns[:at] + turns[at:][::-1]
        case _:
            return turns


def _question(dice: Dice, mark: str, steps: int) -> RandomRead:
    ids = [_id(mark, name) for name in dice.sample((*IDS, "never"), 4)]
    if dice.chance(0.5):
        ids.sort()
    match dice.choice(("get", "get", "get_many", "history", "history", "find", "find")):
        case "get":
            return RandomRead(call="get", point=_point(dice, steps), object_ids=(ids[0],))
        case "get_many":
            return RandomRead(call="get_many", point=_point(dice, steps), object_ids=tuple(ids))
        case "history":
            return RandomRead(
                call="history",
                point=_point(dice, steps),
                object_ids=(ids[0],),
                since=_when(dice, steps) if dice.chance(0.3) else None,
                newest_first=dice.chance(0.5),
                corrections=dice.chance(0.6),
                documents=dice.chance(0.7),
                limit=dice.choice((1, 3, 1_000, 1_000, 1_000)),
            )
        case _:
            return RandomRead(
                call="find",
                point=_point(dice, steps),
                query=_query(dice, mark),
                limit=dice.choice((1, 1_000, 1_000)),
            )


def _point(dice: Dice, steps: int) -> StepPoint:
    return StepPoint(
        valid=_when(dice, steps) if dice.chance(0.6) else None,
        known=dice.randrange(steps) if dice.chance(0.6) else None,
        by_clock=dice.chance(0.5),
    )


def _query(dice: Dice, mark: str) -> Query:
    where: dict[str, str | int | bool | None] = {"lot": mark}
    if dice.chance(0.3):
        where["rank"] = dice.choice((None, 0, 1))
    if dice.chance(0.3):
        where["even"] = dice.chance(0.5)
    between = None
    if dice.chance(0.4):
        name, values = ("rank", _RANKS) if dice.chance(0.5) else ("word", _WORDS)
        between = Range(name, dice.choice(values), dice.choice(values))
    order = Order(dice.choice(("rank", "word")), dice.chance(0.5))
    return Query(HISTORY_KIND.name, where, between, order if dice.chance(0.7) else None)


def _id(mark: str, name: str) -> str:
    return f"{mark}:{name}"
