"""`ctxmgr audit`: from creating a log to an export that is verified elsewhere."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from ctxmgr import connect
from ctxmgr.settings import data_dir
from tests.components import ROOT
from tests.surfaces.worked_sessions import json_of

Run = Callable[..., Result]


@pytest.fixture
def run(ctxmgr: Callable[..., Result]) -> Run:
    """Run a command that must end with this code."""

    def run(*arguments: str, code: int = 0) -> Result:
        result = ctxmgr(*arguments)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def log(run: Run) -> Path:
    """A log with the records of one short session."""
    run("audit", "init")
    folder = data_dir() / "audit"

    async def work() -> None:
        async with connect("sqlite:///agent.db", audit=folder, tracking=False) as client:
            session = await client.start("s1", system_prompt="Be brief.")
            await session.record("call-1", tool="bash", args={"command": "ls"}, output="a.py")
            await session.end_turn("One file.", user="What is here?")

    asyncio.run(work())
    return folder


@pytest.fixture
def reviewer(run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    token: str = json_of(run("token", "--reviewer", "alice", "--json"))["token"]
    monkeypatch.setenv("CTXMGR_REVIEWER_TOKEN", token)
    return token


def test_a_log_is_created_once_and_described(run: Run) -> None:
    """The public key is printed, to be kept elsewhere."""
    created = json_of(run("audit", "init", "--json"))
    again = run("audit", "init", code=2)

    assert len(created["public_key"]) == 64
    assert "holds an audit log already" in again.stderr
    assert json_of(run("audit", "status", "--json"))["public_key"] == created["public_key"]


def test_without_a_log_the_remedy_is_named(run: Run) -> None:
    assert "ctxmgr audit init" in run("audit", "status", code=3).stderr


def test_verify_names_the_record_and_the_field(run: Run, log: Path) -> None:
    """000-R111: it exits with 1, for scripts, and says where."""
    honest = json_of(run("audit", "verify", "--json"))
    segment = log / "segment-00000001.jsonl"
    number = 1 + segment.read_bytes().splitlines().index(
        next(line for line in segment.read_bytes().splitlines() if b"What is here?" in line)
    )
    segment.write_bytes(segment.read_bytes().replace(b"What is here?", b"What is hers?"))

    found = json.loads(run("audit", "verify", "--json", code=1).stdout)

    assert honest["verified"] is True
    assert honest["faults"] == []
    assert found["faults"][0]["place"] == f"record {number}"
    assert found["faults"][0]["field"] == "raw_content"
    assert f"record {number}" in run("audit", "verify", code=1).stdout


def test_a_query_needs_a_reviewers_token(
    run: Run, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """000-R104: neither no token nor one for the HTTP API opens the log."""
    none = run("audit", "query", code=5)
    monkeypatch.setenv("CTXMGR_REVIEWER_TOKEN", json_of(run("token", "--json"))["token"])
    other = run("audit", "query", code=5)

    assert "ctxmgr token --reviewer" in none.stderr
    assert "not a reviewer's" in other.stderr
    assert b"query refused" in (log / "segment-00000001.jsonl").read_bytes()


def test_a_reviewer_queries_and_that_is_recorded(run: Run, log: Path, reviewer: str) -> None:
    """000-R104: a query leaves a record with the reviewer's name."""
    found = json_of(run("audit", "query", "--session", "s1", "--kind", "input", "--json"))
    noted = json_of(run("audit", "query", "--text", "alice", "--json"))

    assert [record["raw_content"] for record in found] == ["What is here?"]
    assert len(noted) == 1


def test_a_revoked_reviewer_is_refused(run: Run, log: Path, reviewer: str) -> None:
    run("token", "--revoke", reviewer)

    assert "revoked" in run("audit", "query", code=5).stderr


def test_an_export_is_verified_without_ctxmgr(run: Run, log: Path, reviewer: str) -> None:
    """The export is signed up to its last record, which is the record of the export."""
    key = json_of(run("audit", "status", "--json"))["public_key"]
    run("audit", "export", "out")

    command = [sys.executable, "-I", str(ROOT / "docs" / "verify_audit_export.py"), "out", key]
    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    records, signed = result.stdout.split()[4].rstrip(","), result.stdout.split()[8].rstrip(",")
    assert records == signed


def test_a_checkpoint_is_signed_with_a_key_elsewhere(run: Run, tmp_path: Path) -> None:
    """000-R210: the processes that record need not be able to sign."""
    run("audit", "init", "--key", str(tmp_path / "key.pem"))
    assert not (data_dir() / "audit" / "signing.key").exists()

    assert "--key" in run("audit", "checkpoint", code=3).stderr
    signed = json_of(run("audit", "checkpoint", "--key", str(tmp_path / "key.pem"), "--json"))

    assert signed["checkpoint"] == 0, "the log is empty"


def test_a_folders_settings_do_not_choose_the_log(run: Run, log: Path) -> None:
    """A project must not direct the audit elsewhere; its file has to be confirmed."""
    Path("ctxmgr.toml").write_text('audit = "/tmp/elsewhere"', encoding="utf-8")

    assert "ctxmgr trust" in run("audit", "status", code=5).stderr
