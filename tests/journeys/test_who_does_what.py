"""Responsibilities of the layer, the harness and the agent, and what the store trusts."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ctxmgr
from ctxmgr.core.client.tools import Tools
from ctxmgr.core.objects.answers import text_part, toolcall_part
from ctxmgr.sandboxes.host import Host


def mount(project: Path, *, of: str | None = None) -> list[dict[str, Any]]:
    declared = {"filesystemId": of} if of else {}
    return [{"agentPrefix": "/workspace", "canonicalPrefix": str(project), **declared}]


async def test_the_loop_and_the_tools_belong_to_the_harness(
    store_url: str, sid: str, project: Path
) -> None:
    """The layer runs no tool and starts no turn, whatever an answer contains (003-R002)."""
    touched = project / "touched"
    command = {"command": f"touch {touched}"}
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="")
        await session.render("go")
        part = toolcall_part(f"{sid}-1", call_id="c1", tool="bash", args=command)
        await session.record(f"{sid}-1", tool="bash", args=command, output="")
        await session.end_turn([text_part("Touching."), part])

        refused = await Tools(session).dispatch(f"{sid}-2", name="bash", args=command)

    assert not refused.ok
    assert "the harness runs its tools" in refused.message
    assert not touched.exists()
    assert session.turn == 2


async def test_infrastructure_is_found_by_the_sessions_references(
    store_url: str, sid: str, project: Path
) -> None:
    """Chat and system prompt are in no set but always in the prompt (003-R024, 003-R100)."""
    async with ctxmgr.connect(store_url, mounts=mount(project)) as client:
        session = await client.start(sid, system_prompt="Be careful.")
        await session.record(f"{sid}-1", tool="ls", args={}, output="notes.md\n")
        await session.end_turn("Listed.", user="List it.")
        wrapper = await client.store.get(f"session:{sid}")
        assert wrapper is not None
        refs = [wrapper.document[name] for name in ("system_prompt_ref", "chat_ref")]
        prompt, chat = (await client.store.get_many(refs)).values()
        await client.pause(sid)
        session = await client.resume(sid)
        system, pool, chat_text, active = (await session.render("Next?")).split("\n\n")

    assert system == prompt.document["content"] == "Be careful."
    assert pool.endswith(f"id={sid}-1 type=toolcall tool=ls status=ok")
    assert chat_text.startswith(f"user: {chat.document['turns'][0]['user']}\nassistant: Listed.\n")
    assert active.startswith(f"ACTIVE_CONTENT id={sid}-1\n")
    assert not set(refs) & set(session.sets.session_index)


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    """A sandbox that runs commands on this machine."""
    host = await Host.start()
    yield host
    await host.close()


async def test_an_agent_controls_its_sets_through_tools(
    store_url: str, sid: str, project: Path, host: Host
) -> None:
    """Tools alone decide what is discovered, activated and pinned (003-R110)."""
    async with ctxmgr.connect(store_url, sandbox=host, directory=str(project)) as client:
        session = await client.start(sid, system_prompt="")

        async def call(name: str, **args: str) -> None:
            tools, call_id = Tools(session), f"{sid}-{name}"
            assert (await tools.dispatch(call_id, name=name, args=args)).ok

        await call("ls", path="src")
        extra, main = list(session.sets.metadata_pool)[:2]
        await call("read", path="notes.md")
        await call("activate", id=main)
        await call("pin", id=extra)
        await call("deactivate", id=f"{sid}-ls")
        stored = await client.store.get_many(session.sets.session_index)

    kinds = [version.document["type"] for version in stored.values()]
    assert sorted(kinds) == ["file", "file", "file", "toolcall", "toolcall"]
    assert stored[main].document["content"] == "print('one')\n"
    assert stored[extra].document["content"] is None
    assert list(session.sets.pinned_set) == [extra]
    assert main in session.sets.active_set
    assert not {extra, f"{sid}-ls"} & set(session.sets.active_set)


async def test_a_declared_filesystem_is_trusted(store_url: str, sid: str, project: Path) -> None:
    """Clients declare where files are; the store cannot check this (003-R164, 003-R066)."""
    ids = {}
    for n, declared in enumerate(("alpha", "alpha", "beta"), start=1):
        filesystem = f"{sid}-{declared}"
        async with ctxmgr.connect(store_url, mounts=mount(project, of=filesystem)) as client:
            session = await client.start(f"{sid}-{n}", system_prompt="")
            file = await session.read("/workspace/notes.md")
            version = await client.store.get(file.object_id)
            assert version is not None
            assert version.document["source"]["filesystemId"] == filesystem
            ids[n] = file.object_id

    assert ids[1] == ids[2] != ids[3]
