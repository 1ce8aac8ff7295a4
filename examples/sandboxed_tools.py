"""Run an agent's tools in a bubblewrap sandbox with one folder of this machine.

The commands can write to the folder, at /workspace, and can run the programs of this machine. They
have no access to the network, to home folders or to the environment of this process.

    python examples/sandboxed_tools.py

Needs Linux and ``bwrap`` with ``--bind-fd``. ``start_sandbox(None, folder=...)`` uses Docker where
bubblewrap is not installed; ``Bubblewrap.start`` is used here to show the settings.
"""

import asyncio
import tempfile
from pathlib import Path

from ctxmgr import (
    Bind,
    Bubblewrap,
    Limits,
    MountMapping,
    Tools,
    connect,
    guide,
    host_filesystem_id,
)

SYSTEM_PROMPT = f"You are careful.\n\n{guide('economy')}"

CALLS = [
    ("write", {"path": "hello.sh", "content": "echo hello from $(pwd)\n"}),
    ("bash", {"command": "sh hello.sh"}),
    ("bash", {"command": "ls /home /root"}),
    ("bash", {"command": "cat < /dev/tcp/127.0.0.1/22"}),
    ("read", {"path": "/workspace/hello.sh"}),
    ("read", {"path": "/workspace/../etc/shadow"}),
]


async def main(folder: Path) -> None:
    project = MountMapping(
        agent_prefix="/workspace",
        canonical_prefix=str(folder / "project"),
        filesystem_id=host_filesystem_id(),
    )
    sandbox = await Bubblewrap.start(
        [Bind(mapping=project, writable=True)],
        limits=Limits(memory_bytes=512 * 1024**2, output_bytes=64 * 1024),
        network=False,
    )
    try:
        store = f"sqlite:///{folder}/agent.db"
        async with connect(
            store, sandbox=sandbox, directory="/workspace", policy="economy"
        ) as client:
            session = await client.open("task-1", system_prompt=SYSTEM_PROMPT)
            tools = Tools(session)
            await session.render("Try what you can reach.")
            for number, (name, args) in enumerate(CALLS, start=1):
                done = await tools.dispatch(f"call-{number}", name=name, args=args)
                print(f"{name} {args}\n  {'ok' if done.ok else 'failed'}: {done.message.strip()}")
            await session.end_turn("Only /workspace, and no network.")
            print(f"{len(session.sets.session_index)} objects stored")
    finally:
        await sandbox.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary).resolve() / "project").mkdir()
        asyncio.run(main(Path(temporary).resolve()))
