"""A session teaches, behind its turns, and the next session's prompts show it."""

import asyncio
import getpass
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctxmgr import KINDS, Client, LiveSession, Put, Store, connect, open_store, text_part
from ctxmgr.core.context import contributors
from ctxmgr.core.events.events import EventId, FileIndexed, TurnFinished
from ctxmgr.core.events.listeners import stored_events
from ctxmgr.errors import Incorrect
from ctxmgr.memory.learning.learner import Learner
from ctxmgr.memory.learning.listener import MemoryListener
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.project import project_id
from ctxmgr.memory.records.bodies import Episode, Fact
from ctxmgr.memory.records.memory import Author, MemoryKind, read_memory, stored_memory
from ctxmgr.memory.records.principal import Principal
from ctxmgr.memory.repository import MEMORY_KINDS
from ctxmgr.memory.tiers.ranking import DAY_MS

ADA = Principal(user_id="ada", project_id="shop")
BOB = Principal(user_id="bob", project_id="shop")
RULE = "we use pnpm for packages"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need longer than a prompt should wait."""
    monkeypatch.setattr(contributors, "CONTRIBUTION_SECONDS", 60.0)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    kinds = {**KINDS, **MEMORY_KINDS}
    async with await open_store(f"sqlite:///{tmp_path}/s.db", kinds=kinds) as opened:
        yield opened


@asynccontextmanager
async def client_of(store: Store, owner: Principal = ADA) -> AsyncIterator[Client]:
    async with connect(store=store, memory=owner, tracking=False) as client:
        yield client


def learner_of(store: Store) -> Learner:
    living = LivingMemory(store, ADA)
    return Learner(store, living, mask=str, now=lambda: 2_000_000_000_000)


async def exchange(session: LiveSession, user: str, answer: str = "Done.") -> str:
    """One turn without tool calls; returns its prompt."""
    prompt = await session.render(user)
    await session.end_turn([text_part(answer)])
    return str(prompt)


async def call(
    session: LiveSession,
    call_id: str,
    args: dict[str, Any],
    output: str,
    *,
    tool: str = "bash",
    failed: bool = False,
    user: str = "",
) -> None:
    """One turn with a tool call."""
    await session.render(user)
    await session.record(
        call_id,
        tool=tool,
        args=args,
        output=output,
        status="fail" if failed else "ok",
        discover=False,
    )
    part = {"type": "toolcall", "toolcall_id": call_id, "call_id": call_id}
    await session.end_turn([{**part, "tool": tool, "args": args}])


async def test_the_second_session_knows_what_the_first_learnt(store: Store) -> None:
    """001-R042, PG-27: what was ingested reaches a prompt without being asked for."""
    async with client_of(store) as client:
        await exchange(await client.start("one", system_prompt="You help."), RULE)
    (memory,) = await LivingMemory(store, ADA).memories()
    assert memory.body == Fact(key="packages", value="pnpm")
    assert (memory.kind, memory.author) == (MemoryKind.CONVENTION, Author.RULE)
    assert (memory.origin.session_id, memory.origin.turn) == ("one", 1)
    async with client_of(store) as client:
        prompt = await exchange(
            await client.start("two", system_prompt="You help."), "install the packages"
        )
    assert f"packages: pnpm [{memory.id[:8]}]" in prompt


async def test_a_session_is_not_shown_what_it_just_said(store: Store) -> None:
    """The prompt shows those turns anyway."""
    async with client_of(store) as client:
        await exchange(await client.start("one", system_prompt="You help."), RULE)
    async with client_of(store) as client:
        prompt = await exchange(await client.resume("one"), "install the packages")
    assert "# Memory" not in prompt


async def test_another_user_neither_teaches_nor_sees(store: Store) -> None:
    """001-A23: what is private stays with its user, in one store."""
    async with client_of(store, BOB) as bob, client_of(store, ADA) as ada:
        await exchange(await bob.start("one", system_prompt="You help."), RULE)
        await exchange(await ada.start("two", system_prompt="You help."), "hello there my friend")
    assert await LivingMemory(store, ADA).memories() == []
    assert len(await LivingMemory(store, BOB).memories()) == 1


async def test_events_that_are_delivered_again_teach_nothing_twice(store: Store) -> None:
    """A listener that crashed before it stored its position receives its events again."""
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        await exchange(session, RULE)
        await exchange(session, "always run the linter before a commit")
    before = [memory.id for memory in await LivingMemory(store, ADA).memories()]
    assert len(before) == 2
    again = MemoryListener(learner_of(store))
    async for events in stored_events(store, None):
        for event in events:
            await again.handle(event)
    assert [memory.id for memory in await LivingMemory(store, ADA).memories()] == before


async def test_an_exchange_that_was_open_at_a_crash_is_learnt_later(store: Store) -> None:
    """The stored position stays before the first turn of an exchange that is not finished."""
    learner = learner_of(store)
    async with connect(store=store, tracking=False) as client:
        await learner.bind("one")
        session = await client.start("one", system_prompt="You help.")
        await call(session, "c1", {"command": "ls"}, "a.py", user=RULE)
    crashed = MemoryListener(learner)
    await crashed.begin(store)
    started = await learner.position()
    async with connect(store=store, tracking=False) as client:
        session = await client.resume("one")
        await call(session, "c2", {"command": "ls"}, "a.py", user="always run the linter first")
        await learner.bind("two")
        other = await client.start("two", system_prompt="You help.")
        await exchange(other, "we use ruff for linting")
        async for events in stored_events(store, await crashed.last_handled()):
            for event in events:
                await crashed.handle(event)
        position = await learner.position()
        assert started is not None
        assert position is not None
        turns = [
            event
            async for events in stored_events(store, position)
            for event in events
            if isinstance(event, TurnFinished) and event.session_id == "one"
        ]
        assert [event.n for event in turns] == [2]
        await exchange(session, "", answer="The linter is content.")
    resumed = MemoryListener(learner_of(store))
    await resumed.begin(store)
    async for events in stored_events(store, await resumed.last_handled()):
        for event in events:
            await resumed.handle(event)
    texts = [memory.levels.full for memory in await LivingMemory(store, ADA).memories()]
    assert any("always run the linter" in text for text in texts)


async def test_an_error_is_learnt_with_its_fix_across_turns(store: Store) -> None:
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        failed = "Traceback (most recent call last):\nKeyError: 'price'"
        run = {"command": "pytest -q"}
        await call(session, "c1", run, failed, failed=True, user="make the cart work again please")
        edit = {"path": "src/cart.py", "old_string": "a['price']", "new_string": "a.get('price')"}
        await call(session, "c2", edit, "ok", tool="edit")
        await call(session, "c3", run, "3 passed")
        await exchange(session, "", answer="A missing price counts as zero now.")
    memories = await LivingMemory(store, ADA).memories()
    fixes = [memory for memory in memories if memory.kind is MemoryKind.ERROR_FIX]
    assert isinstance(fixes[0].body, Episode)
    assert fixes[0].body.problem == "`pytest -q` failed: KeyError: 'price'"
    assert fixes[0].origin.object_id == "c1"
    assert fixes[0].origin.object_hash is not None


async def test_secrets_are_masked_before_they_are_stored(store: Store) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        await exchange(session, f"we use {secret} for deployments")
    (memory,) = await LivingMemory(store, ADA).memories()
    assert secret not in str(memory)
    assert "[secret:" in memory.levels.full


async def test_a_later_value_contradicts_an_earlier_one(store: Store) -> None:
    """001-R066, 001-R068: found at ingest, reported, and shown with both sides."""
    async with client_of(store) as client:
        await exchange(await client.start("one", system_prompt="You help."), RULE)
    async with client_of(store) as client:
        session = await client.start("two", system_prompt="You help.")
        await exchange(session, "we use yarn for packages")
    (pair,) = await LivingMemory(store, ADA).contradictions()
    assert pair.is_open
    async with client_of(store) as client:
        prompt = await exchange(await client.start("three", system_prompt="You help."), "go on")
    assert "Unresolved: packages: pnpm" in prompt


async def test_what_a_person_forgot_is_not_learnt_again(store: Store) -> None:
    """A person's own edits always win."""
    async with client_of(store) as client:
        await exchange(await client.start("one", system_prompt="You help."), RULE)
    living = LivingMemory(store, ADA)
    (memory,) = await living.memories()
    await living.forget(memory.id)
    async with client_of(store) as client:
        await exchange(await client.start("two", system_prompt="You help."), RULE)
    assert await living.memories() == []


