"""What a prompt showed is counted every turn: retrieved, cited, or passed over."""

from ctxmgr import Store, text_part
from ctxmgr.memory.learning.usage_judgement import ShownLine, cited_lines, shown_lines
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Fact
from ctxmgr.memory.records.memory import MemoryKind
from ctxmgr.memory.records.usage import MemoryUsage
from tests.memory.learning.test_learning import ADA, call, client_of, exchange
from tests.memory.learning.test_learning import patient as patient  # noqa: PLC0414 (a fixture)
from tests.memory.learning.test_learning import store as store  # noqa: PLC0414 (a fixture)


async def counters(store: Store, memory_id: str) -> MemoryUsage:
    living = LivingMemory(store, ADA)
    return (await living.repository.usage([memory_id]))[memory_id]


async def shown(store: Store, fact: Fact, kind: MemoryKind = MemoryKind.NOTE) -> str:
    return (await LivingMemory(store, ADA).add(fact, kind=kind)).memory.id


async def test_an_exchange_counts_once_and_a_citation_counts(store: Store) -> None:
    """001-A11, 001-R072, 001-R073, PG-23: judged while the session goes on, not at its end."""
    memory = await shown(store, Fact(key="packages", value="pnpm"))
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        await call(session, "c1", {"command": "ls"}, "a", user="install the packages")
        await call(session, "c2", {"command": "pnpm install"}, "done")
        await call(session, "c3", {"command": "pnpm test"}, "done")
    usage = await counters(store, memory)
    assert (usage.retrieval_count, usage.citation_count, usage.ignore_count) == (1, 1, 0)


async def test_what_was_shown_for_relevance_and_not_used_is_ignored(store: Store) -> None:
    """001-R075: counted when the exchange ends."""
    memory = await shown(store, Fact(key="packages", value="pnpm"))
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        await exchange(session, "which packages are there?", answer="Left-pad and right-pad.")
    usage = await counters(store, memory)
    assert (usage.retrieval_count, usage.citation_count, usage.ignore_count) == (1, 0, 1)


async def test_what_is_always_shown_is_never_ignored(store: Store) -> None:
    """PG-22: instructions are there whatever the message is."""
    rule = Fact(key="commits", value="never commit to main")
    memory = await shown(store, rule, MemoryKind.INSTRUCTION)
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        await exchange(session, "write a poem about commits", answer="Roses are red.")
    assert (await counters(store, memory)).ignore_count == 0


async def test_an_id_in_an_answer_is_a_citation(store: Store) -> None:
    memory = await shown(store, Fact(key="packages", value="pnpm"))
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        await session.render("which packages are there?")
        await session.end_turn([text_part(f"As agreed [{memory[:8]}].")])
    assert (await counters(store, memory)).citation_count == 1


def test_words_that_the_user_said_or_lines_share_prove_nothing() -> None:
    lines = [
        ShownLine(start="aaaaaaaa", tier=2, text="test runner: pytest"),
        ShownLine(start="bbbbbbbb", tier=2, text="test folder: tests/unit"),
    ]
    assert cited_lines(lines, action="I ran the test", said="run a test") == frozenset()
    assert cited_lines(lines, action="pytest -q, the runner", said="run a test") == {"aaaaaaaa"}


def test_the_index_of_names_is_not_shown_content() -> None:
    text = (
        "# Memory\n\n## Relevant now\n- packages: pnpm [0a1b2c3d]\n\n"
        "## Ask for more with expand(id)\n- 1a1b2c3d cache\n"
    )
    assert [(line.start, line.tier) for line in shown_lines(text)] == [("0a1b2c3d", 2)]


async def test_what_is_said_again_counts_as_used(store: Store) -> None:
    """001-R074: a rule that the user repeats in a later session is not forgotten as unused."""
    for session_id in ("one", "two"):
        async with client_of(store) as client:
            session = await client.start(session_id, system_prompt="You help.")
            await exchange(session, "we use pnpm for packages")
    (memory,) = await LivingMemory(store, ADA).memories()
    usage = await counters(store, memory.id)
    assert usage.citation_count >= 1
    assert usage.ignore_count == 0
