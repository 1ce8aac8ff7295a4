"""The commands on a store: what they print, and for programs as JSON."""

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
    """The first thing to ask a store: does it work, and how far is it?"""
    result = _json(ctxmgr("status", "--store", store_url, "--json"))

    assert result["engine"].startswith("SQLite ")
    assert result["sequence"] is not None


def test_get_shows_an_object_as_it_is_and_as_it_was(ctxmgr: Run, store_url: str) -> None:
    """003-R005: any earlier version can be fetched by time, from the command line too."""
    now = _json(ctxmgr("get", "chat:s1", "--store", store_url, "--json"))
    at = ("--valid-time", "1970-01-01T00:00:01Z")
    then = _json(ctxmgr("get", "chat:s1", *at, "--store", store_url, "--json"))

    assert now["document"]["turn_count"] == 1
    assert then["document"]["turn_count"] == 0


def test_history_lists_versions_newest_first_when_asked(ctxmgr: Run, store_url: str) -> None:
    """003-R011: an object has an ordered history."""
    page = _json(ctxmgr("history", "chat:s1", "--newest-first", "--store", store_url, "--json"))

    assert [entry["valid_time"] > 1000 for entry in page["entries"]] == [True, False]


def test_find_reads_values_as_the_kind_declares_them(ctxmgr: Run, store_url: str) -> None:
    """On a command line everything is text; the declaration says which text is a number."""
    failed = _json(ctxmgr("find", "toolcall", "status=fail", "--store", store_url, "--json"))
    grown = _json(ctxmgr("find", "chat", "turn_count=1", "--store", store_url, "--json"))

    assert [version["object_id"] for version in failed["versions"]] == ["call-1"]
    assert [each["object_id"] for each in grown["versions"]] == ["chat:s1"]


def test_find_goes_on_where_the_page_before_ended(ctxmgr: Run, store_url: str) -> None:
    """A listing too long for one page is not cut off in silence."""
    first = _json(ctxmgr("find", "toolcall", "--limit", "1", "--store", store_url, "--json"))
    rest = _json(
        ctxmgr("find", "toolcall", "--cursor", first["cursor"], "--store", store_url, "--json")
    )

    assert [each["object_id"] for each in rest["versions"]] == ["call-1"]


def test_feed_shows_the_last_transactions(ctxmgr: Run, store_url: str) -> None:
    """What just happened is the usual question, so no sequence is needed to ask it."""
    last = _json(ctxmgr("feed", "--limit", "2", "--store", store_url, "--json"))
    older = _json(ctxmgr("feed", "--after", "0", "--limit", "3", "--store", store_url, "--json"))

    assert [each["writes"][0]["object_id"] for each in last] == ["call-0", "call-1"]
    assert older[0]["sequence"] < last[0]["sequence"]


def test_tables_are_for_people(ctxmgr: Run, store_url: str) -> None:
    """Times are dates, not milliseconds, and a document shows its fields."""
    shown = ctxmgr("get", "call-1", "--store", store_url)
    listed = ctxmgr("history", "chat:s1", "--store", store_url)

    assert shown.exit_code == listed.exit_code == 0
    assert "status" in shown.stdout
    assert "1970-01-01T00:00:01.000Z" in listed.stdout


def test_json_keeps_integers_of_any_size(ctxmgr: Run, home: Path, store_url: str) -> None:
    """003-A15: tool arguments carry numbers beyond 64 bits; a float would change them."""
    result = _json(ctxmgr("get", "call-0", "--store", store_url, "--json"))

    assert result["document"]["args"]["big"] == 2**80


def test_the_store_may_stand_before_the_command(ctxmgr: Run, store_url: str) -> None:
    """A shell alias with a store works for every command."""
    assert ctxmgr("--store", store_url, "get", "chat:s1").exit_code == 0


def test_the_default_store_is_made_in_the_data_folder(ctxmgr: Run, home: Path) -> None:
    """It works without any settings, and leaves nothing in the working folder."""
    assert ctxmgr("vacuum").exit_code == 0

    assert _json(ctxmgr("status", "--json"))["sequence"] is None
    assert (home / "data" / "ctxmgr" / "ctxmgr.db").is_file()
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("command", [("status",), ("get", "x"), ("feed",), ("verify",)])
def test_looking_makes_no_store(ctxmgr: Run, home: Path, command: tuple[str, ...]) -> None:
    """A mistyped path is told as one; it does not become an empty store."""
    before = set(home.rglob("*"))

    elsewhere = ctxmgr(*command, "--store", f"sqlite:///{home / 'mistyped.db'}")

    for result in (ctxmgr(*command), elsewhere):
        assert result.exit_code == 3
        assert "no store yet" in result.stderr
    assert set(home.rglob("*")) == before


def test_verify_counts_what_it_checked(ctxmgr: Run, store_url: str) -> None:
    """003-R045: every hash is computed again, over every version."""
    result = _json(ctxmgr("verify", "--store", store_url, "--json"))

    assert (result["versions"], result["faults"]) == (4, [])


