"""The commands about a store: their output for people and as JSON."""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ctxmgr import Chat, Match, Put, ToolCall, Turn, open_store, to_document
from ctxmgr.core.files.filesystem_ids import host_filesystem_id
from tests.components import ROOT

Run = Callable[..., Result]


@pytest.fixture
async def store_url(home: Path) -> str:
    """A store with a chat of two versions and two tool calls."""
    url = f"sqlite:///{home / 'store.db'}"
    chat = Chat(session_id="s1")
    turn = Turn(user="hello", assistant=({"type": "text", "text": "hi"},))
    async with await open_store(url) as store:
        await store.commit([Match(chat.object_id, None), Put(to_document(chat), valid_from=1000)])
        await store.commit([Put(to_document(chat.append(turn)))])
        for number, status in enumerate(("ok", "fail")):
            await store.commit([Put(to_document(_toolcall(number, status)))])
    return url


def test_status_describes_the_store(ctxmgr: Run, store_url: str) -> None:
    """Users first check whether a store works and what it contains."""
    result = _json(ctxmgr("status", "--store", store_url, "--json"))

    assert result["engine"].startswith("SQLite ")
    assert result["sequence"] is not None


def test_get_shows_current_and_past_versions(ctxmgr: Run, store_url: str) -> None:
    """003-R005: any earlier version can be fetched by time, from the command line too."""
    now = _json(ctxmgr("get", "chat:s1", "--store", store_url, "--json"))
    at = ("--valid-time", "1970-01-01T00:00:01Z")
    then = _json(ctxmgr("get", "chat:s1", *at, "--store", store_url, "--json"))

    assert now["document"]["turn_count"] == 1
    assert then["document"]["turn_count"] == 0


def test_history_lists_versions_newest_first_when_asked(ctxmgr: Run, store_url: str) -> None:
    """003-R011: an object has an ordered history."""
    page = _json(ctxmgr("history", "chat:s1", "--newest-first", "--store", store_url, "--json"))

    assert page["entries"][0]["valid_time"] > page["entries"][1]["valid_time"]
    assert page["entries"][1]["valid_time"] == "1970-01-01T00:00:01.000Z"


def test_find_reads_values_as_the_kind_declares_them(ctxmgr: Run, store_url: str) -> None:
    """Command-line values are text; the declaration says which are numbers."""
    failed = _json(ctxmgr("find", "toolcall", "status=fail", "--store", store_url, "--json"))
    grown = _json(ctxmgr("find", "chat", "turn_count=1", "--store", store_url, "--json"))

    assert [version["object_id"] for version in failed["versions"]] == ["call-1"]
    assert [entry["object_id"] for entry in grown["versions"]] == ["chat:s1"]


def test_find_continues_on_the_next_page(ctxmgr: Run, store_url: str) -> None:
    """A long list must not be cut silently."""
    first = _json(ctxmgr("find", "toolcall", "--limit", "1", "--store", store_url, "--json"))
    rest = _json(
        ctxmgr("find", "toolcall", "--cursor", first["cursor"], "--store", store_url, "--json")
    )

    assert [entry["object_id"] for entry in rest["versions"]] == ["call-1"]


def test_feed_shows_the_last_transactions(ctxmgr: Run, store_url: str) -> None:
    """Recent transactions are the usual question, so no sequence is needed."""
    last = _json(ctxmgr("feed", "--limit", "2", "--store", store_url, "--json"))
    older = _json(ctxmgr("feed", "--after", "0", "--limit", "3", "--store", store_url, "--json"))

    written = [entry["writes"][0]["object_id"] for entry in last["transactions"]]
    assert written == ["call-0", "call-1"]
    assert older["transactions"][0]["sequence"] < last["transactions"][0]["sequence"]


def test_tables_are_for_people(ctxmgr: Run, store_url: str) -> None:
    """Times are shown as dates, and a document by its fields."""
    result = ctxmgr("get", "call-1", "--store", store_url)
    listed = ctxmgr("history", "chat:s1", "--store", store_url)

    assert result.exit_code == listed.exit_code == 0
    assert "status" in result.stdout
    assert "1970-01-01T00:00:01.000Z" in listed.stdout


