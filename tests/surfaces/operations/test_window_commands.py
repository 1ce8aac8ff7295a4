"""`ctxmgr experience windows` and its neighbours: what is kept, and for how long."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import ctxmgr as library
from ctxmgr import open_store
from ctxmgr.experience.records.kinds import EventType
from ctxmgr.experience.records.timestep import NewTimestep
from ctxmgr.experience.xdb import XDB
from tests.surfaces.http.servers import serving
from tests.surfaces.worked_sessions import json_of

WORDS = 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session of forty tokens, in answers of five, with a bud on the second one."""
    root = tmp_path / "xdb"

    async def work() -> None:
        async with XDB(root, "be-7") as xdb:
            steps = [
                NewTimestep(
                    timestamp=1_000 + n,
                    event_type=EventType.OUTPUT,
                    content=f"t{n} ",
                    event_id=f"e{n // 5}",
                )
                for n in range(WORDS)
            ]
            await xdb.experience_log.append("s1", steps)
            with xdb.experience_log.file.writing() as db:
                db.execute(
                    "INSERT INTO tags (id, name, tag_type, created_at, created_by)"
                    " VALUES ('bud-1', 'kindness', 'bud', 0, 'system')"
                )
                db.execute(
                    "INSERT INTO tag_applications (id, tag_id, session_id, target_type, event_id,"
                    " confidence, source, created_at)"
                    " VALUES ('ta-1', 'bud-1', 's1', 'event', 'e1', 1.0, 'manual', 0)"
                )
            await xdb.windows.expire("s1", before_tick=6)

    asyncio.run(work())
    monkeypatch.setenv("CTXMGR_EXPERIENCE", str(root))
    return root


@pytest.fixture
def ask(ctxmgr: Callable[..., Result], folder: Path) -> Callable[..., Any]:
    """Run a command under `ctxmgr experience` and return its JSON."""
    return lambda *arguments: json_of(ctxmgr("experience", *arguments, "--json"))


async def _session(url: str) -> None:
    async with library.connect(url, tracking=False) as client:
        session = await client.start("s1", system_prompt="")
        await session.render("Print it.")
        for call in ("e1", "e3"):
            await session.record(call, tool="bash", args={"command": "make"}, output=call)
        await session.end_turn("Done.")
        await client.pause("s1")


def test_evidence_is_not_purged(
    ctxmgr: Callable[..., Result], ask: Callable[..., Any], tmp_path: Path
) -> None:
    """Design D9: what a submission or the agent keeps cannot be removed until it is let go."""
    url = f"sqlite:///{tmp_path}/s.db"
    asyncio.run(_session(url))
    ctxmgr("sessions", "delete", "s1", "--store", url)
    [window] = ask("retain", "s1", "16-17", "--reason", "bud:kindness")["windows"]
    ask("submit", "bud-1", "graft-1")

    def purge(*what: str) -> Result:
        return ctxmgr("purge", *what, "--dry-run", "--store", url)

    submitted, shown = purge("s1"), purge("--session", "session:s1", "--object", "e1")
    ask("resolve", "graft-1", "--accepted")
    retained, kept = purge("s1"), purge("--session", "s1", "--object", "e3")
    free = purge("--session", "s1", "--object", "e1")
    ask("release", window["id"])
    released = purge("s1")

    assert {submitted.exit_code, shown.exit_code, retained.exit_code, kept.exit_code} == {2}
    assert "`ctxmgr experience resolve graft-1` ends that" in submitted.stderr + shown.stderr
    assert f"`ctxmgr experience release {window['id']}` ends that" in retained.stderr
    assert (free.exit_code, released.exit_code) == (0, 0)


def test_windows_are_listed_with_their_fidelity(ask: Callable[..., Any]) -> None:
    """000-R045, 000-R046: what is hot has no window."""
    answer = ask("windows", "s1")

    [window] = answer["windows"]
    assert (window["start_tick"], window["end_tick"]) == (1, 5)
    assert (window["fidelity"], window["level"], window["tokens"]) == ("cold", "REPLY", 5)
    assert answer["fidelities"] == [{"fidelity": "cold", "windows": 1, "tokens": 5}]
    assert ask("windows", "s2") == {"windows": [], "fidelities": []}


def test_a_range_is_retained_and_released(ask: Callable[..., Any]) -> None:
    """000-R062, 000-A23: the answer says what was really retained."""
    done = ask("retain", "s1", "1-10", "--reason", "a test")

    assert (done["tokens"], done["gone"]) == (5, ["1-5"])
    [window] = done["windows"]
    assert (window["fidelity"], window["pinned"], window["reason"]) == ("warm", True, "a test")
    assert ask("release", window["id"])["pinned"] is False


