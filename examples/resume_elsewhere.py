"""Move a session to another machine: export it as one file, import it, resume with other mounts.

Two machines share only a volume with the project. Machine A mounts it for its agent at
/workspace, machine B at /src, and each has its own store. Here both run in one process.

    python examples/resume_elsewhere.py

A file is identified by its filesystem and its path there, not by the path that an agent uses. Both
machines give the volume the same ``filesystemId``, so both refer to the same objects.
"""

import asyncio
import tempfile
from pathlib import Path

from ctxmgr import connect, guide

SYSTEM_PROMPT = f"You are careful.\n\n{guide('economy')}"


def mounted(volume: Path, *, at: str) -> list[dict[str, str]]:
    """Return the mounts of a client whose agent sees the volume at that path."""
    return [{"agentPrefix": at, "canonicalPrefix": str(volume), "filesystemId": "team-volume"}]


async def on_machine_a(store: str, volume: Path, bundle: Path) -> None:
    async with connect(store, mounts=mounted(volume, at="/workspace"), policy="economy") as client:
        session = await client.start("task-1", system_prompt=SYSTEM_PROMPT)
        await session.render("Which port does the server use?")
        await session.read("/workspace/server.toml")
        await session.end_turn("8080.")
        await client.pause("task-1")
        root_hash = await client.export_session("task-1", path=bundle)
        print(f"A: exported {bundle.name}, root hash {root_hash[:12]}")


async def on_machine_b(store: str, volume: Path, bundle: Path) -> str:
    async with connect(store, mounts=mounted(volume, at="/src")) as client:
        session_id = await client.import_session(bundle)  # Corrupt if a byte was altered
        first = await client.prompt_as_of(session_id, turn=1)  # verified by its hash
        print(f"B: turn 1 was rendered with hash {first.prompt_hash()[:12]}")

        session = await client.resume(session_id)  # with its policy; compares files with sources
        prompt: str = await session.render("Has anything changed?")
        await session.end_turn("Yes: the port is 9090 now.")
        return prompt


async def main(folder: Path) -> None:
    bundle, volume = folder / "task-1.bundle", folder / "volume"
    volume.mkdir()
    config = volume / "server.toml"

    config.write_text("port = 8080\n", encoding="utf-8")
    await on_machine_a(f"sqlite:///{folder}/a.db", volume, bundle)
    config.write_text("port = 9090\n", encoding="utf-8")  # edited while no client was running
    print(await on_machine_b(f"sqlite:///{folder}/b.db", volume, bundle))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary).resolve()))
