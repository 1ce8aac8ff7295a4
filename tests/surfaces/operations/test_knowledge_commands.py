"""``ctxmgr knowledge``: from an empty folder to what was learnt, and back."""

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctxmgr.knowledge.notes.notes_folder import NotesFolder
from ctxmgr.surfaces.terminal.cli import COMMANDS

ADA = "knowledge/people/ada.md"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of its own: no configuration of git, and data below the test's folder."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "CTXMGR_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    for name in ("DATA", "STATE", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def ctxmgr(*arguments: str) -> Result:
    return CliRunner().invoke(COMMANDS, ["knowledge", *arguments])


def answer(*arguments: str, code: int = 0) -> dict[str, object]:
    result = ctxmgr(*arguments, "--folder", "notes", "--json")
    assert result.exit_code == code, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_notes_are_set_up_committed_and_questioned() -> None:
    """002-R078, 002-R079, 002-R080, 002-R081, 002-R082, 002-R202, 002-R072: the whole group."""
    assert ctxmgr("init", "notes").exit_code == 0
    file = Path("notes", ADA)
    file.write_text("# Ada\n\nShe likes [[_index]].\n", encoding="utf-8")
    made = answer("commit", "met Ada", "--session", "raw/conversations/x.md")
    assert answer("tag", "milestone", "met") == {"tag": "memory/milestone/met"}
    file.write_text("# Ada\n\nShe moved.\n", encoding="utf-8")
    answer("commit")

    (learnt,) = answer("learnt", "She moved")["commits"]  # type: ignore[misc, attr-defined]
    assert learnt["summary"] == "memory: update ada"
    lines = answer("blame", ADA)["lines"]
    assert lines[0]["session"] == "raw/conversations/x.md"  # type: ignore[index]
    assert answer("diff", "memory/milestone/met")["files"] == [f"{ADA} | +1 -1"]
    assert f"{ADA} | new, 3 lines" in answer("diff")["files"]  # type: ignore[operator]
    assert "likes" in str(answer("show", ADA, "memory/milestone/met")["text"])
    assert answer("note", ADA)["category"] == "person"
    assert len(answer("log", ADA)["commits"]) == 2  # type: ignore[arg-type]
    assert answer("revert", "HEAD")["paths"] == [ADA]
    assert answer("note", ADA)["links"] == ["knowledge/people/_index.md"]
    status = answer("status")
    assert (status["state"], status["branch"]) == ("ready", "main")
    assert answer("branches") == {"branches": [], "pruned": []}
    assert made["commit"]


def test_the_index_follows_a_commit(tmp_path: Path) -> None:
    """002-R077, 002-A26: what the last commit changed, and everything of the first."""
    assert ctxmgr("init", "notes").exit_code == 0
    assert "knowledge/memory/MEMORY.md" in answer("indexed")["indexed"]  # type: ignore[operator]
    Path("notes", ADA).write_text("# Ada\n", encoding="utf-8")
    answer("commit")
    assert answer("indexed") == {"indexed": [ADA], "removed": []}
    Path("notes", ADA).unlink()
    answer("commit")

    assert answer("indexed") == {"indexed": [], "removed": [ADA]}
    assert Path("notes/memory.db").exists()


def test_a_check_fails_on_errors_and_names_the_line() -> None:
    """002-R074, 002-R075, 002-R076: a hook and a person see the same."""
    assert ctxmgr("init", "notes").exit_code == 0
    assert answer("check") == {"problems": []}
    Path("notes/topics/a.md").write_text("---\ntype: topic\n---\n", encoding="utf-8")
    assert {each["severity"] for each in answer("check")["problems"]} == {"warning"}  # type: ignore[attr-defined]
    Path("notes", ADA).write_text("---\na: 1\nb: [\n---\n", encoding="utf-8")

    problems = answer("check", code=1)["problems"]

    (problem,) = problems[:1]  # type: ignore[index]
    assert (problem["path"], problem["line"]) == (ADA, 4)
    assert problem["message"].startswith("the frontmatter is not YAML")