@pytest.mark.parametrize("ticks", ["", "x", "10-", "-3", "1-2-3"])
def test_a_range_that_is_none_is_refused(
    ctxmgr: Callable[..., Result], folder: Path, ticks: str
) -> None:
    """It says what one looks like."""
    result = ctxmgr("experience", "retain", "s1", "--folder", str(folder), "--", ticks)

    assert result.exit_code == 2
    assert "such as 10-20" in result.output


def test_evidence_is_submitted_packed_verified_and_resolved(
    ask: Callable[..., Any], ctxmgr: Callable[..., Result], folder: Path
) -> None:
    """000-R092, 000-R094, 000-R200: from a bud to a package that verifies, and an altered one."""
    submitted = ask("submit", "bud-1", "graft-1")
    package = ask("package", "graft-1")

    assert (len(submitted["windows"]), submitted["missing"]) == (1, [])
    assert package["folder"] == str(folder / "exports" / "graft-1")
    assert (package["timesteps"], package["tags"], package["be_id"]) == (5, 1, "agent")
    verified = ask("verify-package", package["folder"], "--sha256", package["manifest_sha256"])
    assert verified == package
    [resolved] = ask("resolve", "graft-1", "--accepted")
    assert (resolved["fidelity"], resolved["submissions"]) == ("cold", [])

    with (folder / "exports" / "graft-1" / "timesteps.jsonl").open("a") as file:
        file.write("\n")
    result = ctxmgr("experience", "verify-package", package["folder"])
    assert result.exit_code == 8
    assert "timesteps.jsonl was altered" in result.output


def test_cold_records_are_compressed_to_their_limit(ask: Callable[..., Any]) -> None:
    """000-R211: the contract's limit, or a smaller one."""
    before = ask("compress")

    after = ask("compress", "--limit", "10")

    assert (before["limit"], before["passes"]) == (100_000_000, 0)
    assert [level["level"] for level in before["levels"]] == ["REPLY"]
    assert after["before"] == before["after"] > 0


def test_storage_is_shown_by_level(ask: Callable[..., Any]) -> None:
    """000-R211: without compressing anything."""
    storage = ask("storage")

    assert [level["level"] for level in storage["levels"]] == ["REPLY"]
    assert storage["levels"][0]["bytes"] > 0
    assert (storage["limit"], storage["steps"]) == (100_000_000, WORDS)
    assert ask("storage") == storage


def test_http_reads_windows_of_the_configured_folder_only(folder: Path, tmp_path: Path) -> None:
    """A remote caller reads; it cannot name a folder of the server, retain or compress."""
    url = f"sqlite:///{tmp_path}/a.db"
    asyncio.run(_create(url))
    with serving(url) as server:
        windows = server.get("/v1/xdb/windows", session="s1")
        elsewhere = [
            server.get(f"/v1/xdb/{name}", folder="/etc") for name in ("windows", "storage")
        ]
        writes = [server.post(f"/v1/xdb/{name}") for name in ("retain", "release", "compress")]
        too_many = server.get("/v1/xdb/windows", limit=10_001)

    assert [window["fidelity"] for window in windows.json()["windows"]] == ["cold"]
    assert [answer.status_code for answer in (*elsewhere, too_many)] == [400, 400, 400]
    assert {answer.status_code for answer in writes} <= {404, 405}


async def _create(url: str) -> None:
    await (await open_store(url)).close()


def test_a_bud_is_submitted_by_its_name(
    ask: Callable[..., Any], ctxmgr: Callable[..., Result]
) -> None:
    """000-R092: and what would keep nothing is refused, not reported as done."""
    wrong = {
        ("no such bud", "graft-1"): "there is no tag 'no such bud'",
        ("bud-1", "../graft"): "'../graft' is not an id of a submission",
    }
    for (bud, submission), message in wrong.items():
        result = ctxmgr("experience", "submit", bud, submission)
        assert (result.exit_code != 0, message in result.output) == (True, True), result.output

    assert len(ask("submit", "Kindness", "graft-1")["windows"]) == 1


def test_an_empty_answer_says_so(ctxmgr: Callable[..., Result], folder: Path) -> None:
    """A terminal that prints nothing at all leaves a person in doubt."""
    assert ctxmgr("experience", "windows", "nosuch").output.strip() == "nothing"
    assert ctxmgr("experience", "recall", "--session", "nosuch").output.strip() == "nothing"
