"""The same project on two machines is one project."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ctxmgr.memory.project import (
    PROJECT_CHARS_MAX,
    feature_branch,
    project_id,
    remote_identity,
)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/shop.git",
        "https://ada:secret@github.com/acme/shop",
        "git@github.com:acme/shop.git",
        "ssh://git@github.com/Acme/Shop.git/",
    ],
)
def test_a_project_is_named_by_its_remote(tmp_path: Path, url: str) -> None:
    """Whatever the protocol and the credentials, which are not part of it."""
    git(tmp_path, "init")
    git(tmp_path, "remote", "add", "origin", url)
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)

    assert project_id(below) == "github.com/acme/shop"


def test_a_worktree_belongs_to_its_repository(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init")
    git(main, "remote", "add", "origin", "https://example.org/a/b")
    git(main, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", "x")
    git(main, "worktree", "add", str(tree))

    assert project_id(tree) == project_id(main) == "example.org/a/b"


def test_without_a_remote_the_root_names_it(tmp_path: Path) -> None:
    """Two folders of one name are two projects."""
    one, other = tmp_path / "one" / "shop", tmp_path / "other" / "shop"
    for folder in (one, other):
        folder.mkdir(parents=True)
    git(one, "init")
    (one / "src").mkdir()

    assert project_id(one / "src") == project_id(one)
    assert project_id(one).startswith("shop-")
    assert project_id(one) != project_id(other)


def test_a_damaged_repository_is_a_folder(tmp_path: Path) -> None:
    git(tmp_path, "init")
    whole = project_id(tmp_path)
    (tmp_path / ".git" / "config").write_bytes(b"\x00[remote\xff")
    assert project_id(tmp_path) == whole
    shutil.rmtree(tmp_path / ".git")
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all", encoding="utf-8")
    assert project_id(tmp_path) == whole


def test_a_long_remote_is_shortened_and_stays_unique() -> None:
    """001-R101: at most 100 characters."""
    one = remote_identity("https://example.org/" + "a" * 200 + "/x")
    other = remote_identity("https://example.org/" + "a" * 200 + "/y")
    assert one is not None
    assert other is not None
    assert len(one) == len(other) == PROJECT_CHARS_MAX
    assert one != other
    assert remote_identity("/srv/git/shop.git") is None


@pytest.mark.parametrize(
    "config",
    [
        '[remote "origin"]\nurl = "https://github.com/Acme/shop.git"\n',
        '[Remote "origin"]\nurl = git@github.com:acme/shop.git ; mine\n',
        '[remote "fork"]\nurl=x\n[remote "origin"]\nurl=https://github.com/acme/shop #\n',
    ],
)
def test_a_remote_is_read_as_git_reads_it(tmp_path: Path, config: str) -> None:
    """Two machines may write one address differently; it is one project."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(config, encoding="utf-8")

    assert project_id(tmp_path) == "github.com/acme/shop"


@pytest.mark.parametrize("url", ["https://[x/y", "C:/Users/ada/shop", "file:///srv/shop.git"])
def test_what_is_no_address_names_no_project(tmp_path: Path, url: str) -> None:
    """A repository is not trusted: its folder names the project, and nothing fails."""
    (tmp_path / ".git").mkdir()
    text = f'[remote "origin"]\nurl = {url}\n'
    (tmp_path / ".git" / "config").write_text(text, encoding="utf-8")

    assert project_id(tmp_path).startswith(tmp_path.name[:20])


@pytest.mark.parametrize("url", ["g:acme/shop.git", "ada@g:/acme/shop"])
def test_a_host_of_one_letter_is_no_drive(url: str) -> None:
    """As an alias of ssh has; the project keeps its memories."""
    assert remote_identity(url) == "g/acme/shop"


def test_a_damaged_link_to_a_repository_is_a_folder(tmp_path: Path) -> None:
    """A NUL in a path is not a path."""
    (tmp_path / ".git").write_bytes(b"gitdir: a\0b")

    assert project_id(tmp_path).startswith(tmp_path.name[:20])
    assert feature_branch(tmp_path) is None
