"""Which memories a prompt gets, and in which tier."""

from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.bodies import Body, Episode, Fact, Pattern, Workflow
from ctxmgr.memory.records.memory import MemoryKind
from ctxmgr.memory.tiers.assembly import Signals

NARRATIVE = "An hour of reading the payment code, and of guessing. " * 30


async def tiers(memory: LivingMemory, signals: Signals) -> dict[str, int]:
    assembled = await memory.assemble_context(signals=signals)
    names = {each.id: each.levels.index for each in await memory.memories()}
    return {names[item.id]: item.tier for item in assembled.shown}


async def fill(memory: LivingMemory) -> None:
    for body, kind, tags in _MEMORIES:
        await memory.add(body, kind=kind, tags=tags)


_MEMORIES: tuple[tuple[Body, MemoryKind, tuple[str, ...]], ...] = (
    (Fact(key="language", value="answer in English"), MemoryKind.INSTRUCTION, ()),
    (Fact(key="retries", value="at most 3"), MemoryKind.DECISION, ("src/payment",)),
    (Fact(key="cache", value="Redis"), MemoryKind.DECISION, ("src/cache",)),
    (Fact(key="quotes", value="double"), MemoryKind.CONVENTION, ()),
    (Fact(key="lunch", value="at noon"), MemoryKind.NOTE, ()),
    (
        Episode(
            title="The payment gateway timed out at checkout",
            full_narrative=NARRATIVE,
            problem="The payment gateway hung for a minute, and then it gave up.",
        ),
        MemoryKind.NOTE,
        (),
    ),
    (
        Workflow(name="release", trigger="release", steps=("tag", "push"), hint="tag, push"),
        MemoryKind.NOTE,
        (),
    ),
    (
        Pattern(name="endpoint", trigger="endpoint", template={"route": "r"}, hint="route first"),
        MemoryKind.NOTE,
        (),
    ),
)


async def test_each_memory_is_in_the_tier_of_its_use(memory: LivingMemory) -> None:
    """001-R012, 001-R015, 001-R018, 001-R020 to 001-R022, 001-R079, 001-R081, 001-R083, 001-R085,
    001-A02.
    """
    await fill(memory)

    found = await tiers(memory, Signals(current_file="src/payment/gateway.py"))

    assert found["language"] == 1
    assert found["retries"] == 1
    assert found["payment-gateway-timed"] == 2
    assert (found["quotes"], found["release"], found["cache"]) == (3, 3, 3)
    assert (found["lunch"], found["endpoint"]) == (4, 4)


async def test_a_decision_that_matches_is_relevant_and_the_rest_has_a_name(
    memory: LivingMemory,
) -> None:
    """001-R016, 001-R033, 001-R141: of an episode that does not match, the index is shown."""
    await fill(memory)

    assembled = await memory.assemble_context(signals=Signals(message="is Redis our cache?"))

    index = {each.id: each.levels.index for each in await memory.memories()}
    shown = {index[item.id]: (item.tier, item.text) for item in assembled.shown}
    assert shown["cache"][0] == 2
    tier, text = shown["payment-gateway-timed"]
    assert (tier, text.partition(" ")[2]) == (4, "payment-gateway-timed")


async def test_the_narrative_of_an_episode_is_never_shown(memory: LivingMemory) -> None:
    """001-R028, 001-R030, 001-R031: its summary is, where it matters."""
    await fill(memory)

    assembled = await memory.assemble_context(signals=Signals(message="the payment gateway hangs"))

    assert "The payment gateway hung" in assembled.context
    assert "An hour of reading" not in assembled.context


async def test_only_what_is_relevant_is_in_tier_2(memory: LivingMemory) -> None:
    """001-R006: a relevance cut, not a fixed number."""
    await fill(memory)

    about_nothing = await tiers(memory, Signals(message="zebra xylophone"))

    assert 2 not in about_nothing.values()
    assert 2 in (await tiers(memory, Signals(message="when is lunch?"))).values()


async def test_errors_at_hand_bring_their_fixes_to_tier_1(memory: LivingMemory) -> None:
    """001-R014, 001-R050."""
    fix = Fact(key="KeyError 'card_id'", value="migrate the payment table first")
    old = (await memory.add(fix, kind=MemoryKind.ERROR_FIX, valid_from=0)).memory
    later = old.created_at + 30 * 86_400_000
    later_memory = LivingMemory(memory.repository._store, memory.principal, now=lambda: later)

    quiet = await tiers(later_memory, Signals())
    failing = await tiers(later_memory, Signals(recent_errors=("KeyError: 'card_id'",)))

    assert quiet[old.levels.index] == 4
    assert failing[old.levels.index] == 1


async def test_the_debugging_profile_gives_tier_1_more(memory: LivingMemory) -> None:
    """001-R118, 001-R122, 001-R143: driven by the activity."""
    for number in range(40):
        fact = Fact(key=f"rule {number}", value="say it again and again " * 5)
        await memory.add(fact, kind=MemoryKind.INSTRUCTION)

    default = await memory.assemble_context(2_000)
    debugging = await memory.assemble_context(2_000, signals=Signals(activity="debugging"))

    assert default.tiers[0] <= 500 < debugging.tiers[0] <= 750
    assert any("does not fit" in item.reason for item in default.omitted)


async def test_the_history_of_the_folder_is_background(memory: LivingMemory) -> None:
    """001-R019, 001-R032, 001-R083: in its compressed form, a few of the most useful episodes."""
    for number in range(7):
        episode = Episode(
            title=f"Rounding of amounts, part {number}",
            full_narrative=NARRATIVE,
            problem=f"Amount {number} was cut off, not rounded.",
        )
        await memory.add(episode, tags=[f"src/payment/amount{number}.py"])
    better = Fact(key="colours of buttons in the shop", value="green and blue")
    await memory.add(better, tags=["src/shop/colours.py"])

    asked = "which colours do the buttons of the shop have, green or blue?"
    signals = Signals(current_file="src/payment/gateway.py", message=asked)
    shown = (await memory.assemble_context(signals=signals)).shown

    held = {each.id: each for each in await memory.memories()}
    background = [item for item in shown if item.tier == 3]
    assert len(background) == 5
    assert all(item.why == "history of src/payment" for item in background)
    assert all(item.text == held[item.id].levels.compressed for item in background)
    at_root = await tiers(memory, Signals(current_file="setup.py", message="zebra"))
    assert 3 not in at_root.values()


async def test_what_a_collaborator_prefers_is_in_tier_2(memory: LivingMemory) -> None:
    """001-R017, 001-R052: while they work along; otherwise it is background."""
    fact = Fact(key="reviews", value="small commits")
    await memory.add(fact, kind=MemoryKind.PREFERENCE, tags=["@grace"])

    alone = await tiers(memory, Signals())
    along = await tiers(memory, Signals(collaborator="grace"))

    assert (alone["reviews"], along["reviews"]) == (3, 2)
    assert (await tiers(memory, Signals(collaborator="eve")))["reviews"] == 3