def test_json_keeps_integers_of_any_size(ctxmgr: Run, home: Path, store_url: str) -> None:
    """003-A15: tool arguments may have numbers beyond 64 bits, which a float would change."""
    result = _json(ctxmgr("get", "call-0", "--store", store_url, "--json"))

    assert result["document"]["args"]["big"] == 2**80


def test_the_store_option_may_precede_the_command(ctxmgr: Run, store_url: str) -> None:
    """A shell alias with a store works for every command."""
    assert ctxmgr("--store", store_url, "get", "chat:s1").exit_code == 0


def test_the_default_store_is_created_in_the_data_folder(ctxmgr: Run, home: Path) -> None:
    """It works without any settings, and leaves nothing in the working folder."""
    assert ctxmgr("vacuum").exit_code == 0

    assert _json(ctxmgr("status", "--json"))["sequence"] is None
    assert (home / "data" / "ctxmgr" / "ctxmgr.db").is_file()
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("command", [("status",), ("get", "x"), ("feed",), ("verify",)])
def test_reading_creates_no_store(ctxmgr: Run, home: Path, command: tuple[str, ...]) -> None:
    """A mistyped path is an error and must not become an empty store."""
    before = set(home.rglob("*"))

    elsewhere = ctxmgr(*command, "--store", f"sqlite:///{home / 'mistyped.db'}")

    for result in (ctxmgr(*command), elsewhere):
        assert result.exit_code == 3
        assert "no store at" in result.stderr
    assert set(home.rglob("*")) == before


def test_verify_reports_how_much_it_checked(ctxmgr: Run, store_url: str) -> None:
    """003-R045: every hash is computed again, over every version."""
    result = _json(ctxmgr("verify", "--store", store_url, "--json"))

    assert (result["versions"], result["faults"]) == (4, [])


def test_verify_exits_with_1_if_a_version_is_damaged(
    ctxmgr: Run, home: Path, store_url: str
) -> None:
    """Damage is listed, and a nightly script can detect it."""
    path = home / "store.db"
    path.write_bytes(path.read_bytes().replace(b"server.toml:1", b"server.toml:2"))

    result = ctxmgr("verify", "--store", store_url, "--json")

    assert result.exit_code == 1
    assert "call-0" in json.loads(result.stdout)["faults"][0]


def test_a_backup_can_be_opened_as_a_store(ctxmgr: Run, home: Path, store_url: str) -> None:
    """A copy that cannot be opened is not a backup."""
    copy = home / "copy.db"

    assert _json(ctxmgr("backup", str(copy), "--store", store_url, "--json"))["path"] == str(copy)

    result = _json(ctxmgr("verify", "--store", f"sqlite:///{copy}", "--json"))
    assert (result["versions"], result["faults"]) == (4, [])
    assert ctxmgr("backup", str(copy), "--store", store_url).exit_code == 2


def test_vacuum_keeps_all_data(ctxmgr: Run, store_url: str) -> None:
    """It frees space and never removes a version."""
    result = _json(ctxmgr("vacuum", "--store", store_url, "--json"))

    assert result["bytes_after"] <= result["bytes_before"]
    assert _json(ctxmgr("verify", "--store", store_url, "--json"))["versions"] == 4


def test_the_demo_keeps_its_session_in_a_store_of_its_own(ctxmgr: Run, home: Path) -> None:
    """It is the first thing users run, and must not touch their store."""
    result = _json(ctxmgr("demo", "--json"))

    assert result["fixed"]
    assert [len(chapter["turns"]) for chapter in result["chapters"]] == [4, 4, 5, 0, 0, 0, 0, 0]
    assert [file.name for file in (home / "data").rglob("*.db")] == ["demo.db"]


