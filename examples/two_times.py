"""Query the past in two ways: what was true then, and what did the agent believe then?

Every version of a file has two times. Its valid time is when the file changed on disk; its system
time is when ctxmgr stored the change. Between the two, the agent's knowledge is outdated.

    python examples/two_times.py
"""

import asyncio
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from ctxmgr import AsOf, connect, guide

SYSTEM_PROMPT = f"You are careful.\n\n{guide('economy')}"


async def main(folder: Path) -> None:
    project = folder / "project"
    project.mkdir()
    config = project / "server.toml"
    config.write_text("port = 8080\n", encoding="utf-8")
    os.utime(config, (time.time() - 3600, time.time() - 3600))  # written an hour ago

    # Without tracking, a change is noticed only when the agent reads the file again.
    store = f"sqlite:///{folder}/agent.db"
    async with connect(store, directory=str(project), tracking=False, policy="economy") as client:
        session = await client.start("task-1", system_prompt=SYSTEM_PROMPT)
        await session.render("Which port?")
        file = await session.read("server.toml")

        config.write_text("port = 9090\n", encoding="utf-8")  # someone edits the file,
        await asyncio.sleep(0.1)
        await session.end_turn("8080.")  # the agent answers with what it has read,
        between = datetime.now(UTC)
        await asyncio.sleep(0.1)
        await session.read("server.toml")  # and notices the edit later

        believed = await client.believed_at(file.object_id, instant=between)
        true = await client.true_at(file.object_id, instant=between)
        assert believed is not None
        assert true is not None
        print(f"between the edit and the second read:\n  believed  {believed.content}", end="")
        print(f"  true      {true.content}", end="")

        # The same queries on the store itself, whose times are milliseconds since 1970, UTC.
        half_an_hour_ago = time.time_ns() // 1_000_000 - 1_800_000
        version = await client.store.get(file.object_id, as_of=AsOf(valid_time=half_an_hour_ago))
        assert version is not None
        print(f"half an hour ago:\n  true      {version.document['content']}", end="")
        early = AsOf(valid_time=half_an_hour_ago, system_time=half_an_hour_ago)
        assert await client.store.get(file.object_id, as_of=early) is None
        print("  believed  nothing: the file had not been read yet")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary).resolve()))
