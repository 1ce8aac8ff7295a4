"""Memories of a project that never was, for the speed of serving. Pure; the seed decides."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from ctxmgr.core.store.contract import Instant
from ctxmgr.memory.records.bodies import Body, Episode, Fact, Workflow
from ctxmgr.memory.records.levels import levels_by_rule
from ctxmgr.memory.records.memory import Author, Memory, MemoryKind, Origin, Visibility
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.tiers.ranking import DAY_MS

WORDS: Final = 6_000
"""Different words; Zipf's law decides how often each occurs."""

FILES: Final = 400

_SYLLABLES: Final = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u")]
_KINDS: Final = (
    [MemoryKind.NOTE] * 70
    + [MemoryKind.DECISION] * 10
    + [MemoryKind.ERROR_FIX] * 10
    + [MemoryKind.CONVENTION] * 5
    + [MemoryKind.PREFERENCE] * 3
    + [MemoryKind.INSTRUCTION] * 2
)


class MadeUpWords:
    """Words that can be spoken, the common ones first."""

    def __init__(self, random: Random) -> None:
        self._random = random
        found: dict[str, None] = {}
        while len(found) < WORDS:
            found["".join(random.choices(_SYLLABLES, k=random.randint(2, 4)))] = None
        self.words = list(found)
        weights = [1 / (place + 10) for place in range(WORDS)]
        self._sums = [sum(weights[:1])]
        for weight in weights[1:]:
            self._sums.append(self._sums[-1] + weight)

    def text(self, count: int) -> str:
        return " ".join(self._random.choices(self.words, cum_weights=self._sums, k=count))

    def file(self) -> str:
        number = self._random.randrange(FILES)
        return f"src/{self.words[500 + number % 20]}/{self.words[1_000 + number]}.py"


def generated_memories(
    number: int,
    principal: Principal,
    *,
    seed: int,
    now: Instant,
    count: Callable[[str], int],
) -> Iterator[Memory]:
    """Yield memories of a year: half are facts, the rest episodes and a few workflows."""
    random = Random(seed)  # noqa: S311 -- repeatable
    vocabulary = MadeUpWords(random)
    for place in range(number):
        created = now - random.randrange(365) * DAY_MS
        body = _body(random, vocabulary)
        tags = tuple(vocabulary.file() for _ in range(random.randint(0, 2)))
        yield Memory(
            id=f"{random.getrandbits(32):08x}-0000-4000-8000-{place:012x}",
            body=body,
            kind=random.choice(_KINDS) if isinstance(body, Fact) else MemoryKind.NOTE,
            levels=levels_by_rule(body, count),
            author=random.choice((Author.RULE, Author.AGENT, Author.PERSON)),
            visibility=random.choice((Visibility.USER_PRIVATE, Visibility.PROJECT_SHARED)),
            user_id=principal.user_id,
            project_id=principal.project_id,
            created_at=created,
            valid_from=created,
            origin=Origin(session_id=f"s{place // 20}", turn=place % 20 + 1),
            tags=tuple(dict.fromkeys(tags)),
        )


def _body(random: Random, vocabulary: MadeUpWords) -> Body:
    chosen = random.random()
    if chosen < 0.5:  # noqa: PLR2004 -- the share of facts
        return Fact(key=vocabulary.text(3), value=vocabulary.text(random.randint(1, 8)))
    if chosen < 0.95:  # noqa: PLR2004 -- and of episodes
        return Episode(
            title=vocabulary.text(6),
            full_narrative=vocabulary.text(random.randint(20, 120)),
            problem=vocabulary.text(8),
            fix=vocabulary.text(8),
        )
    return Workflow(
        name=vocabulary.text(2),
        trigger=vocabulary.text(4),
        steps=tuple(vocabulary.text(3) for _ in range(4)),
        hint=vocabulary.text(6),
    )
