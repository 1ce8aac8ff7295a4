"""An agent in a sandbox: private files are read through it, the host's through mounts."""

from pathlib import Path

import ctxmgr
from ctxmgr.core.client.tools import Tools
from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from ctxmgr.core.files.mounts import MountMapping
from ctxmgr.core.sandbox import Bind
from ctxmgr.sandboxes.bubblewrap import Bubblewrap
from tests.components import need


async def test_files_inside_and_outside_the_sandbox_are_distinct(
    store_url: str, sid: str, project: Path
) -> None:
    """The sandbox's private files are indexed only through it.

    Rows: 003-R108, 003-R144, 003-R153, 003-R162, 003-R184, 003-A24.
    """
    need("bubblewrap")
    mapping = MountMapping(
        agent_prefix="/workspace",
        canonical_prefix=str(project),
        filesystem_id=host_filesystem_id(),
    )
    sandbox = await Bubblewrap.start(binds=[Bind(mapping=mapping, writable=True)])
    try:
        async with ctxmgr.connect(store_url, sandbox=sandbox, directory="/workspace") as client:
            session = await client.start(sid, system_prompt="")
            tools = Tools(session)
            await tools.dispatch(
                f"{sid}-1", name="write", args={"path": "/tmp/own", "content": "x"}
            )
            await tools.dispatch(f"{sid}-2", name="read", args={"path": "/tmp/own"})
            await tools.dispatch(f"{sid}-3", name="read", args={"path": "notes.md"})
            await tools.dispatch(f"{sid}-4", name="ls", args={"path": "/tmp"})
            command = "echo y > /tmp/seen; ls /tmp"
            await tools.dispatch(f"{sid}-5", name="bash", args={"command": command})
            prompt = await session.render()
    finally:
        await sandbox.close()

    assert "path=/tmp/own file_type= char_count=1\n" in prompt
    assert "path=/workspace/notes.md file_type=md char_count=8\n" in prompt
    assert "path=/tmp/seen file_type= [unread]\n" in prompt
