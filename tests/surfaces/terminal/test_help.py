"""The help texts."""

import subprocess
import sys

import pytest

from tests.reference import HELP, help_texts

HEAVY = (
    *("apsw", "asyncio", "httpx", "mcp", "pydantic", "pydantic_settings", "rich"),
    *("starlette", "uvicorn"),
    *("ctxmgr.app", "ctxmgr.core.context.assembly", "ctxmgr.core.secrets.masking"),
)


@pytest.mark.parametrize("name", sorted(help_texts()))
def test_help_texts_equal_the_pinned_ones(name: str) -> None:
    """A changed option is visible here and in the reference (`make docs` rewrites both)."""
    pinned = HELP / f"{name.removeprefix('ctxmgr ').replace(' ', '-')}.txt"

    assert help_texts()[name] == pinned.read_text(encoding="utf-8")


def test_no_pinned_help_text_is_left_of_a_removed_command() -> None:
    """A pinned text without a command would be misleading."""
    names = {name.removeprefix("ctxmgr ").replace(" ", "-") for name in help_texts()}

    assert {path.stem for path in HELP.glob("*.txt")} == names


def test_every_command_shows_an_example() -> None:
    """People copy the example before they read the options."""
    commands = {name for name in help_texts() if name not in ("ctxmgr", "ctxmgr xtdb")}

    assert {name for name in commands if f"Example:\n    {name}" in help_texts()[name]} == commands


def test_help_imports_nothing_that_only_a_command_needs() -> None:
    """Help and completion are fast only if drivers and settings stay unloaded."""
    script = (
        "import sys\nfrom ctxmgr.surfaces.terminal.cli import COMMANDS\n"
        "COMMANDS.main(['--help'], standalone_mode=False)\n"
        f"sys.exit(', '.join(set({HEAVY!r}) & set(sys.modules)) or 0)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    assert done.stderr == b""