def test_what_cannot_be_done_is_said_with_what_to_do() -> None:
    """Clear errors: what is wrong, with the value, and what to do."""
    Path("full").mkdir()
    Path("full/x.md").write_text("x\n", encoding="utf-8")
    assert ctxmgr("init", "notes").exit_code == 0

    for arguments, code, message in (
        (("status",), 3, "--folder notes"),
        (("status", "--folder", "."), 2, "knowledge init"),
        (("init", "full"), 2, "--adopt"),
        (("tag", "milestone", "--folder", "notes"), 2, "need a name"),
        (("show", "../x.md", "--folder", "notes"), 2, "leaves the folder"),
        (("show", ADA, "nowhere", "--folder", "notes"), 3, "nowhere"),
        (("push", "--folder", "notes"), 3, "no remote"),
        (("commit", "--kind", "conversation", "--folder", "notes"), 2, "conversation"),
    ):
        result = ctxmgr(*arguments)

        assert result.exit_code == code, result.output
        assert message in " ".join((result.output + result.stderr).split())
        assert "Traceback" not in result.output


def test_odd_files_are_named_once_with_what_to_do() -> None:
    """A first user's folder: Latin-1, quotes and a line break in names; nothing is hidden."""
    ctxmgr("init", "notes")
    folder = Path("notes/knowledge/reference")
    (folder / "latin.md").write_bytes(b"caf\xe9\n")
    (folder / 'a "b".md').write_text("# Quoted\n", encoding="utf-8")
    (folder / "c\nd.md").write_text("# Broken\n", encoding="utf-8")

    problems = {each["path"]: each["message"] for each in answer("check", code=1)["problems"]}  # type: ignore[attr-defined]
    made = answer("commit")

    assert "iconv" in problems["knowledge/reference/latin.md"]
    assert "rename" in problems["'knowledge/reference/c\\nd.md'"]
    assert 'memory: add a "b"' in str(made["message"])
    assert 'knowledge/reference/a "b".md | new, 1 lines' in str(made["message"])
    assert [each.count("knowledge/reference/latin.md") for each in made["remarks"]][-1] == 1  # type: ignore[attr-defined]
    assert any("c\\nd.md" in each for each in made["remarks"])  # type: ignore[attr-defined]
    assert ctxmgr("log", "nope.md", "--folder", "notes").exit_code == 3


def test_a_commit_says_what_it_left_out() -> None:
    """Notes with errors are named, also when there is nothing else to commit."""
    ctxmgr("init", "notes")
    Path("notes", ADA).write_text("---\ntype: [\n---\n# Ada\n", encoding="utf-8")

    made = answer("commit")

    assert made["commit"] is None
    assert "nothing was committed" in str(made["message"])
    assert ADA in str(made["remarks"])


def test_without_the_extra_nothing_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with half a set-up would have to be adopted afterwards."""
    monkeypatch.setitem(sys.modules, "ruamel", None)
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)

    failed = ctxmgr("init", "notes")

    assert failed.exit_code != 0
    assert "ctxmgr-agent[knowledge]" in failed.output
    assert not Path("notes").exists()


def test_notes_are_listed_by_page() -> None:
    """A folder of any size is listed in parts; what cannot be read is an entry, too."""
    ctxmgr("init", "notes")
    people = Path("notes", "knowledge/people")
    for name in ("a", "c", "d"):
        (people / f"{name}.md").write_text(f"# {name}\n", encoding="utf-8")
    (people / "b.md").write_bytes(b"\xff\xfe broken")
    first = answer("list", "--category", "person", "--limit", "3")
    rest = answer("list", "--category", "person", "--limit", "3", "--cursor", str(first["cursor"]))

    paths = [each["path"] for page in (first, rest) for each in page["notes"]]  # type: ignore[attr-defined]
    assert paths == [f"knowledge/people/{name}.md" for name in ("_index", "a", "c", "d")]
    assert len(first["unreadable"]) == 1  # type: ignore[arg-type]
    assert (first["total"], rest["cursor"]) == (5, None)


def test_a_note_that_is_removed_meanwhile_hides_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor or an agent removes it between the look at its text and at its time."""
    ctxmgr("init", "notes")
    ada = Path("notes", ADA)
    ada.write_text("# Ada\n", encoding="utf-8")
    modified = NotesFolder.modified

    def remove_first(notes: NotesFolder, path: str) -> int:
        ada.unlink(missing_ok=True)
        return modified(notes, path)

    monkeypatch.setattr(NotesFolder, "modified", remove_first)

    listed = answer("list", "--category", "person")["notes"]

    assert [each["path"] for each in listed] == ["knowledge/people/_index.md"]  # type: ignore[attr-defined]
