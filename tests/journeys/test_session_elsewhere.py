"""A session is paused by one process and resumed by another with different mounts."""

from pathlib import Path
from typing import Any

import ctxmgr
from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from tests.journeys.processes import ask

LAPTOP = "the-laptop"


def mounted(agent: str, canonical: Path, *, filesystem: str | None = None) -> dict[str, str]:
    filesystem = filesystem or host_filesystem_id()
    return {
        "agentPrefix": agent,
        "canonicalPrefix": str(canonical),
        "filesystemId": filesystem,
    }


async def left_and_taken_up(
    url: str, sid: str, project: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pause with three files of the host and one of a laptop; resume with the host's only."""
    data = project.parent / "data"
    data.mkdir()
    (data / "table.csv").write_text("1,2\n", encoding="utf-8")
    read = [f"/workspace/{name}" for name in ("src/main.py", "src/extra.py", "notes.md")]
    here = [mounted("/workspace", project), mounted("/data", data, filesystem=LAPTOP)]
    job = {"url": url, "session": sid, "mounts": here, "read": [*read, "/data/table.csv"]}
    left = await ask("leave", job)

    (project / "src" / "main.py").write_text("print('two')\n", encoding="utf-8")
    (project / "src" / "extra.py").unlink()
    (data / "table.csv").write_text("another machine's\n", encoding="utf-8")
    there = [mounted("/elsewhere", project), mounted("/others", data, filesystem="another")]
    taken = await ask("take_up", {"url": url, "session": sid, "mounts": there})
    return left, taken


async def test_another_process_with_other_mounts_continues(
    store_url: str, sid: str, project: Path
) -> None:
    """A session needs only its store, nothing of the process or machine that paused it.

    Rows: 003-R007, 003-R113, 003-R114, 003-R120, 003-R133, 003-R175.
    """
    left, taken = await left_and_taken_up(store_url, sid, project)

    assert taken["sets"] == left["sets"]
    assert taken["turn"] == 2
    assert "user: go\nassistant: done\n" in taken["prompt"]
    assert f"id={sid}-1 type=toolcall tool=bash status=ok\n" in taken["prompt"]
    assert "path=/elsewhere/notes.md file_type=md char_count=8\n" in taken["prompt"]


async def test_each_file_is_reconciled_by_its_reachability(
    store_url: str, sid: str, project: Path
) -> None:
    """Changed, deleted, unchanged and unreachable are four different states.

    Rows: 003-R116 to R118, 003-R121, 003-R187, 003-R188, 003-A12, 003-A33.
    """
    left, taken = await left_and_taken_up(store_url, sid, project)
    main, extra, notes, table = left["files"].values()

    assert taken["orphaned"] == [table]
    assert f"ACTIVE_CONTENT id={main}\nprint('two')\n" in taken["prompt"]
    assert f"ACTIVE_CONTENT id={extra}\n[deleted]\n" in taken["prompt"]
    assert f"ACTIVE_CONTENT id={notes}\n# notes\n" in taken["prompt"]
    assert f"ACTIVE_CONTENT id={table}\n1,2\n" in taken["prompt"]
    states = [taken["trackers"][file] for file in (main, extra, notes, table)]
    assert states == ["attached", "deleted", "attached", "orphaned"]
    async with await ctxmgr.open_store(store_url) as store:
        histories = [await store.history(file) for file in (main, extra, notes, table)]
    assert [len(history.entries) for history in histories] == [2, 2, 1, 1]