async def test_what_was_forgotten_for_disuse_is_learnt_again(store: Store) -> None:
    """Nobody decided that it does not hold: who says it again wants it remembered."""
    async with client_of(store) as client:
        await exchange(await client.start("one", system_prompt="You help."), RULE)
    living = LivingMemory(store, ADA)
    (learnt,) = await living.memories()
    long_ago = learnt.created_at - 91 * DAY_MS
    await living.repository.change(learnt.id, lambda each: replace(each, created_at=long_ago))
    assert (await living.consolidate()).counts.forgotten == 1
    (ended,) = await living.memories(forgotten=True)
    assert (ended.valid_to is not None, ended.ended_by) == (True, Author.RULE)
    async with client_of(store) as client:
        await exchange(await client.start("two", system_prompt="You help."), RULE)
    (again,) = await living.memories()
    assert (again.id, again.ended_by, again.ended_because) == (ended.id, None, None)
    assert again.origin.session_id == "two"


async def test_what_a_person_forgot_after_a_merge_is_not_learnt_again(store: Store) -> None:
    """The facts that were merged ended by rule, but the person meant what they say."""
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        await exchange(session, "we decided to use pytest for tests")
    living = LivingMemory(store, ADA)
    (learnt,) = await living.memories()
    assert isinstance(learnt.body, Fact)
    alike = replace(learnt.body, value=f"use {learnt.body.value}")
    await living.add(alike, kind=learnt.kind, author=Author.AGENT)
    assert (await living.consolidate()).counts.deduped == 2
    (merged,) = await living.memories()
    await living.forget(merged.id)
    async with client_of(store) as client:
        session = await client.start("two", system_prompt="You help.")
        await exchange(session, "we decided to use pytest for tests")
    assert await living.memories() == []