def test_the_demo_runs_on_the_given_store(ctxmgr: Run, store_url: str) -> None:
    """Its session can then be inspected."""
    assert ctxmgr("demo", "--store", store_url).exit_code == 0

    assert _json(ctxmgr("find", "session", "--store", store_url, "--json"))["versions"] != []
    assert _json(ctxmgr("verify", "--store", store_url, "--json"))["faults"] == []


def test_the_demo_fits_a_terminal_of_80_columns(
    ctxmgr: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most users run it once, in a window of any size."""
    monkeypatch.setenv("COLUMNS", "80")

    printed = ctxmgr("demo").output

    assert max(map(len, printed.splitlines())) <= 80
    assert printed.count("\n append-only ") == printed.count("\n prompt ") == 13
    assert "…" not in printed.partition("Turn 3, once more")[0]


def test_the_commands_that_the_demo_suggests_work(ctxmgr: Run, store_url: str) -> None:
    """Users copy them, and they must not fail."""
    result = _json(ctxmgr("demo", "--json", "--store", store_url))
    commands = [shlex.split(item["how"])[1:] for item in result["try_next"][:-1]]

    looking = [words for words in commands if "--store" in words]
    assert [words[0] for words in looking] == ["serve", "log", "context"]
    assert [ctxmgr(*words).exit_code for words in looking[1:]] == [0, 0]
    for words in commands:
        help_text = ctxmgr(words[0], "--help").output
        assert all(word in help_text for word in words if word.startswith("--"))
    assert (ROOT / result["try_next"][-1]["how"]).exists()


def test_the_demo_refuses_two_stores(ctxmgr: Run) -> None:
    """Contradictory options are refused, not resolved silently."""
    refused = ctxmgr("demo", "--xtdb", "--store", "sqlite://:memory:")

    assert refused.exit_code == 2
    assert "--xtdb cannot be combined with --store" in refused.stderr


def test_doctor_shows_where_settings_come_from(
    ctxmgr: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many problems are caused by an unexpected settings file."""
    monkeypatch.setenv("CTXMGR_STORE", "sqlite://:memory:")
    monkeypatch.setenv("CTXMGR_TOKEN", "very-secret")

    result = ctxmgr("doctor", "--json")

    rows = {row["what"]: row for row in json.loads(result.stdout)["findings"]}
    assert rows["setting store"]["note"] == "from: environment"
    assert rows["sqlite"]["found"].startswith("SQLite ")
    assert "very-secret" not in result.stdout


def test_doctor_answers_first(ctxmgr: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is whether it will work; the rest says why. Paths stay whole, to be copied."""
    monkeypatch.setenv("COLUMNS", "80")

    printed = ctxmgr("doctor").stdout
    found = _json(ctxmgr("doctor", "--json"))

    answer = "yes" if found["ready"] else "no"
    assert printed.startswith(f"ready: {answer} ({found['summary']})\n")
    assert "SQLite" in found["summary"]
    for finding in found["findings"]:
        assert finding["found"] is None or finding["found"] in printed


def test_doctor_tests_what_a_client_needs(ctxmgr: Run) -> None:
    """An installed program may not work, so sandboxes are started and limits read."""
    rows = {row["what"]: row for row in json.loads(ctxmgr("doctor", "--json").stdout)["findings"]}

    for name in ("bubblewrap", "docker"):
        sandbox = rows[f"sandbox {name}"]
        assert sandbox["found"] or sandbox["note"], "a sandbox that does not work says why"
    assert rows["rg"]["found"] == shutil.which("rg")
    assert rows["filesystem id"]["found"] == host_filesystem_id()
    limit = Path("/proc/sys/fs/inotify/max_user_watches")
    if limit.exists():
        assert rows["inotify max_user_watches"]["found"] == limit.read_text("ascii").strip()


def _json(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def _toolcall(number: int, status: Any) -> ToolCall:
    return ToolCall(
        toolcall_id=f"call-{number}",
        tool="grep",
        args={"pattern": "port", "big": 2**80},
        status=status,
        chat_ref="chat:s1",
        content="server.toml:1:port = 8080",
    )
