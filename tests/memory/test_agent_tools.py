"""Memories as tools of an agent of ours: remember and expand, for one person and project."""

from pathlib import Path
from typing import get_args

from ctxmgr import connect
from ctxmgr.core.client.tools import Tools
from ctxmgr.memory.agent_tools import LearntName
from ctxmgr.memory.living import LivingMemory
from ctxmgr.memory.records.memory import Author, MemoryKind
from ctxmgr.memory.records.principal import Principal
from ctxmgr.surfaces.operations.layers.agent_tools import LearntKind

SECRET = "gh" + "p_" + "A1b2" * 9


async def test_an_agent_remembers_and_expands(tmp_path: Path) -> None:
    """Whose memory it is was decided by the harness; a wrong id is a failed call."""
    ada = Principal(user_id="ada", project_id="shop")
    async with connect(tmp_path / "a.db", memory=ada, tracking=False) as client:
        session = await client.start("s1", system_prompt="S")
        tools = Tools(session)
        offered = [tool.name for tool in tools.definitions]
        fact = {"key": "test runner", "value": f"pytest with {SECRET}", "kind": "decision"}
        stored = await tools.dispatch("1", name="remember", args=fact)
        again = await tools.dispatch("2", name="remember", args=fact)
        memory_id = stored.message.split()[-1]
        read = await tools.dispatch("3", name="expand", args={"id": memory_id[:8]})
        wrong = [
            await tools.dispatch(str(number), name="remember", args={**fact, **extra})
            for number, extra in enumerate(({"user": "bob"}, {"kind": "instruction"}), start=4)
        ]
        missing = await tools.dispatch("6", name="expand", args={"id": "00000000"})
        kept = await LivingMemory(session.state.runtime.store, ada).get(memory_id)

    assert offered[-2:] == ["remember", "expand"]
    assert (stored.ok, read.ok, missing.ok) == (True, True, False)
    assert [each.ok for each in wrong] == [False, False]
    assert again.message == f"this is known already: {memory_id}\n"
    assert "pytest with" in read.message
    assert SECRET not in kept.levels.full
    assert (kept.author, kept.user_id, kept.origin.session_id) == (Author.AGENT, "ada", "s1")


def test_both_surfaces_allow_the_same_kinds() -> None:
    """Standing instructions come from people, on every surface."""
    assert get_args(LearntKind) == get_args(LearntName)
    assert set(MemoryKind) - set(get_args(LearntName)) == {MemoryKind.INSTRUCTION, MemoryKind.ADR}