@pytest.mark.parametrize(
    ("because", "by"),
    [
        ("not used in 90 days", Author.RULE),
        ("it is no longer in AGENTS.md", Author.RULE),
        ("says the same as 00000000-0000-0000-0000-000000000000", Author.RULE),
        ("not used in our team", Author.PERSON),
        ("forgotten", Author.PERSON),
    ],
)
async def test_memories_of_earlier_versions_say_who_ended_them(
    store: Store, because: str, by: Author
) -> None:
    """Before ``ended_by`` was stored, only the reason tells."""
    living = LivingMemory(store, ADA)
    added = (await living.add(Fact(key="packages", value="pnpm"))).memory
    document = stored_memory(await living.forget(added.id, because=because))
    del document["ended_by"]
    assert read_memory(document).ended_by is by


async def test_what_is_refused_can_be_seen(store: Store) -> None:
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        await exchange(session, "always do this before you commit")
    (batch,) = await LivingMemory(store, ADA).refused()
    assert batch.session_id == "one"
    assert "'this'" in batch.items[0].reason
    assert await LivingMemory(store, BOB).refused() == []


async def test_conventions_follow_the_project_s_files(tmp_path: Path) -> None:
    """A line that left the file is not shown any more; the version it came from is recorded."""
    project = tmp_path / "project"
    project.mkdir()
    rules = project / "AGENTS.md"
    owner = Principal(user_id=getpass.getuser(), project_id=project_id(project))
    kinds = {**KINDS, **MEMORY_KINDS}
    async with await open_store(f"sqlite:///{tmp_path}/s.db", kinds=kinds) as store:
        living = LivingMemory(store, owner)
        for number, (text, expected) in enumerate(
            (
                ("- Use tabs for indentation\n- Run the linter twice\n", {"tabs", "linter"}),
                ("- Run the linter twice\n", {"linter"}),
                ("- Run the linter twice\n- Use tabs for indentation\n", {"tabs", "linter"}),
            )
        ):
            rules.write_text(text, encoding="utf-8")
            async with connect(store=store, memory=project, tracking=False) as client:
                session = await client.open("one", system_prompt="You help.")
                await session.render("read the rules of the project")
                read = {"path": str(rules)}
                await session.record(f"c{number}", tool="read", args=read, output=text)
                await session.end_turn([text_part("Done.")])
            found = [each for each in await living.memories() if each.origin.object_id]
            shown = " ".join(memory.levels.full for memory in found)
            assert {word for word in ("tabs", "linter") if word in shown} == expected
            assert all(memory.origin.object_hash for memory in found)


