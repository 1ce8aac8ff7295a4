"""Optional packages: imported only by their integration, and named if they are missing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctxmgr.errors import DISTRIBUTION
from ctxmgr.surfaces.terminal.cli import COMMANDS
from tests.components import ROOT

INTEGRATIONS = {
    "anthropic_memory": ("anthropic", "anthropic"),
    "langgraph.checkpointer": ("langgraph", "langgraph"),
    "langgraph.store": ("langgraph", "langgraph"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "telemetry": ("opentelemetry", "opentelemetry"),
}
"""Each integration, the module that it needs, and the extra that installs it."""


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_a_missing_package_is_named_with_its_extra(name: str) -> None:
    """The error contains the command that installs it."""
    needed, extra = INTEGRATIONS[name]
    code = f"import sys; sys.modules[{needed!r}] = None; import ctxmgr.integrations.{name}"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)

    assert "ExtraMissing" in run.stderr
    assert f"pip install 'ctxmgr-agent[{extra}]'" in run.stderr


def test_every_named_extra_exists() -> None:
    """The command in the error must work."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert set(project["optional-dependencies"]) >= {extra for _, extra in INTEGRATIONS.values()}


def test_the_extra_all_installs_every_other() -> None:
    """Somebody who wants everything names one extra."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]

    named = extras.pop("all")[0].removeprefix(f"{DISTRIBUTION}[").removesuffix("]").split(",")

    assert named == sorted(extras)


@pytest.mark.parametrize("command", [("store", "status"), ("demo",)])
def test_xtdb_without_its_extra_names_it(command: tuple[str, ...]) -> None:
    """Its packages are for XTDB alone; a store in SQLite never imports them."""
    code = (
        "import sys; sys.modules['edn_format'] = None; "
        "from ctxmgr.surfaces.terminal.cli import COMMANDS; "
        f"COMMANDS.main([*{command!r}, '--store', 'xtdb+http://127.0.0.1:9'])"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)

    assert run.returncode == 2
    assert run.stderr.strip().endswith("pip install 'ctxmgr-agent[xtdb]'")


def test_importing_ctxmgr_imports_no_framework() -> None:
    """Imports of optional packages take time."""
    modules = sorted({needed for needed, _ in INTEGRATIONS.values()})
    code = (
        "import sys, ctxmgr, ctxmgr.surfaces.terminal.cli; "
        f"print([n for n in {modules} if n in sys.modules])"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "list"),
        ("compile", "deploy"),
        ("knowledge", "check"),
        ("knowledge", "commit"),
        ("lifecycle", "status"),
        ("search", "deploy"),
    ],
)
def test_notes_without_their_extra_are_not_taken_for_no_notes(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the package that reads frontmatter, every note would be left out silently."""
    (tmp_path / "knowledge/identity").mkdir(parents=True)
    (tmp_path / "knowledge/identity/SOUL.md").write_text("---\ntype: identity\n---\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)

    result = CliRunner().invoke(COMMANDS, list(command))

    assert result.exit_code == 2, result.output
    assert "pip install 'ctxmgr-agent[knowledge]'" in result.stderr
