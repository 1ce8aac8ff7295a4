"""A shortlist gives the same prompt as looking at every memory."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ctxmgr.bench.memory.generated import generated_memories
from ctxmgr.core.context.tokens import TokenCounter
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.records.usage import MemoryUsage
from ctxmgr.memory.tiers.assembly import AssembledContext, Signals, assemble_context
from ctxmgr.memory.tiers.profiles import tier_budgets
from ctxmgr.memory.tiers.ranking import DAY_MS
from ctxmgr.memory.tiers.shortlist import Shortlist

NOW = 1_790_000_000_000 // DAY_MS * DAY_MS
COUNT = TokenCounter().count
MEMORIES = list(
    generated_memories(400, Principal(user_id="ada", project_id="x"), seed=7, now=NOW, count=COUNT)
)
PATHS = sorted({tag for memory in MEMORIES for tag in memory.tags})


@given(
    used=st.lists(st.tuples(st.integers(0, 399), st.booleans()), max_size=20),
    removed=st.sets(st.integers(0, 399), max_size=20),
    cold=st.sets(st.integers(0, 399), max_size=20),
    matching=st.lists(st.integers(0, 399), max_size=10, unique=True),
    path=st.sampled_from(PATHS),
    budget=st.sampled_from([200, 1_000, 4_000]),
)
@settings(max_examples=15, deadline=None)
def test_the_shortlist_holds_everything_that_would_be_shown(
    *,
    used: list[tuple[int, bool]],
    removed: set[int],
    cold: set[int],
    matching: list[int],
    path: str,
    budget: int,
) -> None:
    """001-R132: serving looks at a few candidates, and the text is that of a full scan."""
    memories = {
        memory.id: replace(memory, cold=number in cold) for number, memory in enumerate(MEMORIES)
    }
    usage: dict[str, MemoryUsage] = {}
    for number, cited in used:
        each = usage.get(MEMORIES[number].id, MemoryUsage(memory_id=MEMORIES[number].id))
        usage[each.memory_id] = each.cited(NOW) if cited else each.ignored()
    shortlist = Shortlist()
    shortlist.load(MEMORIES, {}, now=NOW)
    for memory_id, memory in memories.items():
        shortlist.put(memory, usage.get(memory_id, MemoryUsage(memory_id=memory_id)))
    for number in removed:
        shortlist.remove(MEMORIES[number].id)
        del memories[MEMORIES[number].id]
    relevance = {MEMORIES[number].id: 1.0 - place / 20 for place, number in enumerate(matching)}
    candidates = shortlist.candidates(
        matching=relevance, path=path, tier_tokens=tier_budgets(budget), now=NOW
    )

    def assembled(*, short: bool) -> AssembledContext:
        return assemble_context(
            candidates if short else list(memories.values()),
            signals=Signals(current_file=path),
            relevance=relevance,
            usage=usage,
            contradictions=(),
            count=COUNT,
            now=NOW,
            budget=budget,
        )

    assert assembled(short=True).context == assembled(short=False).context
    assert shortlist.memories.keys() == memories.keys()


def test_what_was_learnt_last_about_a_file_comes_first() -> None:
    """001-R048: predictions take only some of many memories, and not the oldest of them."""
    memories = [replace(each, tags=("src/shop.py",)) for each in MEMORIES[:3]]
    shortlist = Shortlist()
    shortlist.load(memories[:2], {}, now=NOW)
    shortlist.put(memories[2], MemoryUsage(memory_id=memories[2].id))

    assert next(shortlist.about("shop.py")) == memories[2].id
