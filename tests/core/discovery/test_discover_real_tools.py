"""Discovery against the real tools: exactly the existing files of random trees are found."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctxmgr.core.discovery.discover import discover
from tests.sandboxes.programs import need_program

LETTERS = "ab é日-.'\"\\$*[]{}~#&;(),=@|>+%"
SECONDS = 60
UTF8 = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def names(letters: str) -> st.SearchStrategy[str]:
    return st.text(letters, min_size=1, max_size=6).filter(lambda name: name not in {".", ".."})


def trees(letters: str) -> st.SearchStrategy[list[str]]:
    paths = st.lists(names(letters), min_size=1, max_size=3).map("/".join)
    return st.lists(paths, min_size=1, max_size=7)


NASTY = [
    "-rf",
    "a b",
    "a  b",
    " lead",
    "trail ",
    "it's",
    'q"q',
    "é",
    "d/x -> y",
    "d/e/f",
    "d e/f:g",
]

LINES = [
    ["ls", "-RA"],
    ["ls", "-lRA"],
    ["ls", "-laR", "--time-style=full-iso"],
    ["ls", "-lRiA", "--time-style=long-iso"],
    ["ls", "-1RFA"],
    ["ls", "-RQA"],
    ["ls", "-RblA"],
    ["ls", "-RA", "--quoting-style=shell-escape"],
    ["ls", "-RCA", "--quoting-style=shell-escape"],
    ["find"],
    ["find", "."],
    ["find", "./", "-type", "f"],
    ["find", ".", "-type", "f", "-print0"],
    ["find", ".", "-type", "f", "-exec", "grep", "-l", "needle", "{}", "+"],
    ["grep", "-rl", "needle"],
    ["grep", "-rlZ", "needle", "."],
    ["grep", "-rn", "needle", "."],
    ["grep", "-rn", "needle"],
    ["grep", "-rnC2", "needle", "."],
    ["grep", "-rnZ", "needle", "."],
    ["grep", "-rc", "needle", "."],
    ["rg", "-uu", "--files"],
    ["rg", "-uu", "-l", "needle"],
    ["rg", "-uu", "-l0", "needle", "."],
    ["rg", "-uu", "-n", "needle"],
    ["rg", "-uu", "-n", "needle", "./"],
    ["rg", "-uu", "--heading", "-n", "needle"],
    ["rg", "-uu", "-c", "needle"],
    ["rg", "-uu", "--vimgrep", "needle"],
    ["rg", "-uu", "-n", "-C1", "needle"],
    ["tree", "-a", "--noreport"],
    ["tree", "-aF"],
    ["tree", "-aps", "--charset=ascii"],
    ["tree", "-af", "."],
    ["git", "ls-files", "--others"],
    ["git", "ls-files", "-zo"],
    ["git", "status", "-uall"],
    ["git", "status", "--short", "-uall"],
    ["git", "status", "--porcelain", "-z", "-uall"],
    ["git", "status", "--porcelain=v2", "-uall"],
]
ENDED_BY_NUL = [
    ["find", ".", "-type", "f", "-print0"],
    ["grep", "-rlZ", "needle", "."],
    ["rg", "-uu", "-l0", "needle"],
    ["git", "ls-files", "-zo"],
    ["git", "status", "--porcelain", "-z", "-uall"],
    ["git", "status", "-uall"],
    ["git", "status", "-s", "-uall"],
    ["ls", "-RbA"],
    ["ls", "-RQA"],
    ["ls", "-RA", "--quoting-style=shell-escape"],
    ["tree", "-a"],
]


@pytest.mark.parametrize("command", LINES, ids=" ".join)
@settings(max_examples=6)
@given(paths=trees(LETTERS))
@example(paths=NASTY)
def test_exactly_the_listed_files_are_found(command: Sequence[str], paths: Sequence[str]) -> None:
    """003-R176, 003-A24: every existing file, and nothing else."""
    need_program(command[0])
    with tree(paths, git=command[0] == "git") as (top, files):
        output = run(command, top)

        discovered = discover(command, directory=str(top), output=output)

        assert existing(discovered) == files
        if command[0] != "tree" and "-1RFA" not in command:
            assert all(map(os.path.lexists, discovered)), set(discovered) - files


@pytest.mark.parametrize("command", ENDED_BY_NUL, ids=" ".join)
@settings(max_examples=4)
@given(paths=trees("ab\n\t é"))
@example(paths=["a\nb", "d\n/x\ty"])
def test_names_may_contain_newlines_if_the_format_allows(
    command: Sequence[str], paths: Sequence[str]
) -> None:
    """003-A24: names are delimited by NULs or quotes."""
    need_program(command[0])
    with tree(paths, git=command[0] == "git") as (top, files):
        output = run(command, top)

        discovered = discover(command, directory=str(top), output=output)

        assert existing(discovered) == files


@pytest.mark.parametrize(
    "command", [["ls", "-A"], ["ls", "-a"], ["ls", "-lA"], ["ls", "-lnsA"], ["ls", "-pA"]]
)
@settings(max_examples=6)
@given(paths=trees(LETTERS), folder=st.sampled_from(["", "."]))
@example(paths=NASTY, folder="d")
@example(paths=["d/d"], folder="d")
def test_names_are_resolved_against_the_listed_folder(
    command: Sequence[str], paths: Sequence[str], folder: str
) -> None:
    """003-A24: not against the directory in which the command ran."""
    with tree(paths) as (top, files):
        command_line = [*command, folder] if folder else [*command]
        output = run(command_line, top)

        discovered = discover(command_line, directory=str(top), output=output)

        inside = {path for path in files if Path(path).parent == (top / folder)}
        assert existing(discovered) == inside


@settings(max_examples=6)
@given(paths=trees(LETTERS.replace("-", "")))
def test_a_listing_of_several_folders_and_files_is_separated(paths: Sequence[str]) -> None:
    """003-A24: a header names the folder of the entries after it."""
    with tree(paths) as (top, _):
        command_line = ["ls", "-A", "--", *sorted(path.name for path in top.iterdir())]
        output = run(command_line, top)

        discovered = discover(command_line, directory=str(top), output=output)

        level = {str(path) for path in [*top.iterdir(), *top.glob("*/*")] if path.is_file()}
        assert existing(discovered) == level


def test_only_the_new_name_of_a_renamed_file_is_discovered(tmp_path: Path) -> None:
    """003-A25: the old name and deleted files no longer exist."""
    need_program("git")
    for name in ("old name", "gone", "kept", "é"):
        (tmp_path / name).write_text(f"{name}\n" * 9, encoding="utf-8")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    for args in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "m"],
        ["mv", "old name", "new name"],
    ):
        subprocess.run(
            [*git, *args], cwd=tmp_path, check=True, timeout=SECONDS, capture_output=True
        )
    (tmp_path / "gone").unlink()
    (tmp_path / "é").write_text("changed", encoding="utf-8")

    for form in ([], ["-s"], ["--porcelain"], ["-z"], ["--porcelain=v2"], ["--porcelain=v2", "-z"]):
        command = ["git", "status", *form]
        discovered = discover(command, directory=str(tmp_path), output=run(command, tmp_path))
        assert sorted(discovered) == [f"{tmp_path}/new name", f"{tmp_path}/é"], form


def test_a_python_traceback_names_its_files(tmp_path: Path) -> None:
    """003-A24: the agent will look there next."""
    (tmp_path / "my mod.py").write_text(
        "raise ValueError('see https://x.y/z:80:')", encoding="utf-8"
    )
    command = ["python3", "my mod.py"]

    discovered = discover(command, directory=str(tmp_path), output=run(command, tmp_path))

    assert discovered == (f"{tmp_path}/my mod.py",)


def test_a_compiler_names_its_files(tmp_path: Path) -> None:
    """003-A24: including included files, and nothing else."""
    need_program("gcc")
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc/a.h").write_text("int f(void) { return x; }\n", encoding="utf-8")
    (tmp_path / "main.c").write_text('#include "inc/a.h"\nint y = z;\n', encoding="utf-8")
    command = ["gcc", "-Wall", "-c", "main.c"]

    discovered = discover(command, directory=str(tmp_path), output=run(command, tmp_path))

    assert sorted(discovered) == [f"{tmp_path}/inc/a.h", f"{tmp_path}/main.c"]


def existing(paths: Sequence[str]) -> set[str]:
    """The candidates that the client keeps: regular files."""
    return {path for path in paths if Path(path).is_file()}


def run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=UTF8, capture_output=True, timeout=SECONDS, check=False
    )
    return (done.stdout + done.stderr).decode("utf-8", "surrogateescape")


@contextmanager
def tree(paths: Sequence[str], *, git: bool = False) -> Iterator[tuple[Path, set[str]]]:
    """Create the files that can coexist, each containing a match, in a git repository."""
    with tempfile.TemporaryDirectory() as folder:
        top, files = Path(folder).resolve(), set()
        for path in paths:
            if any((top / parent).is_file() for parent in Path(path).parents):
                continue
            if (top / path).exists():
                continue
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_text("before: x\nneedle 12:3: y\nafter\n", encoding="utf-8")
            files.add(str(top / path))
        if git:
            run(["git", "init", "-q"], top)
        yield top, files
