"""The search of files without an index."""

import shutil
from pathlib import Path

import pytest

from ctxmgr.errors import Incorrect, NotFound
from ctxmgr.search.ripgrep import ripgrep_search
from tests.components import need


@pytest.fixture(params=["rg", "python"])
def notes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of notes, searched with the program and without."""
    if request.param == "python":
        monkeypatch.setattr(shutil, "which", lambda _: None)
    else:
        need("ripgrep")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "knowledge"
    (folder / "people").mkdir(parents=True)
    (folder / "people" / "ann.md").write_text("# Ann\nAnn likes green TEA in the morning.\n")
    (folder / "tea.md").write_text("Tea needs water.\n")
    (folder / "code.py").write_text("tea = 1\n")
    (folder / ".hidden.md").write_text("tea\n")
    (tmp_path / "secret.md").write_text("tea\n")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / ".gitignore").write_text("*.md\n")
    return folder


async def test_files_are_found_whatever_their_case(notes: Path) -> None:
    """002-R169, 002-R240: best first, as Markdown files under the scope."""
    found = await ripgrep_search("green tea", category_of=lambda path: path.split("/")[1])
    assert [(r.path, r.score) for r in found] == [
        ("knowledge/people/ann.md", 1.0),
        ("knowledge/tea.md", 0.5),
    ]
    assert found[0].snippet == "Ann likes **green** **TEA** in the morning."
    assert found[0].category == "people"
    assert [r.path for r in await ripgrep_search("tea", limit=1)] == ["knowledge/people/ann.md"]
    assert [r.path for r in await ripgrep_search("the", notes / "people")] == [
        f"{notes.as_posix()}/people/ann.md"
    ]


async def test_a_query_is_neither_option_nor_pattern(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """002-R169: nor does a configuration file decide what runs."""
    (notes.parent / "rc").write_text("--pre=/bin/false\n--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(notes.parent / "rc"))
    for query in ("--files", "--invert-match", "", "...", "--pre=touch"):
        assert not [r for r in await ripgrep_search(query) if r.score == 1], query
    assert len(await ripgrep_search("--tea")) == 2


async def test_the_scope_must_be_a_folder(notes: Path) -> None:
    with pytest.raises(NotFound, match="no folder missing"):
        await ripgrep_search("tea", Path("missing"))
    with pytest.raises(Incorrect, match="limit is 0"):
        await ripgrep_search("tea", limit=0)
