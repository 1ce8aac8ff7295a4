"""The searches behind grep, find and ls: with ripgrep, with git alone, and with neither."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ctxmgr.core.discovery.search_commands import (
    find_command,
    grep_command,
    listing,
    ls_command,
)

BASIC = ("sh", "grep", "find", "ls", "xargs", "tr", "cat")
TOOLS = {"rg": (*BASIC, "rg", "git"), "git": (*BASIC, "git"), "neither": BASIC}


@pytest.fixture(params=TOOLS)
def found_by(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Which programs the sandbox has."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in TOOLS[request.param]:
        path = shutil.which(name)
        assert path is not None, f"these tests need {name}"
        (programs / name).symlink_to(path)
    return str(request.param)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with ignored files."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "build").mkdir()
    (folder / ".gitignore").write_text("build/\n*.log\n", encoding="utf-8")
    (folder / "src" / "a.py").write_text(
        "def open_store(url):\n    pass\n\ndef connect(url):\n    return open_store(url)\n",
        encoding="utf-8",
    )
    (folder / "src" / "b.txt").write_text("def other\n", encoding="utf-8")
    (folder / "build" / "made.py").write_text("def connect(x): ...\n", encoding="utf-8")
    (folder / "src" / "x.log").write_text("def connect\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


def run(project: Path, command: list[str]) -> tuple[int, str]:
    ran = subprocess.run(
        command,
        cwd=project,
        env={"PATH": str(project.parent / "bin"), "HOME": "/nonexistent"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        executable=shutil.which("sh"),
    )
    return ran.returncode, ran.stdout.decode()


def grep(
    project: Path, pattern: str, *, path: str = ".", glob: str | None = None, fold: bool = False
) -> tuple[int, list[str]]:
    code, text = run(project, grep_command(pattern, path=path, glob=glob, ignore_case=fold))
    return code, sorted(line.removeprefix("./") for line in text.splitlines())


@pytest.mark.parametrize(
    "pattern", ["def open_store|def connect", r"def (?:open|con)\w+\(", r"^def \w+\("]
)
def test_patterns_are_those_that_models_write(project: Path, found_by: str, pattern: str) -> None:
    """Alternatives, groups and classes need no backslashes, as in ripgrep."""
    code, lines = grep(project, pattern, path="src", glob="*.py")

    assert code == 0
    assert lines == ["src/a.py:1:def open_store(url):", "src/a.py:4:def connect(url):"]


def test_what_git_ignores_is_not_searched(project: Path, found_by: str) -> None:
    """A build folder would fill the answer with copies."""
    code, lines = grep(project, "def connect")

    expected = {"src/a.py:4:def connect(url):"}
    if found_by == "neither":
        expected |= {"build/made.py:1:def connect(x): ...", "src/x.log:1:def connect"}
    assert (code, set(lines)) == (0, expected)


def test_an_ignored_folder_that_is_named_is_searched(project: Path, found_by: str) -> None:
    """Whoever names it wants it."""
    assert grep(project, "connect", path="build")[1] == ["build/made.py:1:def connect(x): ..."]


def test_a_file_is_searched_with_its_name(project: Path, found_by: str) -> None:
    """The lines have the same form for a file and for a folder."""
    assert grep(project, "other", path="src/b.txt") == (0, ["src/b.txt:1:def other"])


def test_case_is_ignored_on_request(project: Path, found_by: str) -> None:
    assert grep(project, "DEF OTHER") == (1, [])
    assert grep(project, "DEF OTHER", fold=True) == (0, ["src/b.txt:1:def other"])


def test_nothing_found_is_not_a_failure(project: Path, found_by: str) -> None:
    """It ends with 1, as grep does, and prints nothing."""
    assert grep(project, "absent") == (1, [])


@pytest.mark.parametrize(("pattern", "path"), [("(", "."), ("x", "missing")])
def test_a_mistake_is_reported(project: Path, found_by: str, pattern: str, path: str) -> None:
    """A wrong pattern or path must not look like an empty result."""
    code, lines = grep(project, pattern, path=path)

    assert code == 2
    assert lines


@pytest.mark.parametrize("hostile", ["$(touch pwned)", "`touch pwned`", "'; touch pwned; '", "-r"])
def test_words_of_the_agent_are_not_read_as_shell(
    project: Path, found_by: str, hostile: str
) -> None:
    """A pattern, a glob and a name are data."""
    grep(project, hostile, glob=hostile)
    run(project, find_command(".", name=hostile))

    assert not (project / "pwned").exists()


def test_find_lists_files_that_git_does_not_ignore(project: Path, found_by: str) -> None:
    """Neither .git/ nor a build folder is worth a thousand lines."""
    code, text = run(project, find_command(".", name=None))

    files = {"./.gitignore", "./src/a.py", "./src/b.txt"}
    if found_by == "neither":
        files |= {"./build/made.py", "./src/x.log"}
    assert (code, set(text.splitlines())) == (0, files)


def test_find_matches_names(project: Path, found_by: str) -> None:
    code, text = run(project, find_command(".", name="a.*"))

    assert (code, text) == (0, "./src/a.py\n")


def test_ls_names_what_git_ignores_in_one_line(project: Path, found_by: str) -> None:
    """They are there, and an agent that wants them can say so."""
    code, text = run(project, ls_command("."))

    shown = [".gitignore", "build/", "src/"]
    if found_by != "neither":
        shown = [".gitignore", "src/", "[ignored by .gitignore: build]"]
    assert (code, listing(text).splitlines()) == (0, shown)


def test_ls_of_a_file_and_of_an_empty_folder(project: Path, found_by: str) -> None:
    (project / "empty").mkdir()

    assert listing(run(project, ls_command("src/a.py"))[1]) == "src/a.py\n"
    assert listing(run(project, ls_command("empty"))[1]) == "no files\n"
    assert run(project, ls_command("missing"))[0] == 2