async def test_a_file_that_cannot_be_read_does_not_stop_learning(tmp_path: Path) -> None:
    """Whatever a project file holds, the events after it are handled."""
    project = tmp_path / "project"
    project.mkdir()
    settings = project / "pyproject.toml"
    text = f"a = {'[' * 20_000}"
    settings.write_text(text, encoding="utf-8")
    owner = Principal(user_id=getpass.getuser(), project_id=project_id(project))
    kinds = {**KINDS, **MEMORY_KINDS}
    async with await open_store(f"sqlite:///{tmp_path}/s.db", kinds=kinds) as store:
        async with connect(store=store, memory=project, tracking=False) as client:
            session = await client.start("one", system_prompt="You help.")
            await session.render(RULE)
            await session.record("c", tool="read", args={"path": str(settings)}, output=text)
            await session.end_turn([text_part("Done.")])
        learnt = await LivingMemory(store, owner).memories()
    assert Fact(key="packages", value="pnpm") in [memory.body for memory in learnt]


async def test_two_clients_learn_from_a_file_at_once(store: Store) -> None:
    """One of them is first; the other tries again, and finds it known."""
    first, second = learner_of(store), learner_of(store)
    text = "- Use tabs for indentation\n"
    await store.commit([Put({"xt/id": "f1", "type": "example", "content": text})])
    event = FileIndexed(
        id=EventId((await store.status()).sequence or 0, 0),
        system_time=1,
        object_id="f1",
        source={"path": "/p/AGENTS.md"},
        object_hash="h",
        valid_time=1,
    )
    await asyncio.gather(*(each.learn_file(event, "AGENTS.md") for each in (first, second)))
    assert len(await LivingMemory(store, ADA).memories()) == 1


async def test_old_refusals_are_pruned(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused can be seen, the newest first, and does not grow for ever."""
    monkeypatch.setattr("ctxmgr.memory.pruning.REFUSED_KEPT_MAX", 1)
    async with client_of(store) as client:
        session = await client.start("one", system_prompt="You help.")
        await exchange(session, "should we always use tabs in this file?")
        await exchange(session, "should we never use spaces in this file?")
    living = LivingMemory(store, ADA)
    newest, _ = await living.refused()

    await living.consolidate()

    assert await living.refused() == [newest]


async def test_a_mistyped_folder_is_no_project(tmp_path: Path) -> None:
    """What is learnt would be remembered for a project that nobody asks for again."""
    with pytest.raises(Incorrect, match="there is no folder"):
        async with connect(tmp_path / "s.db", memory=tmp_path / "mistyped", tracking=False):
            pass
