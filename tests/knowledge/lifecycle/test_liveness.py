"""Notes that name what a project no longer has are marked."""

import subprocess
from pathlib import Path

import pytest

from ctxmgr.app import open_store
from ctxmgr.errors import Incorrect
from ctxmgr.knowledge.config import LifecycleConfig
from ctxmgr.knowledge.lifecycle.declared_commands import npm_scripts
from ctxmgr.knowledge.lifecycle.lifecycle import Lifecycle
from ctxmgr.knowledge.lifecycle.liveness import gone_references, references
from ctxmgr.knowledge.notes.note import read_note
from tests.knowledge.lifecycle.notes_folders import folder

NOTE = "knowledge/reference/export.md"


def test_only_names_in_code_quotes_count() -> None:
    """Prose and URLs are not references, and neither is what is in a code block."""
    body = (
        "See `src/export.py:12`, `retry_export()`, `Exporter.run_all`, `make deploy`, `src/old/`,"
        " `x`, `--flag`, `https://a.b/c.py`, `two words` and src/plain.py.\n\n```\n`a.py`\n```\n"
    )

    found = [(each.kind, each.name) for each in references(read_note(NOTE, body))]

    assert found == [
        ("path", "src/export.py"),
        ("symbol", "retry_export"),
        ("symbol", "run_all"),
        ("command", "deploy"),
        ("path", "src/old"),
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in which a file, a function and a target were removed."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "export.py").write_text("def retry_export():\n    pass\n")
    (root / "src" / "kept.py").write_text("def kept_function():\n    pass\n")
    (root / "Makefile").write_text("deploy: build\n\nbuild:\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")

    def git(*arguments: str) -> None:
        subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "Begin")
    (root / "src" / "export.py").unlink()
    (root / "Makefile").write_text("build:\n")
    git("add", "-A")
    git("commit", "-qm", "Remove the export")
    return root


async def test_commands_that_a_project_no_longer_declares_are_named(
    tmp_path: Path, project: Path
) -> None:
    """npm scripts and console scripts, with the commit that took them out."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")

    def commit(message: str, scripts: str, programs: str) -> None:
        (project / "package.json").write_text(f'{{"scripts": {{{scripts}}}}}')
        (project / "pyproject.toml").write_text(
            f"[project.scripts]\n{programs}\n[tool.x]\nother = 1\n"
        )
        for words in (("add", "-A"), ("commit", "-qm", message)):
            subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True)

    commit("Begin", '"build": "x", "lint:js": "x"', 'shopctl = "a:b"\nshop-old = "a:c"')
    commit("Drop the linter", '"build": "x"', 'shopctl = "a:b"\nshop-old = "a:c"')
    commit("Drop the old shop", '"build": "x"', 'shopctl = "a:b"')
    note = read_note(
        NOTE,
        "`npm run build`, `npm run lint:js`, `yarn never`, `shopctl sync --all`, `shop-old sync`,"
        " `other`, `unheard of`\n",
    )

    gone = await gone_references([note], project=project)

    assert [(each.reference.kind, each.reference.name, each.summary) for each in gone] == [
        ("npm script", "lint:js", "Drop the linter"),
        ("program", "shop-old", "Drop the old shop"),
    ]
    assert npm_scripts("[" * 100_000) == npm_scripts("[]") == npm_scripts("{") == frozenset()


async def test_a_note_about_removed_code_is_marked(tmp_path: Path, project: Path) -> None:
    """The commit that removed it is named; what never was there is not reported."""
    notes = folder(tmp_path)
    text = (
        "---\nupdated: 2026-11-18T10:00:00Z\n---\n# Export\n\n"
        "Run `make deploy`, then call `retry_export()` in `src/export.py`.\n"
        "Still there: `src/kept.py`, `kept_function()`, `make build`. Never was: `nothing.py`.\n"
    )
    notes.write(NOTE, text, replacing=None)
    notes.write("topics/export.md", text, replacing=None)
    async with await open_store(tmp_path / "agent.db") as store:
        lifecycle = Lifecycle(notes, store=store, config=LifecycleConfig())

        dry, _ = await lifecycle.check_project(project, dry_run=True)
        assert notes.read(NOTE).text == text
        gone, step = await lifecycle.check_project(project)
        _, again = await lifecycle.check_project(project)

        assert dry == gone
        assert [(each.note, each.reference.name) for each in gone][:3] == [
            (NOTE, "deploy"),
            (NOTE, "retry_export"),
            (NOTE, "src/export.py"),
        ]
        assert {each.summary for each in gone} == {"Remove the export"}
        assert text.splitlines()[gone[0].reference.line - 1].startswith("Run `make deploy`")
        assert (step.paths, again.paths) == ((NOTE,), ())
        marked = notes.read(NOTE)
        listed = marked.frontmatter["needs-verification"]
        assert isinstance(listed, list)
        assert len(listed) == 3
        assert "removed in" in str(listed[0])
        assert notes.read("topics/export.md").text == text

        notes.write(NOTE, marked.text.replace("`", ""), replacing=marked.text)
        await lifecycle.check_project(project)
        assert notes.read(NOTE).frontmatter["needs-verification"] == []


async def test_a_folder_without_history_is_refused(tmp_path: Path) -> None:
    """Without history nothing can be said about what was removed."""
    notes = folder(tmp_path)
    notes.write(NOTE, "See `a.py`.\n", replacing=None)
    async with await open_store(tmp_path / "agent.db") as store:
        lifecycle = Lifecycle(notes, store=store, config=LifecycleConfig())

        with pytest.raises(Incorrect, match="not the root of a git repository"):
            await lifecycle.check_project(notes.layout.root)
