"""`ctxmgr memory`, on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.surfaces.worked_sessions import json_of

pytestmark = pytest.mark.usefixtures("home")


def test_a_fact_is_added_found_corrected_and_forgotten(ctxmgr: Callable[..., Result]) -> None:
    """001-R077, 001-R107: what is remembered reaches the text for a prompt."""
    added = json_of(
        ctxmgr("memory", "add", "test runner", "pytest", "--kind", "decision", "--json")
    )
    start = added["memory"]["id"][:8]
    found = json_of(ctxmgr("memory", "search", "how do we run the tests?", "--json"))
    text = json_of(ctxmgr("memory", "assemble", "--message", "run the tests", "--json"))
    used = json_of(ctxmgr("memory", "feedback", start, "cited", "--json"))
    passed_over = json_of(ctxmgr("memory", "feedback", start, "ignored", "--json"))
    full = json_of(ctxmgr("memory", "expand", start, "--json"))
    table = ctxmgr("memory", "search", "tests").stdout

    assert "test runner: pytest" in table
    assert "{" not in table
    assert start in table
    assert max(map(len, table.splitlines())) <= 80
    assert [each["memory"]["id"] for each in found["memories"]] == [added["memory"]["id"]]
    assert "test runner: pytest" in text["context"]
    assert sum(text["tiers"].values()) == text["token_count"] <= 8_000
    assert (used["citation_count"], passed_over["ignore_count"]) == (1, 1)
    assert full["text"] == "test runner: pytest"

    edited = json_of(ctxmgr("memory", "edit", start, "unittest", "--json"))
    ctxmgr("memory", "forget", start, "--because", "we moved on")
    assert edited["memory"]["text"] == "test runner: unittest"
    assert json_of(ctxmgr("memory", "list", "--json"))["memories"] == []
    ctxmgr("memory", "restore", start)
    history = json_of(ctxmgr("memory", "history", start, "--json"))["versions"]
    assert [each["text"] for each in history] == [
        "test runner: pytest",
        *["test runner: unittest"] * 3,
    ]
    assert [each["ended_because"] for each in history] == [None, None, "we moved on", None]
    assert json_of(ctxmgr("memory", "show", start, "--json"))["retrieval_count"] == 1


def test_a_contradiction_is_reported_and_resolved(ctxmgr: Callable[..., Result]) -> None:
    """001-R112: by a person, with a note."""
    ctxmgr("memory", "add", "database", "PostgreSQL 14")
    added = json_of(ctxmgr("memory", "add", "db", "PostgreSQL 15", "--json"))
    (pair,) = json_of(ctxmgr("memory", "contradictions", "--json"))["contradictions"]
    refused = ctxmgr("memory", "resolve", pair["id"], "merged")
    closed = json_of(
        ctxmgr("memory", "resolve", pair["id"], "merged", "--value", "PostgreSQL 16", "--json")
    )

    assert added["contradictions"] == [pair]
    assert refused.exit_code == 2
    assert closed["resolution"] == "merged"
    (left,) = json_of(ctxmgr("memory", "list", "--json"))["memories"]
    assert left["text"] == "database: PostgreSQL 16"


def test_another_project_has_its_own_memory(ctxmgr: Callable[..., Result], tmp_path: Path) -> None:
    """Shared memories stay in their project; private ones follow their user."""
    other = tmp_path / "other"
    other.mkdir()
    ctxmgr("memory", "add", "port", "8080", "--visibility", "project-shared")
    ctxmgr("memory", "add", "editor", "vim")

    here = json_of(ctxmgr("memory", "list", "--json"))["memories"]
    there = json_of(ctxmgr("memory", "list", "--project", str(other), "--json"))["memories"]

    assert [each["text"] for each in here] == ["port: 8080", "editor: vim"]
    assert [each["text"] for each in there] == ["editor: vim"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "ffffffff"), "there is no memory"),
        (("show", "f"), "at least 4"),
        (("add", "", "x"), "key must be a text"),
        (("resolve", "nope", "a_wins"), "there is no contradiction"),
        (("assemble", "--budget", "0"), "a budget is"),
        (("list", "--project", "nowhere"), "there is no folder 'nowhere'"),
        (("search", " "), "the question is empty"),
        (("search", "port", "--limit", "-1"), "the limit is -1"),
    ],
)
def test_wrong_input_has_a_clear_error(
    ctxmgr: Callable[..., Result], words: tuple[str, ...], message: str
) -> None:
    ctxmgr("memory", "add", "port", "8080")

    result = ctxmgr("memory", *words)

    assert result.exit_code != 0
    assert message in result.output + result.stderr


def test_a_stored_session_is_learnt_from_once(
    ctxmgr: Callable[..., Result], tmp_path: Path
) -> None:
    """001-R043: imported sessions teach, too, and what was refused can be seen."""
    recording = tmp_path / "talk.json"
    said = [
        {"role": "user", "content": "we use pnpm for packages"},
        {"role": "assistant", "content": "Understood."},
        {"role": "user", "content": "always do this before a commit"},
        {"role": "assistant", "content": "Understood."},
    ]
    recording.write_text(json.dumps({"messages": said}), encoding="utf-8")
    ctxmgr("import-recorded", str(recording), "--session", "talk")

    learnt = json_of(ctxmgr("memory", "learn", "talk", "--json"))
    again = json_of(ctxmgr("memory", "learn", "talk", "--json"))
    refused = json_of(ctxmgr("memory", "refused", "--json"))["refused"]
    (memory,) = json_of(ctxmgr("memory", "list", "--json"))["memories"]

    assert (learnt["exchanges"], learnt["learnt"]) == (2, {"instructions": 1})
    assert (again["exchanges"], again["learnt"]) == (0, {})
    assert memory["text"] == "packages: pnpm"
    assert any("'this'" in each["reason"] for each in refused)


def test_a_person_sees_what_is_predicted_and_why_something_is_served(
    ctxmgr: Callable[..., Result],
) -> None:
    """001-R109: predictions with a confidence; and the reason why a memory is shown or is not."""
    added = json_of(
        ctxmgr(
            *("memory", "add", "amounts", "in cents", "--kind", "decision"),
            *("--tag", "src/pay.py", "--json"),
        )
    )
    start = added["memory"]["id"][:8]
    predicted = json_of(ctxmgr("memory", "predict", "src/pay.py", "--json"))
    shown = json_of(ctxmgr("memory", "why", start, "--current-file", "src/pay.py", "--json"))
    ctxmgr("memory", "forget", start, "--because", "we moved on")
    gone = json_of(ctxmgr("memory", "why", start, "--json"))

    assert [each["id"] for each in predicted["predicted_memories"]] == [added["memory"]["id"]]
    assert predicted["confidence"] == 1.0
    assert (shown["shown"], shown["why"]) == (True, "decision about src/pay.py")
    assert (gone["shown"], gone["reason"]) == (False, "it was forgotten: we moved on")
    assert ctxmgr("memory", "predict", "--hour", "25").exit_code != 0


def test_a_dry_run_of_the_upkeep_counts(ctxmgr: Callable[..., Result]) -> None:
    """001-R110: the four counts of the row, on the command line."""
    ctxmgr("memory", "add", "port", "8080")
    counts = json_of(ctxmgr("memory", "consolidate", "--dry-run", "--json"))

    assert counts["dry_run"] is True
    names = ("deduped", "compressed", "forgotten", "contradictions_found")
    assert [counts[name] for name in names] == [0, 0, 0, 0]


def test_a_memory_is_shared_exported_and_imported(
    ctxmgr: Callable[..., Result], tmp_path: Path
) -> None:
    """001-R102: private ones stay unless they are asked for; a damaged file changes nothing."""
    added = json_of(ctxmgr("memory", "add", "test runner", "pytest", "--json"))["memory"]
    ctxmgr("memory", "add", "editor", "vim")
    shared = json_of(ctxmgr("memory", "share", added["id"][:8], "--json"))["memory"]
    file, other = tmp_path / "shop.memory", tmp_path / "other"
    other.mkdir()
    elsewhere = ("--store", str(tmp_path / "other.db"), "--project", str(other))

    exported = json_of(ctxmgr("memory", "export", str(file), "--json"))
    would = json_of(ctxmgr("memory", "import", str(file), "--dry-run", *elsewhere, "--json"))
    imported = json_of(ctxmgr("memory", "import", str(file), *elsewhere, "--json"))
    again = json_of(ctxmgr("memory", "import", str(file), *elsewhere, "--json"))

    assert shared == {**added, "visibility": "project-shared"}
    assert exported["memories"] == 1
    assert (would["dry_run"], would["imported"], imported["imported"]) == (True, 1, 1)
    assert (again["imported"], again["known"]) == (0, 1)
    details = json_of(ctxmgr("memory", "show", added["id"], *elsewhere, "--json"))
    assert details["imported_from"] == exported["root"]
    assert details["memory"] == shared

    refused = ctxmgr("memory", "export", str(file))
    assert (refused.exit_code, "already exists" in refused.stderr) == (2, True)
    file.write_bytes(file.read_bytes().replace(b"pytest", b"PYTEST"))
    damaged = ctxmgr("memory", "import", str(file), *elsewhere)
    assert damaged.exit_code != 0
    assert f"{file}: the hash of the file does not match" in " ".join(damaged.stderr.split())
    unused = ctxmgr("memory", "import", str(file), "--store", str(tmp_path / "new.db"))
    assert (unused.exit_code, (tmp_path / "new.db").exists()) == (damaged.exit_code, False)
    assert json_of(ctxmgr("memory", "unshare", added["id"], "--json")) == added


def test_a_forgotten_memory_is_purged(ctxmgr: Callable[..., Result]) -> None:
    """Explicitly, after it was forgotten; the store lists the purge."""
    added = json_of(ctxmgr("memory", "add", "password", "xyzzy-plugh", "--json"))["memory"]
    refused = ctxmgr("memory", "purge", added["id"])
    ctxmgr("memory", "forget", added["id"])
    would = json_of(ctxmgr("memory", "purge", added["id"], "--dry-run", "--json"))
    purged = json_of(ctxmgr("memory", "purge", added["id"][:8], "--json"))
    again = json_of(ctxmgr("memory", "purge", added["id"], "--json"))

    assert (refused.exit_code, "is not forgotten" in refused.stderr) == (2, True)
    assert (would["purge"], purged["purge"], again["purge"]) == (None, 1, None)
    assert (would["versions"], purged["versions"], again["versions"]) == (2, 2, 0)
    history = ctxmgr("memory", "history", added["id"], "--json")
    assert [each["text"] for each in json_of(history)["versions"]] == ["[purged]"] * 2
    assert "xyzzy" not in ctxmgr("memory", "show", added["id"], "--json").stdout
    assert [each["purge"] for each in json_of(ctxmgr("store", "purges", "--json"))] == [1]


def test_memories_are_listed_by_page(ctxmgr: Callable[..., Result]) -> None:
    """A long memory does not become one answer."""
    for number in range(3):
        ctxmgr("memory", "add", f"key {number}", "value")
    first = json_of(ctxmgr("memory", "list", "--limit", "2", "--json"))
    rest = json_of(ctxmgr("memory", "list", "--limit", "2", "--cursor", first["cursor"], "--json"))
    other = ctxmgr("memory", "list", "--kind", "note", "--cursor", first["cursor"])

    texts = [each["text"] for each in (*first["memories"], *rest["memories"])]
    assert texts == [f"key {number}: value" for number in range(3)]
    assert (first["total"], rest["cursor"]) == (3, None)
    assert (other.exit_code, "another query" in other.output) == (2, True)
    assert ctxmgr("memory", "list", "--limit", "1001").exit_code == 2