def test_verify_ends_with_1_when_a_version_is_damaged(
    ctxmgr: Run, home: Path, store_url: str
) -> None:
    """Damage is listed, and a script that runs it every night notices."""
    path = home / "store.db"
    path.write_bytes(path.read_bytes().replace(b"server.toml:1", b"server.toml:2"))

    result = ctxmgr("verify", "--store", store_url, "--json")

    assert result.exit_code == 1
    assert "call-0" in json.loads(result.stdout)["faults"][0]


def test_a_backup_is_a_store(ctxmgr: Run, home: Path, store_url: str) -> None:
    """A copy that nobody opened is no backup."""
    copy = home / "copy.db"

    assert _json(ctxmgr("backup", str(copy), "--store", store_url, "--json"))["path"] == str(copy)

    result = _json(ctxmgr("verify", "--store", f"sqlite:///{copy}", "--json"))
    assert (result["versions"], result["faults"]) == (4, [])
    assert ctxmgr("backup", str(copy), "--store", store_url).exit_code == 2


def test_vacuum_keeps_everything(ctxmgr: Run, store_url: str) -> None:
    """It gives space back, never a version."""
    result = _json(ctxmgr("vacuum", "--store", store_url, "--json"))

    assert result["bytes_after"] <= result["bytes_before"]
    assert _json(ctxmgr("verify", "--store", store_url, "--json"))["versions"] == 4


def test_the_demo_leaves_nothing_behind(ctxmgr: Run, home: Path) -> None:
    """It is the first thing people run; their own store must not notice."""
    result = _json(ctxmgr("demo", "--json"))

    assert result["mended"]
    assert [len(chapter["turns"]) for chapter in result["chapters"]] == [4, 4, 5, 0, 0]
    assert not (home / "data").exists()


def test_the_demo_runs_on_the_store_it_is_given(ctxmgr: Run, store_url: str) -> None:
    """What it wrote can then be looked at."""
    assert ctxmgr("demo", "--store", store_url).exit_code == 0

    assert _json(ctxmgr("find", "session", "--store", store_url, "--json"))["versions"] != []
    assert _json(ctxmgr("verify", "--store", store_url, "--json"))["faults"] == []


def test_the_demo_fits_a_terminal_of_80_columns(
    ctxmgr: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most people see it once, in whatever window they have."""
    monkeypatch.setenv("COLUMNS", "80")

    printed = ctxmgr("demo").output

    assert max(map(len, printed.splitlines())) <= 80
    assert printed.count("tokens  system ") == printed.count("objects full ") == 13
    assert "…" not in printed.partition("Turn 3, once more")[0]


def test_what_the_demo_suggests_works_as_it_is_copied(ctxmgr: Run, store_url: str) -> None:
    """Whoever is curious now must not be sent into an error."""
    result = _json(ctxmgr("demo", "--json", "--store", store_url))
    commands = [shlex.split(item["how"])[1:] for item in result["try_next"][:-1]]

    looking = [words for words in commands if "--store" in words]
    assert [words[0] for words in looking] == ["sessions", "log", "context"]
    assert [ctxmgr(*words).exit_code for words in looking] == [0, 0, 0]
    for words in commands:
        known = ctxmgr(words[0], "--help").output
        assert all(word in known for word in words if word.startswith("--"))
    assert (ROOT / result["try_next"][-1]["how"]).exists()


def test_the_demo_has_one_store(ctxmgr: Run) -> None:
    """Two answers to one question are refused, not chosen from."""
    refused = ctxmgr("demo", "--xtdb", "--store", "sqlite://:memory:")

    assert refused.exit_code == 2
    assert "--xtdb cannot be combined with --store" in refused.stderr


def test_the_doctor_says_where_settings_come_from(
    ctxmgr: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most support questions end with: it read another file than you think."""
    monkeypatch.setenv("CTXMGR_STORE", "sqlite://:memory:")
    monkeypatch.setenv("CTXMGR_TOKEN", "very-secret")

    result = ctxmgr("doctor", "--json")

    matches = {each["what"]: each for each in json.loads(result.stdout)}
    assert matches["setting store"]["note"] == "from: environment"
    assert matches["sqlite"]["found"].startswith("SQLite ")
    assert "very-secret" not in result.stdout


def test_the_doctor_tries_what_a_client_needs(ctxmgr: Run) -> None:
    """An installed program need not work: the sandboxes are tried, the limits read."""
    matches = {each["what"]: each for each in json.loads(ctxmgr("doctor", "--json").stdout)}

    for name in ("bubblewrap", "docker"):
        sandbox = matches[f"sandbox {name}"]
        assert sandbox["found"] or sandbox["note"], "what does not work says why"
    assert matches["rg"]["found"] == shutil.which("rg")
    assert matches["filesystem id"]["found"] == host_filesystem_id()
    limit = Path("/proc/sys/fs/inotify/max_user_watches")
    if limit.exists():
        assert matches["inotify max_user_watches"]["found"] == limit.read_text("ascii").strip()


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
