"""Two sandboxed agents, each with its own client, in one process on one store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import ctxmgr
from ctxmgr.core.client.client import Client
from ctxmgr.core.client.live_session import LiveSession
from ctxmgr.core.client.tools import Tools
from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.files.mounts import MountMapping
from ctxmgr.core.sandbox import Bind
from ctxmgr.sandboxes.bubblewrap import Bubblewrap
from tests.components import need
from tests.core.builders.whole_files import replace_file

NOTICED_WITHIN_S = 60
"""For a tracker to report an edit; fast, but the machine may be busy."""


class Agent:
    """The state that a harness keeps for one agent."""

    def __init__(self, client: Client, session: LiveSession) -> None:
        self.client, self.session = client, session

    async def call(self, name: str, n: int, /, **args: Any) -> str:
        call_id = f"{self.session.session_id}-{name}-{n}"
        result = await Tools(self.session).dispatch(call_id, name=name, args=args)
        assert result.ok, result.message
        return result.message

    async def sees(self, text: str) -> None:
        assert self.client.tracking is not None
        async with asyncio.timeout(NOTICED_WITHIN_S):
            await self.client.tracking.wait_for(lambda: text in self.session.context().text())

    def object_at(self, path: str) -> str:
        """The id of the one line of the pool that shows this path."""
        lines = self.session.context().pool.rope.text.splitlines()
        (line,) = (entry for entry in lines if f" path={path} " in entry)
        return line.partition(" ")[0].removeprefix("id=")


@asynccontextmanager
async def agent(store: ctxmgr.Store, sid: str, project: Path, at: str) -> AsyncIterator[Agent]:
    mapping = MountMapping(
        agent_prefix=at, canonical_prefix=str(project), filesystem_id=host_filesystem_id()
    )
    sandbox = await Bubblewrap.start(binds=[Bind(mapping=mapping, writable=True)])
    try:
        async with ctxmgr.connect(sandbox=sandbox, directory=at, store=store) as client:
            yield Agent(client, await client.start(sid, system_prompt=f"You work in {at}."))
    finally:
        await sandbox.close()


@asynccontextmanager
async def two_agents(url: str, sid: str, project: Path) -> AsyncIterator[tuple[Agent, Agent]]:
    need("bubblewrap")
    async with (
        await ctxmgr.open_store(url) as store,
        agent(store, f"{sid}-a", project, "/workspace") as one,
        agent(store, f"{sid}-b", project, "/src") as two,
    ):
        yield one, two


async def test_shared_files_are_one_object_and_private_files_are_two(
    store_url: str, sid: str, project: Path
) -> None:
    """A change that both agents see is a change of one object (003-R067, 003-R162)."""
    async with two_agents(store_url, sid, project) as (one, two):
        await one.call("write", 1, path="/workspace/plan.md", content="together\n")
        await one.call("write", 2, path="/tmp/own.md", content="mine\n")
        await two.call("write", 1, path="/tmp/own.md", content="theirs\n")

        assert await two.call("read", 1, path="/src/plan.md") == "together\n"
        assert await one.call("read", 1, path="/tmp/own.md") == "mine\n"
        assert await two.call("read", 2, path="/tmp/own.md") == "theirs\n"

        assert one.object_at("/workspace/plan.md") == two.object_at("/src/plan.md")
        assert one.object_at("/tmp/own.md") != two.object_at("/tmp/own.md")


async def test_two_concurrent_agents_keep_separate_sessions(
    store_url: str, sid: str, project: Path
) -> None:
    """One process may run many agents; none changes the session of another.

    Rows: 003-R006, 003-R122, 003-R123, 003-R125, 003-R185.
    """

    async def work(agent: Agent) -> None:
        for n in range(1, 5):
            await agent.session.render(f"go {n}")
            await agent.call("read", n, path="notes.md")
            await agent.session.end_turn(f"gone {n}")

    async with two_agents(store_url, sid, project) as (one, two):
        await asyncio.gather(work(one), work(two))
        notes = one.object_at("/workspace/notes.md")
        await one.session.deactivate(notes)
        replace_file(project / "notes.md", "# for both\n")
        await one.sees("path=/workspace/notes.md file_type=md char_count=11\n")
        await two.sees(f"ACTIVE_CONTENT id={notes}\n# for both\n")

        assert notes == two.object_at("/src/notes.md")
        assert notes not in one.session.sets.active_set
        for worker in (one, two):
            own = [f"{worker.session.session_id}-read-{n}" for n in range(1, 5)]
            assert list(worker.session.chat.toolcall_refs) == own
            assert set(worker.session.sets.session_index) == {notes, *own}
        assert len((await one.client.store.history(notes)).entries) == 2
