"""Sessions whose old calls became a digest: rebuilt, resumed and forked."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.context.assembly import PieceKind
from ctxmgr.core.economy import planner, stream
from ctxmgr.core.economy.policy import Economy
from ctxmgr.core.prices import PriceList
from ctxmgr.surfaces.views.prompts import view_turn
from tests.core.builders.clients import with_clock
from tests.core.client.test_resumed_economy import Clock, work

POLICY = Economy(model="gpt-4o")
ENTRY = re.compile(r"^(?:user: )?\[#\d+ (?:bash|read) .*\]$", re.MULTILINE)
TURNS = 30


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests after a few calls, so that short sessions have some."""
    monkeypatch.setattr(planner, "DIGEST_CALLS_MIN", 8)
    monkeypatch.setattr(planner, "DIGEST_EVERY", 2)
    for module in (planner, stream):
        monkeypatch.setattr(module, "DIGEST_AGE", 6)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def client(tmp_path: Path, clock: Clock) -> AsyncIterator[Client]:
    url = f"sqlite:///{tmp_path}/s.db"
    async with ctxmgr.connect(url, tracking=False, directory=str(tmp_path)) as client:
        yield with_clock(client, clock)


async def talk(session: LiveSession, clock: Clock, dice: Random) -> list[str]:
    """Return the prompts of a session in which nothing is cached now and then."""
    prompts = []
    for _ in range(TURNS):
        clock.now += 400 if session.turn % 5 == 0 else 30
        prompts.append(str(await session.render(f"question {session.turn}", policy=POLICY)))
        await work(session, dice)
    return prompts


async def test_every_prompt_with_a_digest_is_rebuilt_and_proved(
    client: Client, clock: Clock
) -> None:
    """003-R119: a digest is a view like any other, so that its record is enough."""
    session = await client.start("s1", system_prompt="Be careful.")

    prompts = await talk(session, clock, Random(1))

    assert sum(bool(ENTRY.search(prompt)) for prompt in prompts) > TURNS // 3
    for number, prompt in enumerate(prompts, start=1):
        assert (await client.prompt_as_of("s1", turn=number)).text() == prompt


@pytest.mark.parametrize("seed", range(3))
async def test_a_session_with_digests_is_resumed_where_it_was(
    client: Client, clock: Clock, seed: int
) -> None:
    """003-R115: the same bytes as without the interruption, so that the cache holds."""
    session, dice, compared = await client.start("s1", system_prompt="Be careful."), Random(seed), 0
    for _ in range(TURNS):
        clock.now += 400 if session.turn % 5 == 0 else 30
        prompt = str(await session.render("go", policy=POLICY))
        if ENTRY.search(prompt) and session.turn % 3 == 0:
            resumed = await with_clock(client, clock).resume("s1")
            assert await resumed.render("go", policy=POLICY) == prompt
            compared += 1
        await work(session, dice)

    assert compared > 2


async def test_a_fork_makes_digests_of_its_own(client: Client, clock: Clock) -> None:
    """Nothing of its first prompt is cached, so that everything idle becomes short at once."""
    session = await client.start("s1", system_prompt="Be careful.")
    await talk(session, clock, Random(2))

    fork = await client.fork("s1", turn=TURNS, new_session_id="s2")
    first = str(await fork.render("and then?", policy=POLICY))
    await work(fork, Random(3))
    clock.now += 30
    second = str(await fork.render("go on", policy=POLICY))
    await work(fork, Random(4))

    assert len(ENTRY.findall(first)) > 5
    for number, prompt in ((TURNS + 1, first), (TURNS + 2, second)):
        assert (await client.prompt_as_of("s2", turn=number)).text() == prompt
    resumed = await with_clock(client, clock).resume("s2")
    assert await resumed.render("?", policy=POLICY) == await fork.render("?", policy=POLICY)


async def test_the_inspector_knows_a_digest_from_other_folds(client: Client, clock: Clock) -> None:
    """Its colour says what a piece is."""
    session = await client.start("s1", system_prompt="Be careful.")
    await talk(session, clock, Random(1))

    view = await view_turn(client.store, "s1", turn=TURNS, prices=PriceList())

    digests = [block for block in view.blocks if block.shows == PieceKind.DIGEST]
    assert digests
    assert all(ENTRY.match(block.text.split("\n", 1)[0]) for block in digests)
    assert all(block.object_id is not None for block in digests)
